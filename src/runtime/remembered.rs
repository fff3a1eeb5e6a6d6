//! The state file's text: JSON, version 1, made from and into plain values. Damaged text is an error, never a panic,
//! and never half of a state; in a text that is whole, an entry that is not understood costs itself alone.

mod left_out;
mod salvage;
mod writing;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

pub(super) use left_out::LeftOut;
#[cfg(test)]
use writing::Stored;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use writing::render;
pub(super) use writing::{stamp, write};

use super::state_file::State;
use crate::engine::announcements::VirtualAddress;
use crate::engine::memory::{Memory, RememberedRealServer, RememberedVirtualServer, Since};
use crate::engine::model::{Family, Protocol, RealServerId, Timeouts, WeightChange};
use crate::engine::snapshot::{OperatorWeight, Order, OrderNote, Override};
use crate::engine::table::ServiceId;
use crate::engine::{CheckerState, Identity, Last, Time};

const VERSION: u32 = 1;
const BEFORE: &str = " (before the restart)";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File<Stamp, Pools> {
    version: u32,
    boot_id: String,
    /// Nanoseconds since boot when the verdicts were known to be current.
    stamp: Stamp,
    owned: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    announced: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original_timeouts: Option<[u32; 3]>,
    /// When servers left by a verdict, in nanoseconds since boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<u64>,
    virtual_servers: Pools,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pool {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    services: Vec<String>,
    quorum_up: bool,
    /// In nanoseconds since boot, as all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    real_servers: Vec<Server>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<(OrderName, Note)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<(u32, Note)>,
    /// When it failed, in nanoseconds since boot, if it stays in the table all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<u64>,
    /// Was it alive, and since when has it been as it was?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<(bool, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    checks: Vec<Check>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OrderName {
    Drain,
    Disable,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    by: String,
    reason: Option<String>,
    since: u64,
    until: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    identity: String,
    up: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    failures: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    successes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    absolute: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<i64>,
    /// Nanoseconds since boot.
    #[serde(default)]
    heard: u64,
    /// Of one that is down the last result, a failure: when, microseconds, words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<(u64, u32, String)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

// -- reading --------------------------------------------------------------------------------

/// Times of another boot mean nothing: verdicts lose their age, and an order that was to end keeps
/// what was left of its time when the file was last stamped.
pub(super) fn parse(text: &str, boot_id: &str, now: Time, left_out: &mut LeftOut) -> Result<State, String> {
    let file: File<String, Vec<Pool>> = match serde_json::from_str(text) {
        Ok(file) => file,
        Err(error) if error.is_data() => salvage::file(text, &error, left_out)?,
        Err(error) => return Err(error.to_string()),
    };
    if file.version != VERSION {
        return Err(format!("version {}, this lvsd reads version {VERSION}", file.version));
    }
    let stamp: u64 = file.stamp.parse().map_err(|_| format!("bad time stamp {:?}", file.stamp))?;
    let same_boot = file.boot_id == boot_id;
    // In another time name space the clock of one boot may read less than it did.
    let same_clock = same_boot && stamp <= now.as_nanos();
    let clock = Clock { stamp, now, is_same: same_clock };
    let owned = left_out.all(&file.owned, |text| service_id(text));
    let announced = left_out.all(&file.announced, |text| virtual_address(text));
    let seconds = |t: [u32; 3]| Timeouts {
        tcp: NonZeroU32::new(t[0]),
        tcp_fin: NonZeroU32::new(t[1]),
        udp: NonZeroU32::new(t[2]),
    };
    Ok(State {
        memory: Memory {
            saved_at: same_clock.then_some(Time::from_nanos(stamp)),
            virtual_servers: file.virtual_servers.into_iter().map(|p| pool(p, clock, left_out)).collect(),
            left: file.left.into_iter().filter(|_| same_clock).map(Time::from_nanos).collect(),
        },
        // A reboot emptied the kernel's table and its interfaces, and put its time-outs back.
        owned: if same_boot { owned } else { BTreeSet::new() },
        announced: if same_boot { announced } else { BTreeSet::new() },
        original_timeouts: file.original_timeouts.filter(|_| same_boot).map(seconds),
    })
}

/// The clock of the run that wrote the file, against ours.
#[derive(Clone, Copy)]
struct Clock {
    stamp: u64,
    now: Time,
    is_same: bool,
}

impl Clock {
    /// Of another clock a moment in the past means nothing.
    fn if_same(self, nanos: Option<u64>) -> Option<Time> {
        nanos.filter(|_| self.is_same).map(Time::from_nanos)
    }

    fn time(self, nanos: u64) -> Time {
        if self.is_same {
            return Time::from_nanos(nanos);
        }
        let left = std::time::Duration::from_nanos(nanos.saturating_sub(self.stamp));
        self.now + left
    }
}

fn pool(pool: Pool, clock: Clock, left_out: &mut LeftOut) -> RememberedVirtualServer {
    let services = left_out.all(&pool.services, |text| service_id(text));
    let mut real_servers = Vec::with_capacity(pool.real_servers.len());
    for one in pool.real_servers {
        match real_server_id(&one.address) {
            Ok(id) => real_servers.push(server(id, one, clock, left_out)),
            Err(reason) => left_out.note(reason),
        }
    }
    let since = clock.if_same(pool.since);
    RememberedVirtualServer { name: pool.name, services, quorum_up: pool.quorum_up, since, real_servers }
}

fn server(id: RealServerId, server: Server, clock: Clock, left_out: &mut LeftOut) -> RememberedRealServer {
    let note = |note: Note| OrderNote {
        by: note.by,
        reason: note.reason,
        since: if clock.is_same { Time::from_nanos(note.since) } else { clock.now },
        until: note.until.map(|until| clock.time(until)),
    };
    let order = |(name, given): (OrderName, Note)| Override {
        order: match name {
            OrderName::Drain => Order::Drain,
            OrderName::Disable => Order::Disable,
        },
        note: note(given),
    };
    let checks: Vec<_> = left_out.all(server.checks, |one| check(one, clock));
    RememberedRealServer {
        id,
        order: server.order.map(|given| Box::new(order(given))),
        operator_weight: server
            .weight
            .map(|(weight, given)| Box::new(OperatorWeight { weight, note: note(given) })),
        kept: clock.if_same(server.kept),
        since: server.since.and_then(|(alive, at)| Some(Since { alive, at: clock.if_same(Some(at))? })),
        checks: checks.into(),
    }
}

/// Whoever reads it as the newest result must know that no check of this run has said it.
fn of_before(mut detail: String) -> String {
    if !detail.ends_with(BEFORE) {
        detail.push_str(BEFORE);
    }
    detail
}

fn check(check: Check, clock: Clock) -> Result<(Identity, CheckerState), String> {
    let identity =
        Identity::parse(&check.identity).ok_or_else(|| format!("bad identity {:?}", check.identity))?;
    let weight = match (check.absolute, check.delta) {
        (Some(weight), _) => WeightChange::Absolute(weight),
        (None, Some(delta)) => WeightChange::Delta(delta),
        (None, None) => WeightChange::None,
    };
    let state = CheckerState {
        up: check.up,
        has_run: true,
        failures: check.failures,
        successes: check.successes,
        weight,
        heard: Time::from_nanos(check.heard),
        last: check.last.and_then(|(at, microseconds, detail)| {
            Some(Last::recalled(microseconds, &of_before(detail), clock.if_same(Some(at))?))
        }),
    };
    Ok((identity, state))
}

/// Reads what `Display` of [`ServiceId`] wrote.
fn service_id(text: &str) -> Result<ServiceId, String> {
    let bad = || format!("{text:?} names no service");
    let (word, rest) = text.split_once(' ').ok_or_else(bad)?;
    let protocol = match word {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        "fwmark" => {
            let (mark, family) = rest.split_once(' ').ok_or_else(bad)?;
            let family = match family {
                "ipv4" => Family::Ipv4,
                "ipv6" => Family::Ipv6,
                _ => return Err(bad()),
            };
            return Ok(ServiceId::Mark { family, mark: mark.parse().map_err(|_| bad())? });
        }
        _ => return Err(bad()),
    };
    let address: SocketAddr = rest.parse().map_err(|_| bad())?;
    Ok(ServiceId::Address { protocol, address: address.ip(), port: address.port() })
}

/// Reads what `Display` of [`VirtualAddress`] wrote.
fn virtual_address(text: &str) -> Result<VirtualAddress, String> {
    let bad = || format!("{text:?} names no virtual address");
    let (address, interface) = text.split_once(" on ").ok_or_else(bad)?;
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    // No configuration announces one; it would be taken away from `lo`.
    if address.is_loopback() {
        return Err(bad());
    }
    Ok(VirtualAddress { interface: interface.into(), address })
}

/// Reads what `Display` of [`RealServerId`] wrote.
pub(super) fn real_server_id(text: &str) -> Result<RealServerId, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(RealServerId { address: address.ip(), port: Some(address.port()) });
    }
    let address: IpAddr = text
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .map_err(|_| format!("{text:?} is no address"))?;
    Ok(RealServerId { address, port: None })
}

#[cfg(test)]
mod tests;
