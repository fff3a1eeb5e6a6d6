//! What the engine must do, written once more as plainly as possible: no index, no cached sum, no
//! queue. State is only what the rules call state: verdicts with their counters, quorum up or down,
//! the operator's orders, and who has been told of a server. All else is computed when asked for.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lvsd::engine::model::{
    self, Check, Config, DownRate, Mode, OnLocalError, Outcome, Probe, RealServerId, Timing, Verdict,
    WeightChange,
};
use lvsd::engine::snapshot::Order;
use lvsd::engine::table::{ServiceId, Table};
use lvsd::engine::{Guard, OrderChange, Time};

use table::destination_id;

mod guard;
mod table;

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) pools: Vec<Pool>,
    /// Of the input that is being handled.
    pub(crate) now: Time,
    /// Nobody who waits for the rate leaves meanwhile.
    pub(crate) frozen: bool,
    rate: Option<DownRate>,
    /// When servers left by a verdict.
    left: Vec<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) config: Arc<model::VirtualServer>,
    pub(crate) quorum_up: bool,
    /// The rules that keep some failed server, as told.
    keeping: BTreeSet<Guard>,
    pub(crate) servers: Vec<Server>,
}

/// By an operator, with its end.
type Given<T> = Option<(T, Option<Time>)>;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) config: Arc<model::RealServer>,
    pub(crate) checks: Vec<CheckState>,
    pub(crate) order: Given<Order>,
    pub(crate) weight: Given<u32>,
    /// It failed, and stays in the table all the same.
    pub(crate) kept: bool,
    failed: Option<Time>,
    told: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct CheckState {
    pub(crate) config: Arc<Check>,
    pub(crate) verdict: VerdictState,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VerdictState {
    pub(crate) up: bool,
    pub(crate) has_run: bool,
    pub(crate) failures: u32,
    successes: u32,
    weight: WeightChange,
    /// When anything was last heard of it.
    heard: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Server { pool: String, server: RealServerId, alive: bool, first: bool },
    Quorum { pool: String, gained: bool },
    Guard { pool: String, guard: Guard, keeps: bool },
}

/// What a start can know of an earlier run.
#[derive(Debug)]
pub(crate) struct Remembered<'a> {
    pub(crate) model: &'a Model,
    /// `None`: nobody knows how old it is.
    pub(crate) saved_at: Option<Time>,
}

// -- rule 1: verdicts -----------------------------------------------------------------------

impl VerdictState {
    fn assumed(up: bool) -> Self {
        Self { up, has_run: false, failures: 0, successes: 0, weight: WeightChange::None, heard: None }
    }

    fn success(&mut self, timing: &Timing, weight: WeightChange) {
        self.failures = 0;
        self.weight = weight;
        if !self.up {
            self.successes += 1;
            if !self.has_run || self.successes >= timing.rise {
                self.up = true;
                self.successes = 0;
            }
        }
        self.has_run = true;
    }

    fn failure(&mut self, timing: &Timing) {
        self.successes = 0;
        self.failures += 1;
        if !self.has_run || self.failures > timing.retry {
            self.up = false;
        }
        self.has_run = true;
    }
}

impl Server {
    fn enforced(&self) -> impl Iterator<Item = &CheckState> {
        self.checks.iter().filter(|c| c.config.mode == Mode::Enforce)
    }

    fn passes(&self) -> bool {
        self.enforced().all(|c| c.verdict.up)
    }

    fn is(&self, order: Order) -> bool {
        self.order.is_some_and(|(o, _)| o == order)
    }

    pub(crate) fn alive(&self) -> bool {
        self.passes() && !self.is(Order::Disable)
    }

    // -- rule 3: weights --------------------------------------------------------------------

    fn base(&self) -> u32 {
        self.weight.map_or(self.config.weight, |(w, _)| w)
    }

    pub(crate) fn effective_weight(&self) -> u32 {
        if self.is(Order::Drain) {
            return 0;
        }
        let base = i128::from(self.base());
        let mut sum = base;
        for check in self.enforced() {
            sum += match check.verdict.weight {
                WeightChange::None => 0,
                WeightChange::Absolute(weight) => i128::from(weight) - base,
                WeightChange::Delta(delta) => i128::from(delta),
            };
        }
        u32::try_from(sum.clamp(0, (1 << 31) - 1)).unwrap()
    }

    /// Rule 2: with nothing changed, is there something that an operator must hear?
    fn is_news(&self) -> bool {
        if self.alive() {
            self.enforced().all(|c| c.verdict.has_run) && self.enforced().any(|c| c.config.alpha)
        } else {
            self.enforced().any(|c| c.verdict.has_run && !c.verdict.up)
        }
    }
}

// -- rule 4: quorum -------------------------------------------------------------------------

impl Pool {
    pub(crate) fn live_weight(&self) -> u64 {
        self.servers.iter().filter(|s| s.stands()).map(|s| u64::from(s.effective_weight())).sum()
    }

    pub(crate) fn threshold(&self) -> i128 {
        let (quorum, hysteresis) = (i128::from(self.config.quorum), i128::from(self.config.hysteresis));
        let checks = self.config.real_servers.iter().flat_map(|s| &s.checks);
        let most: i128 = if checks.map(|c| &c.probe.kind).any(|k| k.moves_weight()) {
            i128::MAX
        } else {
            self.config.real_servers.iter().map(|s| i128::from(s.weight)).sum()
        };
        if self.quorum_up { quorum.min(most) - hysteresis } else { (quorum + hysteresis).min(most) }
    }

    fn has_quorum(&self) -> bool {
        let weight = self.live_weight();
        weight > 0 && i128::from(weight) >= self.threshold()
    }

    fn is_sorry(&self) -> bool {
        self.config.sorry_server.is_some() && !self.quorum_up
    }

    fn first_quorum(&mut self, remembered: Option<bool>) {
        self.quorum_up = remembered.unwrap_or(false);
        self.quorum_up = self.has_quorum();
    }
}

impl Model {
    // -- inputs -----------------------------------------------------------------------------

    /// One run of `probe`, asked for with `timing`, has ended: all who asked so hear it.
    pub(crate) fn outcome(
        &mut self,
        probe: &Probe,
        timing: &Timing,
        outcome: &Outcome,
        now: Time,
    ) -> Vec<News> {
        self.step(|model, firsts| {
            for (pool_at, pool) in model.pools.iter_mut().enumerate() {
                for (server_at, server) in pool.servers.iter_mut().enumerate() {
                    let alpha = server.enforced().any(|c| c.config.alpha);
                    for check in &mut server.checks {
                        if check.config.probe == *probe && same_run(&check.config.timing, timing) {
                            let first = check.hear(outcome, now);
                            let failed = !check.verdict.up;
                            if first && check.config.mode == Mode::Enforce && (failed || alpha) {
                                firsts.push((pool_at, server_at));
                            }
                        }
                    }
                }
            }
        })
    }

    pub(crate) fn order(
        &mut self,
        selects: impl Fn(&model::VirtualServer, RealServerId) -> bool,
        change: OrderChange,
        until: Option<Time>,
    ) -> Vec<News> {
        self.step(|model, _| {
            for pool in &mut model.pools {
                for server in pool.servers.iter_mut().filter(|s| selects(&pool.config, s.config.id)) {
                    match change {
                        OrderChange::Drain => server.order = Some((Order::Drain, until)),
                        OrderChange::Disable => server.order = Some((Order::Disable, until)),
                        OrderChange::Enable => server.order = None,
                        OrderChange::Weight(weight) => server.weight = Some((weight, until)),
                        OrderChange::WeightAuto => server.weight = None,
                    }
                }
            }
        })
    }

    /// Verdicts freeze: what was counted towards the next change is void.
    pub(crate) fn forget_counts(&mut self) {
        for check in self.pools.iter_mut().flat_map(|p| &mut p.servers).flat_map(|s| &mut s.checks) {
            check.verdict.successes = 0;
            check.verdict.failures *= u32::from(!check.verdict.up);
        }
    }

    pub(crate) fn expire(&mut self, now: Time) -> Vec<News> {
        self.step(|model, _| model.end_orders(now))
    }

    fn end_orders(&mut self, now: Time) {
        for server in self.pools.iter_mut().flat_map(|p| &mut p.servers) {
            server.order = server.order.filter(|(_, until)| until.is_none_or(|until| until > now));
            server.weight = server.weight.filter(|(_, until)| until.is_none_or(|until| until > now));
        }
    }

    /// Applies one input as a whole, then tells what is different.
    fn step(&mut self, change: impl FnOnce(&mut Self, &mut Vec<(usize, usize)>)) -> Vec<News> {
        let before: Vec<Vec<bool>> =
            self.pools.iter().map(|p| p.servers.iter().map(Server::alive).collect()).collect();
        let mut firsts = Vec::new();
        change(self, &mut firsts);
        self.tell(&before, &firsts)
    }

    fn tell(&mut self, before: &[Vec<bool>], firsts: &[(usize, usize)]) -> Vec<News> {
        let mut news = Vec::new();
        for (pool_at, pool) in self.pools.iter_mut().enumerate() {
            for (server_at, server) in pool.servers.iter_mut().enumerate() {
                let changed = server.alive() != before[pool_at][server_at];
                let first = firsts.contains(&(pool_at, server_at)) && !server.told && server.is_news();
                if changed || first {
                    server.told = true;
                    news.push(News::Server {
                        pool: pool.config.name.clone(),
                        server: server.config.id,
                        alive: server.alive(),
                        first: !changed,
                    });
                }
            }
        }
        news.extend(self.guard(before));
        for pool in &mut self.pools {
            let up = pool.has_quorum();
            if up != pool.quorum_up {
                pool.quorum_up = up;
                news.push(News::Quorum { pool: pool.config.name.clone(), gained: up });
            }
        }
        news
    }

    // -- rule 8: reload ---------------------------------------------------------------------

    pub(crate) fn reload(&mut self, config: &Config) -> Vec<News> {
        let old = std::mem::take(self);
        (self.now, self.frozen, self.left) = (old.now, old.frozen, old.left.clone());
        self.rate = config.daemon.max_down_rate;
        let mut before = Vec::new();
        for pool in &config.virtual_servers {
            let among = old.predecessors(&pool.services);
            let mut alive = Vec::new();
            let mut servers = Vec::new();
            for server in &pool.real_servers {
                let known = among.iter().flat_map(|p| &p.servers).find(|s| s.config.id == server.id);
                let (order, weight) = old.orders(&among, config, &pool.name, server.id);
                let checks = server.checks.iter().map(|check| CheckState {
                    config: Arc::clone(check),
                    verdict: known
                        .and_then(|s| s.checks.iter().find(|c| c.config.probe == check.probe))
                        .map(|c| c.verdict.clone())
                        .or_else(|| old.verdict_elsewhere(&check.probe))
                        .unwrap_or_else(|| VerdictState::assumed(known.map_or(!check.alpha, Server::passes))),
                });
                let server = Server {
                    config: Arc::clone(server),
                    checks: checks.collect(),
                    order,
                    weight,
                    kept: known.is_some_and(|s| s.kept),
                    failed: known.and_then(|s| s.failed),
                    told: known.is_some_and(|s| s.told),
                };
                alive.push(known.map_or(server.alive(), Server::alive));
                servers.push(server);
            }
            let keeping = among.first().map(|p| p.keeping.clone()).unwrap_or_default();
            let mut pool = Pool { config: Arc::clone(pool), quorum_up: false, keeping, servers };
            match among.first() {
                Some(first) => pool.quorum_up = first.quorum_up,
                None => pool.first_quorum(None),
            }
            before.push(alive);
            self.pools.push(pool);
        }
        self.tell(&before, &[])
    }

    /// Old pools with any of these services: the one with the most first, then by the first service.
    fn predecessors(&self, services: &[ServiceId]) -> Vec<&Pool> {
        let mut ranked: Vec<_> = self
            .pools
            .iter()
            .filter_map(|pool| {
                let shared = services.iter().filter(|s| pool.config.services.contains(s)).count();
                let first = services.iter().position(|s| pool.config.services.contains(s))?;
                Some((Reverse(shared), first, pool))
            })
            .collect();
        ranked.sort_by_key(|(shared, first, _)| (*shared, *first));
        ranked.into_iter().map(|(_, _, pool)| pool).collect()
    }

    /// What was ordered of a server in the pools that have its pool's services; if none of them has the
    /// server, in the pool of the same name, if none that has its services now has the server.
    fn orders(
        &self,
        among: &[&Pool],
        next: &Config,
        name: &str,
        id: RealServerId,
    ) -> (Given<Order>, Given<u32>) {
        let is_gone = |p: &&Pool| {
            let heirs =
                next.virtual_servers.iter().filter(|pool| pool.real_servers.iter().any(|s| s.id == id));
            !heirs.flat_map(|pool| &pool.services).any(|service| p.config.services.contains(service))
        };
        let in_pool = |pool: &&Pool| pool.servers.iter().find(|s| s.config.id == id).cloned();
        let mut known: Vec<Server> = among.iter().filter_map(in_pool).collect();
        if known.is_empty() {
            known.extend(
                self.pools
                    .iter()
                    .filter(|p| p.config.name == name)
                    .filter(is_gone)
                    .filter_map(|p| in_pool(&p)),
            );
        }
        (known.iter().find_map(|s| s.order), known.iter().find_map(|s| s.weight))
    }

    /// The verdict of an identical check that has run, whoever's it is: the one heard of last.
    fn verdict_elsewhere(&self, probe: &Probe) -> Option<VerdictState> {
        let checks = self.pools.iter().flat_map(|p| &p.servers).flat_map(|s| &s.checks);
        checks
            .filter(|c| c.config.probe == *probe && c.verdict.has_run)
            .map(|c| &c.verdict)
            .max_by_key(|v| (v.heard, v.up, v.failures, v.successes))
            .cloned()
    }

    // -- rule 9: start ----------------------------------------------------------------------

    pub(crate) fn start(
        config: &Config,
        remembered: &Remembered<'_>,
        observed: &Table,
        now: Time,
    ) -> (Self, Vec<News>) {
        let age = remembered.saved_at.map(|at| now.since(at));
        let fresh =
            |check: &Check| age.is_some_and(|age| age < check.timing.delay_loop * 3 + check.timing.timeout);
        // Times of a clock that nobody knows say nothing.
        let left = if age.is_some() { remembered.model.left.clone() } else { Vec::new() };
        let mut model =
            Self { now, frozen: false, rate: config.daemon.max_down_rate, left, pools: Vec::new() };
        let mut unknown: Vec<(usize, usize, usize)> = Vec::new();
        for (pool_at, pool) in config.virtual_servers.iter().enumerate() {
            let among = remembered.model.predecessors(&pool.services);
            let mut servers = Vec::new();
            for (server_at, server) in pool.real_servers.iter().enumerate() {
                let known = among.iter().flat_map(|p| &p.servers).find(|s| s.config.id == server.id);
                let (order, weight) = remembered.model.orders(&among, config, &pool.name, server.id);
                let mut new = Server {
                    config: Arc::clone(server),
                    checks: Vec::new(),
                    order,
                    weight,
                    kept: false,
                    failed: known.and_then(|s| s.failed),
                    told: false,
                };
                let mut fails = false;
                let found = new.found_serving(&pool.services, observed);
                for (check_at, check) in server.checks.iter().enumerate() {
                    let verdict = known
                        .filter(|_| fresh(check))
                        .and_then(|s| s.checks.iter().find(|c| c.config.probe == check.probe))
                        .map(|c| c.verdict.clone())
                        .filter(|v| v.has_run);
                    match &verdict {
                        Some(verdict) => {
                            new.told = true;
                            fails |= check.mode == Mode::Enforce && !verdict.up;
                        }
                        None => unknown.push((pool_at, server_at, check_at)),
                    }
                    new.checks.push(CheckState {
                        config: Arc::clone(check),
                        verdict: verdict
                            .unwrap_or_else(|| VerdictState::assumed(found.unwrap_or(!check.alpha))),
                    });
                }
                // Kept is who was, if the verdict that it does not follow still counts.
                new.kept = fails && known.is_some_and(|s| s.kept);
                servers.push(new);
            }
            model.pools.push(Pool {
                config: Arc::clone(pool),
                quorum_up: false,
                keeping: BTreeSet::new(),
                servers,
            });
        }
        let taken: Vec<_> = unknown
            .iter()
            .map(|(p, s, c)| model.verdict_elsewhere(&model.pools[*p].servers[*s].checks[*c].config.probe))
            .collect();
        for ((p, s, c), verdict) in unknown.into_iter().zip(taken) {
            if let Some(verdict) = verdict {
                model.pools[p].servers[s].checks[c].verdict = verdict;
            }
        }
        // An order that is over ends before the quorum is first looked at.
        let before: Vec<Vec<bool>> =
            model.pools.iter().map(|p| p.servers.iter().map(Server::alive).collect()).collect();
        model.end_orders(now);
        let mut news = model.guard(&before);
        for pool in &mut model.pools {
            let checks = pool.config.real_servers.iter().flat_map(|s| &s.checks);
            let all_fresh = age.is_some() && checks.into_iter().all(|c| fresh(c));
            let past = remembered.model.predecessors(&pool.config.services);
            pool.first_quorum(past.first().filter(|_| all_fresh).map(|p| p.quorum_up));
        }
        news.splice(0..0, model.tell(&before, &[]));
        (model, news)
    }
}

impl Server {
    /// What the kernel's table says of it; `None` if that says nothing.
    fn found_serving(&self, services: &[ServiceId], table: &Table) -> Option<bool> {
        let found: Vec<_> = services.iter().filter_map(|id| Some((id, table.services.get(id)?))).collect();
        let entries: Vec<_> = found
            .iter()
            .filter_map(|(id, service)| {
                service.destinations.get(&destination_id(self.config.id, self.config.forwarding, id))
            })
            .collect();
        let weightless = self.base() == 0 || self.is(Order::Drain);
        match (found.is_empty(), entries.iter().any(|d| d.weight > 0)) {
            (true, _) => None,
            (false, true) => Some(true),
            (false, false) if weightless && entries.is_empty() => None,
            (false, false) => Some(weightless),
        }
    }
}

impl CheckState {
    /// Counts one outcome. Was it the first?
    fn hear(&mut self, outcome: &Outcome, now: Time) -> bool {
        self.verdict.heard = Some(now);
        let first = !self.verdict.has_run;
        match (&outcome.verdict, self.config.on_local_error) {
            (Verdict::LocalError(_), OnLocalError::Ignore) => return false,
            (Verdict::Success { weight, .. }, _) => self.verdict.success(&self.config.timing, *weight),
            (Verdict::Failure(_), _) | (Verdict::LocalError(_), OnLocalError::Fail) => {
                self.verdict.failure(&self.config.timing);
            }
        }
        first
    }
}

/// Do two checks share their runs? The time over which first runs are spread is no part of it.
pub(crate) fn same_run(one: &Timing, other: &Timing) -> bool {
    Timing { warmup: Duration::ZERO, ..*one } == Timing { warmup: Duration::ZERO, ..*other }
}
