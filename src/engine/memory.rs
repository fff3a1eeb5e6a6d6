//! What survives a restart of the daemon: verdicts, quorum states and the operator's orders. The
//! runtime keeps it in the state file.

use std::collections::{BTreeMap, VecDeque};

use super::checker::CheckerState;
use super::identity::Identity;
use super::model::{Few, RealServerId};
use super::past::{PastPool, PastServer, predecessors};
use super::real_server::RealServer;
use super::snapshot::{OperatorWeight, Override};
use super::table::ServiceId;
use super::time::Time;
use super::virtual_server::VirtualServer;

/// The engine's state without its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// When the verdicts were known to be current; `None` if that cannot be told (another boot), and
    /// then only orders count.
    pub saved_at: Option<Time>,
    pub virtual_servers: Vec<RememberedVirtualServer>,
    /// When servers left by a verdict, as far as `max_down_rate` counts them.
    pub left: Vec<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedVirtualServer {
    /// Only orders follow it.
    pub name: String,
    pub services: Vec<ServiceId>,
    pub quorum_up: bool,
    /// Since when that is so; unknown of a file that does not say it.
    pub since: Option<Time>,
    pub real_servers: Vec<RememberedRealServer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedRealServer {
    pub id: RealServerId,
    pub order: Option<Box<Override>>,
    pub operator_weight: Option<Box<OperatorWeight>>,
    /// When it failed, if it stays in the table all the same.
    pub kept: Option<Time>,
    /// How it stood, and since when; unknown of a file that does not say it.
    pub since: Option<Since>,
    /// Checks that have run; of those that are down with their last results, for people to read.
    pub checks: Few<(Identity, CheckerState)>,
}

/// A state and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    pub alive: bool,
    pub at: Time,
}

impl Memory {
    pub(super) fn of(pools: &[VirtualServer], left: &VecDeque<Time>, now: Time) -> Self {
        let virtual_servers = pools.iter().map(|pool| RememberedVirtualServer {
            name: pool.config.name.clone(),
            services: pool.config.services.clone(),
            quorum_up: pool.quorum_up,
            since: Some(pool.since),
            real_servers: pool
                .real_servers
                .iter()
                .map(|server| RememberedRealServer {
                    id: server.id(),
                    order: server.order.clone(),
                    operator_weight: server.operator_weight.clone(),
                    kept: server.kept.then_some(server.since),
                    since: Some(Since { alive: server.was_alive, at: server.since }),
                    checks: remembered_checks(server),
                })
                .collect(),
        });
        Self {
            saved_at: Some(now),
            virtual_servers: virtual_servers.collect(),
            left: left.iter().copied().collect(),
        }
    }

    /// By this clock, the oldest first.
    pub(super) fn left(&self, now: Time) -> impl Iterator<Item = Time> + '_ {
        let is_ours = self.saved_at.is_some_and(|at| at <= now);
        self.left.iter().copied().filter(move |at| is_ours && *at <= now)
    }

    pub(super) fn index(&self) -> BTreeMap<ServiceId, usize> {
        let pools = self.virtual_servers.iter().enumerate();
        pools.flat_map(|(index, pool)| pool.services.iter().map(move |service| (*service, index))).collect()
    }

    /// What is remembered of the pool that these services belong to now.
    pub(super) fn pool(
        &self,
        index: &BTreeMap<ServiceId, usize>,
        services: &[ServiceId],
    ) -> Option<PastPool> {
        let among = predecessors(services, |service| index.get(service).copied());
        let first = self.virtual_servers.get(*among.first()?)?;
        let mut servers: BTreeMap<RealServerId, PastServer> = BTreeMap::new();
        for server in among.iter().filter_map(|i| self.virtual_servers.get(*i)).flat_map(|v| &v.real_servers)
        {
            servers.entry(server.id).or_insert_with(|| PastServer {
                kept: server.kept.is_some(),
                since: server.since.map(|since| since.at).or(server.kept),
                since_alive: server.since.map(|since| since.alive).or(server.kept.map(|_| false)),
                checkers: server.checks.iter().cloned().collect(),
                ..PastServer::default()
            });
        }
        let (quorum_up, since) = (Some(first.quorum_up), first.since);
        Some(PastPool { quorum_up, since, servers, ..PastPool::default() })
    }
}

fn remembered_checks(server: &RealServer) -> Few<(Identity, CheckerState)> {
    let ran = server.checkers.iter().filter(|checker| checker.state().has_run);
    ran.map(|checker| (checker.identity(), checker.state().remembered())).collect()
}
