//! What of a status is not as it was, as a status that has only that: whoever has the older one replaces
//! in it what the newer one names.

use std::collections::BTreeMap;

use crate::engine::model::RealServerId;
use crate::engine::snapshot::{RealServerStatus, Snapshot, VirtualServerStatus};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    Nothing,
    /// Virtual servers with anything new, each with only those of its real servers that have; of what
    /// happened only what is new.
    Some(Box<Snapshot>),
    /// Servers came or went, or are in another order.
    Everything,
}

pub fn difference(before: &Snapshot, after: &Snapshot) -> Difference {
    let Snapshot {
        virtual_servers,
        kernel,
        broken_checks,
        dry_run,
        lacks,
        nothing_served,
        not_in_force,
        counted,
        unconfirmed,
        frozen,
        recent,
    } = after;
    let same_order = virtual_servers.len() == before.virtual_servers.len()
        && before.virtual_servers.iter().zip(virtual_servers).all(|(old, new)| are_same(old, new));
    if !same_order || dry_run != &before.dry_run {
        return Difference::Everything;
    }
    let known = before.recent.first().map_or(0, |happened| happened.number);
    let some = Snapshot {
        virtual_servers: before
            .virtual_servers
            .iter()
            .zip(virtual_servers)
            .filter(|(old, new)| old != new)
            .map(|(old, new)| changed(old, new))
            .collect(),
        kernel: *kernel,
        broken_checks: *broken_checks,
        dry_run: *dry_run,
        lacks: lacks.clone(),
        nothing_served: *nothing_served,
        not_in_force: not_in_force.clone(),
        counted: *counted,
        unconfirmed: *unconfirmed,
        frozen: frozen.clone(),
        recent: recent.iter().take_while(|happened| happened.number > known).cloned().collect(),
    };
    let around = |s: &Snapshot| (s.kernel, s.broken_checks, s.nothing_served, s.counted, s.unconfirmed);
    let said = (frozen, not_in_force, lacks) != (&before.frozen, &before.not_in_force, &before.lacks);
    let is_other = said || around(before) != around(after);
    if is_other || !some.virtual_servers.is_empty() || !some.recent.is_empty() {
        Difference::Some(Box::new(some))
    } else {
        Difference::Nothing
    }
}

/// The same servers in the same order, and each told from the others by its address.
fn are_same(old: &VirtualServerStatus, new: &VirtualServerStatus) -> bool {
    let ids = |pool: &VirtualServerStatus| -> Vec<RealServerId> {
        pool.real_servers.iter().map(|server| server.address).collect()
    };
    old.name == new.name && ids(old) == ids(new)
}

fn changed(old: &VirtualServerStatus, new: &VirtualServerStatus) -> VirtualServerStatus {
    let known: BTreeMap<RealServerId, &RealServerStatus> =
        old.real_servers.iter().map(|server| (server.address, server)).collect();
    let is_new = |server: &&RealServerStatus| known.get(&server.address) != Some(server);
    VirtualServerStatus {
        name: new.name.clone(),
        services: new.services.clone(),
        scheduler: new.scheduler.clone(),
        inactive: new.inactive.clone(),
        quorum: new.quorum,
        sorry_server: new.sorry_server,
        real_servers: new.real_servers.iter().filter(is_new).cloned().collect(),
        missing: new.missing.clone(),
        announcements: new.announcements.clone(),
    }
}

#[cfg(test)]
mod tests;
