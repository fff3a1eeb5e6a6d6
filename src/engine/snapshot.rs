//! A picture of the engine's state for people and programs to read. Plain values, no references.

use std::net::IpAddr;
use std::time::Duration;

use super::guard::Guard;
use super::model::{Mode, RealServerId};
use super::table::{DestinationId, ServiceId};
use super::time::Time;

/// All virtual servers, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub virtual_servers: Vec<VirtualServerStatus>,
    /// The engine cannot know: zero until the runtime fills them in.
    pub kernel: KernelCounters,
    /// Runs of checks that ended in a panic since the start; likewise filled in by the runtime.
    pub broken_checks: u64,
    /// The table is one in memory; likewise.
    pub dry_run: bool,
    /// What the daemon has to do without; likewise.
    pub lacks: Vec<String>,
    /// Of all services that could serve the kernel has refused each; likewise.
    pub nothing_served: bool,
    /// The file is other than the configuration that runs; likewise.
    pub not_in_force: Option<NotInForce>,
    /// When the configuration goes back to the one before it, unless it is confirmed; likewise.
    pub unconfirmed: Option<Time>,
    /// Verdicts stay as they are, since the director itself seems to be sick.
    pub frozen: Option<FrozenStatus>,
    /// When the kernel's counters were read; likewise, none before the first time.
    pub counted: Option<Time>,
    /// What happened last, the newest first; likewise.
    pub recent: Vec<Happened>,
}

/// What the file says has not come into force, or is not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInForce {
    pub kind: NotInForceKind,
    pub since: Time,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInForceKind {
    /// The last reload was refused.
    Refused,
    /// A reload on trial was not confirmed.
    Reverted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenStatus {
    pub since: Time,
    /// What the self-test has found.
    pub reasons: Vec<String>,
    /// Results of checks that have not counted since.
    pub set_aside: u64,
}

/// One change, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Counts up from 1.
    pub number: u64,
    pub at: Time,
    pub kind: HappenedKind,
    /// Empty for the daemon itself.
    pub virtual_server: String,
    pub real_server: Option<RealServerId>,
    /// May hold what a server answered: hostile text.
    pub text: String,
}

/// Each kind once, with its word for programs: the list of all is made of the same lines, so that whoever
/// shows kinds can be held against it.
macro_rules! happened_kinds {
    ($($(#[$meaning:meta])* $kind:ident = $name:literal,)*) => {
        /// What a change was.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HappenedKind {
            $($(#[$meaning])* $kind,)*
        }

        impl HappenedKind {
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

happened_kinds! {
    Up = "up",
    Down = "down",
    Weight = "weight",
    QuorumUp = "quorum_up",
    QuorumDown = "quorum_down",
    /// Services came into the table or left it by `active_when`.
    Gate = "gate",
    /// A rule began to keep failed servers in the table, or keeps none any more.
    GuardBegan = "guard_began",
    GuardEnded = "guard_ended",
    /// Given, or over.
    Order = "order",
    /// The director itself seems to be sick, or to be well again.
    VerdictsFrozen = "verdicts_frozen",
    VerdictsThawed = "verdicts_thawed",
    Reload = "reload",
    ReloadRefused = "reload_refused",
    /// A configuration is on trial, is confirmed, or goes.
    Trial = "trial",
}

/// What has been asked of the kernel since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Changes of the table that were asked for.
    pub operations: u64,
    /// How many of them failed.
    pub failures: u64,
    /// Entries that were found other than they had been left.
    pub drift: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualServerStatus {
    pub name: String,
    pub services: Vec<ServiceId>,
    pub scheduler: String,
    /// Services that are kept out of the table, and why.
    pub inactive: Vec<(ServiceId, String)>,
    pub quorum: QuorumStatus,
    pub sorry_server: Option<SorryServerStatus>,
    pub real_servers: Vec<RealServerStatus>,
    /// Services that are not in the kernel as they should be, with its last refusal; empty until the runtime
    /// fills it in.
    pub missing: Vec<(ServiceId, Option<String>)>,
    /// Its addresses that the configuration announces; empty until the runtime fills it in.
    pub announcements: Vec<AnnouncementStatus>,
}

/// An address that should stand on an interface while it has quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncementStatus {
    pub address: IpAddr,
    pub interface: String,
    pub announced: bool,
    /// It should be: a service of it has quorum.
    pub wanted: bool,
    /// Why it is not announced.
    pub problem: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuorumStatus {
    pub up: bool,
    /// Sum of the effective weights of alive servers.
    pub weight: u64,
    /// What `weight` must reach, or not fall below, from here.
    pub threshold: u64,
    pub quorum: u32,
    pub hysteresis: u32,
    /// When `up` changed last; the daemon's start, if it has not since.
    pub since: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SorryServerStatus {
    pub address: RealServerId,
    /// It is what serves now.
    pub active: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealServerStatus {
    pub address: RealServerId,
    pub alive: bool,
    /// It is down, and stays in the table all the same, for this reason.
    pub kept: Option<Guard>,
    /// When `alive` changed last; the daemon's start, or the reload that brought it, if it has not since.
    pub since: Time,
    /// As configured.
    pub weight: u32,
    /// With scripts, files and the operator's orders.
    pub effective_weight: u32,
    /// Its entries in the table, one per service; the runtime looks up which of them are there.
    pub destinations: Vec<(ServiceId, DestinationId)>,
    /// In the kernel's table. The engine cannot know: false until the runtime fills it in.
    pub installed: bool,
    /// It should be in the table of a service, and is not. Likewise filled in by the runtime.
    pub missing: bool,
    /// Likewise filled in by the runtime, summed over services.
    pub active_connections: u64,
    pub inactive_connections: u64,
    pub traffic: Traffic,
    pub order: Option<Override>,
    pub operator_weight: Option<OperatorWeight>,
    pub checks: Vec<CheckStatus>,
}

/// What the kernel has counted since the server's entries were added, summed over services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub connections: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// An operator's order about one real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub order: Order,
    pub note: OrderNote,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorWeight {
    pub weight: u32,
    pub note: OrderNote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the table at weight 0.
    Drain,
    /// As if it had failed.
    Disable,
}

/// Who gave an order, why, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderNote {
    pub by: String,
    pub reason: Option<String>,
    pub since: Time,
    pub until: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckStatus {
    pub kind: &'static str,
    pub mode: Mode,
    pub up: bool,
    pub has_run: bool,
    /// Failures in a row.
    pub failures: u32,
    pub last: Option<LastResult>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastResult {
    pub ok: bool,
    pub detail: String,
    pub latency: Duration,
    pub at: Time,
}
