//! `virtual_server`: its keywords, in the order in which they stand, as that order matters to keepalived.

use std::net::IpAddr;

use super::mail::Alert;
use super::model::{Granularity, Head, Kind, Lost, Method, Protocol, Sorry, Timing, Tunnel, VirtualServer};
use super::reading::{LONG, Reading, SHORT, address};
use super::real_server;
use super::scripts;
use super::tracking::Files;
use super::tree::{self, Statement};
use super::words::{Garbage, shown};
use crate::engine::model::Family;

/// Those of keepalived's list; it takes no others.
const SCHEDULERS: [&str; 14] =
    ["rr", "wrr", "lc", "wlc", "lblc", "sh", "mh", "dh", "fo", "ovf", "lblcr", "sed", "nq", "twos"];

/// Seconds; where a port-less service needs persistence and nobody says how long.
pub(super) const PERSISTENCE: u32 = 360;
const PERSISTENCE_MAXIMUM: u32 = 2_678_400;
const WEIGHT_MAXIMUM: u32 = 2_147_483_647;

/// `None`: keepalived skips the whole block, which is said.
pub(super) fn read(reading: &mut Reading<'_>, files: &Files, statement: &Statement) -> Option<VirtualServer> {
    let head = head(reading, statement)?;
    let family = match head {
        Head::Address { ip, .. } => Some(Family::of(ip)),
        Head::Mark(_) | Head::Group(_) => None,
    };
    let mut vs = VirtualServer {
        at: statement.at,
        head,
        family,
        protocol: None,
        scheduler: None,
        flags: Vec::new(),
        one_packet: false,
        method: None,
        persistence: None,
        granularity: None,
        engine: None,
        virtualhost: None,
        omega: false,
        inhibit: false,
        ha_suspend: None,
        smtp_alert: None,
        quorum: 1,
        hysteresis: 0,
        quorum_up: None,
        quorum_down: None,
        weight: 1,
        timing: Timing::default(),
        sorry: None,
        servers: Vec::new(),
        lost: Vec::new(),
    };
    if statement.block.is_none() {
        reading.notes.not_carried(statement.at, "virtual_server", "it has no block");
        return None;
    }
    for line in statement.inner() {
        let known = timing(reading, &mut vs, line)
            || scheduling(reading, &mut vs, line)
            || quorum(reading, &mut vs, line)
            || servers(reading, files, &mut vs, line);
        if !known {
            tree::unknown(reading.notes, line, "virtual_server");
        }
    }
    Some(vs)
}

fn head(reading: &mut Reading<'_>, statement: &Statement) -> Option<Head> {
    let words = statement.words();
    let (first, second) = (words.get(1).map(String::as_str), words.get(2).map(String::as_str));
    let mut skip = |why: String| {
        reading.notes.not_carried(
            statement.at,
            "virtual_server",
            format!("{why}; keepalived skips the block"),
        );
        None
    };
    match (first, second) {
        (None, _) => skip("it names no address".to_owned()),
        (Some("group"), Some(name)) => Some(Head::Group(name.to_owned())),
        (Some("fwmark"), Some(mark)) => {
            let read = super::words::number(mark, 0, i64::from(u32::MAX), Garbage::Tolerated);
            match read {
                super::words::Read::Good(mark) | super::words::Read::Odd(mark, _) if mark > 0 => {
                    u32::try_from(mark).ok().map(Head::Mark)
                }
                _ => skip(format!("{} is no firewall mark", shown(mark))),
            }
        }
        (Some("group" | "fwmark"), None) => skip("it does not say which".to_owned()),
        (Some(word), port) => {
            let Some(ip) = address(word) else { return skip(format!("{} is no address", shown(word))) };
            if let Some(why) = super::reading::unusable(ip) {
                return skip(why.to_owned());
            }
            let Some(port) = reading.optional_port(statement, port) else {
                reading.notes.not_carried(
                    statement.at,
                    "virtual_server",
                    "its port is wrong; keepalived skips the block",
                );
                return None;
            };
            Some(Head::Address { ip, port })
        }
    }
}

/// What virtual and real servers read alike.
pub(super) fn pace(reading: &mut Reading<'_>, timing: &mut Timing, line: &Statement) -> bool {
    match line.keyword() {
        "connect_timeout" => keep(&mut timing.connect_timeout, reading.period(line, SHORT)),
        "delay_loop" => keep(&mut timing.delay_loop, reading.period(line, LONG)),
        "delay_before_retry" => keep(&mut timing.delay_before_retry, reading.pause(line)),
        "retry" => keep(&mut timing.retry, reading.count(line, 1, u32::MAX, Garbage::Refused)),
        "warmup" => keep(&mut timing.warmup, reading.pause(line)),
        _ => return false,
    }
    true
}

fn timing(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) -> bool {
    match line.keyword() {
        "alpha" => vs.timing.alpha = Some(reading.flag(line)),
        "omega" => vs.omega = reading.flag(line),
        "inhibit_on_failure" => vs.inhibit = reading.flag(line),
        "ha_suspend" => {
            reading.flag(line);
            vs.ha_suspend = Some(line.at);
        }
        _ => return pace(reading, &mut vs.timing, line),
    }
    true
}

/// A value that could not be read leaves the one before it.
pub(super) fn keep<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

fn scheduling(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) -> bool {
    match line.keyword() {
        "lvs_sched" | "lb_algo" => {
            if let Some(word) = reading.word(line) {
                if SCHEDULERS.contains(&word.as_str()) {
                    vs.scheduler = Some(word);
                } else {
                    let why = format!("keepalived knows no scheduler {} and ignores the line", shown(&word));
                    reading.notes.remark(line.at, line.keyword(), why);
                }
            }
        }
        "flag-1" => vs.flags.push("flag-1"),
        "flag-2" => vs.flags.push("flag-2"),
        "flag-3" => vs.flags.push("flag-3"),
        "sh-port" | "sh-fallback" | "mh-port" | "mh-fallback" | "hashed" => scheduler_flag(reading, vs, line),
        "ops" => vs.one_packet = true,
        "lvs_method" | "lb_kind" => method(reading, &mut vs.method, line),
        "protocol" => protocol(reading, vs, line),
        "persistence_timeout" => {
            if line.value().is_none() {
                vs.persistence = Some(PERSISTENCE);
            } else {
                keep(&mut vs.persistence, reading.count(line, 1, PERSISTENCE_MAXIMUM, Garbage::Refused));
            }
        }
        "persistence_granularity" => granularity(reading, vs, line),
        "persistence_engine" => keep(&mut vs.engine, reading.word(line)),
        "virtualhost" => keep(&mut vs.virtualhost, reading.word(line)),
        "ip_family" => family(reading, vs, line),
        _ => return false,
    }
    true
}

/// Counts only where its scheduler was named before.
fn scheduler_flag(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) {
    let scheduler = vs.scheduler.as_deref().unwrap_or_default();
    let flag = match line.keyword() {
        "sh-port" if scheduler == "sh" => "sh-port",
        "sh-fallback" if scheduler == "sh" => "sh-fallback",
        "mh-port" if scheduler == "mh" => "mh-port",
        "mh-fallback" if scheduler == "mh" => "mh-fallback",
        "hashed" => {
            reading.notes.remark(line.at, "hashed", "it does nothing in keepalived either");
            return;
        }
        _ => {
            let why = "keepalived ignores it unless its scheduler is named above it";
            reading.notes.remark(line.at, line.keyword(), why);
            return;
        }
    };
    vs.flags.push(flag);
}

fn protocol(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) {
    let Some(word) = reading.word(line) else { return };
    vs.protocol = match word.to_ascii_uppercase().as_str() {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        "SCTP" => Some(Protocol::Sctp),
        _ => {
            let why = format!("keepalived knows no protocol {} and ignores the line", shown(&word));
            reading.notes.remark(line.at, "protocol", why);
            return;
        }
    };
}

fn family(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) {
    let wanted = match reading.word(line).as_deref() {
        Some("inet") => Family::Ipv4,
        Some("inet6") => Family::Ipv6,
        Some(other) => {
            let why = format!("{} is no family; keepalived ignores the line", shown(other));
            return reading.notes.remark(line.at, "ip_family", why);
        }
        None => return,
    };
    match vs.family {
        Some(known) if known != wanted => {
            reading.notes.remark(
                line.at,
                "ip_family",
                format!("the virtual server is {known} already; keepalived ignores the line"),
            );
        }
        _ => vs.family = Some(wanted),
    }
}

fn granularity(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) {
    let Some(word) = reading.word(line) else { return };
    let family = vs.family.unwrap_or(if word.contains('.') { Family::Ipv4 } else { Family::Ipv6 });
    let value = match family {
        Family::Ipv6 => {
            let bits = reading.count(line, 1, 128, Garbage::Refused);
            bits.and_then(|bits| u8::try_from(bits).ok()).map(Granularity::Prefix)
        }
        Family::Ipv4 => {
            let mask = word.parse::<std::net::Ipv4Addr>().ok().map(std::net::Ipv4Addr::to_bits);
            let solid = mask.filter(|bits| bits.leading_ones() + bits.trailing_zeros() >= 32);
            let bits = solid.and_then(|bits| u8::try_from(bits.leading_ones()).ok());
            if bits.is_none() {
                let why = format!("{} is no netmask with all its ones in front", shown(&word));
                reading.lose(&mut vs.lost, line.at, line.keyword(), why);
            }
            bits.map(Granularity::Mask)
        }
    };
    if value.is_some() {
        vs.granularity = value;
        vs.family = vs.family.or(Some(family));
        vs.persistence = vs.persistence.or(Some(PERSISTENCE));
    }
}

/// `NAT`, `DR`, `TUN [type ipip|gue|gre] [port N] [nocsum|csum|remcsum]`. What is wrong behind the name leaves the tunnel
/// as it was.
pub(super) fn method(reading: &mut Reading<'_>, slot: &mut Option<Method>, line: &Statement) {
    let words = line.words();
    let kind = match words.get(1).map(String::as_str) {
        Some("NAT") => Kind::Nat,
        Some("DR") => Kind::Dr,
        Some("TUN") => Kind::Tun,
        Some(other) => {
            let why = format!("keepalived knows no method {} and ignores the line", shown(other));
            return reading.notes.remark(line.at, line.keyword(), why);
        }
        None => {
            return reading.notes.remark(
                line.at,
                line.keyword(),
                "it has no value; keepalived ignores the line",
            );
        }
    };
    let before = slot.unwrap_or_default().tunnel;
    let tunnel = tunnel(words.get(2..).unwrap_or_default());
    if tunnel.is_none() {
        let why = "what is said of the tunnel does not fit together; keepalived ignores it";
        reading.notes.remark(line.at, line.keyword(), why);
    }
    *slot = Some(Method { kind, tunnel: tunnel.unwrap_or(before) });
}

fn tunnel(words: &[String]) -> Option<Tunnel> {
    let (mut kind, mut port, mut checksum) = ("ipip", None, "none");
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "type" => kind = words.next()?,
            "port" => {
                let number = super::words::number(words.next()?, 1, 65_535, Garbage::Refused);
                let super::words::Read::Good(number) = number else { return None };
                port = u16::try_from(number).ok();
            }
            "nocsum" => checksum = "none",
            "csum" => checksum = "csum",
            "remcsum" => checksum = "remcsum",
            _ => return None,
        }
    }
    match (kind, port, checksum) {
        ("ipip", None, "none") => Some(Tunnel::Ipip),
        ("gue", Some(port), checksum) => Some(Tunnel::Gue { port, checksum }),
        ("gre", None, "none" | "csum") => Some(Tunnel::Gre { checksum }),
        _ => None,
    }
}

fn quorum(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) -> bool {
    match line.keyword() {
        // A value that cannot be read is 1.
        "quorum" => vs.quorum = reading.count(line, 1, u32::MAX, Garbage::Tolerated).unwrap_or(1),
        "hysteresis" => {
            vs.hysteresis = reading.count(line, 0, u32::MAX, Garbage::Tolerated).unwrap_or(vs.hysteresis);
        }
        "weight" => {
            vs.weight = reading.count(line, 1, WEIGHT_MAXIMUM, Garbage::Tolerated).unwrap_or(vs.weight)
        }
        "quorum_up" => script_of(reading, &mut vs.quorum_up, line),
        "quorum_down" => script_of(reading, &mut vs.quorum_down, line),
        "smtp_alert" => keep(&mut vs.smtp_alert, alert(reading, line)),
        "snmp_name" => no_snmp(reading, &mut vs.lost, line),
        _ => return false,
    }
    true
}

/// The first one counts.
pub(super) fn script_of(reading: &mut Reading<'_>, slot: &mut Option<scripts::Command>, line: &Statement) {
    if slot.is_some() {
        reading.notes.remark(line.at, line.keyword(), "there is one already; keepalived ignores the second");
    } else {
        *slot = scripts::command(reading, line);
    }
}

/// What becomes of it depends on the rest of the file.
pub(super) fn alert(reading: &mut Reading<'_>, line: &Statement) -> Alert {
    reading.switch(line).map(|on| (line.at, on))
}

pub(super) fn no_snmp(reading: &mut Reading<'_>, lost: &mut Lost, line: &Statement) {
    reading.lose(lost, line.at, line.keyword(), "lvsd has no SNMP; /metrics has the same numbers");
}

fn servers(reading: &mut Reading<'_>, files: &Files, vs: &mut VirtualServer, line: &Statement) -> bool {
    match line.keyword() {
        "sorry_server" => sorry_server(reading, vs, line),
        "sorry_server_inhibit" => match &mut vs.sorry {
            Some(sorry) => sorry.inhibit = true,
            None => {
                reading.notes.remark(line.at, line.keyword(), "keepalived ignores it above `sorry_server`")
            }
        },
        "sorry_server_lvs_method" => match &mut vs.sorry {
            Some(sorry) => method(reading, &mut sorry.method, line),
            None => {
                reading.notes.remark(line.at, line.keyword(), "keepalived ignores it above `sorry_server`")
            }
        },
        "real_server" => {
            let Some(server) = real_server::read(reading, files, vs, line) else { return true };
            let is_tunnel = server.method.is_some_and(|method| method.kind == Kind::Tun);
            if is_tunnel || admits(vs, server.ip) {
                vs.servers.push(server);
            } else {
                let why = format!("{} is not of the virtual server's family; keepalived skips it", server.ip);
                reading.lose(&mut vs.lost, line.at, "real_server", why);
            }
        }
        _ => return false,
    }
    true
}

/// The first server that is no tunnel decides on the family, where nothing else has.
fn admits(vs: &mut VirtualServer, ip: IpAddr) -> bool {
    *vs.family.get_or_insert(Family::of(ip)) == Family::of(ip)
}

fn sorry_server(reading: &mut Reading<'_>, vs: &mut VirtualServer, line: &Statement) {
    let words = line.words();
    reading.beyond(line, 2);
    let Some(word) = reading.first(line) else { return };
    let Some(ip) = reading.ip(line, &word) else { return };
    let Some(port) = reading.optional_port(line, words.get(2).map(String::as_str)) else { return };
    if let Some(why) = super::reading::unusable_server(ip) {
        return reading.lose(&mut vs.lost, line.at, "sorry_server", why);
    }
    if vs.sorry.is_some() {
        reading.notes.remark(line.at, "sorry_server", "it takes the place of the one above");
    }
    vs.sorry = Some(Sorry { at: line.at, ip, port, method: vs.method, inhibit: false });
}
