//! `lvsd status`: the engine's snapshot as JSON for programs and as a table for people.
//!
//! The JSON's keys are a contract, in this order: keys may be added, never removed.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::protocol::{Reply, VERSION};
use crate::engine::Guard;
use crate::engine::model::{Mode, RealServerId};
use crate::engine::snapshot::{
    AnnouncementStatus, CheckStatus, Happened, KernelCounters, NotInForceKind, Order, OrderNote,
    RealServerStatus, Snapshot, SorryServerStatus, VirtualServerStatus,
};
use crate::engine::time::Time;

mod difference;
mod paint;
mod table;
pub use difference::{Difference, difference};
pub use paint::{Colours, Terminal, cut, fit};
pub use table::table;

/// The answer to a status request: table and JSON. `daemon` is the daemon's name. `only` limits
/// it to one virtual server; naming one that does not exist is a failure.
pub fn reply(snapshot: &Snapshot, daemon: &str, only: Option<&str>, now: Time) -> Reply {
    let chosen: Vec<&VirtualServerStatus> =
        snapshot.virtual_servers.iter().filter(|vs| only.is_none_or(|name| vs.name == name)).collect();
    if let (Some(name), true) = (only, chosen.is_empty()) {
        return Reply::failed(format!("there is no virtual server {name:?}"));
    }
    let json = Status::new(snapshot, &chosen, daemon, now);
    Reply::done(table(snapshot, &chosen, now))
        .with_data(&json)
        .unwrap_or_else(|error| Reply::failed(format!("writing the status as JSON: {error}")))
}

/// The document of `lvsd status --json`, of all that is in `snapshot`. One line.
pub fn document(snapshot: &Snapshot, daemon: &str, now: Time) -> Result<String, serde_json::Error> {
    let all: Vec<&VirtualServerStatus> = snapshot.virtual_servers.iter().collect();
    serde_json::to_string(&Status::new(snapshot, &all, daemon, now))
}

/// The document of `lvsd status --json`.
#[derive(Debug, Serialize)]
pub struct Status<'a> {
    version: u32,
    name: &'a str,
    virtual_servers: Vec<VirtualServer<'a>>,
    kernel: Kernel,
    broken_checks: u64,
    dry_run: bool,
    /// While the kernel refuses every service that could serve.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    nothing_served: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_in_force: Option<FileNotInForce<'a>>,
    /// Until the configuration goes back to the one before it, unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    unconfirmed_ms: Option<u64>,
    /// What the daemon has to do without.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    lacks: &'a [String],
    /// While results of checks change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    frozen: Option<Frozen<'a>>,
    /// The newest first.
    recent: Vec<Recent<'a>>,
}

/// The file is other than the configuration that runs.
#[derive(Debug, Serialize)]
struct FileNotInForce<'a> {
    kind: &'static str,
    age_ms: u64,
    text: &'a str,
}

/// The daemon takes its own host for sick.
#[derive(Debug, Serialize)]
struct Frozen<'a> {
    for_ms: u64,
    reasons: &'a [String],
    set_aside: u64,
}

/// What happened to a virtual server, to a real server of it, or to the daemon itself.
#[derive(Debug, Serialize)]
struct Recent<'a> {
    number: u64,
    age_ms: u64,
    kind: &'static str,
    virtual_server: &'a str,
    real_server: Option<String>,
    text: &'a str,
}

#[derive(Debug, Serialize)]
struct Kernel {
    operations: u64,
    failures: u64,
    drift: u64,
    /// How old the counters of connections and traffic are; null before the first time.
    counted_age_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct VirtualServer<'a> {
    name: &'a str,
    services: Vec<String>,
    scheduler: &'a str,
    quorum: Quorum,
    sorry_server: Option<SorryServer>,
    real_servers: Vec<RealServer<'a>>,
    missing: Vec<Missing<'a>>,
    announce: Vec<Announcement<'a>>,
    /// At least one service is in force: always, where there is no `active_when`.
    active: bool,
    inactive: Vec<Inactive<'a>>,
}

/// An address that stands on an interface while a service of it has quorum.
#[derive(Debug, Serialize)]
struct Announcement<'a> {
    address: IpAddr,
    interface: &'a str,
    announced: bool,
    wanted: bool,
    problem: Option<&'a str>,
}

/// A service that `active_when` keeps out of the table.
#[derive(Debug, Serialize)]
struct Inactive<'a> {
    service: String,
    reason: &'a str,
}

/// A service that is not in the kernel as it should be.
#[derive(Debug, Serialize)]
struct Missing<'a> {
    service: String,
    refusal: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Quorum {
    up: bool,
    weight: u64,
    threshold: u64,
    quorum: u32,
    hysteresis: u32,
    age_ms: u64,
}

#[derive(Debug, Serialize)]
struct SorryServer {
    #[serde(serialize_with = "shown")]
    address: RealServerId,
    active: bool,
}

#[derive(Debug, Serialize)]
struct RealServer<'a> {
    #[serde(serialize_with = "shown")]
    address: RealServerId,
    alive: bool,
    /// Down, and in the table all the same, by the rule of this name.
    kept: Option<&'static str>,
    age_ms: u64,
    weight: u32,
    effective_weight: u32,
    installed: bool,
    missing: bool,
    #[serde(rename = "override")]
    override_: Option<Override<'a>>,
    connections: Connections,
    /// Since the server is in the kernel's table.
    traffic: Traffic,
    checks: Vec<Check<'a>>,
}

/// An order and a weight can stand at the same time, each with its own note.
#[derive(Debug, Serialize)]
struct Override<'a> {
    order: Option<&'static str>,
    weight: Option<u32>,
    /// Of the order if there is one, else of the weight.
    #[serde(flatten)]
    note: Note<'a>,
    /// Only if both stand.
    #[serde(skip_serializing_if = "Option::is_none")]
    weight_note: Option<Note<'a>>,
}

/// Times are relative: the clock behind them means nothing outside this machine.
#[derive(Debug, Serialize)]
struct Note<'a> {
    by: &'a str,
    reason: Option<&'a str>,
    age_ms: u64,
    left_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Connections {
    active: u64,
    inactive: u64,
}

#[derive(Debug, Serialize)]
struct Traffic {
    connections: u64,
    packets_in: u64,
    packets_out: u64,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Debug, Serialize)]
struct Check<'a> {
    kind: &'static str,
    mode: &'static str,
    up: bool,
    has_run: bool,
    failures: u32,
    last: Option<Last<'a>>,
}

#[derive(Debug, Serialize)]
struct Last<'a> {
    ok: bool,
    detail: &'a str,
    latency_us: u64,
    age_ms: u64,
}

impl<'a> Status<'a> {
    fn new(snapshot: &'a Snapshot, chosen: &[&'a VirtualServerStatus], daemon: &'a str, now: Time) -> Self {
        let KernelCounters { operations, failures, drift } = snapshot.kernel;
        let counted_age_ms = snapshot.counted.map(|at| millis(now.since(at)));
        Self {
            version: VERSION,
            name: daemon,
            virtual_servers: chosen.iter().map(|vs| VirtualServer::new(vs, now)).collect(),
            kernel: Kernel { operations, failures, drift, counted_age_ms },
            broken_checks: snapshot.broken_checks,
            dry_run: snapshot.dry_run,
            nothing_served: snapshot.nothing_served,
            not_in_force: snapshot.not_in_force.as_ref().map(|file| FileNotInForce {
                kind: match file.kind {
                    NotInForceKind::Refused => "refused",
                    NotInForceKind::Reverted => "reverted",
                },
                age_ms: millis(now.since(file.since)),
                text: &file.text,
            }),
            unconfirmed_ms: snapshot.unconfirmed.map(|until| millis(until.since(now))),
            lacks: &snapshot.lacks,
            frozen: snapshot.frozen.as_ref().map(|frozen| Frozen {
                for_ms: millis(now.since(frozen.since)),
                reasons: &frozen.reasons,
                set_aside: frozen.set_aside,
            }),
            recent: snapshot.recent.iter().map(|happened| Recent::new(happened, now)).collect(),
        }
    }
}

impl<'a> Recent<'a> {
    fn new(happened: &'a Happened, now: Time) -> Self {
        let Happened { number, at, kind, virtual_server, real_server, text } = happened;
        let (kind, real_server) = (kind.name(), real_server.map(|id| id.to_string()));
        Self { number: *number, age_ms: millis(now.since(*at)), kind, virtual_server, real_server, text }
    }
}

impl<'a> VirtualServer<'a> {
    fn new(vs: &'a VirtualServerStatus, now: Time) -> Self {
        let q = vs.quorum;
        Self {
            name: &vs.name,
            services: vs.services.iter().map(ToString::to_string).collect(),
            scheduler: &vs.scheduler,
            quorum: Quorum {
                up: q.up,
                weight: q.weight,
                threshold: q.threshold,
                quorum: q.quorum,
                hysteresis: q.hysteresis,
                age_ms: millis(now.since(q.since)),
            },
            sorry_server: vs
                .sorry_server
                .map(|SorryServerStatus { address, active }| SorryServer { address, active }),
            real_servers: vs.real_servers.iter().map(|rs| RealServer::new(rs, now)).collect(),
            missing: vs
                .missing
                .iter()
                .map(|(service, why)| Missing { service: service.to_string(), refusal: why.as_deref() })
                .collect(),
            announce: vs.announcements.iter().map(Announcement::new).collect(),
            active: vs.inactive.len() < vs.services.len(),
            inactive: vs
                .inactive
                .iter()
                .map(|(service, reason)| Inactive { service: service.to_string(), reason })
                .collect(),
        }
    }
}

impl<'a> Announcement<'a> {
    fn new(status: &'a AnnouncementStatus) -> Self {
        let AnnouncementStatus { address, interface, announced, wanted, problem } = status;
        let (address, announced, wanted) = (*address, *announced, *wanted);
        Self { address, interface, announced, wanted, problem: problem.as_deref() }
    }
}

impl<'a> RealServer<'a> {
    fn new(rs: &'a RealServerStatus, now: Time) -> Self {
        Self {
            address: rs.address,
            alive: rs.alive,
            kept: rs.kept.map(Guard::name),
            age_ms: millis(now.since(rs.since)),
            weight: rs.weight,
            effective_weight: rs.effective_weight,
            installed: rs.installed,
            missing: rs.missing,
            override_: Override::new(rs, now),
            connections: Connections { active: rs.active_connections, inactive: rs.inactive_connections },
            traffic: Traffic::new(rs.traffic),
            checks: rs.checks.iter().map(|check| Check::new(check, now)).collect(),
        }
    }
}

impl Traffic {
    fn new(traffic: crate::engine::snapshot::Traffic) -> Self {
        let crate::engine::snapshot::Traffic { connections, packets_in, packets_out, bytes_in, bytes_out } =
            traffic;
        Self { connections, packets_in, packets_out, bytes_in, bytes_out }
    }
}

impl<'a> Override<'a> {
    fn new(rs: &'a RealServerStatus, now: Time) -> Option<Self> {
        let order = rs.order.as_ref();
        let weight = rs.operator_weight.as_ref();
        let of_weight = weight.map(|w| Note::new(&w.note, now));
        let (note, weight_note) = match (order, of_weight) {
            (Some(order), of_weight) => (Note::new(&order.note, now), of_weight),
            (None, Some(of_weight)) => (of_weight, None),
            (None, None) => return None,
        };
        Some(Self {
            order: order.map(|o| order_name(o.order)),
            weight: weight.map(|w| w.weight),
            note,
            weight_note,
        })
    }
}

impl<'a> Note<'a> {
    fn new(note: &'a OrderNote, now: Time) -> Self {
        Self {
            by: &note.by,
            reason: note.reason.as_deref(),
            age_ms: millis(now.since(note.since)),
            left_ms: note.until.map(|until| millis(until.since(now))),
        }
    }
}

impl<'a> Check<'a> {
    fn new(check: &'a CheckStatus, now: Time) -> Self {
        Self {
            kind: check.kind,
            mode: match check.mode {
                Mode::Enforce => "enforce",
                Mode::Observe => "observe",
            },
            up: check.up,
            has_run: check.has_run,
            failures: check.failures,
            last: check.last.as_ref().map(|last| Last {
                ok: last.ok,
                detail: &last.detail,
                latency_us: u64::try_from(last.latency.as_micros()).unwrap_or(u64::MAX),
                age_ms: millis(now.since(last.at)),
            }),
        }
    }
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::Drain => "drain",
        Order::Disable => "disable",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn shown<S: Serializer>(id: &RealServerId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

#[cfg(test)]
mod tests;
