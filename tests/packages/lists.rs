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

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("it is part of the tree")
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
        for (written, folder) in [("../screenshots", "screenshots"), ("plots", "development/plots")] {
            for picture in text.split(&format!("]({written}/")).skip(1) {
                let name = picture.split(')').next().expect("an end");
                let to = format!("usr/share/doc/lvsd/book/{folder}/{name}");
                assert!(deb.contains_key(&to), "{to}, which {} shows", asset.from.display());
                count += 1;
            }
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

/// What programs and pages say is there, is: messages, the manual pages (the example file among them), the book, and
/// what else is installed name paths of an installed host.
#[test]
fn every_path_that_is_named_is_installed() {
    let deb = assets("deb");
    let installed = |path: &str| {
        let path = path.trim_start_matches('/').trim_end_matches(['/', '.']);
        let inside = format!("{path}/");
        deb.keys().any(|file| file == path || file.starts_with(&inside))
    };
    let mut named = 0;
    let patterns = ["src/**/*.rs", "docs/src/**/*.md", "config/**/*", "systemd/*", "packaging/**/*"];
    for pattern in patterns {
        for file in glob::glob(&root().join(pattern).display().to_string()).expect("a pattern") {
            let file = file.expect("readable");
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for ours in ["/usr/share/doc/lvsd", "/usr/lib/lvsd/"] {
                for (at, _) in text.match_indices(ours) {
                    let rest = &text[at..];
                    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)));
                    let path = &rest[..end.unwrap_or(rest.len())];
                    assert!(installed(path), "{}: {path} is in no package", file.display());
                    named += 1;
                }
            }
        }
    }
    assert!(named > 20, "{named}");
}

/// Who has a package has no tree of the source.
#[test]
fn what_is_installed_names_no_path_of_the_source() {
    let of_source = [
        "systemd/ping.conf",
        "config/examples",
        "packaging/prometheus",
        "packaging/grafana",
        "config/lvsd.toml",
    ];
    let mut texts = vec![("lvsd.toml".to_owned(), read("config/lvsd.toml"))];
    for (to, asset) in assets("deb") {
        // The book may say where something is in the source, if it says that this is the source.
        let is_text = to.ends_with(".toml")
            || to.ends_with(".conf")
            || to.starts_with("usr/lib/")
            || to.ends_with(".md");
        if is_text && !to.contains("/development/") {
            texts.push((to, fs::read_to_string(&asset.from).expect("it is part of the tree")));
        }
    }
    for file in glob::glob(&root().join("src/**/*.rs").display().to_string()).expect("a pattern") {
        let file = file.expect("readable");
        let is_test = file.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"));
        let text = fs::read_to_string(&file).expect("it is part of the tree");
        if !is_test {
            texts.push((
                file.display().to_string(),
                text.split("#[cfg(test)]").next().unwrap_or_default().to_owned(),
            ));
        }
    }
    assert!(texts.len() > 100, "{}", texts.len());
    for (name, text) in texts {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let names = of_source.iter().find(|path| {
                line.contains(*path) && !line.contains("in the source") && !line.contains("include_str!")
            });
            assert!(names.is_none(), "{name}: {line}");
        }
    }
}

/// `dpkg -l` and `rpm -qa` show one line, which cargo-deb cuts between words where it is long.
#[test]
fn the_synopsis_is_a_whole() {
    let manifest: toml::Table = read("Cargo.toml").parse().expect("TOML");
    let description = text(&manifest["package"]["description"]);
    assert!(description.len() <= 60 && !description.ends_with('.'), "{description}");
    assert_eq!(text(&metadata(root(), "generate-rpm")["summary"]), description);
}
