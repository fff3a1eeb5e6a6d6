//! `include` and its stricter variants: which files a pattern names. Opens nothing but through the reader.

use std::path::{Path, PathBuf};

use super::words::shown;
use crate::config::import::Reader;

/// Files of one pattern, and of all of them.
const MAX_FILES: usize = 4_096;
/// The keyword in all its strictnesses.
pub(in crate::config::import) const WORDS: [&str; 6] =
    ["include", "includer", "includem", "includew", "includeb", "includea"];

/// Patterns that braces make of one.
const MAX_PATTERNS: usize = 256;

/// What is left for the includes of all files together: a file that includes itself twice has no end.
#[derive(Debug)]
pub(super) struct Budget {
    /// Includes, and files that they name.
    count: usize,
    /// Of the files, comments and all.
    bytes: usize,
}

impl Budget {
    pub(super) const SPENT: &str = "there are more than 4096 includes and files; this is not read";

    pub(super) const fn new(bytes: usize) -> Self {
        Self { count: MAX_FILES, bytes }
    }

    pub(super) fn try_begin(&mut self) -> bool {
        let left = self.count.checked_sub(1);
        self.count = left.unwrap_or_default();
        left.is_some()
    }

    pub(super) fn try_read(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

pub(super) struct Include<'t> {
    /// The keyword.
    pub(super) word: &'t str,
    pub(super) pattern: &'t str,
}

/// The letters say which things keepalived complains about; missing files are always told here.
pub(super) fn parse(text: &str) -> Option<Include<'_>> {
    let (word, pattern) = text.split_once(|c: char| c.is_ascii_whitespace())?;
    WORDS.contains(&word).then(|| Include { word, pattern: pattern.trim() })
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) paths: Vec<PathBuf>,
    pub(super) problems: Vec<String>,
}

pub(super) fn files(reader: &dyn Reader, directory: &Path, pattern: &str) -> Found {
    let mut found = Found::default();
    for pattern in braces(pattern) {
        match reader.matching(&directory.join(&pattern)) {
            Ok(paths) if paths.is_empty() => {
                found.problems.push(format!("no file matches {}", shown(&pattern)))
            }
            Ok(paths) => found.paths.extend(paths),
            Err(why) => found.problems.push(why),
        }
    }
    if found.paths.len() > MAX_FILES {
        found.paths.truncate(MAX_FILES);
        found.problems.push(format!("only the first {MAX_FILES} files of {} are read", shown(pattern)));
    }
    found
}

/// `a{b,c}d` is `abd` and `acd`, as glob(3) has it.
fn braces(pattern: &str) -> Vec<String> {
    let mut all = vec![pattern.to_owned()];
    for _ in 0..MAX_PATTERNS {
        let Some(at) = all.iter().position(|pattern| alternatives(pattern).is_some()) else { break };
        let Some((head, words, tail)) = all.get(at).and_then(|pattern| alternatives(pattern)) else { break };
        let made: Vec<String> = words.iter().map(|word| format!("{head}{word}{tail}")).collect();
        if all.len() + made.len() > MAX_PATTERNS {
            break;
        }
        all.splice(at..=at, made);
    }
    all
}

/// What stands before, in and after the first pair that matches.
fn alternatives(pattern: &str) -> Option<(String, Vec<String>, String)> {
    let (head, inner) = pattern.split_once('{')?;
    let mut depth = 0_usize;
    let mut words = vec![String::new()];
    for (at, c) in inner.char_indices() {
        match c {
            '}' if depth == 0 => return Some((head.to_owned(), words, inner.get(at + 1..)?.to_owned())),
            ',' if depth == 0 => {
                words.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        words.last_mut()?.push(c);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_in_braces() {
        assert_eq!(braces("a{b,c}d"), ["abd", "acd"]);
        assert_eq!(braces("{a,b}{1,2}"), ["a1", "a2", "b1", "b2"]);
        assert_eq!(braces("a{b,c{d,e}}"), ["ab", "acd", "ace"]);
        assert_eq!(braces("plain"), ["plain"]);
        assert!(braces(&"{a,b,c,d,e,f,g,h}".repeat(40)).len() <= MAX_PATTERNS);
    }

    #[test]
    fn keywords() {
        assert!(parse("include a").is_some_and(|i| i.pattern == "a"));
        assert!(parse("includea\t b.conf").is_some_and(|i| i.word == "includea" && i.pattern == "b.conf"));
        assert!(parse("include").is_none());
        assert!(parse("includes x").is_none());
        assert!(parse("include_check read").is_none());
    }
}
