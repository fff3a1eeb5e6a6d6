//! `reference/log.md` has every line that the daemon can log: the texts stand in the source, and each
//! must be in the table, with `…` for what is filled in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::book::Page;
use super::root;

/// Lines that are nothing but what was filled in; the page says where their texts come from.
const FILLED: &str = "…";

/// A text of the source by its level, and where it stands.
type Found = BTreeMap<(String, String), String>;

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test(&path) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn is_test(path: &Path) -> bool {
    path.components()
        .any(|part| matches!(part.as_os_str().to_str(), Some("tests.rs" | "tests" | "testing.rs")))
}

/// The message of each macro is its only text that no `=` stands before.
fn texts(code: &str, place: &str) -> Found {
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let begins = Regex::new(r"\b(error|warn|info)!\(").expect("a pattern");
    let literal = Regex::new(r#"(?s)(=\s*)?"((?:[^"\\]|\\.)*)""#).expect("a pattern");
    let mut found = Found::new();
    for begin in begins.captures_iter(code) {
        let (level, rest) = (begin[1].to_owned(), &code[begin.get(0).expect("all").end()..]);
        let message = literal.captures_iter(rest).find(|text| text.get(1).is_none()).expect("a message");
        found.insert((level, with_gaps(&message[2])), place.to_owned());
    }
    found
}

/// As it is read: continued lines are one, and what is filled in is `…`.
fn with_gaps(literal: &str) -> String {
    let text = Regex::new(r"\\\n\s*").expect("a pattern").replace_all(literal, "");
    let text = Regex::new(r"\{[^}]*\}").expect("a pattern").replace_all(&text, "…");
    text.replace("\\\"", "\"")
}

/// The rows of the page: level and text.
fn told() -> Vec<(String, String)> {
    let page = Page::read(root(), "reference/log.md");
    let row = Regex::new(r"(?m)^\| (error|warn|info) \| `([^`]+)` \|").expect("a pattern");
    row.captures_iter(&page.text).map(|row| (row[1].to_owned(), row[2].to_owned())).collect()
}

#[test]
fn every_log_line_is_in_the_reference_and_no_other() {
    let mut found = Found::new();
    for path in sources() {
        let code = fs::read_to_string(&path).expect("a source");
        let place = path.strip_prefix(root()).expect("ours").display().to_string();
        found.extend(texts(&code, &place));
    }
    found.retain(|(_, text), _| text != FILLED);
    assert!(found.len() > 50, "{} lines", found.len());
    let told = told();
    let missing: Vec<_> = found.iter().filter(|(line, _)| !told.contains(line)).collect();
    assert!(missing.is_empty(), "not in docs/src/reference/log.md: {missing:#?}");
    let gone: Vec<_> = told.iter().filter(|line| !found.contains_key(line)).collect();
    assert!(gone.is_empty(), "in docs/src/reference/log.md, but not in the source: {gone:#?}");
}

/// Lines of which the whole is filled in are these errors' texts.
#[test]
fn errors_that_are_logged_as_they_are_stand_in_the_reference() {
    let page = Page::read(root(), "reference/log.md").text;
    let error = Regex::new(r##"#\[error\(\s*"((?:[^"\\]|\\.)*)""##).expect("a pattern");
    let mut count = 0;
    for file in
        ["runtime/lock.rs", "runtime/state_file.rs", "ipvs/error.rs", "ipvs/module.rs", "notify/fifo/node.rs"]
    {
        let code = fs::read_to_string(root().join("src").join(file)).expect("a source");
        for found in error.captures_iter(&code) {
            let text = with_gaps(&found[1]);
            // Made of others.
            if text.chars().any(char::is_alphabetic) {
                assert!(
                    page.contains(&format!("`{text}`")),
                    "{file}: {text:?} is not in docs/src/reference/log.md"
                );
                count += 1;
            }
        }
    }
    assert!(count > 10, "{count} errors");
}

#[test]
fn texts_are_found_however_they_are_written() {
    let code =
        "warn!(a, state = \"down\", \"{a}: \\\n   b {c:?}\");\ntracing::error!(\"x \\\"{y}\\\"\", z);\n";
    let found: Vec<_> = texts(code, "here").into_keys().collect();
    let line = |level: &str, text: &str| (level.to_owned(), text.to_owned());
    assert_eq!(found, [line("error", "x \"…\""), line("warn", "…: b …")]);
}
