//! Two virtual servers with one service: keepalived puts the servers of both into the kernel's one service.
//! Where both say the same of everything else that is one virtual server; where they do not, the second is left
//! out by [`super::services`], which says so.

use super::model::{Head, Protocol, VirtualServer};
use super::reading::Reading;
use crate::engine::model::Family;

pub(super) fn merge(reading: &mut Reading<'_>, servers: Vec<VirtualServer>) -> Vec<VirtualServer> {
    let mut merged: Vec<VirtualServer> = Vec::with_capacity(servers.len());
    for vs in servers {
        let first = merged.iter_mut().find(|first| is_same_service(first, &vs));
        match first.filter(|first| is_one(first, &vs)) {
            Some(first) => join(reading, first, vs),
            None => merged.push(vs),
        }
    }
    merged
}

fn is_same_service(one: &VirtualServer, other: &VirtualServer) -> bool {
    let protocol = |vs: &VirtualServer| vs.protocol.unwrap_or(Protocol::Udp);
    let family = |vs: &VirtualServer| vs.family.unwrap_or(Family::Ipv4);
    match (&one.head, &other.head) {
        (Head::Address { .. }, Head::Address { .. }) => {
            one.head == other.head && protocol(one) == protocol(other)
        }
        (Head::Mark(_), Head::Mark(_)) => one.head == other.head && family(one) == family(other),
        (Head::Address { .. } | Head::Mark(_) | Head::Group(_), _) => false,
    }
}

/// Whether one pool does what the two do. A quorum of 1 without anything that hangs on it takes nothing away from
/// the other's servers; any other quorum is of the one pool alone.
fn is_one(one: &VirtualServer, other: &VirtualServer) -> bool {
    let plain = |vs: &VirtualServer| {
        vs.quorum == 1
            && vs.hysteresis == 0
            && vs.sorry.is_none()
            && vs.quorum_up.is_none()
            && vs.quorum_down.is_none()
            && !vs.servers.is_empty()
    };
    let of_table = |vs: &VirtualServer| {
        (vs.scheduler.clone(), vs.flags.clone(), vs.one_packet, vs.method, vs.persistence, vs.granularity)
    };
    let of_checks = |vs: &VirtualServer| {
        (vs.engine.clone(), vs.virtualhost.clone(), vs.omega, vs.inhibit, vs.weight, vs.timing.clone())
    };
    let of_rest = |vs: &VirtualServer| (vs.ha_suspend.is_some(), vs.smtp_alert.map(|(_, on)| on));
    plain(one)
        && plain(other)
        && of_table(one) == of_table(other)
        && of_checks(one) == of_checks(other)
        && of_rest(one) == of_rest(other)
}

fn join(reading: &mut Reading<'_>, first: &mut VirtualServer, second: VirtualServer) {
    let why = format!(
        "line {} has this service already, with the same settings: the servers of both are one pool, as they are in keepalived's table",
        first.at.line
    );
    reading.notes.remark(second.at, "virtual_server", why);
    first.lost.extend(second.lost);
    for server in second.servers {
        if first.servers.iter().any(|known| (known.ip, known.port) == (server.ip, server.port)) {
            let why = format!(
                "{} is in both pools of this service: the checks above decide alone",
                super::checks::server_address(server.ip, server.port)
            );
            reading.lose(&mut first.lost, server.at, "real_server", why);
        } else {
            first.servers.push(server);
        }
    }
}
