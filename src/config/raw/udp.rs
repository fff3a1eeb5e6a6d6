//! `udp = { … }` and the pattern of a reply.

use super::keys::{Scope, unknown_key};
use super::tcp::{bytes, text_or_pattern};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{CheckKind, ReplyPattern, Udp};

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write udp = {}")?;
    let (mut payload, mut pattern, mut required) = (Field::Unset, Field::Unset, Field::Unset);
    let (mut least, mut most) = (Field::<u16>::Unset, Field::<u16>::Unset);
    let length = |cx: &mut Context<'_>, v: Value<'_>| value::integer(cx, v, 1..=65_507);
    for (key, value) in section.entries() {
        match key.name {
            "payload" => payload = value.field(cx, bytes),
            "reply" => pattern = value.field(cx, reply),
            "require_reply" => required = value.field(cx, value::boolean),
            "min_reply" => least = value.field(cx, length),
            "max_reply" => most = value.field(cx, length),
            _ => unknown_key(cx, Scope::Udp, key),
        }
    }
    if let (Some(least), Some(most)) = (least.get(), most.get())
        && least.value > most.value
    {
        let finding = Finding::error(least.place, "`min_reply` is more than `max_reply`");
        cx.push(finding.label(most.place, "the most").remedy("write the smaller number here"));
        return None;
    }
    Some(CheckKind::Udp(Udp {
        payload: payload.sound()?.unwrap_or_default(),
        reply: pattern.sound()?,
        require_reply: required.sound()?.unwrap_or(false),
        min_reply: least.sound()?,
        max_reply: most.sound()?,
    }))
}

/// What the reply begins with: a string, `{ hex = "…" }` with `?` for any half byte; or
/// `{ regex = "…" }`.
fn reply(cx: &mut Context<'_>, value: Value<'_>) -> Option<ReplyPattern> {
    let exactly = |bytes: Vec<u8>| {
        let halves = bytes.into_iter().flat_map(|byte| [Some(byte >> 4), Some(byte & 0x0f)]);
        ReplyPattern::Nibbles(halves.collect())
    };
    let of_hex = |text: &str| nibbles(text).map(ReplyPattern::Nibbles);
    text_or_pattern(cx, value, exactly, of_hex, ReplyPattern::Regex)
}

fn nibbles(text: &str) -> Result<Vec<Option<u8>>, Wrong> {
    let half = |c: char| match c {
        '?' => Some(None),
        _ => c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()).map(Some),
    };
    let halves: Option<Vec<Option<u8>>> = text.chars().filter(|c| *c != ' ').map(half).collect();
    halves.filter(|halves| !halves.is_empty() && halves.len() % 2 == 0).ok_or_else(|| {
        Wrong::new(format!("{} is not hexadecimal", quote(text)))
            .remedy("write two digits for each byte, `?` for any digit, as in \"70 ?? 6e 6?\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_bytes() {
        let any = None;
        assert_eq!(nibbles("7f ??").ok(), Some(vec![Some(7), Some(15), any, any]));
        assert_eq!(nibbles("?A").ok(), Some(vec![any, Some(10)]));
        for bad in ["", " ", "7", "7x", "7f?", "ä0"] {
            assert!(nibbles(bad).is_err(), "{bad}");
        }
    }
}
