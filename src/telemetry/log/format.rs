//! A record as bytes: a journal entry, a plain line, or a line of JSON. Pure.
//!
//! The journal and JSON carry the fields of a record apart from its message, for queries such as
//! `journalctl -u lvsd REAL_SERVER=198.51.100.11:80`. A plain line has the message, then those of the fields that it
//! does not say already, as `name=value`.

use std::fmt::Write as _;

use tracing::Level;

use super::record::{Fields, Value};
use crate::shown::{moves_others, plain_json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The native protocol of systemd-journald, one entry.
    Journal,
    Plain,
    /// Plain, with the level in colour.
    Coloured,
    Json,
}

/// What a record has besides its words.
#[derive(Clone, Debug)]
pub(super) struct Head<'a> {
    /// RFC 3339; the journal stamps its entries itself.
    pub(super) time: &'a str,
    pub(super) level: Level,
    pub(super) target: &'a str,
    pub(super) place: Option<(&'a str, u32)>,
}

/// Bytes of an entry. Well under a socket's default send buffer (212,992), so that no entry
/// needs the detour by a sealed memory file.
pub(super) const MAX_ENTRY: usize = 96 * 1024;
/// Bytes of the words of a record.
const MAX_WORDS: usize = 32 * 1024;

pub(super) fn encode(format: Format, head: &Head<'_>, fields: &Fields) -> Vec<u8> {
    match format {
        Format::Journal => journal(head, fields),
        Format::Plain => plain(head, fields, level_name(head.level)),
        Format::Coloured => plain(head, fields, coloured(head.level)),
        Format::Json => json(head, fields),
    }
}

/// Names that the journal or JSON uses for something else.
const RESERVED: [&str; 9] = [
    "MESSAGE",
    "PRIORITY",
    "SYSLOG_IDENTIFIER",
    "CODE_FILE",
    "CODE_LINE",
    "TARGET",
    "TIMESTAMP",
    "LEVEL",
    "MESSAGE_ID",
];

/// As journald takes it: capitals, digits and `_`, no digit or `_` in front, at most 64 bytes.
fn journal_name(name: &str) -> String {
    let mut out: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if !out.starts_with(|c: char| c.is_ascii_uppercase()) || RESERVED.contains(&out.as_str()) {
        out.insert_str(0, "LVSD_");
    }
    out.truncate(64);
    out
}

fn journal(head: &Head<'_>, fields: &Fields) -> Vec<u8> {
    // syslog's levels: err, warning, info, debug.
    let priority = match head.level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    };
    let mut entry = Vec::with_capacity(512);
    append(&mut entry, "PRIORITY", priority);
    append(&mut entry, "SYSLOG_IDENTIFIER", "lvsd");
    append(&mut entry, "TARGET", head.target);
    if let Some((file, line)) = head.place {
        append(&mut entry, "CODE_FILE", file);
        append(&mut entry, "CODE_LINE", &line.to_string());
    }
    // A record of fields alone has no other words.
    let text = if fields.message.is_empty() { words(fields) } else { bounded(message(fields)) };
    append(&mut entry, "MESSAGE", &text);
    for (name, value) in &fields.named {
        append(&mut entry, &journal_name(name), &value.to_string());
    }
    entry
}

/// `NAME=value`, or for a value with line breaks the name, its length as 64 bits little-endian,
/// and its bytes. What would make the entry too long is left out.
fn append(entry: &mut Vec<u8>, name: &str, value: &str) {
    if entry.len() + name.len() + value.len() + 10 > MAX_ENTRY {
        return;
    }
    entry.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

fn plain(head: &Head<'_>, fields: &Fields, level: &str) -> Vec<u8> {
    let mut line = format!("{} {level} ", head.time);
    // Only a new record begins at the first column, whatever a message contains.
    line.push_str(&words(fields).trim_end().replace('\n', "\n    "));
    line.push('\n');
    line.into_bytes()
}

fn json(head: &Head<'_>, fields: &Fields) -> Vec<u8> {
    let mut line = format!(
        r#"{{"timestamp":{},"level":{},"target":{},"message":{}"#,
        quoted(head.time),
        quoted(level_name(head.level).trim_end()),
        quoted(head.target),
        quoted(&fields.message)
    );
    for (name, value) in &fields.named {
        if line.len() > MAX_ENTRY {
            break;
        }
        let prefix = if RESERVED.iter().any(|r| r.eq_ignore_ascii_case(name)) { "lvsd_" } else { "" };
        let _infallible = write!(line, ",{}:", quoted(&format!("{prefix}{name}")));
        let _infallible = match value {
            Value::Text(text) => write!(line, "{}", quoted(text)),
            // JSON has no words for what is not finite.
            Value::Float(number) if !number.is_finite() => write!(line, "\"{number}\""),
            Value::Signed(_) | Value::Unsigned(_) | Value::Float(_) | Value::Bool(_) => {
                write!(line, "{value}")
            }
        };
    }
    line.push_str("}\n");
    line.into_bytes()
}

fn quoted(text: &str) -> String {
    plain_json(&serde_json::Value::from(text).to_string())
}

/// The message alone. Control characters are shown, never sent: they may come from a server's reply, and the reader
/// may be a terminal. Line breaks stay.
fn message(fields: &Fields) -> String {
    let mut out = String::with_capacity(fields.message.len() + 32 * fields.named.len());
    for c in fields.message.chars() {
        push_shown(&mut out, c, c == '\n');
    }
    out
}

/// The message and its fields, likewise.
fn words(fields: &Fields) -> String {
    let mut out = message(fields);
    for (name, value) in &fields.named {
        let text = value.to_string();
        if !text.is_empty() && fields.message.contains(&text) {
            continue;
        }
        let separator = if out.is_empty() { "" } else { " " };
        let _infallible = write!(out, "{separator}{name}=");
        let plain =
            !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !moves_others(c) && c != '"');
        if plain {
            out.push_str(&text);
        } else {
            out.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                push_shown(&mut out, c, false);
            }
            out.push('"');
        }
        if out.len() > MAX_WORDS {
            break;
        }
    }
    bounded(out)
}

fn bounded(mut words: String) -> String {
    if words.len() > MAX_WORDS {
        words.truncate(words.floor_char_boundary(MAX_WORDS));
        words.push('…');
    }
    words
}

fn push_shown(out: &mut String, c: char, as_it_is: bool) {
    if as_it_is || !moves_others(c) {
        out.push(c);
    } else {
        out.extend(c.escape_default());
    }
}

/// Five columns.
fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARN ",
        Level::INFO => "INFO ",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

fn coloured(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31mERROR\u{1b}[0m",
        Level::WARN => "\u{1b}[33mWARN \u{1b}[0m",
        Level::INFO => "\u{1b}[32mINFO \u{1b}[0m",
        Level::DEBUG => "\u{1b}[34mDEBUG\u{1b}[0m",
        Level::TRACE => "\u{1b}[35mTRACE\u{1b}[0m",
    }
}

#[cfg(test)]
mod tests;
