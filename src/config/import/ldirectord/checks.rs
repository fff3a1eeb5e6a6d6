//! `checktype`: which checks a real server gets, how often, and with which deadline. What a
//! negotiated check says is in `services`.

use std::net::IpAddr;

use super::address::{bracketed, service_port};
use super::lines::Directive;
use super::pool::Virtual;
use super::services;
use super::settings::{Global, seconds};
use crate::config::import::document::{Check, Table, Value};
use crate::config::import::notes::Notes;

/// More connects between two negotiated checks than anybody wants.
const MOST_CONNECTS: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckType {
    Negotiate,
    Connect,
    /// So many connects for each negotiated check.
    Combined(u64),
    Ping,
    External,
    ExternalPerl,
    Off,
    On,
}

impl CheckType {
    pub(super) fn read(directive: &Directive) -> Option<Self> {
        match directive.value.split_whitespace().next()? {
            "negotiate" => Some(Self::Negotiate),
            "connect" => Some(Self::Connect),
            "ping" => Some(Self::Ping),
            "external" => Some(Self::External),
            "external-perl" => Some(Self::ExternalPerl),
            "off" => Some(Self::Off),
            "on" => Some(Self::On),
            _ => directive.number().map(|count| Self::Combined(count.min(MOST_CONNECTS))),
        }
    }
}

/// One real server, as its checks see it.
pub(super) struct Target<'a> {
    pub(super) address: IpAddr,
    pub(super) port: Option<u16>,
    pub(super) request: &'a str,
    pub(super) receive: &'a str,
    /// Of the line that says so.
    pub(super) directive: &'a Directive,
}

/// Empty: always alive.
pub(super) fn of_server(vs: &Virtual, global: &Global, target: &Target<'_>, notes: &mut Notes) -> Vec<Check> {
    let mut checks = match &vs.check_type {
        CheckType::On | CheckType::Off => Vec::new(),
        CheckType::Negotiate => negotiate(vs, global, target, notes).into_iter().collect(),
        CheckType::Connect if vs.protocol == "udp" => vec![ping(vs, global)],
        CheckType::Connect => vec![connect(vs, global)],
        CheckType::Ping => vec![ping(vs, global)],
        CheckType::External | CheckType::ExternalPerl => {
            external(vs, global, target, notes).into_iter().collect()
        }
        CheckType::Combined(connects) => {
            let mut negotiated = negotiate(vs, global, target, notes);
            if let Some(check) = &mut negotiated {
                let interval = vs.interval(global).saturating_mul(connects + 1);
                check.common.set("delay_loop", seconds(interval));
            }
            negotiated.into_iter().chain([connect(vs, global)]).collect()
        }
    };
    for check in &mut checks {
        if matches!(check.kind, "script" | "ping") {
            continue;
        }
        // ldirectord's order: checkport, the server's port, that of the protocol.
        let port = vs.checkport.or(if target.port.is_some() { None } else { service_port(&vs.service) });
        match port {
            Some(port) => check.common.set("connect_port", port),
            None if target.port.is_none() && vs.port.is_none() => {
                let why = "there is no port to connect to: neither checkport, nor the server's, nor a known service; the server is pinged instead";
                let comment = notes.not_carried(target.directive.at, "checktype", why);
                *check = ping(vs, global);
                check.comments.push(comment);
            }
            None => {}
        }
    }
    checks.dedup_by(|one, other| one.kind == other.kind && one.options == other.options);
    checks.extend(maintenance(vs, global, target));
    checks
}

/// A check with its timing.
pub(super) fn check(
    vs: &Virtual,
    global: &Global,
    name: &str,
    kind: &'static str,
    timeout: std::time::Duration,
) -> Check {
    let mut common = Table::default();
    common.set("delay_loop", seconds(vs.interval(global)));
    common.set("delay_before_retry", seconds(vs.interval(global)));
    common.set("timeout", timeout);
    let failures = vs.knobs.failurecount.map_or(global.knobs.failures(), |_| vs.knobs.failures());
    common.set("retry", failures - 1);
    common.set("alpha", true);
    Check { name: name.to_owned(), comments: Vec::new(), common, kind, options: Table::default() }
}

fn connect(vs: &Virtual, global: &Global) -> Check {
    check(vs, global, "connect", "tcp", vs.knobs.check_timeout(&global.knobs))
}

fn negotiate(vs: &Virtual, global: &Global, target: &Target<'_>, notes: &mut Notes) -> Option<Check> {
    let base = check(vs, global, &vs.service, "tcp", vs.knobs.negotiate_timeout(&global.knobs));
    services::negotiated(base, vs, target, notes)
}

fn ping(vs: &Virtual, global: &Global) -> Check {
    let mut ping = check(vs, global, "ping", "ping", vs.knobs.check_timeout(&global.knobs));
    // ldirectord pings so often within one check.
    let pings = vs.knobs.checkcount.or(global.knobs.checkcount).unwrap_or(1);
    if pings > 1 && ping.common.value("retry") == Some(&Value::Integer(0)) {
        ping.common.set("retry", i64::try_from(pings - 1).unwrap_or(i64::MAX).min(i64::from(u32::MAX)));
        ping.common.set("delay_before_retry", std::time::Duration::ZERO);
    }
    ping
}

fn external(vs: &Virtual, global: &Global, target: &Target<'_>, notes: &mut Notes) -> Option<Check> {
    let mut script = check(vs, global, "external", "script", vs.knobs.check_timeout(&global.knobs));
    let (command, at) = match &vs.check_command {
        Some(directive) => (directive.unquoted(), directive.at),
        None => ("/bin/true", vs.at),
    };
    let mut argv: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if !argv.first().is_some_and(|program| program.starts_with('/')) || command.contains('\0') {
        let why = "a program is named by its full path; without it the server is always alive";
        let comment = notes.not_carried(at, "checkcommand", why);
        vs.say(comment);
        return None;
    }
    argv.push(vs.shown_address.clone());
    argv.push(vs.port.unwrap_or(0).to_string());
    argv.push(bracketed(target.address));
    argv.push(target.port.unwrap_or(0).to_string());
    script.options.set("argv", argv);
    let owner = "it runs as lvsd's user, and only if nobody else can write to it: see `script` in lvsd.toml";
    notes.remark(at, "checkcommand", owner);
    if vs.check_type == CheckType::ExternalPerl {
        notes.remark(at, "checkcommand", "it is run as a program: it needs `#!/usr/bin/perl` as its first line and the right to be executed");
    }
    Some(script)
}

/// `maintenancedir`: the server is down while a file of its name is there.
fn maintenance(vs: &Virtual, global: &Global, target: &Target<'_>) -> Option<Check> {
    let directory = global.maintenance.as_ref()?.unquoted().trim_end_matches('/');
    if directory.contains('\0') {
        return None;
    }
    let mut check = check(vs, global, "maintenance", "script", vs.knobs.check_timeout(&global.knobs));
    check.common.set("retry", 0_u32);
    let host = bracketed(target.address);
    let files = [format!("{directory}/{host}:{}", target.port.unwrap_or(0)), format!("{directory}/{host}")];
    let [one, other] = files;
    let argv = ["/usr/bin/test", "!", "-e", &one, "-a", "!", "-e", &other].map(str::to_owned).to_vec();
    check.options.set("argv", argv);
    Some(check)
}
