//! The TOML parser's words, with what an operator would write instead.

use std::ops::Range;

use super::line_around;
use crate::config::address::parse_services;
use crate::config::diagnostics::{Finding, Place};
use crate::config::text::quote;

/// Lines searched for the first of two equal keys.
const MAX_LOOK_BACK: usize = 2_000;

/// By the beginning of the parser's words.
const REMEDIES: &[(&str, &str)] = &[
    ("key with no value", "write `key = value`"),
    ("invalid basic string", "end the string with a quote, in the same line"),
    ("invalid literal string", "end the string with a quote, in the same line"),
    ("invalid boolean", "write true or false, in small letters"),
    ("missing escaped value", "write the string in single quotes: there a backslash is itself"),
    ("unclosed", "close it"),
    ("missing comma", "write a comma before it"),
];

/// The parser's words, with what an operator would write instead.
pub(super) fn explain(text: &str, file: u32, message: &str, span: Range<usize>) -> Finding {
    let line = line_around(text, span.start);
    let place = place(file, span.clone());
    if let Some(address) = bare_address(text, line.clone(), span.start) {
        let found = text.get(address.clone()).unwrap_or_default();
        let finding = Finding::error(self::place(file, address), format!("{} needs quotes", quote(found)));
        return finding.remedy(format!("write {}", quote(found)));
    }
    if let Some(path) = bare_path(text, line.clone(), span.start) {
        let found = quote(text.get(path.clone()).unwrap_or_default());
        let finding = Finding::error(self::place(file, path), format!("{found} needs quotes"));
        return finding.remedy(format!("write {found}"));
    }
    if let Some(colon) = colon(text, line.clone(), span.start) {
        let key = text.get(line.start..colon).unwrap_or_default();
        let key = key.rsplit([' ', '\t', '{', ',']).next().unwrap_or_default();
        let finding = Finding::error(self::place(file, colon..colon + 1), "a value is set with `=`, not `:`");
        return finding.remedy(format!("write `{key} = …`"));
    }
    let found = text.get(span.clone()).unwrap_or_default();
    let before = text.get(line.start..span.start).unwrap_or_default();
    let after = text.get(span.end..line.end).unwrap_or_default();
    if message.starts_with("string values must be quoted") {
        return match found.trim() {
            "" => Finding::error(place, "there is no value here")
                .remedy("write a value after `=`, or remove the line"),
            word if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") => {
                Finding::error(place, format!("{} is no value", quote(word)))
                    .remedy(format!("write {}", word.to_lowercase()))
            }
            word => Finding::error(place, format!("{} needs quotes", quote(word)))
                .remedy(format!("write {}", quote(word))),
        };
    }
    if message.starts_with("duplicate key") {
        let finding = Finding::error(place, format!("{} is written twice", quote(found)));
        let finding = match first_of(text, found, span.start) {
            Some(first) => finding.label(self::place(file, first), "first here"),
            None => finding,
        };
        return finding.remedy("keep one of the two");
    }
    let finding = Finding::error(place, format!("not TOML: {message}"));
    if after.starts_with(',') && before.ends_with(|c: char| c.is_ascii_digit()) {
        return finding.remedy("a fraction is written with a point: 0.8");
    }
    match REMEDIES.iter().find(|(beginning, _)| message.starts_with(beginning)) {
        Some((_, remedy)) => finding.remedy(*remedy),
        None => finding,
    }
}

/// A bracket or brace that nothing closes.
pub(super) fn unclosed(text: &str, file: u32, opening: Range<usize>) -> Finding {
    let (open, close) = match text.get(opening.clone()) {
        Some("{") => ('{', '}'),
        _ => ('[', ']'),
    };
    let finding = Finding::error(place(file, opening), format!("this `{open}` is not closed"));
    finding.remedy(format!("write the `{close}` that belongs to it"))
}

fn place(file: u32, span: Range<usize>) -> Place {
    let bound = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Place { file, start: bound(span.start), end: bound(span.end) }
}

/// An address without quotes around it, of which the parser makes half a number or a time.
fn bare_address(text: &str, line: Range<usize>, at: usize) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || ".:/-".contains(c);
    let at = at.clamp(line.start, line.end);
    let before = text.get(line.start..at)?;
    let after = text.get(at..line.end)?;
    let start = line.start + before.trim_end_matches(is_part).len();
    let end = at + after.find(|c| !is_part(c)).unwrap_or(after.len());
    let head = text.get(line.start..start)?;
    let tail = text.get(end..line.end)?;
    let is_address = |range: &Range<usize>| {
        let word = text.get(range.clone()).unwrap_or_default();
        word.contains(['.', ':']) && parse_services(word).is_ok()
    };
    // In brackets: the place is inside them, or in the port behind them.
    let opening = head.rfind('[').map(|i| line.start + i);
    let port = |tail: &str| {
        let port = tail.strip_prefix("]:")?;
        Some(2 + port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len()))
    };
    let bracketed = match (opening, port(tail), head.ends_with(']')) {
        (Some(opening), Some(length), _) if opening + 1 == start => Some(opening..end + length),
        (Some(opening), None, true) => Some(opening..end),
        (_, _, _) => None,
    };
    let whole = bracketed.filter(is_address).or_else(|| Some(start..end).filter(is_address))?;
    let is_quoted = text.get(line.start..whole.start)?.ends_with(['"', '\'']);
    (!is_quoted).then_some(whole)
}

/// A path without quotes around it, which is many mistakes to the parser: each of them, also one at its end, is the
/// same to whoever wrote it.
fn bare_path(text: &str, line: Range<usize>, at: usize) -> Option<Range<usize>> {
    let ends = |c: char| c.is_whitespace() || "=,[]{}\"'#".contains(c);
    let at = at.clamp(line.start, line.end);
    let start = line.start + text.get(line.start..at)?.trim_end_matches(|c| !ends(c)).len();
    let word = text.get(start..line.end)?;
    let end = start + word.find(ends).unwrap_or(word.len());
    let is_value = text.get(line.start..start)?.trim_end().ends_with(['=', '[', ',']);
    (is_value && word.starts_with('/')).then_some(start..end)
}

/// `key: value`, as other formats write it.
fn colon(text: &str, line: Range<usize>, at: usize) -> Option<usize> {
    let before = text.get(line.start..at)?;
    if text.get(at..line.end)?.starts_with(':') {
        return (!before.trim().is_empty()).then_some(at);
    }
    let key = before.trim_end().strip_suffix(':')?;
    let last = key.chars().next_back()?;
    (last.is_ascii_alphanumeric() || last == '_').then_some(line.start + key.len())
}

/// The nearest line before `at` that begins with the same header or key.
fn first_of(text: &str, key: &str, at: usize) -> Option<Range<usize>> {
    let line = line_around(text, at);
    let own = text.get(line.clone())?.trim_start();
    let header = own.starts_with('[').then(|| own.split_inclusive(']').next().unwrap_or(own));
    let wanted = header.unwrap_or(key);
    let mut end = line.start;
    for earlier in text.get(..line.start)?.split_inclusive('\n').rev().take(MAX_LOOK_BACK) {
        let start = end - earlier.len();
        end = start;
        let trimmed = earlier.trim_start();
        let is_same = match (header, trimmed.strip_prefix(wanted)) {
            (_, None) => false,
            (Some(_), Some(_)) => true,
            (None, Some(rest)) => !wanted.is_empty() && rest.trim_start().starts_with('='),
        };
        if is_same {
            let from = start + (earlier.len() - trimmed.len());
            return Some(from..from + wanted.len());
        }
        if header.is_none() && trimmed.starts_with('[') {
            return None;
        }
    }
    None
}
