//! What is known of servers and checks before a configuration takes over: from the generation
//! before it (a reload), or from the state file and the kernel's table (a start).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::checker::CheckerState;
use super::guard::Guard;
use super::identity::Identity;
use super::inheritance::Orders;
use super::memory::Memory;
use super::model::{self, Config, Mode, RealServerId};
use super::real_server::destination_id;
use super::reload::ServerKey;
use super::snapshot::Order;
use super::table::{Service, ServiceId, Table};
use super::time::Time;
use super::virtual_server::VirtualServer;

#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) pools: Vec<PastPool>,
    by_service: BTreeMap<ServiceId, usize>,
    /// Verdicts of checks that have run, whoever they belong to.
    verdicts: BTreeMap<Identity, CheckerState>,
}

#[derive(Debug, Default)]
pub(super) struct PastPool {
    pub(super) quorum_up: Option<bool>,
    pub(super) since: Option<Time>,
    pub(super) keeping: BTreeSet<Guard>,
    pub(super) servers: BTreeMap<RealServerId, PastServer>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PastServer {
    /// The verdict it had; unknown if nothing ever said so.
    pub(super) passes_checks: Option<bool>,
    /// The state that was last told, where there is a generation before this one.
    pub(super) was_alive: Option<bool>,
    pub(super) since: Option<Time>,
    /// That counts only if this is how it stands now; unset where there is a generation before this one.
    pub(super) since_alive: Option<bool>,
    /// It had failed, and stayed in the table all the same.
    pub(super) kept: bool,
    pub(super) told: bool,
    pub(super) checkers: BTreeMap<Identity, CheckerState>,
}

impl PastServer {
    /// Since when it has been as it is now.
    pub(super) fn since(&self, alive: bool) -> Option<Time> {
        self.since.filter(|_| self.since_alive.is_none_or(|was| was == alive))
    }

    /// As much as is known of a server that was never heard of.
    fn is_nothing(&self) -> bool {
        let Self { passes_checks, was_alive, since, since_alive: _, kept, told, checkers } = self;
        let is_unsaid = passes_checks.is_none() && was_alive.is_none() && since.is_none() && !kept && !told;
        is_unsaid && checkers.is_empty()
    }
}

impl Past {
    /// What the running generation knows of all that `next` does not leave just the `same`.
    pub(super) fn of_running(pools: &[VirtualServer], next: &Config, same: &[Option<usize>]) -> Self {
        let mut past = Self::default();
        let stays: BTreeSet<usize> = same.iter().flatten().copied().collect();
        for (index, pool) in pools.iter().enumerate() {
            if stays.contains(&index) {
                past.pools.push(PastPool::default());
                continue;
            }
            past.by_service.extend(pool.config.services.iter().map(|s| (*s, index)));
            let servers = pool.real_servers.iter().map(|server| {
                let checkers = server.checkers.iter().map(|c| (c.identity(), c.state().clone())).collect();
                let known = PastServer {
                    passes_checks: Some(server.passes_checks()),
                    was_alive: Some(server.was_alive),
                    since: Some(server.since),
                    since_alive: None,
                    kept: server.kept,
                    told: server.told,
                    checkers,
                };
                (server.id(), known)
            });
            let (quorum_up, since) = (Some(pool.quorum_up), Some(pool.since));
            let keeping = pool.keeping.clone();
            past.pools.push(PastPool { quorum_up, since, keeping, servers: servers.collect() });
        }
        past.collect_verdicts();
        let changed = next.virtual_servers.iter().zip(same).filter(|(_, same)| same.is_none());
        let checks = changed.flat_map(|(pool, _)| &pool.real_servers).flat_map(|server| &server.checks);
        let wanted: BTreeSet<Identity> = checks.map(|check| Identity::of(&check.probe)).collect();
        if wanted.is_empty() {
            return past;
        }
        let staying = stays.iter().filter_map(|at| pools.get(*at)).flat_map(|pool| &pool.real_servers);
        for checker in staying.flat_map(|server| &server.checkers) {
            if checker.state().has_run && wanted.contains(&checker.identity()) {
                past.collect_verdict(checker.identity(), checker.state());
            }
        }
        past
    }

    /// What a start finds. A verdict of the state file counts while it is younger than three periods of
    /// its check and a timeout; where there is none, a server found serving is up, one found at weight 0
    /// or missing in a service that is there is down.
    pub(super) fn of_start(
        config: &Config,
        memory: &Memory,
        table: &Table,
        orders: &BTreeMap<ServerKey, Orders>,
        now: Time,
    ) -> Self {
        let mut past = Self::default();
        let memory_index = memory.index();
        for (index, pool) in config.virtual_servers.iter().enumerate() {
            past.by_service.extend(pool.services.iter().map(|s| (*s, index)));
            let found: Vec<(&ServiceId, &Service)> =
                pool.services.iter().filter_map(|id| Some((id, table.services.get(id)?.as_ref()))).collect();
            // A stamp that lies ahead is of another clock, and says nothing.
            let age = memory.saved_at.filter(|at| *at <= now).map(|at| now.since(at));
            let is_fresh = |check: &model::Check| {
                let timing = &check.timing;
                let limit = timing.delay_loop.saturating_mul(3).saturating_add(timing.timeout);
                age.is_some_and(|age| age < limit)
            };
            let remembered = memory.pool(&memory_index, &pool.services);
            let remembered = remembered.as_ref();
            let servers = pool.real_servers.iter().map(|server| {
                let mut known =
                    remembered.and_then(|p| p.servers.get(&server.id)).cloned().unwrap_or_default();
                let fresh: BTreeSet<Identity> =
                    server.checks.iter().filter(|c| is_fresh(c)).map(|c| Identity::of(&c.probe)).collect();
                known.checkers.retain(|identity, _| fresh.contains(identity));
                known.told = !known.checkers.is_empty();
                known.kept &= still_fails(server, &known);
                // Whoever has not been watched meanwhile may have been anything.
                known.since = known.since.filter(|_| known.kept || is_carried(server, &known));
                known.passes_checks = found_serving(server, orders.get(&(index, server.id)), &found);
                (server.id, known)
            });
            // At a first start nothing is known of thousands.
            let servers = servers.filter(|(_, known)| !known.is_nothing()).collect();
            let all_fresh = pool.real_servers.iter().flat_map(|s| &s.checks).all(|c| is_fresh(c));
            let quorum_up = remembered.and_then(|p| p.quorum_up).filter(|_| age.is_some() && all_fresh);
            let since = remembered.and_then(|p| p.since).filter(|_| quorum_up.is_some());
            past.pools.push(PastPool { quorum_up, since, servers, ..PastPool::default() });
        }
        past.collect_verdicts();
        past
    }

    /// Of several identical checks, asked at different speeds, the one heard of last is believed: not the
    /// one that happens to stand last in the file.
    fn collect_verdicts(&mut self) {
        let pools = std::mem::take(&mut self.pools);
        let states = pools.iter().flat_map(|p| p.servers.values()).flat_map(|s| &s.checkers);
        for (identity, state) in states.filter(|(_, state)| state.has_run) {
            self.collect_verdict(*identity, state);
        }
        self.pools = pools;
    }

    fn collect_verdict(&mut self, identity: Identity, state: &CheckerState) {
        let latest = |s: &CheckerState| (s.heard, s.up, s.failures, s.successes);
        match self.verdicts.entry(identity) {
            Entry::Vacant(entry) => drop(entry.insert(state.clone())),
            Entry::Occupied(mut entry) if latest(entry.get()) < latest(state) => {
                drop(entry.insert(state.clone()))
            }
            Entry::Occupied(_) => {}
        }
    }

    /// The pools that had any of these services, the one with the most of them first.
    pub(super) fn predecessors(&self, services: &[ServiceId]) -> Vec<usize> {
        predecessors(services, |service| self.by_service.get(service).copied())
    }

    /// What is known of server `id` in the pools `among`.
    pub(super) fn server(&self, among: &[usize], id: RealServerId) -> Option<&PastServer> {
        among.iter().find_map(|index| self.pools.get(*index)?.servers.get(&id))
    }

    /// The verdict of an identical check that runs already, wherever it does.
    pub(super) fn verdict(&self, identity: Identity) -> Option<&CheckerState> {
        self.verdicts.get(&identity)
    }
}

/// Which old pools a new one continues, by shared services; ties go to the service named first.
pub(super) fn predecessors(
    services: &[ServiceId],
    pool_of: impl Fn(&ServiceId) -> Option<usize>,
) -> Vec<usize> {
    let mut shared: Vec<(usize, usize)> = Vec::new();
    for index in services.iter().filter_map(pool_of) {
        match shared.iter_mut().find(|(known, _)| *known == index) {
            Some((_, count)) => *count += 1,
            None => shared.push((index, 1)),
        }
    }
    shared.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    shared.into_iter().map(|(index, _)| index).collect()
}

/// Is it down by a verdict that counts? Only then can it be one that stays all the same.
fn still_fails(server: &model::RealServer, known: &PastServer) -> bool {
    let enforced = server.checks.iter().filter(|check| check.mode == Mode::Enforce);
    enforced.filter_map(|check| known.checkers.get(&Identity::of(&check.probe))).any(|state| !state.up)
}

/// Do all of its verdicts that count come from before?
fn is_carried(server: &model::RealServer, known: &PastServer) -> bool {
    let mut enforced = server.checks.iter().filter(|check| check.mode == Mode::Enforce);
    enforced.all(|check| known.checkers.contains_key(&Identity::of(&check.probe)))
}

/// What the kernel's table says of a server: `None` if none of its pool's services is there, or if
/// weight 0 is what it should have anyway and so proves nothing.
fn found_serving(
    server: &model::RealServer,
    orders: Option<&Orders>,
    found: &[(&ServiceId, &Service)],
) -> Option<bool> {
    if found.is_empty() {
        return None;
    }
    let weights: Vec<u32> = found
        .iter()
        .filter_map(|(id, service)| {
            service.destinations.get(&destination_id(server.id, server.forwarding, id)).map(|d| d.weight)
        })
        .collect();
    let weight = orders.and_then(|orders| orders.operator_weight.as_ref());
    let base = weight.map_or(server.weight, |given| given.weight);
    let order = orders.and_then(|orders| orders.order.as_ref());
    let drained = order.is_some_and(|given| given.order == Order::Drain);
    if weights.iter().any(|weight| *weight > 0) {
        Some(true)
    } else if base == 0 || drained {
        (!weights.is_empty()).then_some(true)
    } else {
        Some(false)
    }
}
