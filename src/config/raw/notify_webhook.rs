//! `[[daemon.notify.webhook]]`.

use std::collections::BTreeSet;

use http::Uri;

use super::headers::{header_value, is_token};
use super::keys::{Scope, unknown_key};
use super::notify_mail::{TIMEOUT_MINIMUM, events};
use super::{Field, Value, tables, tls};
use crate::config::context::{Context, Section};
use crate::config::defaults;
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::{secret, value};
use crate::engine::model::{Endpoint, EventKind, HeaderText, Secret, Tls, Webhook, WebhookUrl};

/// Written by lvsd itself.
const OWN: [&str; 5] = ["host", "content-type", "content-length", "transfer-encoding", "connection"];

/// A URL before its `tls` is known.
#[derive(Clone)]
struct Target {
    is_https: bool,
    server: Endpoint,
    authority: String,
    path: String,
}

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<Webhook>> {
    let mut webhooks: Vec<Webhook> = Vec::new();
    let mut all_good = true;
    for section in tables(cx, value, "write [[daemon.notify.webhook]]")? {
        match one(cx, section) {
            Some(webhook) if webhooks.iter().any(|other| other.url == webhook.url) => {
                let finding = Finding::error(section.place, "there are two webhooks with this URL");
                cx.push(finding.remedy("remove one of them: each would be told the same"));
                all_good = false;
            }
            Some(webhook) => webhooks.push(webhook),
            None => all_good = false,
        }
    }
    all_good.then_some(webhooks)
}

fn one(cx: &mut Context<'_>, section: Section<'_>) -> Option<Webhook> {
    let (mut url, mut headers, mut tls) = (Field::Unset, Field::Unset, Field::Unset);
    let (mut timeout, mut kinds) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "url" => url = value.field(cx, |cx, v| value::parsed(cx, v, self::url)),
            "headers" => headers = value.field(cx, self::headers),
            "timeout" => timeout = value.field(cx, |cx, v| value::duration(cx, v, TIMEOUT_MINIMUM)),
            "tls" => tls = value.field(cx, self::tls),
            "events" => kinds = value.field(cx, events),
            _ => unknown_key(cx, Scope::Webhook, key),
        }
    }
    if url.is_unset() {
        let finding = Finding::error(section.place, "a webhook needs `url`");
        cx.push_missing(finding.remedy("write url = \"https://hooks.example.org/lvsd\""));
    }
    let target: Target = url.sound()??;
    if let (false, Some(place)) = (target.is_https, tls.place()) {
        let finding = Finding::error(place, "`tls` is for a URL that begins with https");
        cx.push(finding.remedy("write https://… in `url`, or remove `tls`"));
        return None;
    }
    let tls = tls.sound()?;
    let Target { is_https, server, authority, path } = target;
    let tls = is_https.then(|| tls.unwrap_or_else(tls::verified));
    Some(Webhook {
        url: WebhookUrl { server, tls, authority, path: Secret(path) },
        headers: headers.sound()?.unwrap_or_default(),
        timeout: timeout.sound()?.unwrap_or(defaults::WEBHOOK_TIMEOUT),
        events: kinds.sound()?.unwrap_or_else(|| BTreeSet::from(EventKind::ALL)),
    })
}

/// What is wrong is said without the URL itself, which may be a secret.
fn url(text: &str) -> Result<Target, Wrong> {
    let wrong = |why: &str| Wrong::new(why).remedy("write it as \"https://hooks.example.org/lvsd\"");
    let uri: Uri = text.parse().map_err(|_| wrong("this is not a URL"))?;
    let is_https = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        Some(_) | None => return Err(wrong("the URL must begin with http:// or https://")),
    };
    let (Some(authority), Some(host)) = (uri.authority(), uri.host().filter(|host| !host.is_empty())) else {
        return Err(wrong("the URL names no server"));
    };
    if authority.as_str().contains('@') {
        let why = Wrong::new("a user and a password cannot stand in the URL");
        return Err(why.remedy("write headers = { Authorization = { file = \"/etc/lvsd/webhook-token\" } }"));
    }
    if text.contains('#') {
        return Err(Wrong::new("what follows # is not sent to a server").remedy("remove it"));
    }
    let usual = if is_https { 443 } else { 80 };
    let port = match authority.as_str().strip_prefix(host) {
        Some("") => usual,
        Some(_) | None => match uri.port_u16() {
            Some(port) if port != 0 => port,
            Some(_) | None => return Err(wrong("the URL has no port from 1 to 65535 behind its colon")),
        },
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Ok(Target {
        is_https,
        server: Endpoint { host: bare.to_owned(), port },
        authority: if port == usual { host.to_owned() } else { format!("{host}:{port}") },
        path: path.to_owned(),
    })
}

/// HTTP/1.1 is what is spoken.
fn tls(cx: &mut Context<'_>, value: Value<'_>) -> Option<Tls> {
    let tls = tls::read(cx, value)?;
    if !tls.alpn.is_empty() {
        let finding = Finding::error(value.place, "webhooks speak HTTP/1.1: `alpn` cannot be used");
        cx.push(finding.remedy("remove `alpn`"));
        return None;
    }
    Some(tls)
}

fn headers(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<(String, HeaderText)>> {
    let section = value::table(cx, value, "write headers = { X-Site = \"north\" }")?;
    let mut headers = Vec::new();
    let mut all_good = true;
    for (key, value) in section.entries() {
        let own = OWN.iter().any(|own| key.name.eq_ignore_ascii_case(own));
        let wrong = if own {
            Some((format!("the header {} is written by lvsd", quote(key.name)), "remove it"))
        } else if key.name.is_empty() || !key.name.bytes().all(is_token) {
            let message = format!("{} is not the name of a header", quote(key.name));
            Some((message, "write letters, digits and `-`"))
        } else {
            None
        };
        if let Some((message, remedy)) = wrong {
            cx.push(Finding::error(key.place, message).remedy(remedy));
            all_good = false;
            continue;
        }
        match header_text(cx, value) {
            Some(text) => headers.push((key.name.to_owned(), text)),
            None => all_good = false,
        }
    }
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    all_good.then_some(headers)
}

/// A text, or `{ file = "…", prefix = "Bearer " }`.
fn header_text(cx: &mut Context<'_>, value: Value<'_>) -> Option<HeaderText> {
    if value.node.is_str() {
        let text = value::parsed(cx, value, header_value)?;
        return Some(HeaderText::Written(Secret(text)));
    }
    let section = value::table(cx, value, "write a text, or { file = \"/etc/lvsd/webhook-token\" }")?;
    let (mut file, mut prefix) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "file" => file = value.field(cx, secret::file),
            "prefix" => prefix = value.field(cx, |cx, v| value::parsed(cx, v, self::prefix)),
            _ => unknown_key(cx, Scope::HeaderFile, key),
        }
    }
    if file.is_unset() {
        let finding = Finding::error(value.place, format!("`{}` has no `file`", value.key));
        cx.push_missing(finding.remedy("write file = \"/etc/lvsd/webhook-token\""));
    }
    Some(HeaderText::File { path: file.sound()??, prefix: prefix.sound()?.unwrap_or_default() })
}

/// Blanks at its end are meant.
fn prefix(text: &str) -> Result<String, Wrong> {
    match text.bytes().all(|b| (b' '..0x7f).contains(&b)) && !text.starts_with(' ') {
        true => Ok(text.to_owned()),
        false => Err(Wrong::new(format!("{} cannot begin a header", quote(text)))
            .remedy("write plain text, as in \"Bearer \"")),
    }
}
