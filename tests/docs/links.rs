//! Links between the pages, and from the pages to files of this tree; the list of chapters.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use super::book::Page;
use super::{pages, root};

/// As mdbook makes the name of a heading: letters and digits stay, spaces become dashes.
fn anchor(heading: &str) -> String {
    let plain = heading.trim().to_lowercase();
    let kept = plain.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &Page) -> BTreeSet<String> {
    let headings = page.prose();
    let found = headings.lines().filter(|line| line.starts_with('#'));
    found.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

/// What `[…](…)` of a page leads to.
fn links(page: &Page) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("a pattern");
    link.captures_iter(&page.prose()).map(|found| found[1].to_owned()).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in &pages {
        for link in links(page).iter().filter(|link| !link.starts_with("http")) {
            count += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = Path::new(&page.name).parent().expect("a page has a folder");
            let name = if file.is_empty() { page.name.clone() } else { plain(&folder.join(file)) };
            match pages.iter().find(|other| other.name == name) {
                Some(other) if !heading.is_empty() && !anchors(other).contains(heading) => {
                    wrong.push(format!("{}: {link}: {name} has no such heading", page.name));
                }
                Some(_) => {}
                None if root().join("docs/src").join(&name).exists() => {}
                None => wrong.push(format!("{}: {link}: no such page", page.name)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "{count} links");
}

/// `guide/../reference/log.md` is `reference/log.md`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        let part = part.as_os_str().to_string_lossy();
        if part == ".." { drop(parts.pop()) } else { parts.push(part.into_owned()) }
    }
    parts.join("/")
}

#[test]
fn every_page_is_a_chapter_and_has_one_title() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.name == "SUMMARY.md").expect("the list of chapters");
    let chapters: BTreeSet<_> = links(summary).into_iter().collect();
    for page in pages.iter().filter(|page| page.name != "SUMMARY.md") {
        assert!(chapters.contains(&page.name), "{} is no chapter", page.name);
        let titles = page.prose().lines().filter(|line| line.starts_with("# ")).count();
        assert_eq!(titles, 1, "{}", page.name);
    }
}

/// The threat model names a test for each claim, others the places where to read on.
#[test]
fn every_file_that_is_named_is_there() {
    let named =
        Regex::new(r"`((?:src|tests|packaging|config)/[A-Za-z0-9_./-]*[A-Za-z0-9_])`").expect("a pattern");
    let mut count = 0;
    for page in pages() {
        for found in named.captures_iter(&page.prose()) {
            let there = [found[1].to_owned(), format!("{}.rs", &found[1])];
            assert!(there.iter().any(|path| root().join(path).exists()), "{}: {}", page.name, &found[1]);
            count += 1;
        }
    }
    assert!(count > 20, "{count} files");
}

#[test]
fn a_link_to_nowhere_is_found() {
    let page = Page {
        name: "a/b.md".to_owned(),
        text: "# On `x`, 2\n[a](c.md#d)\n```\n[b](e.md)\n```\n".to_owned(),
    };
    assert_eq!(links(&page), ["c.md#d"]);
    assert!(anchors(&page).contains("on-x-2"));
    assert_eq!(plain(Path::new("a/../c/d.md")), "c/d.md");
}
