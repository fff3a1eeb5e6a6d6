//! `[daemon.notify.mail]`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;

use super::keys::{Scope, unknown_key};
use super::{At, Field, Value, tls};
use crate::config::context::{Context, Section};
use crate::config::defaults;
use crate::config::diagnostics::{Finding, Place};
use crate::config::text::{Wrong, quote};
use crate::config::{secret, value};
use crate::engine::model::{Endpoint, EventKind, Login, Mail, SmtpTls};

/// Less is no time for a server to answer in.
pub(super) const TIMEOUT_MINIMUM: Duration = Duration::from_millis(100);
/// What comes within this time is one mail in any case.
const INTERVAL_MINIMUM: Duration = Duration::from_secs(1);

/// A director that starts or stops is told of where it is asked for.
const EVENTS: [EventKind; 6] = [
    EventKind::RealServerUp,
    EventKind::RealServerDown,
    EventKind::QuorumGained,
    EventKind::QuorumLost,
    EventKind::GuardBegan,
    EventKind::GuardEnded,
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    StartTls,
    Implicit,
}

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Mail> {
    let section = value::table(cx, value, "write [daemon.notify.mail]")?;
    let (mut server, mut from, mut to, mut tls) = (Field::Unset, Field::Unset, Field::Unset, Field::Unset);
    let (mut user, mut password_file) = (Field::Unset, Field::Unset);
    let (mut timeout, mut min_interval, mut events) = (Field::Unset, Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "server" => server = value.field(cx, |cx, v| value::parsed(cx, v, endpoint)),
            "from" => from = value.field(cx, |cx, v| value::parsed(cx, v, mailbox)),
            "to" => to = value.field(cx, recipients),
            "tls" => tls = value.field(cx, security),
            "user" => user = value.field(cx, value::line),
            "password_file" => password_file = value.field(cx, secret::file),
            "timeout" => timeout = value.field(cx, |cx, v| value::duration(cx, v, TIMEOUT_MINIMUM)),
            "min_interval" => {
                min_interval = value.field(cx, |cx, v| value::duration(cx, v, INTERVAL_MINIMUM));
            }
            "events" => events = value.field(cx, self::events),
            _ => unknown_key(cx, Scope::Mail, key),
        }
    }
    let missing = [
        ("server", server.is_unset(), "server = \"mail.example.org:25\""),
        ("from", from.is_unset(), "from = \"lvsd@example.org\""),
        ("to", to.is_unset(), "to = [\"ops@example.org\"]"),
    ];
    for (name, _, remedy) in missing.into_iter().filter(|(_, is_missing, _)| *is_missing) {
        let finding = Finding::error(section.place, format!("mail needs `{name}`"));
        cx.push_missing(finding.remedy(format!("write {remedy}")));
    }
    let login = login(cx, user, password_file, &server, &tls);
    let (host, port) = server.sound()??;
    let tls = tls.sound()?.unwrap_or(None);
    let usual = match tls {
        None => 25,
        Some(SmtpTls::StartTls(_)) => 587,
        Some(SmtpTls::Implicit(_)) => 465,
    };
    Some(Mail {
        server: Endpoint { host, port: port.unwrap_or(usual) },
        from: from.sound()??,
        to: to.sound()??,
        tls,
        login: login.sound()?,
        timeout: timeout.sound()?.unwrap_or(defaults::MAIL_TIMEOUT),
        min_interval: min_interval.sound()?.unwrap_or(defaults::MAIL_INTERVAL),
        events: events.sound()?.unwrap_or_else(|| BTreeSet::from(EVENTS)),
    })
}

/// Names of events.
pub(super) fn events(cx: &mut Context<'_>, value: Value<'_>) -> Option<BTreeSet<EventKind>> {
    let words = EventKind::ALL.map(|kind| (kind.name(), kind));
    let list = value::list(cx, value, |cx, v| value::word(cx, v, &words))?;
    if list.is_empty() {
        let why = Wrong::new("names no event");
        return value::wrong(cx, value, why.remedy("name some, or remove `events` for the usual ones"));
    }
    Some(list.into_iter().map(|at: At<EventKind>| at.value).collect())
}

/// `mail.example.org:25`, `[2001:db8::1]:25`, or without the port.
pub(in crate::config) fn endpoint(text: &str) -> Result<(String, Option<u16>), Wrong> {
    let wrong = |why: &str| {
        Err(Wrong::new(format!("{} {why}", quote(text)))
            .remedy("write \"mail.example.org:25\" or \"[2001:db8::25]:25\""))
    };
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => {
            if host.parse::<Ipv6Addr>().is_err() {
                return wrong("has no IPv6 address in its brackets");
            }
            (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some("")))
        }
        None if text.parse::<Ipv6Addr>().is_ok() => return wrong("needs brackets around the address"),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_name = (1..=253).contains(&host.len())
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
        && !host.starts_with(['.', '-']);
    if !is_name && host.parse::<IpAddr>().is_err() {
        return wrong("names no server");
    }
    match port.map(str::parse::<u16>) {
        None => Ok((host.to_owned(), None)),
        Some(Ok(port)) if port != 0 => Ok((host.to_owned(), Some(port))),
        Some(_) => wrong("has no port from 1 to 65535 at its end"),
    }
}

/// `ops@example.org`, `Operators <ops@example.org>`
pub(in crate::config) fn mailbox(text: &str) -> Result<String, Wrong> {
    let one_line = !text.contains(char::is_control);
    match text.parse::<Mailbox>() {
        Ok(_) if one_line => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(Wrong::new(format!("{} is not a mail address", quote(text)))
            .remedy("write \"ops@example.org\" or \"Operators <ops@example.org>\"")),
    }
}

fn recipients(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<String>> {
    let list = value::one_or_more(cx, value, |cx, v| value::parsed(cx, v, mailbox))?;
    if list.is_empty() {
        return value::wrong(cx, value, Wrong::new("names nobody").remedy("write at least one address"));
    }
    Some(list.into_iter().map(|at: At<String>| at.value).collect())
}

/// A word, or a table with the word as its `mode`.
fn security(cx: &mut Context<'_>, value: Value<'_>) -> Option<Option<SmtpTls>> {
    if value.node.is_str() {
        let mode = mode(cx, value)?;
        return Some(of_mode(mode, tls::verified()));
    }
    let section: Section<'_> =
        value::table(cx, value, "write \"starttls\", or { mode = \"starttls\", ca = \"…\" }")?;
    let mut chosen = Field::Unset;
    let read = tls::read_section(cx, section, Scope::MailTls, |cx, name, value| {
        if name == "mode" {
            chosen = value.field(cx, mode);
        }
        name == "mode"
    });
    let Some(mode) = chosen.get().copied() else {
        if chosen.is_unset() {
            let finding = Finding::error(value.place, "`tls` of a mail needs `mode`");
            cx.push_missing(finding.remedy("write mode = \"starttls\" or mode = \"implicit\""));
        }
        return None;
    };
    if mode.value == Mode::None {
        let finding = Finding::error(mode.place, "with mode = \"none\" there is no TLS to be set");
        cx.push(finding.remedy("write \"starttls\" or \"implicit\", or tls = \"none\" without a table"));
        return None;
    }
    Some(of_mode(mode.value, read?))
}

fn mode(cx: &mut Context<'_>, value: Value<'_>) -> Option<Mode> {
    let words = [("none", Mode::None), ("starttls", Mode::StartTls), ("implicit", Mode::Implicit)];
    value::word(cx, value, &words)
}

fn of_mode(mode: Mode, tls: crate::engine::model::Tls) -> Option<SmtpTls> {
    match mode {
        Mode::None => None,
        Mode::StartTls => Some(SmtpTls::StartTls(tls)),
        Mode::Implicit => Some(SmtpTls::Implicit(tls)),
    }
}

/// Both or none, and not in clear text over a network.
fn login(
    cx: &mut Context<'_>,
    user: Field<String>,
    password_file: Field<PathBuf>,
    server: &Field<(String, Option<u16>)>,
    tls: &Field<Option<SmtpTls>>,
) -> Field<Login> {
    let half = |cx: &mut Context<'_>, place: Place, is: &str, missing: &str| {
        let finding = Finding::error(place, format!("`{is}` has no `{missing}`"));
        cx.push_missing(finding.remedy(format!("write `{missing}` as well, or remove this")));
        Field::Broken
    };
    let (user, password_file) = match (user, password_file) {
        (Field::Unset, Field::Unset) => return Field::Unset,
        (Field::Broken, _) | (_, Field::Broken) => return Field::Broken,
        (Field::Set(user), Field::Unset) => return half(cx, user.place, "user", "password_file"),
        (Field::Unset, Field::Set(file)) => return half(cx, file.place, "password_file", "user"),
        (Field::Set(user), Field::Set(file)) => (user, file),
    };
    let is_plain = tls.is_unset() || tls.get().is_some_and(|tls| tls.value.is_none());
    let is_here =
        |host: &str| host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_plain && server.get().is_some_and(|server| !is_here(&server.value.0)) {
        let message = "the password goes over the network in clear text";
        let finding = Finding::warning(password_file.place, message);
        cx.push(finding.remedy("write tls = \"starttls\" or tls = \"implicit\""));
    }
    let value = Login { user: user.value, password_file: password_file.value };
    Field::Set(At { value, place: user.place })
}
