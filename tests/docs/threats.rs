//! The threat model: every claim names tests, and every test that is named is there and is run.

use std::fs;

use regex::Regex;

use super::{pages, root};

/// What the file says of itself in tables: the row, and the tests in its last column.
fn claims(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let named = Regex::new(r"`([A-Za-z0-9_./-]+\.rs)::([a-z0-9_]+)`").expect("a pattern");
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let claims = rows.filter(|row| !row.starts_with("| try |")).map(|row| {
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let tests = named.captures_iter(last).map(|found| (found[1].to_owned(), found[2].to_owned()));
        (row.to_owned(), tests.collect())
    });
    claims.collect()
}

/// Is it a test there, one that is not left out?
fn is_a_test(source: &str, name: &str) -> bool {
    let Some(at) = source.find(&format!("fn {name}(")) else { return false };
    let before: Vec<&str> = source[..at].rsplit('\n').skip(1).take(4).collect();
    let attributes: Vec<&str> =
        before.iter().map(|line| line.trim()).take_while(|l| l.starts_with("#[")).collect();
    attributes.iter().any(|a| *a == "#[test]" || a.starts_with("#[tokio::test"))
        && !attributes.iter().any(|a| a.contains("ignore"))
}

#[test]
fn every_claim_of_the_threat_model_has_its_tests() {
    let pages = pages();
    let page = pages.iter().find(|page| page.name == "development/threat-model.md").expect("the page");
    let text = fs::read_to_string(root().join("docs/src").join(&page.name)).expect("the page's file");
    let claims = claims(&text);
    let mut wrong = Vec::new();
    for (row, tests) in &claims {
        if tests.is_empty() {
            wrong.push(format!("no test is named: {row}"));
        }
        for (file, test) in tests {
            let source = fs::read_to_string(root().join(file)).unwrap_or_default();
            if !is_a_test(&source, test) {
                wrong.push(format!("no test {test} in {file}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(claims.len() > 25, "{} claims", claims.len());
    // Whoever is spoken of can try something.
    for section in text.split("\n## ").skip(1).filter(|section| !section.starts_with("Not protected")) {
        assert!(section.contains("| try | what holds | test |"), "{section}");
    }
}

#[test]
fn a_claim_without_a_test_would_be_seen() {
    let found = claims(
        "| try | what holds | test |\n|---|---|---|\n| a | b | `src/a.rs` |\n| c | d | `src/a.rs::e`, `src/b.rs::f` |\n",
    );
    let counts: Vec<usize> = found.iter().map(|(_, tests)| tests.len()).collect();
    assert_eq!(counts, [0, 2]);
    assert!(is_a_test("#[test]\nfn a() {}\n", "a"));
    assert!(is_a_test("#[tokio::test(start_paused = true)]\n    async fn a() {}\n", "a"));
    assert!(!is_a_test("fn a() {}\n", "a"));
    assert!(!is_a_test("#[test]\n#[ignore]\nfn a() {}\n", "a"));
    assert!(!is_a_test("#[test]\nfn ab() {}\n", "a"));
}
