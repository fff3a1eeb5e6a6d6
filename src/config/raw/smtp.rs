//! `smtp = { … }`.

use super::keys::{Scope, unknown_key};
use super::{Field, Value, tls};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{CheckKind, Smtp, SmtpTls};

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write smtp = {}")?;
    let (mut helo, mut starttls, mut tls) = (Field::Unset, Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "helo" => helo = value.field(cx, |cx, v| value::parsed(cx, v, name)),
            "starttls" => starttls = value.field(cx, value::boolean),
            "tls" => tls = value.field(cx, tls::read),
            _ => unknown_key(cx, Scope::Smtp, key),
        }
    }
    let alpn = tls.get().is_some_and(|tls| !tls.value.alpn.is_empty());
    let on = starttls.get().filter(|starttls| starttls.value);
    if let (Some(starttls), Some(place), true) = (on, tls.place(), alpn) {
        let finding = Finding::error(place, "STARTTLS has agreed on its protocol: `alpn` cannot be used");
        cx.push(finding.label(starttls.place, "asked for here").remedy("remove `alpn`"));
        return None;
    }
    let starttls = starttls.sound()?.unwrap_or(false);
    let tls = match (starttls, tls.sound()?) {
        (true, tls) => Some(SmtpTls::StartTls(tls.unwrap_or_else(tls::verified))),
        (false, Some(tls)) => Some(SmtpTls::Implicit(tls)),
        (false, None) => None,
    };
    Some(CheckKind::Smtp(Smtp { helo: helo.sound()?, tls }))
}

/// RFC 5321 section 4.1.1.1: a domain, or an address in brackets.
fn name(text: &str) -> Result<String, Wrong> {
    let fits = (1..=255).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
    match fits {
        true => Ok(text.to_owned()),
        false => {
            Err(Wrong::new(format!("{} is neither a host name nor an address in brackets", quote(text)))
                .remedy("write this host's name as \"lvs1.example.org\", or \"[192.0.2.1]\""))
        }
    }
}
