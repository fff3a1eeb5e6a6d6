//! Packages to install: what `packaging/build` has made where `LVSD_PACKAGES` names its folder, else packages
//! of the same lists and scripts with the binary of the tests, by dpkg-deb and rpmbuild.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::Table;

use super::Format;
use crate::assets::{self, Assets, text};
use crate::lab::wait::output;

pub(crate) const TREE: &str = concat!("/host", env!("CARGO_MANIFEST_DIR"));
pub(crate) const LVSD: &str = concat!("/host", env!("CARGO_BIN_EXE_lvsd"));

/// The package of this version, and its path.
pub(crate) fn package(format: Format, version: &str, folder: &Path) -> PathBuf {
    if let Ok(built) = std::env::var("LVSD_PACKAGES") {
        return found(format, version, Path::new(&format!("/host{built}")));
    }
    let (name, staged) = (of(format), folder.join(version));
    let assets = assets::assets(Path::new(TREE), name);
    stage(&assets, &folder.join("made"), &staged);
    let metadata = assets::metadata(Path::new(TREE), name);
    let package = match format {
        Format::Deb => deb(version, &metadata, &staged, folder),
        Format::Rpm => rpm(version, &metadata, &assets, &staged, folder),
    };
    drop(fs::remove_dir_all(&staged));
    package
}

/// Its list in Cargo.toml.
fn of(format: Format) -> &'static str {
    match format {
        Format::Deb => "deb",
        Format::Rpm => "generate-rpm",
    }
}

fn found(format: Format, version: &str, built: &Path) -> PathBuf {
    let package = match format {
        Format::Deb => built.join(format!("lvsd_{version}-1_amd64.deb")),
        Format::Rpm => built.join(format!("lvsd-{version}-1.x86_64.rpm")),
    };
    assert!(package.exists(), "{}: `./test packages` builds it", package.display());
    package
}

/// The same without what only debuggers read, if there is one.
fn program() -> String {
    std::env::var("LVSD_PACKAGED").map_or_else(|_| LVSD.to_owned(), |path| format!("/host{path}"))
}

/// Puts the files where they are to be, below this root.
fn stage(assets: &Assets, made: &Path, root: &Path) {
    if !made.exists() {
        output(Command::new("bash").arg(format!("{TREE}/packaging/generate")).args([Path::new(LVSD), made]));
    }
    for (to, asset) in assets {
        let from = match asset.from.strip_prefix("target/packaging") {
            Ok(name) => made.join(name),
            Err(_) if asset.from == Path::new("target/release/lvsd") => program().into(),
            Err(_) => asset.from.clone(),
        };
        place(&from, &root.join(to), &asset.mode);
    }
}

fn place(from: &Path, to: &Path, mode: &str) {
    fs::create_dir_all(to.parent().expect("a full path")).expect("our folder");
    fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let mode = u32::from_str_radix(mode, 8).expect("an octal number");
    fs::set_permissions(to, Permissions::from_mode(mode)).expect("our file");
}

fn deb(version: &str, metadata: &Table, root: &Path, folder: &Path) -> PathBuf {
    let control = root.join("DEBIAN");
    let scripts = Path::new(TREE).join(text(&metadata["maintainer-scripts"]));
    for script in fs::read_dir(scripts).expect("it is part of the tree").map(|entry| entry.expect("readable"))
    {
        place(&script.path(), &control.join(script.file_name()), "755");
    }
    let configuration: String =
        metadata["conf-files"].as_array().expect("a list").iter().map(|file| text(file) + "\n").collect();
    fs::write(control.join("conffiles"), configuration).expect("our folder");
    let about =
        "Package: lvsd\nArchitecture: amd64\nMaintainer: tests <tests@example.org>\nDescription: tests\n";
    fs::write(control.join("control"), format!("{about}Version: {version}-1\n")).expect("our folder");
    let package = folder.join(format!("lvsd_{version}.deb"));
    // Uncompressed: a guest is slow.
    let arguments = ["-Znone", "--root-owner-group", "--build"];
    output(Command::new("dpkg-deb").args(arguments).arg(root).arg(&package));
    package
}

/// As cargo-generate-rpm does: no directories, no dependencies but what scripts need.
fn rpm(version: &str, metadata: &Table, assets: &Assets, root: &Path, folder: &Path) -> PathBuf {
    let mut spec = format!(
        "%define debug_package %{{nil}}\n%define __os_install_post %{{nil}}\n%define _binary_payload w0.ufdio\n\
         Name: lvsd\nVersion: {version}\nRelease: 1\nSummary: tests\nLicense: tests\nAutoReqProv: no\n\
         %description\ntests\n%install\nrm -rf %{{buildroot}}\nmv {} %{{buildroot}}\n",
        root.display()
    );
    for (section, key) in [
        ("pre", "pre_install_script"),
        ("post", "post_install_script"),
        ("preun", "pre_uninstall_script"),
        ("postun", "post_uninstall_script"),
    ] {
        let script = fs::read_to_string(Path::new(TREE).join(text(&metadata[key])));
        write!(spec, "%{section}\n{}", script.expect("it is part of the tree")).expect("a text");
    }
    spec += "%files\n";
    for (to, asset) in assets {
        let kind = if asset.configuration { "%config(noreplace) " } else { "" };
        let group = asset.group.as_deref().unwrap_or("root");
        writeln!(spec, "{kind}%attr({},root,{group}) /{to}", asset.mode).expect("a text");
    }
    let file = folder.join("lvsd.spec");
    fs::write(&file, spec).expect("our folder");
    let top = format!("_topdir {}", folder.display());
    output(Command::new("rpmbuild").args(["--quiet", "-bb", "--define", &top]).arg(&file));
    folder.join(format!("RPMS/x86_64/lvsd-{version}-1.x86_64.rpm"))
}
