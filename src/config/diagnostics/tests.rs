//! How places become lines, and lines become text.

use std::path::Path;

use super::*;
use crate::config::sources::{File, Sources};

fn files(text: &str) -> Vec<File> {
    Sources::from_text("dir/lvsd.toml", Path::new("/etc/lvsd"), text).files().to_vec()
}

fn only(text: &str, start: u32, end: u32) -> Diagnostic {
    let mut findings = Findings::default();
    findings.push(Finding::error(Place { file: 0, start, end }, "wrong").remedy("write it right"));
    findings.finish(&files(text)).iter().next().unwrap().clone()
}

#[test]
fn columns_are_characters() {
    let found = only("a = 1\nname = \"Köln\" # x\n", 14, 20);
    let line = found.spot.line.clone().unwrap();
    assert_eq!((line.number, line.column), (2, 9));
    assert_eq!(&line.text[line.highlight.clone()], "Köln\"");
    assert_eq!(found.to_string(), "dir/lvsd.toml:2:9: error: wrong; help: write it right");
}

#[test]
fn places_are_clamped() {
    for (start, end) in [(0, 0), (3, 2), (6, 6), (5, 900), (u32::MAX, u32::MAX), (15, 16)] {
        let found = only("a = 1\nname = \"Köln\"", start, end);
        assert!(found.spot.line.is_some());
    }
    let mut findings = Findings::default();
    findings.push(Finding::error(Place { file: 7, start: 0, end: 1 }, "nowhere"));
    assert_eq!(findings.finish(&files("")).lines(), ["?: error: nowhere"]);
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let text = format!("{}here{}", "x".repeat(100_000), "ö".repeat(100_000));
    let line = only(&text, 100_000, 100_004).spot.line.unwrap();
    assert_eq!(line.column, 100_001);
    assert_eq!(&line.text[line.highlight.clone()], "here");
    assert!(line.text.len() < 300, "{}", line.text.len());
    let whole = only(&text, 0, 300_000).spot.line.unwrap();
    assert!(whole.text.len() < 300, "{}", whole.text.len());
}

#[test]
fn a_value_over_several_lines_is_shown_by_its_first() {
    let found = only("a = [\r\n  1,\r\n]\r\n", 4, 14);
    let line = found.spot.line.unwrap();
    assert_eq!(line.text, "a = [");
    assert_eq!(line.highlight, 4..5);
}

#[test]
fn terminals_are_safe() {
    let text = "a = \"\u{1b}[31m\u{202e}\"";
    let mut findings = Findings::default();
    let place = Place { file: 0, start: 4, end: 9 };
    let finding = Finding::error(place, "in \u{1b}[31m").remedy("write \u{1b}c\nor not");
    findings.push(finding.label(place, "\u{7}"));
    let found = findings.finish(&files(text));
    for rendered in [found.to_string(), found.lines().concat()] {
        assert!(!rendered.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{rendered:?}");
    }
    assert_eq!(found.lines().len(), 1);
}

#[test]
fn colour_is_only_for_those_who_ask() {
    let mut findings = Findings::default();
    findings.push(Finding::warning(Place { file: 0, start: 0, end: 1 }, "odd"));
    let found = findings.finish(&files("a = 1"));
    assert!(found.render(Palette::Colour).contains("\u{1b}["));
    assert!(!found.render(Palette::Plain).contains('\u{1b}'));
    assert_eq!((found.error_count(), found.warning_count()), (0, 1));
}

#[test]
fn errors_come_before_warnings_when_there_are_too_many() {
    let text = "x\n".repeat(500);
    let mut findings = Findings::default();
    for line in 0..400 {
        let place = Place { file: 0, start: line * 2, end: line * 2 + 1 };
        findings.push(match line {
            0..390 => Finding::warning(place, "odd"),
            _ => Finding::error(place, "wrong"),
        });
        // The same again says nothing new.
        findings.push(Finding::error(Place { file: 0, start: 0, end: 0 }, "once"));
    }
    let found = findings.finish(&files(&text));
    assert_eq!((found.error_count(), found.warning_count()), (11, 390));
    assert_eq!(found.iter().count(), MAX_SHOWN);
    assert_eq!(found.iter().filter(|d| d.severity == Severity::Error).count(), 11);
    let numbers: Vec<usize> = found.iter().filter_map(|d| d.spot.line.as_ref()).map(|l| l.number).collect();
    assert!(numbers.is_sorted());
    assert!(found.to_string().ends_with("and 351 more; 11 errors and 390 warnings in all"));
}
