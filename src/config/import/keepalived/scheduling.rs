//! How a service picks servers and how packets get to them: scheduler, method, persistence.

use std::time::Duration;

use super::model::{Granularity, Kind, Method, Protocol, Tunnel, VirtualServer};
use super::reading::Reading;
use super::services::Services;
use super::virtual_server::PERSISTENCE;
use super::words::shown;
use crate::config::import::document::Table;
use crate::engine::model::Family;

pub(super) fn scheduling(
    reading: &mut Reading<'_>,
    vs: &VirtualServer,
    services: &Services,
    keys: &mut Table,
) {
    if vs.scheduler.is_none() {
        keys.comment("keepalived's default");
    }
    let scheduler = vs.scheduler.as_deref().unwrap_or("wlc");
    keys.set("scheduler", scheduler);
    let mut flags: Vec<&str> = Vec::new();
    for flag in &vs.flags {
        // The same bits by their numbers, where the scheduler was changed below them.
        let flag = match (*flag, scheduler) {
            ("sh-port", "sh") | ("sh-fallback", "sh") | ("mh-port", "mh") | ("mh-fallback", "mh") => *flag,
            ("sh-port" | "mh-port", _) => "flag-2",
            ("sh-fallback" | "mh-fallback", _) => "flag-1",
            (flag, _) => flag,
        };
        if !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    if !flags.is_empty() {
        keys.set("scheduler_flags", flags);
    }
    if vs.one_packet && !services.addresses.is_empty() && !is_udp(vs) {
        reading.notes.remark(vs.at, "ops", "keepalived ignores it unless the protocol is UDP");
    } else if vs.one_packet {
        keys.set("one_packet", true);
    }
}

/// What is not as it stands further out.
pub(super) fn forwarding(keys: &mut Table, method: Option<Method>, outer: Method) {
    let Some(method) = method else { return };
    // Written out for a virtual server, so that nobody has to know a default.
    if method.kind != outer.kind || outer == Method::default() {
        let kind = match method.kind {
            Kind::Nat => "nat",
            Kind::Dr => "dr",
            Kind::Tun => "tun",
        };
        keys.set("lb_kind", kind);
    }
    let outer_tunnel = if outer.kind == Kind::Tun { outer.tunnel } else { Tunnel::Ipip };
    if method.kind == Kind::Tun && method.tunnel != outer_tunnel {
        let mut table = Table::default();
        match method.tunnel {
            Tunnel::Ipip => table.set("type", "ipip"),
            Tunnel::Gue { port, checksum } => {
                table.set("type", "gue");
                table.set("port", port);
                table.set("checksum", checksum);
            }
            Tunnel::Gre { checksum } => {
                table.set("type", "gre");
                table.set("checksum", checksum);
            }
        }
        keys.set("tunnel", table);
    }
}

pub(super) fn persistence(
    reading: &mut Reading<'_>,
    vs: &VirtualServer,
    services: &Services,
    keys: &mut Table,
    lost: &mut Vec<String>,
) {
    let timeout = match vs.persistence {
        None if services.every_port => {
            let why = "all ports need persistence: 360 s, as keepalived has it";
            reading.notes.remark(vs.at, "virtual_server", why);
            keys.comment(why);
            Some(PERSISTENCE)
        }
        timeout => timeout,
    };
    let Some(timeout) = timeout else {
        if vs.engine.is_some() {
            reading.notes.remark(
                vs.at,
                "persistence_engine",
                "keepalived does not use it without a persistence_timeout",
            );
        }
        return;
    };
    keys.set("persistence_timeout", Duration::from_secs(u64::from(timeout)));
    let is_mixed = services.families.len() > 1;
    match vs.granularity {
        None => {}
        Some(_) if is_mixed => {
            let why = "one netmask for both families; write a virtual server for each family";
            reading.lose(lost, vs.at, "persistence_granularity", why);
        }
        Some(Granularity::Mask(bits)) if services.families.contains(&Family::Ipv4) => {
            keys.set("persistence_netmask", i64::from(bits));
        }
        Some(Granularity::Prefix(bits)) if services.families.contains(&Family::Ipv6) => {
            keys.set("persistence_netmask", i64::from(bits));
        }
        Some(_) => reading.lose(lost, vs.at, "persistence_granularity", "it is for the other family"),
    }
    if let Some(engine) = &vs.engine {
        let named = crate::engine::model::Scheduler::new(engine).is_some();
        if named && (engine != "sip" || services.addresses.is_empty() || is_udp(vs)) {
            keys.set("persistence_engine", engine.as_str());
        } else {
            let why = format!("{} is not for this service", shown(engine));
            reading.lose(lost, vs.at, "persistence_engine", why);
        }
    }
}

fn is_udp(vs: &VirtualServer) -> bool {
    matches!(vs.protocol, Some(Protocol::Udp) | None)
}
