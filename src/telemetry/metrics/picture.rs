//! What is shown: the daemon at one moment, as plain values that the runtime fills in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::histogram::{DELAY, Histogram, LATENCY};
use crate::engine::announcements::VirtualAddress;
use crate::engine::figures::Figures;
use crate::engine::model::RealServerId;
use crate::engine::self_test::SelfTestFigures;
use crate::engine::snapshot::KernelCounters;
use crate::engine::table::{Counters, CountersByDestination, ServiceId, Table};

/// Everything on one page.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// None while there is nobody to ask: before the kernel's table could be opened, or when the loop
    /// stands still.
    pub daemon: Option<DaemonPicture>,
    /// None if the thread that holds it has not answered in time.
    pub kernel: Option<KernelPicture>,
    pub around: Around,
}

/// What the supervisor knows.
#[derive(Clone, Debug)]
pub struct DaemonPicture {
    pub name: String,
    /// `kernel` or `memory`.
    pub table: &'static str,
    pub figures: Figures,
    pub totals: Totals,
    pub kernel: KernelCounters,
    pub broken_checks: u64,
    pub self_test: SelfTestFigures,
    pub running: usize,
    pub slots: usize,
    /// On the supervisor's own thread.
    pub tasks: usize,
    pub notifications: Vec<Notified>,
    pub addresses: Vec<AddressPicture>,
    /// How long the supervisor took to make this.
    pub made_in: Duration,
}

/// A virtual address that the configuration announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPicture {
    pub at: VirtualAddress,
    pub wanted: bool,
    /// None in a dry run, which announces nothing.
    pub announced: Option<bool>,
}

/// How many notifications of a channel had a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notified {
    pub channel: String,
    pub result: &'static str,
    pub count: u64,
}

/// The kernel's table, and what is wanted there.
#[derive(Clone, Debug, Default)]
pub struct KernelPicture {
    pub table: Table,
    pub wanted: Table,
    pub counters: Arc<CountersByDestination>,
    pub totals: Arc<BTreeMap<ServiceId, Counters>>,
}

/// What is known without the supervisor.
#[derive(Clone, Debug, Default)]
pub struct Around {
    pub dependencies: Vec<(String, bool)>,
    /// Since the supervisor's loop last turned.
    pub silence: Duration,
    pub overdue: Duration,
    /// When the kernel last answered a dump.
    pub dumped: Option<SystemTime>,
    /// When the daemon was started.
    pub started: Option<SystemTime>,
    pub control_refused: u64,
    pub http_closed: u64,
    pub log_lost: u64,
    /// Parts of the daemon, and how often each broke off.
    pub broken: Vec<(&'static str, u64)>,
    /// On the thread that answers clients.
    pub tasks: usize,
}

/// What has been counted since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// One for each virtual server, in file order; shared, so that a copy costs little.
    pub pools: Vec<Arc<PoolTotals>>,
    pub turns: Histogram,
    pub lateness: Histogram,
    pub writes: Histogram,
    pub request_errors: u64,
    pub reloads: Reloads,
    pub state_file: Writes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolTotals {
    pub name: String,
    /// By kind.
    pub checks: BTreeMap<&'static str, CheckTotals>,
    pub quorum_transitions: u64,
    /// Of those that had any.
    pub server_transitions: BTreeMap<RealServerId, u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CheckTotals {
    pub successes: u64,
    pub failures: u64,
    pub local_errors: u64,
    pub duration: Histogram,
}

/// Since the start, and the configuration that they brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloads {
    pub done: u64,
    pub incomplete: u64,
    pub refused: u64,
    pub last_ok: LastReload,
    /// When what is in force came into force.
    pub loaded: SystemTime,
    pub digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastReload {
    Successful,
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    pub written: u64,
    pub failed: u64,
}

impl Totals {
    pub fn new(digest: String, loaded: SystemTime) -> Self {
        let last_ok = LastReload::Successful;
        Self {
            pools: Vec::new(),
            turns: Histogram::new(DELAY),
            lateness: Histogram::new(DELAY),
            writes: Histogram::new(DELAY),
            request_errors: 0,
            reloads: Reloads { done: 0, incomplete: 0, refused: 0, last_ok, loaded, digest },
            state_file: Writes::default(),
        }
    }
}

impl Default for CheckTotals {
    fn default() -> Self {
        Self { successes: 0, failures: 0, local_errors: 0, duration: Histogram::new(LATENCY) }
    }
}
