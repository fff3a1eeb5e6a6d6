//! Everything that one real server's state follows from, for `lvsd why`, and its checks run on
//! request, for `lvsd check-now`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::{self, Check};
use super::orders::{OrderRefusal, Selector, Spot};
use super::schedule::{Entry, ProbeId};
use super::snapshot::{QuorumStatus, RealServerStatus, SorryServerStatus};
use super::table::ServiceId;
use super::{CheckerState, Engine, Time};

/// One real server in one virtual server.
#[derive(Clone, Debug)]
pub struct Inquiry {
    pub virtual_server: Arc<model::VirtualServer>,
    pub quorum: QuorumStatus,
    pub sorry_server: Option<SorryServerStatus>,
    /// Services of the virtual server that are kept out of the table, and why.
    pub inactive: Vec<(ServiceId, String)>,
    pub status: RealServerStatus,
    /// What scripts and files start from.
    pub base_weight: u32,
    /// In the order of the configuration.
    pub checks: Vec<CheckInquiry>,
}

#[derive(Clone, Debug)]
pub struct CheckInquiry {
    pub check: Arc<Check>,
    pub state: CheckerState,
    pub next: NextRun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRun {
    Running,
    At(Time),
    /// It is in no schedule: a moment that only a broken engine has.
    Never,
}

/// What has to happen until every check of some real servers has had a run that began after now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Ends of runs that are still to come.
    pub runs: BTreeMap<ProbeId, u32>,
    /// The longest time-out of one of them.
    pub timeout: std::time::Duration,
}

impl Engine {
    /// The real server that `selector` means, in each virtual server that has it.
    pub fn inquire(&self, selector: Selector<'_>) -> Result<Vec<Inquiry>, OrderRefusal> {
        let spots = self.select(selector)?;
        let entries = self.entries_of(&spots);
        let inquiry = |spot: &Spot| {
            let pool = self.pools.get(spot.0)?;
            let server = pool.real_servers.get(spot.1)?;
            let checks = server.checkers.iter().enumerate().map(|(at, checker)| CheckInquiry {
                check: Arc::clone(&checker.config),
                state: checker.state().clone(),
                next: entries.get(&(*spot, at)).map_or(NextRun::Never, |entry| next_run(entry)),
            });
            let vs = pool.status_without_servers();
            Some(Inquiry {
                virtual_server: Arc::clone(&pool.config),
                quorum: vs.quorum,
                sorry_server: vs.sorry_server,
                inactive: vs.inactive,
                status: RealServerStatus {
                    kept: pool.kept_by().get(&spot.1).copied(),
                    ..server.status(pool.config.services.iter())
                },
                base_weight: server.base_weight(),
                checks: checks.collect(),
            })
        };
        Ok(spots.iter().filter_map(inquiry).collect())
    }

    /// Runs all checks of the real server that `selector` means at once; one that is running runs once
    /// more, since its answer may be of the time before.
    pub fn handle_check_now(&mut self, selector: Selector<'_>, now: Time) -> Result<Awaited, OrderRefusal> {
        let spots = self.select(selector)?;
        let mut awaited = Awaited::default();
        for entry in self.entries_of(&spots).into_values() {
            awaited.timeout = entry.check.timing.timeout.max(awaited.timeout);
            awaited.runs.insert(entry.id(), if entry.is_running() { 2 } else { 1 });
        }
        for id in awaited.runs.keys() {
            self.schedule.wake(*id, now);
        }
        Ok(awaited)
    }

    /// Is this still a probe of the configuration in force?
    pub fn has_probe(&self, id: ProbeId) -> bool {
        self.schedule.entry(id).is_some()
    }

    /// The schedule's entry of each check of these servers. Looks at every entry once.
    fn entries_of(&self, spots: &[Spot]) -> BTreeMap<(Spot, usize), &Entry> {
        let spots: BTreeSet<Spot> = spots.iter().copied().collect();
        let all = self.schedule.entries().iter().flat_map(|entry| {
            let found: Vec<(Spot, usize)> = entry
                .places
                .iter()
                .map(|(pool, server, check)| ((pool as usize, server as usize), check as usize))
                .filter(|(spot, _)| spots.contains(spot))
                .collect();
            found.into_iter().map(move |at| (at, entry))
        });
        all.collect()
    }
}

fn next_run(entry: &Entry) -> NextRun {
    if entry.is_running() { NextRun::Running } else { NextRun::At(entry.due_at()) }
}
