//! What `packaging/build` has made, against the lists, and with the tools of both distributions. `./test packages`
//! builds it first and names the folder in `LVSD_PACKAGES`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::assets::{assets, metadata, text};

/// The program without symbols.
const BOUND: u64 = 10_000_000;
/// What dpkg wants and cargo-deb makes.
const MADE_BY_CARGO_DEB: [&str; 2] =
    ["usr/share/doc/lvsd/copyright", "usr/share/doc/lvsd/changelog.Debian.gz"];

/// Path to mode, owner and group.
type Listed = BTreeMap<String, String>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn built(pattern: &str) -> PathBuf {
    let folder = std::env::var("LVSD_PACKAGES").expect("LVSD_PACKAGES names their folder");
    let pattern = format!("{folder}/{}", pattern.replace("VERSION", env!("CARGO_PKG_VERSION")));
    let found: Vec<_> =
        glob::glob(&pattern).expect("a pattern").map(|file| file.expect("readable")).collect();
    let [package] = &found[..] else { panic!("{pattern}: {found:?}") };
    package.clone()
}

fn deb() -> PathBuf {
    built("lvsd_VERSION-1_*.deb")
}

fn rpm() -> PathBuf {
    built("lvsd-VERSION-1.*.rpm")
}

/// What a program that must succeed prints.
fn output(program: &str, words: &[&str], file: &Path) -> String {
    let ended = Command::new(program).args(words).arg(file).output();
    let ended = ended.unwrap_or_else(|error| panic!("{program}: {error}"));
    let [said, complaint] =
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(ended.status.success(), "{program} {words:?}: {}: {said}{complaint}", ended.status);
    said
}

/// What rpm says of the package; a data base of installed ones, which it makes, is not asked.
fn ask_rpm(words: &[&str]) -> String {
    let folder = TempDir::new().expect("a folder");
    let empty = folder.path().display().to_string();
    output("rpm", &[&["--dbpath", &empty], words].concat(), &rpm())
}

/// Of a field or, in brackets, of each file.
fn query(format: &str) -> String {
    ask_rpm(&["-qp", "--qf", format])
}

#[test]
#[ignore = "of built packages: ./test packages"]
fn a_deb_holds_what_its_list_says() {
    let said = output("dpkg-deb", &["--contents"], &deb());
    let mut files = Listed::new();
    for line in said.lines().filter(|line| !line.starts_with('d')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let path = words[5].trim_start_matches("./").to_owned();
        files.insert(path, format!("{} {}", octal(words[0]), words[1]));
    }
    for file in MADE_BY_CARGO_DEB {
        assert_eq!(files.remove(file).as_deref(), Some("644 0/0"), "{file}");
    }
    let wanted = assets(root(), "deb").into_iter();
    let wanted: Listed = wanted.map(|(to, asset)| (to, format!("{} 0/0", asset.mode))).collect();
    assert_eq!(files, wanted);
}

/// `-rwxr-xr-x` as 755.
fn octal(letters: &str) -> String {
    let digit = |three: &str| -> u32 {
        three.chars().zip([4, 2, 1]).filter(|(letter, _)| *letter != '-').map(|(_, bit)| bit).sum()
    };
    [1, 4, 7].map(|at| digit(&letters[at..at + 3]).to_string()).concat()
}

#[test]
#[ignore = "of built packages: ./test packages"]
fn an_rpm_holds_what_its_list_says() {
    let said =
        query("[%{FILENAMES} %{FILEMODES:octal} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]");
    let mut files = Listed::new();
    for line in said.lines() {
        let (path, rest) = line.trim_start_matches('/').split_once(' ').expect("five words");
        let rest = rest.strip_prefix("100").expect("a plain file").trim_end_matches("d").trim_end();
        files.insert(path.to_owned(), rest.to_owned());
    }
    let wanted = assets(root(), "generate-rpm").into_iter();
    let wanted = wanted.map(|(to, asset)| {
        let group = asset.group.as_deref().unwrap_or("root");
        // c: a configuration file; n: one that is not replaced.
        let flags = if asset.configuration { " cn" } else { "" };
        (to, format!("{} root {group}{flags}", asset.mode))
    });
    assert_eq!(files, wanted.collect::<Listed>());
}

#[test]
#[ignore = "of built packages: ./test packages"]
fn both_run_the_scripts_of_the_tree() {
    let folder = TempDir::new().expect("a folder");
    output("dpkg-deb", &["--control", &deb().display().to_string()], folder.path());
    let scripts = root().join(text(&metadata(root(), "deb")["maintainer-scripts"]));
    for script in fs::read_dir(scripts).expect("it is part of the tree").map(|entry| entry.expect("readable"))
    {
        let name = script.file_name();
        let packaged = fs::read_to_string(folder.path().join(&name)).expect("it is in the package");
        assert_eq!(packaged, fs::read_to_string(script.path()).expect("readable"), "{}", name.display());
    }
    let of_rpm = metadata(root(), "generate-rpm");
    for (tag, key) in [
        ("PREIN", "pre_install_script"),
        ("POSTIN", "post_install_script"),
        ("PREUN", "pre_uninstall_script"),
        ("POSTUN", "post_uninstall_script"),
    ] {
        let script = fs::read_to_string(root().join(text(&of_rpm[key]))).expect("it is part of the tree");
        let packaged = query(&format!("%{{{tag}PROG}} %{{{tag}}}"));
        assert_eq!(packaged.trim_end(), format!("/bin/sh {}", script.trim_end()), "{tag}");
    }
}

#[test]
#[ignore = "of built packages: ./test packages"]
fn lintian_finds_no_error_and_warns_of_nothing() {
    assert_eq!(output("lintian", &["--allow-root", "--info"], &deb()), "");
}

#[test]
#[ignore = "of built packages: ./test packages"]
fn rpm_finds_its_digests_right_and_all_that_it_needs_named() {
    let said = ask_rpm(&["--checksig"]);
    assert!(said.trim_end().ends_with("digests OK"), "{said}");
    let needs = query("[%{REQUIRENAME}\n]");
    for one in ["systemd", "kmod", "/bin/sh", "libc.so.6()(64bit)"] {
        assert!(needs.lines().any(|line| line == one), "{one} is not among what it needs:\n{needs}");
    }
}

/// And they say how large they are.
#[test]
#[ignore = "of built packages: ./test packages"]
fn they_are_small() {
    let folder = TempDir::new().expect("a folder");
    output("dpkg-deb", &["--extract", &deb().display().to_string()], folder.path());
    let program = folder.path().join("usr/bin/lvsd");
    let size = |file: &Path| fs::metadata(file).expect("it is there").len();
    for file in [&deb(), &rpm(), &program] {
        println!("{:9} bytes  {}", size(file), file.display());
    }
    assert!(size(&program) <= BOUND, "{} bytes, at most {BOUND}", size(&program));
    let sections = output("readelf", &["--sections", "--wide"], &program);
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_"), "{sections}");
}
