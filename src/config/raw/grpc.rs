//! `grpc = { … }`.

use super::keys::{Scope, unknown_key};
use super::{Field, Value, tls};
use crate::config::context::{At, Context};
use crate::config::diagnostics::Finding;
use crate::config::text::Wrong;
use crate::config::value;
use crate::engine::model::{CheckKind, Grpc, Tls};

/// The protocol's name in TLS, RFC 9113 section 3.2.
const H2: &str = "h2";

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write grpc = {}")?;
    let (mut service, mut tls) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "service" => service = value.field(cx, |cx, v| value::parsed(cx, v, name)),
            "tls" => tls = value.field(cx, tls::read),
            _ => unknown_key(cx, Scope::Grpc, key),
        }
    }
    let tls = match tls {
        Field::Set(tls) => Some(over_http2(cx, tls)?),
        Field::Unset => None,
        Field::Broken => return None,
    };
    Some(CheckKind::Grpc(Grpc { service: service.sound()?.unwrap_or_default(), tls }))
}

fn over_http2(cx: &mut Context<'_>, tls: At<Tls>) -> Option<Tls> {
    let mut setting = tls.value;
    if setting.alpn.is_empty() {
        setting.alpn.push(H2.to_owned());
    }
    if !setting.alpn.iter().any(|protocol| protocol == H2) {
        let finding = Finding::error(tls.place, "`alpn` lacks \"h2\", and gRPC has only HTTP/2");
        cx.push(finding.remedy("remove `alpn`, or write alpn = [\"h2\"]"));
        return None;
    }
    Some(setting)
}

/// `package.Service` by custom; servers take any text. Empty is the server as a whole.
fn name(text: &str) -> Result<String, Wrong> {
    match text.len() {
        0..=1024 => Ok(text.to_owned()),
        _ => Err(Wrong::new("is longer than 1024 bytes").remedy("write a name as \"package.Service\"")),
    }
}
