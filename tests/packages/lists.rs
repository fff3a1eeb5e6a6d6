//! What the packages hold, from their two lists in Cargo.toml: the .deb and the .rpm bring the same files, no
//! file twice, and everything that a list names is in the tree or made by `packaging/generate`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// What differs, and stands in one of the two only: each has its own place for it.
const ONLY_DEB: [&str; 2] = ["usr/share/lintian/overrides/lvsd", "usr/share/zsh/vendor-completions/_lvsd"];
const ONLY_RPM: [&str; 2] = ["usr/share/doc/lvsd/copyright", "usr/share/zsh/site-functions/_lvsd"];

/// Path in the package to where it comes from, and its mode.
type Files = BTreeMap<String, (String, String)>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn metadata(of: &str) -> Table {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("it is part of the tree");
    let manifest: Table = text.parse().expect("TOML");
    manifest["package"]["metadata"][of].as_table().expect("a table").clone()
}

fn assets(of: &str) -> Files {
    let mut files = Files::new();
    for asset in metadata(of)["assets"].as_array().expect("a list") {
        let [from, to, mode] = match asset {
            Value::Array(list) => [0, 1, 2].map(|at| text(&list[at])),
            _ => ["source", "dest", "mode"].map(|key| text(&asset[key])),
        };
        let to = to.trim_start_matches('/');
        let several = expanded(&from);
        assert!(!several.is_empty(), "{of}: {from} is not there");
        for file in several {
            let name = file.file_name().expect("a file").to_string_lossy().into_owned();
            let to = if to.ends_with('/') { format!("{to}{name}") } else { to.to_owned() };
            let from = file.display().to_string();
            assert!(files.insert(to.clone(), (from, mode.clone())).is_none(), "{of}: {to} comes twice");
        }
    }
    files
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

/// The files that a source stands for; what is built is not there yet.
fn expanded(from: &str) -> Vec<PathBuf> {
    if let Some(made) = from.strip_prefix("target/packaging/") {
        let generate = fs::read_to_string(root().join("packaging/generate")).expect("it is part of the tree");
        assert!(generate.contains(&format!("$into/{made}\"")), "packaging/generate does not make {made}");
        return vec![from.into()];
    }
    if from == "target/release/lvsd" {
        return vec![from.into()];
    }
    let found = glob::glob(&root().join(from).display().to_string()).expect("a pattern");
    found.map(|file| file.expect("readable")).filter(|file| file.is_file()).collect()
}

#[test]
fn both_packages_bring_the_same_files_with_the_same_modes() {
    let [mut deb, mut rpm] = ["deb", "generate-rpm"].map(assets);
    assert!(deb.len() > 60, "{} files", deb.len());
    for only in ONLY_DEB {
        assert!(deb.remove(only).is_some(), "{only}");
    }
    for only in ONLY_RPM {
        assert!(rpm.remove(only).is_some(), "{only}");
    }
    assert_eq!(deb, rpm);
}

#[test]
fn nothing_is_left_out() {
    let deb = assets("deb");
    for (pattern, folder) in [
        ("docs/src/**/*.md", "docs/src"),
        ("config/examples/**/*", "config/examples"),
        ("systemd/*", "systemd"),
    ] {
        let files = glob::glob(&root().join(pattern).display().to_string()).expect("a pattern");
        for file in files.map(|file| file.expect("readable")).filter(|file| file.is_file()) {
            let packaged = deb.values().any(|(from, _)| Path::new(from) == file);
            assert!(packaged, "{} of {folder} is in no package", file.display());
        }
    }
}

/// Pictures that the book shows are beside it in the package, too.
#[test]
fn the_packaged_book_has_its_pictures() {
    let deb = assets("deb");
    let book = deb.iter().filter(|(to, _)| to.starts_with("usr/share/doc/lvsd/book/") && to.ends_with(".md"));
    let mut count = 0;
    for (_, (from, _)) in book {
        let text = fs::read_to_string(from).expect("it is part of the tree");
        for picture in text.split("](../screenshots/").skip(1) {
            let name = picture.split(')').next().expect("an end");
            let to = format!("usr/share/doc/lvsd/book/screenshots/{name}");
            assert!(deb.contains_key(&to), "{to}, which {from} shows");
            count += 1;
        }
    }
    assert!(count > 0, "the book shows no picture");
}

/// Who may read it is one decision: the daemon's group, and root.
#[test]
fn the_configuration_is_a_configuration_file_of_both() {
    let deb = metadata("deb");
    assert_eq!(deb["conf-files"].as_array().expect("a list"), &[Value::from("/etc/lvsd/lvsd.toml")]);
    let of_rpm = metadata("generate-rpm");
    let list = of_rpm["assets"].as_array().expect("a list").clone();
    let file = list.iter().find(|asset| text(&asset["dest"]) == "/etc/lvsd/lvsd.toml").expect("it is there");
    assert_eq!((text(&file["config"]), text(&file["group"])), ("noreplace".to_owned(), "lvsd".to_owned()));
    assert_eq!(assets("deb")["etc/lvsd/lvsd.toml"].1, "640");
}

/// The .rpm makes the user before its files come, with the line that stays.
#[test]
fn the_user_is_the_same_before_and_after_the_files_come() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("it is part of the tree");
    let line = read("systemd/lvsd.sysusers");
    let line = line.lines().find(|line| line.starts_with("u ")).expect("a user").to_owned();
    assert!(read("packaging/rpm/pre").contains(&format!("echo '{line}'")), "{line}");
}
