//! `tls = { … }` of any check.

use std::path::PathBuf;

use rustls_pki_types::ServerName;

use super::keys::{Scope, unknown_key};
use super::{At, Field, Section, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::pem::Pem;
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{ClientCertificate, Tls, TlsVersion};

/// `tls = {}`
pub(super) fn verified() -> Tls {
    Tls {
        verify: true,
        ca: None,
        server_name: None,
        client: None,
        min_version: TlsVersion::Tls12,
        alpn: Vec::new(),
    }
}

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Tls> {
    let section = value::table(cx, value, "write tls = {}")?;
    read_section(cx, section, Scope::Tls, |_, _, _| false)
}

/// `other` reads keys that stand in this table beside those of all `tls` tables.
pub(super) fn read_section<'a>(
    cx: &mut Context<'_>,
    section: Section<'a>,
    scope: Scope,
    mut other: impl FnMut(&mut Context<'_>, &str, Value<'a>) -> bool,
) -> Option<Tls> {
    let (mut verify, mut ca, mut server_name) = (Field::Unset, Field::Unset, Field::Unset);
    let (mut certificate, mut key_file) = (Field::Unset, Field::Unset);
    let (mut min_version, mut alpn) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "verify" => verify = value.field(cx, value::boolean),
            "ca" => ca = value.field(cx, |cx, v| pem_file(cx, v, Pem::Certificates)),
            "server_name" => server_name = value.field(cx, |cx, v| value::parsed(cx, v, name)),
            "certificate" => certificate = value.field(cx, |cx, v| pem_file(cx, v, Pem::Certificates)),
            "key" => key_file = value.field(cx, |cx, v| pem_file(cx, v, Pem::Key)),
            "min_version" => {
                let words = [("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];
                min_version = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            "alpn" if scope == Scope::Tls => {
                alpn = value.field(cx, |cx, v| value::list(cx, v, |cx, v| value::parsed(cx, v, protocol)))
            }
            name if other(cx, name, value) => {}
            _ => unknown_key(cx, scope, key),
        }
    }
    warn_unverified(cx, &verify, &ca);
    let client = client(cx, certificate, key_file);
    Some(Tls {
        verify: verify.sound()?.unwrap_or(true),
        ca: ca.sound()?,
        server_name: server_name.sound()?,
        client: client.sound()?,
        min_version: min_version.sound()?.unwrap_or(TlsVersion::Tls12),
        alpn: alpn.sound()?.unwrap_or_default().into_iter().map(|name: At<String>| name.value).collect(),
    })
}

fn warn_unverified(cx: &mut Context<'_>, verify: &Field<bool>, ca: &Field<PathBuf>) {
    let Some(off) = verify.get().filter(|verify| !verify.value) else { return };
    let finding = Finding::warning(off.place, "the server's certificate is not verified");
    cx.push(match ca.place() {
        Some(ca) => {
            finding.label(ca, "and this is not used").remedy("remove `verify = false`, or remove `ca`")
        }
        None => finding.remedy("name the issuers to trust with `ca`, and remove `verify = false`"),
    });
}

/// Both or none.
fn client(
    cx: &mut Context<'_>,
    certificate: Field<PathBuf>,
    key: Field<PathBuf>,
) -> Field<ClientCertificate> {
    let (place, message, missing) = match (certificate, key) {
        (Field::Unset, Field::Unset) => return Field::Unset,
        (Field::Broken, _) | (_, Field::Broken) => return Field::Broken,
        (Field::Set(certificate), Field::Set(key)) => {
            let value = ClientCertificate { certificate: certificate.value, key: key.value };
            return Field::Set(At { value, place: certificate.place });
        }
        (Field::Set(certificate), Field::Unset) => (certificate.place, "`certificate` has no `key`", "key"),
        (Field::Unset, Field::Set(key)) => (key.place, "`key` has no `certificate`", "certificate"),
    };
    let finding = Finding::error(place, message);
    cx.push_missing(finding.remedy(format!("write `{missing}` as well, or remove this")));
    Field::Broken
}

fn pem_file(cx: &mut Context<'_>, value: Value<'_>, wanted: Pem) -> Option<PathBuf> {
    let text = value::line(cx, value)?;
    let path = cx.resolve(&text, value.place);
    match cx.doors().pem.check(&path, wanted) {
        Ok(()) => Some(path),
        Err(why) => {
            let wrong = Wrong::new(format!("{}: {}", cx.shown(&text, value.place), why.why));
            let remedy = why.remedy.unwrap_or_else(|| format!("name a PEM file with {}", wanted.wanted()));
            value::wrong(cx, value, wrong.remedy(remedy))
        }
    }
}

fn name(text: &str) -> Result<String, Wrong> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(Wrong::new(format!("{} is neither a host name nor an address", quote(text)))
            .remedy("write the name in the server's certificate, without a port")),
    }
}

fn protocol(text: &str) -> Result<String, Wrong> {
    // RFC 7301 section 3.1: 1 to 255 bytes.
    match text.len() {
        1..=255 => Ok(text.to_owned()),
        _ => Err(Wrong::new("a protocol name has 1 to 255 bytes").remedy("write names as \"http/1.1\"")),
    }
}
