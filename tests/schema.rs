//! `lvsd schema` against files: judged by Debian's python3-jsonschema, which is not ours.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Cases of tests/diagnostics whose mistake is one of a single value or key. A schema cannot tell
/// the others: they are between values.
const REFUSED: [&str; 20] = [
    "unknown-key",
    "unknown-key-keepalived",
    "wrong-type",
    "wrong-type-values",
    "check-kind",
    "duration",
    "daemon",
    "daemon-sync",
    "dns",
    "file",
    "grpc",
    "http-path",
    "http-reply",
    "ping",
    "script",
    "smtp",
    "tls",
    "tunnel",
    "udp",
    "tcp",
];

/// What tables of the documented file cannot be without.
const REQUIRED: [(&str, &[(&str, &str)]); 3] = [
    ("[daemon.sync]", &[("interface", "eth0")]),
    ("[daemon.notify.mail]", &[("server", "a"), ("from", "a@b.example"), ("to", "c@b.example")]),
    ("[[daemon.notify.webhook]]", &[("url", "https://a.example/")]),
];

const JUDGE: &str = "
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
verdicts = {}
for name, document in json.load(open(sys.argv[2])).items():
    verdicts[name] = [error.message for error in validator.iter_errors(document)]
print(json.dumps(verdicts))
";

fn toml_files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|problem| panic!("{folder}: {problem}"));
    let paths = entries.map(|entry| entry.expect("a folder can be read").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

/// Whatever the schema says of each file that is TOML at all.
fn verdicts(files: &[PathBuf]) -> BTreeMap<String, Vec<String>> {
    let place = tempfile::TempDir::new().expect("a folder");
    let schema = Command::new(env!("CARGO_BIN_EXE_lvsd")).arg("schema").output().expect("lvsd is there");
    std::fs::write(place.path().join("schema"), schema.stdout).expect("our folder");
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a file");
        let document: Value = toml::from_str(&text).ok()?;
        Some((path.display().to_string(), document))
    };
    let documents: BTreeMap<String, Value> = files.iter().filter_map(read).collect();
    let text = serde_json::to_string(&documents).expect("JSON");
    std::fs::write(place.path().join("documents"), text).expect("our folder");
    let judge =
        Command::new("python3").args(["-c", JUDGE, "schema", "documents"]).current_dir(place.path()).output();
    let judge = judge.expect("python3: run tests/lab/install unit");
    assert!(judge.status.success(), "{}", String::from_utf8_lossy(&judge.stderr));
    serde_json::from_slice(&judge.stdout).expect("JSON")
}

#[test]
fn good_files_are_taken() {
    let mut files =
        vec![PathBuf::from("config/lvsd.toml"), PathBuf::from("src/config/testdata/contract.toml")];
    files.extend(toml_files("config/examples"));
    files.extend(toml_files("config/examples/checks"));
    let count = files.len();
    let found = verdicts(&files);
    assert_eq!(found.len(), count, "all of them are TOML");
    assert!(count > 10, "{count}");
    for (name, mistakes) in found {
        assert_eq!(mistakes, Vec::<String>::new(), "{name}");
    }
}

/// Every key, also those that are examples.
#[test]
fn the_documented_file_is_taken_with_its_examples() {
    let sections = lvsd::config::documented::sections(lvsd::config::documented::TEXT);
    let place = tempfile::TempDir::new().expect("a folder");
    let mut files = Vec::new();
    for section in &sections {
        for line in section.entries.iter().flat_map(|entry| &entry.keys) {
            // Kinds and addresses are what their tables cannot be without.
            let mut text = format!("{}\n{}\n", section.title, line.text);
            let own = ["tcp", "http", "dns", "smtp", "udp", "ping", "script", "file", "grpc"];
            if section.title.starts_with("[check.")
                && !section.title.contains(".http")
                && !own.contains(&line.name.as_str())
            {
                text += "tcp = {}\n";
            }
            if section.title.contains(".http]") && !["path", "urls"].contains(&line.name.as_str()) {
                text += "path = \"/\"\n";
            }
            let (_, required) =
                REQUIRED.iter().find(|(title, _)| *title == section.title).unwrap_or(&("", &[]));
            for (key, value) in required.iter().filter(|(key, _)| *key != line.name) {
                text += &format!("{key} = {value:?}\n");
            }
            let has_address = ["address", "fwmark"].contains(&line.name.as_str());
            if section.title == "[[virtual_server]]" && !has_address
                || section.title.ends_with("real_server]]") && line.name != "address"
            {
                text += "address = \"192.0.2.10:80\"\n";
            }
            if section.title.ends_with("real_server]]") {
                text = format!("[[virtual_server]]\naddress = \"192.0.2.10:80\"\n{text}");
            }
            let path = place.path().join(format!("{}-{}.toml", files.len(), line.name));
            std::fs::write(&path, text).expect("our folder");
            files.push(path);
        }
    }
    assert!(files.len() > 80, "{}", files.len());
    let found = verdicts(&files);
    assert_eq!(found.len(), files.len(), "all of them are TOML");
    for (name, mistakes) in found {
        assert_eq!(
            mistakes,
            Vec::<String>::new(),
            "{name}: {}",
            std::fs::read_to_string(&name).unwrap_or_default()
        );
    }
}

#[test]
fn wrong_files_are_refused_where_a_schema_can_tell() {
    let found = verdicts(&toml_files("tests/diagnostics"));
    for name in REFUSED {
        let path = format!("tests/diagnostics/{name}.toml");
        assert!(Path::new(&path).exists(), "{path}");
        assert_ne!(found.get(&path), Some(&Vec::new()), "{name} is taken");
        assert!(found.contains_key(&path), "{name} is no TOML");
    }
    // What lvsd takes with a warning is no mistake to an editor.
    for (name, mistakes) in found.iter().filter(|(name, _)| name.contains("/warn-")) {
        assert_eq!(mistakes, &Vec::<String>::new(), "{name}");
    }
}
