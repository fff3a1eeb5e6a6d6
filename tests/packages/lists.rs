//! What the packages hold, from their two lists in Cargo.toml: the .deb and the .rpm bring the same files, no
//! file twice, and everything that a list names is in the tree or made by `packaging/generate`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml::Value;

use crate::assets::{self, Assets, metadata, text};

/// What differs, and stands in one of the two only: each has its own place for it.
const ONLY_DEB: [&str; 2] = ["usr/share/lintian/overrides/lvsd", "usr/share/zsh/vendor-completions/_lvsd"];
const ONLY_RPM: [&str; 2] = ["usr/share/doc/lvsd/copyright", "usr/share/zsh/site-functions/_lvsd"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn assets(of: &str) -> Assets {
    assets::assets(root(), of)
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
    // A .deb knows no group by name; tmpfiles.d gives the file to it there.
    for file in rpm.values_mut() {
        file.group = None;
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
            let packaged = deb.values().any(|asset| asset.from == file);
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
    for (_, asset) in book {
        let text = fs::read_to_string(&asset.from).expect("it is part of the tree");
        for picture in text.split("](../screenshots/").skip(1) {
            let name = picture.split(')').next().expect("an end");
            let to = format!("usr/share/doc/lvsd/book/screenshots/{name}");
            assert!(deb.contains_key(&to), "{to}, which {} shows", asset.from.display());
            count += 1;
        }
    }
    assert!(count > 0, "the book shows no picture");
}

/// Who may read it is one decision: the daemon's group, and root.
#[test]
fn the_configuration_is_a_configuration_file_of_both() {
    let deb = metadata(root(), "deb");
    assert_eq!(deb["conf-files"].as_array().expect("a list"), &[Value::from("/etc/lvsd/lvsd.toml")]);
    let of_rpm = metadata(root(), "generate-rpm");
    let list = of_rpm["assets"].as_array().expect("a list").clone();
    let file = list.iter().find(|asset| text(&asset["dest"]) == "/etc/lvsd/lvsd.toml").expect("it is there");
    assert_eq!((text(&file["config"]), text(&file["group"])), ("noreplace".to_owned(), "lvsd".to_owned()));
    assert_eq!(assets("deb")["etc/lvsd/lvsd.toml"].mode, "640");
}

/// The .rpm makes the user before its files come, with the line that stays.
#[test]
fn the_user_is_the_same_before_and_after_the_files_come() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("it is part of the tree");
    let line = read("systemd/lvsd.sysusers");
    let line = line.lines().find(|line| line.starts_with("u ")).expect("a user").to_owned();
    assert!(read("packaging/rpm/pre").contains(&format!("echo '{line}'")), "{line}");
}

/// Under the same names, but for what Debian has in several packages.
#[test]
fn both_need_the_same() {
    let [deb, rpm] = ["deb", "generate-rpm"].map(|of| metadata(root(), of));
    let needs = text(&deb["depends"]);
    let needs: Vec<_> = needs.split(", ").filter(|one| *one != "$auto").map(first_word).collect();
    let named = |key: &str| rpm[key].as_table().expect("a table").keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(needs.into_iter().collect::<BTreeSet<_>>(), named("requires"));
    assert_eq!(BTreeSet::from([text(&deb["recommends"])]), named("recommends"));
}

fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}
