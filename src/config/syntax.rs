//! TOML text to tables with places, and as many of its syntax errors as can be found.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::diagnostics::Findings;

mod explain;
mod foreign;
mod unclosed;

/// The recovering parser keeps every error; above this size it is not asked for more than one.
const MAX_RECOVERED: usize = 4 << 20;

/// More syntax errors than this in one file say nothing new.
const MAX_REPORTED: usize = 1_000;

/// Lines that are blanked, one round after the other, in search of a text that parses.
const REPAIR_ROUNDS: usize = 4;

/// Reports every syntax error of a text that is known to have one.
pub(super) fn report(text: &str, file: u32, findings: &mut Findings) {
    if let Some(finding) = foreign::keepalived(text, file) {
        return findings.push(finding);
    }
    let errors = errors(text);
    let is_unclosed = |error: &toml::de::Error| {
        error.message().starts_with("unclosed array,") || error.message().starts_with("unclosed inline table")
    };
    let opening = if errors.iter().any(is_unclosed) { unclosed::opening(text) } else { None };
    // Whatever follows an open bracket was read as a part of it: nothing that the parser says of that helps.
    let end = opening.as_ref().map_or(text.len() + 1, |opening| opening.start);
    for error in errors.into_iter().take(MAX_REPORTED) {
        let span = error.span().unwrap_or(0..0);
        if span.start < end {
            findings.push(explain::explain(text, file, error.message(), span));
        }
    }
    if let Some(opening) = opening {
        findings.push(explain::unclosed(text, file, opening));
    }
}

/// The text with its broken lines blanked, every other byte at its place: what is still there
/// can be judged. `None` if that would give the rest another meaning.
pub(super) fn repair(text: &str) -> Option<String> {
    let mut repaired = text.to_owned();
    for _ in 0..REPAIR_ROUNDS {
        let errors = errors(&repaired);
        if errors.is_empty() {
            return Some(repaired);
        }
        if errors.len() > MAX_REPORTED {
            return None;
        }
        for error in &errors {
            let line = line_around(&repaired, error.span()?.start);
            // Without its header, the keys of a table would be judged as another table's.
            if repaired.get(line.clone())?.trim_start().starts_with('[')
                || error.message().starts_with("unclosed")
            {
                return None;
            }
            blank(&mut repaired, line);
        }
    }
    errors(&repaired).is_empty().then_some(repaired)
}

/// `include` of a main file: patterns with their byte ranges. Whatever is wrong with it is for
/// the loader to report.
pub(super) fn include_patterns(text: &str) -> Vec<(String, (u32, u32))> {
    let mut patterns = Vec::new();
    let head = text.get(..first_header(text)).unwrap_or(text);
    // The key can only stand before the first table; a header inside a multi-line value of the
    // root makes that text not parse, and the whole is tried.
    let (table, errors) = recover(head);
    let (table, _) = if errors.is_empty() { (table, errors) } else { recover(text) };
    let Some(value) = table.get("include") else { return patterns };
    let mut push = |node: &toml::Spanned<DeValue<'_>>| {
        if let DeValue::String(pattern) = node.get_ref() {
            let bound = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            patterns.push((pattern.to_string(), (bound(node.span().start), bound(node.span().end))));
        }
    };
    match value.get_ref() {
        DeValue::Array(list) => list.iter().for_each(push),
        DeValue::String(_) => push(value),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => {}
    }
    patterns
}

/// `daemon.control_socket` of a file that may be wrong anywhere else.
pub(super) fn control_socket(text: &str) -> Option<String> {
    let of = |table: &DeTable<'_>| {
        let daemon = table.get("daemon")?.get_ref().as_table()?;
        daemon.get("control_socket")?.get_ref().as_str().map(str::to_owned)
    };
    let (table, _) = recover(text);
    of(&table).or_else(|| {
        // The parser gave up before, or swallowed the table: look at that table alone.
        let (table, _) = recover(daemon_table(text)?);
        of(&table)
    })
}

fn recover(text: &str) -> (DeTable<'_>, Vec<toml::de::Error>) {
    match DeTable::parse(text) {
        Ok(table) => (table.into_inner(), Vec::new()),
        Err(error) if text.len() > MAX_RECOVERED => (DeTable::new(), vec![error]),
        Err(_) => {
            let (table, errors) = DeTable::parse_recoverable(text);
            (table.into_inner(), errors)
        }
    }
}

fn errors(text: &str) -> Vec<toml::de::Error> {
    recover(text).1
}

/// From the line `[daemon]` to the next header.
fn daemon_table(text: &str) -> Option<&str> {
    let mut offset = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        match start {
            None if trimmed.starts_with("[daemon]") => start = Some(offset),
            Some(start) if trimmed.starts_with('[') => return text.get(start..offset),
            None | Some(_) => {}
        }
        offset += line.len();
    }
    text.get(start?..)
}

fn first_header(text: &str) -> usize {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            return offset;
        }
        offset += line.len();
    }
    text.len()
}

fn line_around(text: &str, at: usize) -> Range<usize> {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let start = text.get(..at).unwrap_or_default().rfind('\n').map_or(0, |i| i + 1);
    let rest = text.get(at..).unwrap_or_default();
    start..at + rest.find('\n').unwrap_or(rest.len())
}

fn blank(text: &mut String, line: Range<usize>) {
    text.replace_range(line.clone(), &" ".repeat(line.len()));
}
