//! The engine's state as numbers, for metrics. Beside [`super::snapshot`], which tells people everything:
//! here what is configured stays shared, and nothing is made that needs memory of its own per server, so
//! that a picture of thousands of servers keeps the loop that owns the engine for moments only.

use std::sync::Arc;

use super::guard::Guard;
use super::schedule::Entry;
use super::snapshot::{Order, QuorumStatus};
use super::table::ServiceId;
use super::virtual_server::VirtualServer;
use super::{Engine, ProbeId, Time, model};

/// All virtual servers, in file order.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub pools: Vec<PoolFigures>,
    /// Probes that run at intervals; equal ones of several servers are one.
    pub probes: usize,
}

#[derive(Clone, Debug)]
pub struct PoolFigures {
    pub config: Arc<model::VirtualServer>,
    pub quorum: QuorumStatus,
    /// Services that `active_when` keeps out of the table.
    pub inactive: Vec<ServiceId>,
    /// The sorry server is what serves now.
    pub sorry: bool,
    /// In the order of the configuration's.
    pub servers: Vec<ServerFigures>,
    /// Those of the first server's checks, then of the second's, in the order of the configuration's.
    pub checks: Vec<CheckFigures>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFigures {
    pub alive: bool,
    /// It is down, and stays in the table all the same, for this reason.
    pub kept: Option<Guard>,
    /// With scripts, files and the operator's orders.
    pub effective_weight: u32,
    pub order: Option<Order>,
    /// As the operator set it.
    pub operator_weight: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckFigures {
    pub up: bool,
    pub has_run: bool,
}

impl Engine {
    /// The numbers of [`Engine::snapshot`], in a small part of its time.
    pub fn figures(&self) -> Figures {
        Figures { pools: self.pools.iter().map(PoolFigures::of).collect(), probes: self.probe_count() }
    }

    /// The virtual servers, as places in file order, that a probe's outcome is for, each once.
    pub fn pools_of(&self, id: ProbeId) -> impl Iterator<Item = usize> + '_ {
        let places = self.schedule.entry(id).into_iter().flat_map(|entry| entry.places.iter());
        let mut last = None;
        // In file order: what belongs to one pool stands together.
        places.filter_map(move |(pool, _, _)| (last.replace(pool) != Some(pool)).then_some(pool as usize))
    }

    /// One of the checks that a probe answers.
    pub fn check_of(&self, id: ProbeId) -> Option<&Arc<model::Check>> {
        self.schedule.entry(id).map(|entry| &entry.check)
    }

    /// When the run that was started last should have begun.
    pub fn due(&self, id: ProbeId) -> Option<Time> {
        self.schedule.entry(id).map(Entry::due_at)
    }
}

impl PoolFigures {
    pub(super) fn of(pool: &VirtualServer) -> Self {
        let kept = pool.kept_by();
        let servers = pool.real_servers.iter().enumerate().map(|(index, server)| ServerFigures {
            alive: server.is_alive(),
            kept: kept.get(&index).copied(),
            effective_weight: server.effective_weight(),
            order: server.order.as_ref().map(|order| order.order),
            operator_weight: server.operator_weight.as_ref().map(|operator| operator.weight),
        });
        let checkers = pool.real_servers.iter().flat_map(|server| &server.checkers);
        let checks =
            checkers.map(|c| CheckFigures { up: c.is_up(), has_run: c.state().has_run }).collect::<Vec<_>>();
        Self {
            config: Arc::clone(&pool.config),
            quorum: pool.quorum_status(),
            inactive: pool.inactive.keys().copied().collect(),
            sorry: pool.is_sorry(),
            servers: servers.collect(),
            checks,
        }
    }
}
