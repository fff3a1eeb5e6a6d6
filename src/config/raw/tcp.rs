//! `tcp = { … }` with its dialogues, and texts that can be bytes or patterns.

use toml::de::DeValue;

use super::keys::{Scope, unknown_key};
use super::{Field, Value, only_one, tls};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{CheckKind, Exchange, Expect, Pattern, Tcp};

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write tcp = {}")?;
    let (mut send, mut wanted, mut tls) = (Field::Unset, Field::Unset, Field::Unset);
    let mut dialogue = Field::Unset;
    let mut single = None;
    for (key, value) in section.entries() {
        match key.name {
            "send" => {
                send = value.field(cx, bytes);
                single = Some(key);
            }
            "expect" => {
                wanted = value.field(cx, expect);
                single = Some(key);
            }
            "dialogue" => dialogue = value.field(cx, steps),
            "tls" => tls = value.field(cx, tls::read),
            _ => unknown_key(cx, Scope::Tcp, key),
        }
    }
    if let (Some(single), true) = (single, dialogue.is_written()) {
        let message = format!("`{}` cannot stand beside `dialogue`", single.name);
        cx.push(Finding::error(single.place, message).remedy("make it a step of the dialogue"));
        return None;
    }
    let dialogue = dialogue.sound()?.unwrap_or_default();
    Some(CheckKind::Tcp(Tcp { send: send.sound()?, expect: wanted.sound()?, dialogue, tls: tls.sound()? }))
}

/// `[{ expect, send }, …]`
fn steps(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<Exchange>> {
    let steps = value::list(cx, value, step)?;
    if steps.is_empty() {
        let why = Wrong::new("has no step");
        return value::wrong(cx, value, why.remedy("write [{ expect = \"…\", send = \"…\" }], or remove it"));
    }
    Some(steps.into_iter().map(|step| step.value).collect())
}

fn step(cx: &mut Context<'_>, value: Value<'_>) -> Option<Exchange> {
    const REMEDY: &str = "write { expect = \"…\", send = \"…\" }, or one of them";
    let section = value::table(cx, value, REMEDY)?;
    let (mut wanted, mut send) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "expect" => wanted = value.field(cx, expect),
            "send" => send = value.field(cx, bytes),
            _ => unknown_key(cx, Scope::Dialogue, key),
        }
    }
    if wanted.is_unset() && send.is_unset() {
        let finding = Finding::error(value.place, "a step of `dialogue` has neither `expect` nor `send`");
        cx.push_missing(finding.remedy(REMEDY));
        return None;
    }
    Some(Exchange { expect: wanted.sound()?, send: send.sound()? })
}

/// A string, or `{ hex = "…" }`.
pub(super) fn bytes(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<u8>> {
    match expect(cx, value)? {
        Expect::Bytes(bytes) => Some(bytes),
        Expect::Regex(_) => {
            let why = Wrong::new("a pattern cannot be sent");
            value::wrong(cx, value, why.remedy("write a string or { hex = \"…\" }"))
        }
    }
}

fn expect(cx: &mut Context<'_>, value: Value<'_>) -> Option<Expect> {
    text_or_pattern(cx, value, Expect::Bytes, |text| hex(text).map(Expect::Bytes), Expect::Regex)
}

/// A string, `{ hex = "…" }` or `{ regex = "…" }`, each as what it means to the key.
pub(super) fn text_or_pattern<T>(
    cx: &mut Context<'_>,
    value: Value<'_>,
    of_text: impl FnOnce(Vec<u8>) -> T,
    of_hex: impl Fn(&str) -> Result<T, Wrong>,
    of_pattern: impl Fn(Pattern) -> T,
) -> Option<T> {
    match value.node {
        DeValue::String(_) => value::parsed(cx, value, text).map(of_text),
        DeValue::Table(_) => {
            let section = value::table(cx, value, "write { hex = \"…\" }")?;
            let mut found = Vec::new();
            for (key, value) in section.entries() {
                match key.name {
                    "hex" => found.push((key.place, value.field(cx, |cx, v| value::parsed(cx, v, &of_hex)))),
                    "regex" => found.push((
                        key.place,
                        value.field(cx, |cx, v| value::parsed(cx, v, pattern).map(&of_pattern)),
                    )),
                    _ => unknown_key(cx, Scope::Expect, key),
                }
            }
            only_one(cx, value.place, "`hex` or `regex`", found)
        }
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => {
            value::wrong_type(cx, value, "a string or { hex = \"…\" }", "write a text in quotes")
        }
    }
}

/// Text that must be found: an empty one always is.
pub(super) fn text(text: &str) -> Result<Vec<u8>, Wrong> {
    match text {
        "" => Err(Wrong::new("must not be empty").remedy("write a text, or remove the line")),
        _ => Ok(text.as_bytes().to_vec()),
    }
}

pub(super) fn hex(text: &str) -> Result<Vec<u8>, Wrong> {
    let refuse = || {
        Wrong::new(format!("{} is not hexadecimal", quote(text)))
            .remedy("write two digits for each byte, as in \"70 69 6e 67\"")
    };
    let digits: Option<Vec<u8>> = text
        .bytes()
        .filter(|b| *b != b' ')
        .map(|b| char::from(b).to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len() % 2 == 0).ok_or_else(refuse)?;
    Ok(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

/// A pattern that compiles, within bounds.
pub(super) fn pattern(source: &str) -> Result<Pattern, Wrong> {
    let compiled = regex::bytes::RegexBuilder::new(source).size_limit(Pattern::SIZE_LIMIT).build();
    match compiled {
        Ok(_) => Ok(Pattern::new_compiled(source.to_owned())),
        Err(regex::Error::CompiledTooBig(_)) => {
            Err(Wrong::new(format!("{} is too large once compiled", quote(source)))
                .remedy("write a smaller repetition count"))
        }
        Err(why) => {
            // The last line says why; those before draw the pattern.
            let why = why.to_string();
            let reason = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(Wrong::new(format!("{} is not a pattern: {reason}", quote(source)))
                .remedy("write a regular expression as the regex crate takes it; in single quotes a backslash is itself"))
        }
    }
}
