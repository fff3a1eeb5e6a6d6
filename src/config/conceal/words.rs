//! What a message says of a line that holds a secret.

use super::closing;
use crate::config::raw;

/// `message` without a part of a secret, unless that stands in the name of a key.
fn without(message: &str, part: &str) -> String {
    let mut said = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(part) {
        let (before, behind) = rest.split_at(at);
        let behind = behind.get(part.len()..).unwrap_or_default();
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        let begins = before.rsplit(|c| !is_letter(c)).next().unwrap_or_default();
        let ends = behind.split(|c| !is_letter(c)).next().unwrap_or_default();
        said.push_str(before);
        said.push_str(if raw::is_key(&format!("{begins}{part}{ends}")) { part } else { "…" });
        rest = behind;
    }
    said + rest
}

/// What a message says of a line with a secret: without what it quotes of it. `is_about` the secret itself,
/// all quotes are taken for it, since they may have been written with escapes in the file.
pub(in crate::config) fn words(message: &str, secret: &str, is_about: bool) -> String {
    let mut said = String::new();
    let mut message = message.to_owned();
    for part in secret.lines().filter(|part| part.len() >= 4) {
        message = without(&message, part);
    }
    let mut rest = message.as_str();
    while let Some(open) = rest.find(['"', '`']) {
        let (before, behind) = rest.split_at(open);
        let quote = if behind.starts_with('"') { '"' } else { '`' };
        let inner = behind.get(1..).unwrap_or_default();
        let Some(end) = closing(inner, quote, false) else { break };
        let quoted = inner.get(..end).unwrap_or_default();
        // What is taken for a key, in a remedy.
        let taken = quoted.strip_suffix(" = …").unwrap_or(quoted);
        let plain = taken.trim_end_matches('…').replace("\\\"", "\"").replace("\\\\", "\\");
        let as_written = secret.escape_debug().to_string().contains(taken.trim_end_matches('…'));
        let is_secret =
            (is_about && quote == '"') || (!plain.is_empty() && (as_written || secret.contains(&plain)));
        said.push_str(before);
        said.push(quote);
        said.push_str(if is_secret { "…" } else { quoted });
        said.push(quote);
        rest = inner.get(end + 1..).unwrap_or_default();
    }
    said + rest
}
