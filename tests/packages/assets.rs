//! What the two lists in Cargo.toml say that packages hold, as data. Judges nothing but that each source is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Where a file comes from, and what it is in the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asset {
    /// In the tree, or below `target` what is made for packages.
    pub(crate) from: PathBuf,
    pub(crate) mode: String,
    /// An administrator's own changes to it outlive an upgrade.
    pub(crate) configuration: bool,
    /// Other than root's, from the beginning.
    pub(crate) group: Option<String>,
}

/// By path in the package, without a `/` before it.
pub(crate) type Assets = BTreeMap<String, Asset>;

/// `deb` or `generate-rpm`
pub(crate) fn metadata(root: &Path, of: &str) -> Table {
    let text = fs::read_to_string(root.join("Cargo.toml")).expect("it is part of the tree");
    let manifest: Table = text.parse().expect("TOML");
    manifest["package"]["metadata"][of].as_table().expect("a table").clone()
}

pub(crate) fn assets(root: &Path, of: &str) -> Assets {
    let metadata = metadata(root, of);
    let configuration = metadata.get("conf-files").map(texts).unwrap_or_default();
    let mut files = Assets::new();
    for asset in metadata["assets"].as_array().expect("a list") {
        let key = |key: &str| asset.get(key).map(text);
        let [from, to, mode] = match asset {
            Value::Array(list) => [0, 1, 2].map(|at| text(&list[at])),
            _ => ["source", "dest", "mode"].map(|name| key(name).expect("each has it")),
        };
        let several = expanded(root, &from);
        assert!(!several.is_empty(), "{of}: {from} is not there");
        for from in several {
            let name = from.file_name().expect("a file").to_string_lossy().into_owned();
            let to = if to.ends_with('/') { format!("{to}{name}") } else { to.clone() };
            let to = to.trim_start_matches('/').to_owned();
            let configuration = key("config").is_some() || configuration.contains(&format!("/{to}"));
            let asset = Asset { from, mode: mode.clone(), configuration, group: key("group") };
            assert!(files.insert(to.clone(), asset).is_none(), "{of}: {to} comes twice");
        }
    }
    files
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(text).collect()
}

/// The files that a source stands for; what is built is not there yet.
fn expanded(root: &Path, from: &str) -> Vec<PathBuf> {
    if let Some(made) = from.strip_prefix("target/packaging/") {
        let generate = fs::read_to_string(root.join("packaging/generate")).expect("it is part of the tree");
        assert!(generate.contains(&format!("$into/{made}\"")), "packaging/generate does not make {made}");
        return vec![from.into()];
    }
    if from == "target/release/lvsd" {
        return vec![from.into()];
    }
    let found = glob::glob(&root.join(from).display().to_string()).expect("a pattern");
    found.map(|file| file.expect("readable")).filter(|file| file.is_file()).collect()
}
