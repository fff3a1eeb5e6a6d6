//! From files to the lines that keepalived's parser sees: comments gone, includes read, conditions judged,
//! definitions put in, sequences unrolled, braces on lines of their own. Knows no keyword.
//!
//! Everything is bounded: a few bytes of `~SEQ` or of definitions that use each other would fill any memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::definitions::{Definitions, definition};
use super::include::{self, Budget, Include};
use super::sequence::Sequence;
use super::words::shown;
use crate::config::import::Reader;
use crate::config::import::notes::{At, Notes};

/// Bytes; keepalived drops what is longer.
pub(super) const LINE_MAXIMUM: usize = 1_023;

/// Of all files, with what their sequences make of them.
const MAX_LINES: usize = 600_000;
const MAX_BYTES: usize = 32 << 20;

/// Files that include files that include files, and sequences of sequences.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) at: At,
    pub(super) text: String,
}

/// Where the next line comes from; the last one first.
enum Frame {
    File { lines: std::vec::IntoIter<String>, at: At, directory: PathBuf },
    Sequence { sequence: Sequence, at: At },
    Definition { lines: std::vec::IntoIter<String>, at: At },
}

pub(super) struct Lines<'a> {
    pub(super) notes: &'a mut Notes,
    reader: &'a dyn Reader,
    config_id: Option<&'a str>,
    frames: Vec<Frame>,
    definitions: Definitions,
    /// The rest of a line behind a brace.
    residue: Option<String>,
    /// A definition of several lines that is being read.
    open: Option<(String, Vec<String>)>,
    at: At,
    lines_left: usize,
    bytes_left: usize,
    includes: Budget,
    /// Config ids that were asked for.
    asked: BTreeSet<String>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(
        path: &Path,
        shown: String,
        text: &str,
        config_id: Option<&'a str>,
        reader: &'a dyn Reader,
        notes: &'a mut Notes,
    ) -> Self {
        let mut lines = Self {
            notes,
            reader,
            config_id,
            frames: Vec::new(),
            definitions: Definitions::default(),
            residue: None,
            open: None,
            at: At::default(),
            lines_left: MAX_LINES,
            bytes_left: MAX_BYTES,
            includes: Budget::new(MAX_BYTES),
            asked: BTreeSet::new(),
        };
        lines.push_file(path, shown, text);
        lines
    }

    /// The next line that is not empty: text without braces, or one brace.
    pub(super) fn next_line(&mut self) -> Option<Line> {
        loop {
            let raw = match self.residue.take() {
                Some(residue) => residue,
                None => self.source()?,
            };
            if !self.has_room(raw.len()) {
                return None;
            }
            if self.continues_definition(&raw) {
                continue;
            }
            let Some(text) = self.meaning(raw) else { continue };
            if self.include(&text) {
                continue;
            }
            let (line, rest) = split_at_brace(&text);
            self.residue = rest;
            if !line.is_empty() {
                return Some(Line { at: self.at, text: line });
            }
        }
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let left = self.lines_left.checked_sub(1).zip(self.bytes_left.checked_sub(bytes));
        match left {
            Some((lines, bytes)) => {
                (self.lines_left, self.bytes_left) = (lines, bytes);
                true
            }
            None => {
                let why = format!(
                    "more than {MAX_LINES} lines or {} MiB in all; nothing after this is read",
                    MAX_BYTES >> 20
                );
                self.notes.not_carried(self.at, "file", why);
                self.frames.clear();
                false
            }
        }
    }

    /// The next line of whatever is being read.
    fn source(&mut self) -> Option<String> {
        loop {
            match self.frames.last_mut()? {
                Frame::File { lines, at, .. } => {
                    if let Some(line) = lines.next() {
                        at.line += 1;
                        self.at = *at;
                        if let Some(text) = self.clean(line) {
                            return Some(text);
                        }
                        continue;
                    }
                }
                Frame::Sequence { sequence, at } => {
                    if let Some(round) = sequence.next_round() {
                        self.at = *at;
                        for (name, value) in round.definitions {
                            self.definitions.set(&name, &value);
                        }
                        return Some(round.line);
                    }
                }
                Frame::Definition { lines, at } => {
                    if let Some(line) = lines.next() {
                        self.at = *at;
                        return Some(line);
                    }
                }
            }
            self.frames.pop();
        }
    }

    /// Without its comment. `None`: nothing is left, or keepalived drops it.
    fn clean(&mut self, mut line: String) -> Option<String> {
        if line.len() > LINE_MAXIMUM {
            let why =
                format!("a line of {} bytes; keepalived drops each full {LINE_MAXIMUM} of them", line.len());
            self.notes.not_carried(self.at, "line", why);
            let kept = line.len() % LINE_MAXIMUM;
            let start = (line.len() - kept..=line.len()).find(|at| line.is_char_boundary(*at))?;
            line = line.split_off(start);
        }
        if line.contains('\0') {
            self.notes.not_carried(self.at, "line", "it has a NUL in it, and keepalived drops it");
            return None;
        }
        let text = line.trim_end_matches('\r');
        if text.is_empty() {
            // An empty line ends a definition of several lines.
            self.close_definition();
            return None;
        }
        let (text, quoted) = without_comment(text);
        if !quoted.is_closed {
            self.notes.remark(self.at, "\"", "a quote that is not closed in its line");
        }
        if text.is_empty() { None } else { Some(text) }
    }

    fn continues_definition(&mut self, raw: &str) -> bool {
        let Some((_, lines)) = &mut self.open else { return false };
        match raw.strip_suffix('\\') {
            Some(line) => {
                let line = line.trim_end_matches([' ', '\t']);
                if !line.is_empty() {
                    lines.push(line.to_owned());
                }
            }
            None => {
                lines.push(raw.to_owned());
                self.close_definition();
            }
        }
        true
    }

    fn close_definition(&mut self) {
        if let Some((name, lines)) = self.open.take() {
            self.definitions.set_lines(&name, lines);
        }
    }

    /// Conditions, definitions and sequences. `None`: nothing is left of it.
    fn meaning(&mut self, mut text: String) -> Option<String> {
        // A definition can hold a condition, a sequence or another definition.
        for _ in 0..MAX_DEPTH {
            if text.starts_with('@') {
                text = self.condition(&text)?;
            }
            if let Some((name, value)) = definition(&text) {
                self.define(name, value);
                return None;
            }
            if text.starts_with("~SEQ") || text.starts_with("~LST") {
                self.sequence(&text);
                return None;
            }
            if !text.contains('$') {
                return Some(text);
            }
            if text.contains("_PWD") {
                let directory = self.directory().display().to_string();
                self.definitions.set("_PWD", &directory);
            }
            let replaced = self.definitions.replace(&text);
            for name in &replaced.unknown {
                let why = "its value is that of the other machine, or of chance; put the value in yourself";
                self.notes.not_carried(self.at, &format!("${{{name}}}"), why);
            }
            if replaced.too_long {
                let why = format!("with its definitions the line would have more than {LINE_MAXIMUM} bytes");
                self.notes.not_carried(self.at, &text, why);
            }
            if !replaced.changed {
                return Some(text);
            }
            for lines in replaced.following {
                self.push(Frame::Definition { lines: lines.into_iter(), at: self.at });
            }
            let again = replaced.text.starts_with(['@', '~', '$']) && replaced.text != text;
            text = without_comment(&replaced.text).0;
            if !again || replaced.too_long {
                return Some(text).filter(|text| !text.is_empty());
            }
        }
        Some(text)
    }

    /// `@id text` and `@^id text`.
    fn condition(&mut self, text: &str) -> Option<String> {
        let inner = text.strip_prefix('@')?;
        let (negated, inner) = match inner.strip_prefix('^') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        let (id, rest) = inner.split_once([' ', '\t'])?;
        if self.config_id.is_none() && self.asked.len() < 100 && self.asked.insert(id.to_owned()) {
            let why =
                "no --config-id is given: lines for one id are left out, lines for all but one are kept";
            self.notes.not_carried(self.at, &format!("@{id}"), why);
        }
        let matches = self.config_id == Some(id);
        (matches != negated).then(|| rest.trim_start_matches([' ', '\t']).to_owned())
    }

    fn define(&mut self, name: &str, value: &str) {
        match value.strip_suffix('\\') {
            Some(first) => {
                let first = first.trim_end_matches([' ', '\t']);
                let lines = if first.is_empty() { Vec::new() } else { vec![first.to_owned()] };
                self.open = Some((name.to_owned(), lines));
            }
            None => self.definitions.set(name, value),
        }
    }

    fn sequence(&mut self, text: &str) {
        let definitions = &self.definitions;
        match Sequence::parse(text, |parameters| definitions.replace(parameters).text) {
            Some(sequence) => self.push(Frame::Sequence { sequence, at: self.at }),
            None => {
                let what = text.get(..4).unwrap_or_default();
                self.notes.not_carried(self.at, what, format!("{} is no valid {what}", shown(text)));
            }
        }
    }

    fn push(&mut self, frame: Frame) {
        if self.frames.len() >= MAX_DEPTH {
            let why = format!("includes, sequences and definitions are more than {MAX_DEPTH} deep");
            self.notes.not_carried(self.at, "include", why);
        } else {
            self.frames.push(frame);
        }
    }

    fn push_file(&mut self, path: &Path, shown: String, text: &str) {
        let file = self.notes.add_file(shown);
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        self.push(Frame::File { lines: lines.into_iter(), at: At { file, line: 0 }, directory });
    }

    /// Of the file that is being read: where relative names start.
    fn directory(&self) -> PathBuf {
        let directory = self.frames.iter().rev().find_map(|frame| match frame {
            Frame::File { directory, .. } => Some(directory.clone()),
            Frame::Sequence { .. } | Frame::Definition { .. } => None,
        });
        directory.unwrap_or_default()
    }

    /// Before anything is looked for or read.
    fn may_include(&mut self, word: &str) -> bool {
        let may = self.includes.try_begin();
        if !may {
            self.notes.not_carried(self.at, word, Budget::SPENT);
        }
        may
    }

    /// `false`: it is no include.
    fn include(&mut self, text: &str) -> bool {
        let Some(Include { word, pattern }) = include::parse(text) else { return false };
        if !self.may_include(word) {
            return true;
        }
        let directory = self.directory();
        let found = include::files(self.reader, &directory, pattern);
        for why in found.problems {
            self.notes.not_carried(self.at, word, why);
        }
        // The last one is read last.
        for path in found.paths.into_iter().rev() {
            if !self.may_include(word) {
                break;
            }
            let shown = path.display().to_string();
            match self.reader.read(&path) {
                Ok(bytes) if !self.includes.try_read(bytes.len()) => {
                    self.notes.not_carried(self.at, word, format!("{shown} is too large"));
                }
                Ok(bytes) => self.push_file(&path, shown, &String::from_utf8_lossy(&bytes)),
                Err(why) => {
                    self.notes.not_carried(self.at, word, format!("cannot read {shown}: {why}"));
                }
            }
        }
        true
    }
}

/// Whether the quotes of a line are in pairs.
struct Quotes {
    is_closed: bool,
}

/// `#` and `!` begin a comment outside of double quotes; `\#` and `\!` do not.
fn without_comment(line: &str) -> (String, Quotes) {
    let mut out = String::with_capacity(line.len());
    let mut quoted = false;
    let mut continued = false;
    let mut chars = line.trim_start_matches([' ', '\t']).chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                out.push(c);
            }
            '\\' => match chars.next() {
                Some(next @ ('#' | '!')) if !quoted => out.push(next),
                Some(next) => out.extend([c, next]),
                None => continued = true,
            },
            '#' | '!' if !quoted => break,
            c => out.push(c),
        }
    }
    out.truncate(out.trim_end_matches([' ', '\t']).len());
    if continued {
        out.push('\\');
    }
    (out, Quotes { is_closed: !quoted })
}

/// Up to the first brace outside of double quotes, or that brace; and what stands after.
fn split_at_brace(text: &str) -> (String, Option<String>) {
    let mut quoted = false;
    let brace = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        !quoted && matches!(c, '{' | '}')
    });
    let at = match brace {
        None => return (trimmed(text), None),
        Some((0, _)) => 1,
        Some((at, _)) => at,
    };
    let (line, rest) = text.split_at(at);
    let rest = trimmed(rest);
    (trimmed(line), if rest.is_empty() { None } else { Some(rest) })
}

fn trimmed(text: &str) -> String {
    text.trim_matches([' ', '\t']).to_owned()
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
