//! Where the text of a file may hold a secret: values that diagnostics must not show.
//!
//! Found in the text itself and not in what was parsed of it, since a mistake of syntax is shown, too. In
//! doubt more is concealed: brackets that nothing closes, strings without an end, what looks like the
//! name of a secret and is no key at all. Knows the names of keys, and nothing of what they mean.

mod words;

use std::ops::Range;

use super::raw;
use super::text::closest;
use crate::engine::model::may_hold_a_secret;

pub(super) use words::words;

/// Keys whose values go to a server or a receiver, which may take them as proof of who asks.
pub(super) const KEYS: [&str; 5] = ["url", "headers", "request_body", "send", "payload"];

/// Keys whose values are programs with their arguments. These may be secrets: any user of the host can see them while
/// the program runs, but readers of logs need not. The program itself is shown.
const PROGRAMS: [&str; 7] = ["argv", "notify_up", "notify_down", "quorum_up", "quorum_down", "start", "stop"];
/// The same, unless its value is a table with an `argv`.
const SCRIPT: &str = "script";

/// Its value is a URL's or a file's. Of a URL some parts may be secrets, and whatever it is a value of: see
/// [`may_hold_a_secret`].
const PATH: &str = "path";

/// Words for what should not stand in the file at all, but may.
const WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "authorization",
    "apikey",
    "credential",
    "cookie",
];
const WHOLE_WORDS: [&str; 6] = ["pass", "pw", "auth", "login", "bearer", "key_data"];

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    if KEYS.contains(&name.as_str()) || PROGRAMS.contains(&name.as_str()) || name == SCRIPT {
        return true;
    }
    if raw::is_key(&name) || name.ends_with("_file") {
        return false;
    }
    let plain = name.replace(['_', '-'], "");
    WHOLE_WORDS.contains(&name.as_str())
        || WORDS.iter().any(|word| plain.contains(word))
        || KEYS.iter().any(|key| key.len() > 3 && name.ends_with(key))
        || closest(&name, KEYS).is_some()
        || closest(&name, PROGRAMS.into_iter().chain([SCRIPT])).is_some()
        || WORDS.iter().any(|word| word.len() == name.len() + 1 && closest(&name, [*word]).is_some())
}

fn names_a_secret(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').any(is_secret)
}

/// Byte ranges, in order, that do not touch: what stands between the quotes, or the rest of a line.
pub(super) fn ranges(text: &str) -> Vec<Range<usize>> {
    let mut scan = Scan { text, ..Scan::default() };
    while let Some(byte) = scan.peek() {
        scan.take(byte);
    }
    scan.found
}

/// What came last, without blanks and comments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Last {
    /// The beginning of a line or of a table's element: a key may follow.
    #[default]
    Edge,
    Key,
    Dot,
    Equals,
    Value,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    is_table: bool,
    is_secret: bool,
    /// A program comes next, and then its arguments.
    is_program: bool,
}

#[derive(Debug, Default)]
struct Scan<'a> {
    text: &'a str,
    at: usize,
    found: Vec<Range<usize>>,
    /// All values of the table are secret: `[check.http.headers]`.
    in_secret_table: bool,
    frames: Vec<Frame>,
    /// Of the key that was read last.
    is_secret: bool,
    is_path: bool,
    is_script: bool,
    is_program: bool,
    last: Last,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// To the end of the line, without it.
    fn line(&self) -> &'a str {
        let rest = self.rest();
        rest.split_once('\n').map_or(rest, |(line, _)| line)
    }

    fn take(&mut self, next: char) {
        match next {
            '\n' => self.end_line(),
            '#' => self.comment(),
            '=' | ':' if self.last != Last::Value => self.step(1, Last::Equals),
            '.' if self.last == Last::Key => self.step(1, Last::Dot),
            '"' | '\'' => self.string(next),
            '[' if self.is_header() => self.header(),
            '{' | '[' => {
                // Without a key in front of it, nobody knows whose it is.
                let is_lost = self.last == Last::Edge && !self.frames.is_empty();
                let is_table_of_script = self.is_script && next == '{';
                let is_secret = (self.is_secret && !is_table_of_script) || self.is_inside() || is_lost;
                let is_program =
                    self.is_program && self.last == Last::Equals && next == '[' && !self.is_inside();
                self.is_program = false;
                self.frames.push(Frame { is_table: next == '{', is_secret, is_program });
                self.is_secret = is_secret;
                self.step(1, if next == '{' { Last::Edge } else { Last::Equals });
            }
            '}' | ']' => {
                if self.frames.pop().is_none() && self.last == Last::Key {
                    // The end of a table's name, without its beginning.
                    self.in_secret_table = self.is_secret;
                }
                self.step(1, Last::Value);
            }
            ',' if self.is_secret && (self.frames.is_empty() || self.last != Last::Value) => self.at += 1,
            ',' => {
                self.is_past_the_program();
                let in_array = self.frames.last().is_some_and(|frame| !frame.is_table);
                self.is_secret = self.is_inside();
                self.step(1, if in_array { Last::Equals } else { Last::Edge });
            }
            _ if next.is_whitespace() => self.at += next.len_utf8(),
            // In no key, number or the like: a string without its beginning, or what is left of one.
            _ if self.token().contains(['?', ';', '@']) || may_hold_a_secret(self.token()) => {
                self.is_secret = true;
                self.bare_value();
            }
            _ if matches!(self.last, Last::Edge | Last::Dot) => self.bare_key(),
            _ if self.is_secret => self.bare_value(),
            // Numbers and the like; or a key before which something is missing.
            _ if !next.is_ascii_digit() && is_secret(self.word()) => self.bare_key(),
            _ => self.step(self.word().len().max(next.len_utf8()), Last::Value),
        }
    }

    fn step(&mut self, by: usize, last: Last) {
        self.at += by;
        self.last = last;
    }

    /// In a table or a list that is secret as a whole.
    fn is_inside(&self) -> bool {
        self.in_secret_table || self.frames.iter().any(|frame| frame.is_secret)
    }

    fn end_line(&mut self) {
        if self.is_secret && self.last == Last::Value {
            self.conceal_what_goes_on();
        }
        self.at += 1;
        // A value may stand in the next line by mistake.
        if self.is_secret && matches!(self.last, Last::Equals | Last::Key) && !begins_something(self.line()) {
            self.last = Last::Equals;
            return;
        }
        self.is_secret = self.is_inside();
        let in_array = self.frames.last().is_some_and(|frame| !frame.is_table);
        self.last = if in_array { Last::Equals } else { Last::Edge };
    }

    fn key(&mut self, name: &str) {
        // `{ file = "…", prefix = "…" }` in the place of a header's text: no header is called so.
        let around = self.frames.iter().filter(|frame| frame.is_secret).count();
        let is_path = name == "file" && around > usize::from(!self.in_secret_table);
        let before = if self.last == Last::Dot { self.is_secret } else { self.is_inside() };
        self.is_secret = is_secret(name) || (before && !is_path);
        self.is_path = name == PATH;
        self.is_script = name == SCRIPT;
        self.is_program = self.is_script || PROGRAMS.contains(&name);
        self.last = Last::Key;
    }

    fn bare_key(&mut self) {
        let name = self.word();
        self.key(name);
        self.at += name.len().max(1);
    }

    fn word(&self) -> &'a str {
        let ends = |c: char| c.is_whitespace() || "=:.,{}[]\"'#".contains(c);
        let rest = self.rest();
        rest.get(..rest.find(ends).unwrap_or(rest.len())).unwrap_or_default()
    }

    /// Up to what can end a value.
    fn token(&self) -> &'a str {
        let rest = self.rest();
        rest.split(|c: char| c.is_whitespace() || ",{}[]\"'#".contains(c)).next().unwrap_or(rest)
    }

    /// What was a value, or holds one still.
    fn comment(&mut self) {
        let line = self.line();
        let is_secret = self.is_secret || names_a_secret(line) || may_hold_a_secret(line);
        if is_secret {
            self.conceal(self.at + 1..self.at + line.trim_end().len());
        }
        self.at += line.len();
        if is_secret && line.contains(['"', '\'']) {
            self.conceal_what_goes_on();
        }
    }

    /// Without quotes nobody can say where it ends.
    fn bare_value(&mut self) {
        self.is_past_the_program();
        let line = self.line().trim_end();
        let end = self.at + line.len();
        self.conceal(self.at..end);
        for _ in line.chars().rev().take_while(|c| matches!(c, '}' | ']')) {
            self.frames.pop();
        }
        self.step(end.saturating_sub(self.at).max(1), Last::Value);
        self.at += self.line().len();
        self.conceal_what_goes_on();
    }

    fn string(&mut self, quote: char) {
        let rest = self.rest();
        let triple = quote.to_string().repeat(3);
        let is_long = rest.starts_with(&triple);
        let width = if is_long { 3 } else { 1 };
        let inner = rest.get(width..).unwrap_or_default();
        let end = closing(inner, quote, is_long);
        let length =
            end.unwrap_or(if is_long { inner.len() } else { inner.find('\n').unwrap_or(inner.len()) });
        let content = self.at + width..self.at + width + length;
        let after = content.end + if end.is_some() { width } else { 0 };
        let follows = self.text.get(after..).unwrap_or_default().trim_start_matches([' ', '\t']);
        let is_key = matches!(self.last, Last::Edge | Last::Dot) && follows.starts_with(['=', '.', ':']);
        if is_key {
            self.key(self.text.get(content).unwrap_or_default());
            self.at = after;
            return;
        }
        let inside = self.text.get(content.clone()).unwrap_or_default();
        if self.is_past_the_program() && end.is_some() && is_program(inside) {
            self.at = after;
            self.last = Last::Value;
            return;
        }
        // In a list nothing is lost.
        let is_lost = self.last == Last::Edge;
        self.is_secret |= may_hold_a_secret(inside)
            || (self.is_path && (inside.contains(['?', ';', '#', '@']) || inside.contains("//")));
        if self.is_secret || (is_lost && !is_long) {
            self.conceal(content);
        } else if is_long && (self.last == Last::Edge || names_a_secret(inside)) {
            // An end that belongs to nothing, or a beginning without its end: what follows is no string.
            return self.step(width, Last::Edge);
        } else if names_a_secret(inside) && inside.contains('=') {
            // Its quotes are those of two others.
            self.is_secret = true;
        }
        self.at = after;
        self.last = Last::Value;
        if self.is_secret && end.is_none() && !is_long {
            self.conceal_what_goes_on();
        }
    }

    /// Was the program still to come in the innermost list?
    fn is_past_the_program(&mut self) -> bool {
        self.frames.last_mut().is_some_and(|frame| std::mem::take(&mut frame.is_program))
    }

    /// Lines behind a string without an end that begin nothing else.
    fn conceal_what_goes_on(&mut self) {
        loop {
            let next = self.at + 1;
            let text = self.text.get(next..).unwrap_or_default();
            let line = text.split_once('\n').map_or(text, |(line, _)| line);
            if begins_something(line) {
                return;
            }
            self.conceal(next..next + line.len());
            self.at = next + line.len();
        }
    }

    fn conceal(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.found.push(range);
        }
    }

    /// `[a.b]`, as a rule at the beginning of a line. Where a bracket before it is open still, it must be a
    /// table that there is: a list in a list may look alike.
    fn is_header(&self) -> bool {
        let before = self.text.get(..self.at).unwrap_or_default();
        let is_first = before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
        let name = self.line().trim_start_matches('[');
        if self.is_secret && self.last == Last::Equals && begins_a_list(self.line()) {
            return false;
        }
        let first = name.split(['.', ']']).next().unwrap_or_default();
        match self.frames.is_empty() {
            true if is_first => self.last == Last::Edge,
            true => self.last == Last::Value && raw::is_root_key(first),
            false => is_first && raw::is_root_key(first),
        }
    }

    fn header(&mut self) {
        let line = self.line();
        let end = line.find([']', '=', '{', '#']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let is_name = !rest.starts_with(['=', '{']);
        if is_name {
            self.in_secret_table = name
                .split(['[', '.', '"', '\'', ' ', '\t', '\r'])
                .any(|part| part != SCRIPT && is_secret(part));
            self.frames.clear();
            self.is_secret = self.in_secret_table;
        }
        let brackets = rest.len() - rest.trim_start_matches(']').len();
        self.step(if is_name { end + brackets } else { 1 }, Last::Edge);
    }
}

/// A path, or what somebody took for one, and nothing beside it.
fn is_program(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// Where a string ends, from its first character.
fn closing(inner: &str, quote: char, is_long: bool) -> Option<usize> {
    let triple = quote.to_string().repeat(3);
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            '\n' if !is_long => return None,
            _ if c == quote && !is_long => return Some(at),
            _ if c == quote && inner.get(at..).is_some_and(|rest| rest.starts_with(&triple)) => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// No more of the value before it.
fn begins_something(line: &str) -> bool {
    let first = line.trim().split(['.', ']', ' ']).next().unwrap_or_default();
    line.trim().is_empty()
        || (first.starts_with('[') && !begins_a_list(line))
        || first.starts_with(['#', '}'])
        || line.trim_start().starts_with(']')
        || raw::is_root_key(first)
        || sets_a_key(line)
}

/// No table is called so.
fn begins_a_list(line: &str) -> bool {
    let rest = line.trim_start().trim_start_matches('[').trim();
    rest.is_empty() || rest.starts_with(['"', '\'', '#'])
}

/// `name = …`, with the beginning of a value.
fn sets_a_key(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.\"' \t".contains(c);
    let name = name.trim();
    let begins = |c: char| c.is_ascii_digit() || "\"'[{tf+-".contains(c);
    !name.is_empty()
        && !name.contains(' ')
        && name.chars().all(is_name)
        && value.trim_start().starts_with(begins)
}

#[cfg(test)]
#[path = "conceal_tests.rs"]
mod tests;
