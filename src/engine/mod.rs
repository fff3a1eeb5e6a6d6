//! The pure core: decides, never acts.
//!
//! Owns every verdict, quorum and override. Reads no clock, opens no socket, knows no
//! runtime: time and results come in as arguments, commands and events go out as values.
//!
//! The caller's loop is: `handle_*` with whatever came in; then [`Engine::handle_timeout`]; then
//! take all of [`Engine::next_command`], [`Engine::next_event`] and [`Engine::take_table_changes`];
//! then sleep until [`Engine::poll_timeout`] or the next input. The same inputs give the same
//! outputs, byte for byte.

pub mod announcements;
mod build;
mod changes;
mod checker;
mod desired;
mod event;
pub mod figures;
mod gate;
mod guard;
mod identity;
mod inheritance;
pub mod inquiry;
pub mod memory;
pub mod model;
mod orders;
mod past;
mod readings;
mod real_server;
pub mod reload;
mod schedule;
pub mod self_test;
pub mod snapshot;
pub mod table;
mod takeover;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
mod virtual_server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use checker::{Checker, CheckerState, Judgement, Last, Transition};
pub use event::{Cause, Command, Event, Evidence, News, OrderChange, Server};
pub use gate::{Holder, Presence, Standing};
pub use guard::Guard;
pub use identity::Identity;
pub use inheritance::LostOrder;
pub use orders::{OrderRefusal, Ordered, Selector};
pub use readings::Readings;
pub use real_server::{RealServer, destination_id};
pub use schedule::ProbeId;
pub use time::Time;
pub use virtual_server::{QuorumEvent, QuorumKind, SorryAction, VirtualServer};

use build::build_pools;
use inheritance::Inheritance;
use memory::Memory;
use model::{Config, Mode, OnLocalError, Outcome, Verdict};
use past::Past;
use reload::Plan;
use schedule::{Place, Schedule};
use self_test::SelfTest;
use snapshot::Snapshot;
use table::{Service, ServiceId, Table};

/// All virtual servers with their verdicts, and when each check is due.
#[derive(Debug, Default)]
pub struct Engine {
    pools: Vec<VirtualServer>,
    schedule: Schedule,
    /// The table as last handed out; `None` for services that are not active.
    table: BTreeMap<ServiceId, Option<Arc<Service>>>,
    presence: Presence,
    rates: guard::DownRates,
    /// Of every service that is gated, as last told.
    standings: BTreeMap<ServiceId, Standing>,
    /// Pools whose part of the table may have changed since.
    dirty: BTreeSet<usize>,
    /// A reload replaced the pools: services may have gone.
    all_dirty: bool,
    /// Pools whose quorum is to be looked at when all of one input has been taken in.
    unsettled: BTreeSet<usize>,
    /// Verdict, quorum or order changed since the memory was last taken.
    memory_changed: bool,
    self_test: SelfTest,
    /// Of the input that is being handled.
    now: Time,
    /// When the next order ends by itself.
    order_end: Option<Time>,
    commands: VecDeque<Command>,
    events: VecDeque<Event>,
}

impl Engine {
    /// The first configuration. `memory` is what the state file holds, `observed` the kernel's table
    /// before anything is written to it, `readings` what was read just now. First quorum states are set
    /// without a transition.
    pub fn start(config: &Config, memory: &Memory, observed: &Table, readings: &Readings, now: Time) -> Self {
        let self_test = SelfTest::new(&config.daemon.self_test);
        let mut engine = Self { now, self_test, ..Self::default() };
        let Inheritance { heirs, lost } = Inheritance::of_start(config, memory, now);
        let past = Past::of_start(config, memory, observed, &heirs, now);
        let plan = Plan::of_start(config, heirs);
        engine.pools = build_pools(config, Vec::new(), &past, &plan, now);
        engine.rates.left = memory.left(now).collect();
        engine.rates.replaced(config.daemon.max_down_rate);
        engine.find_order_end();
        engine.expire_orders(now);
        engine.replace_schedule(&plan, now);
        engine.take_readings(readings, now);
        engine.settle_all_guards();
        for (pool, config) in engine.pools.iter_mut().zip(&config.virtual_servers) {
            let remembered = past.predecessors(&config.services).first().and_then(|i| past.pools.get(*i));
            let remembered = remembered.and_then(|p| p.quorum_up);
            pool.set_initial_quorum(remembered);
            if remembered != Some(pool.quorum_up) {
                pool.since = now;
            }
        }
        engine.presence = readings.presence.clone();
        engine.settle_standings();
        engine.tell_lost_orders(lost);
        engine
    }

    /// What [`Engine::handle_reload`] would do with this configuration.
    pub fn plan_reload(&self, config: &Config, presence: &Presence) -> Plan {
        Plan::new(&self.pools, config, presence)
    }

    /// Switches to a new configuration. What exists before and after keeps its verdicts, counters,
    /// due times, runs in flight, quorum and orders. `readings`: what was read just now.
    pub fn handle_reload(&mut self, config: &Config, readings: &Readings, now: Time) -> Plan {
        self.now = now;
        let plan = self.plan_reload(config, &readings.presence);
        self.self_test.configure(&config.daemon.self_test);
        self.rates.replaced(config.daemon.max_down_rate);
        if !reload::is_same(&self.pools, config) {
            self.replace_pools(config, &plan, now);
        }
        self.adopt(config);
        self.take_readings(readings, now);
        self.settle_all_guards();
        for index in 0..self.pools.len() {
            let known = plan.carried.quorum_up.get(index).copied().flatten();
            if let (None, Some(pool)) = (known, self.pools.get_mut(index)) {
                pool.set_initial_quorum(None);
            }
            self.update_quorum(index);
        }
        self.presence = readings.presence.clone();
        self.settle_standings();
        self.tell_lost_orders(plan.lost_orders.iter().cloned());
        plan
    }

    /// One run of a probe has ended. Results of probes that a reload took away are ignored.
    pub fn handle_outcome(&mut self, id: ProbeId, outcome: &Outcome, now: Time) {
        if !self.schedule.is_running(id) {
            return;
        }
        self.now = now;
        let Some(entry) = self.schedule.entry(id) else { return };
        let places = entry.places.clone();
        let delay_before_retry = entry.check.timing.delay_before_retry;
        let aside = self.set_aside(id, &places, outcome, now);
        let mut retrying = aside.unwrap_or(false);
        for place in places.iter().filter(|_| aside.is_none()) {
            retrying |= self.record(place, outcome, now);
        }
        self.schedule.ended(id, retrying.then_some(delay_before_retry), now);
        self.settle_quorums();
    }

    /// Starts what is due and ends orders whose time is over. Spurious calls are harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.settle_self_test(now);
        self.expire_orders(now);
        self.settle_quorums();
        while let Some(id) = self.schedule.start_due(now) {
            if let Some(entry) = self.schedule.entry(id) {
                self.commands.push_back(Command::Start { id, check: Arc::clone(&entry.check) });
            }
        }
    }

    /// When [`Engine::handle_timeout`] has something to do next. May change with every other call.
    pub fn poll_timeout(&self) -> Option<Time> {
        let leaving = self.rates.next().filter(|_| !self.is_frozen());
        let due = [self.schedule.next_due(), self.order_end, self.self_test.poll_timeout(), leaving];
        due.into_iter().flatten().min()
    }

    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    pub fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Every configured service, active or not.
    pub fn services(&self) -> impl Iterator<Item = ServiceId> + Clone + '_ {
        self.pools.iter().flat_map(|pool| pool.config.services.iter().copied())
    }

    /// Has anything changed, since the last call, that a later start should know?
    pub fn take_memory_changed(&mut self) -> bool {
        std::mem::take(&mut self.memory_changed)
    }

    /// What a later start should know.
    pub fn memory(&self, now: Time) -> Memory {
        Memory::of(&self.pools, &self.rates.left, now)
    }

    /// Virtual servers in file order; only the one called `name` if one is named.
    pub fn snapshot(&self, name: Option<&str>) -> Snapshot {
        let named = self.pools.iter().filter(|p| name.is_none_or(|n| n == p.config.name));
        let virtual_servers = named.map(VirtualServer::status).collect();
        Snapshot { virtual_servers, frozen: self.self_test.status(), ..Snapshot::default() }
    }

    /// The pools themselves, for notifications at stop.
    pub fn virtual_servers(&self) -> &[VirtualServer] {
        &self.pools
    }

    pub fn probe_count(&self) -> usize {
        self.schedule.len()
    }

    /// How far behind its time the most overdue check is: waiting to be started, be it as a command that nobody has
    /// taken yet, or to end. Ask before [`Engine::handle_timeout`]: it makes commands of those that wait.
    pub fn lateness(&self, now: Time) -> Duration {
        // The first is the oldest.
        let waiting = self.commands.iter().find_map(|command| match command {
            Command::Start { id, .. } => self.schedule.entry(*id),
            Command::Cancel { .. } => None,
        });
        let waited = waiting.map_or(Duration::ZERO, |entry| now.since(entry.due_at()));
        self.schedule.lateness(now).max(waited)
    }

    /// Counts one outcome for one checker. Must it be tried again before its next turn?
    fn record(&mut self, place: Place, outcome: &Outcome, now: Time) -> bool {
        let (pool_at, server_at, checker_at) = (place.0 as usize, place.1 as usize, place.2 as usize);
        let Some(pool) = self.pools.get_mut(pool_at) else { return false };
        let virtual_server = &pool.config;
        let Some(server) = pool.real_servers.get_mut(server_at) else { return false };
        let of =
            || Server { virtual_server: Arc::clone(virtual_server), real_server: Arc::clone(&server.config) };
        let Some(checker) = server.checkers.get_mut(checker_at) else { return false };
        checker.remember(outcome, now);
        let check = || Arc::clone(&checker.config);
        let judgement = match &outcome.verdict {
            Verdict::Success { weight, .. } => Judgement::Success(*weight),
            Verdict::Failure(_) => Judgement::Failure,
            Verdict::LocalError(fault) => match checker.config.on_local_error {
                OnLocalError::Fail => Judgement::Failure,
                OnLocalError::Ignore => {
                    self.events.push_back(Event::LocalError {
                        of: of(),
                        check: check(),
                        fault: fault.clone(),
                    });
                    return false;
                }
            },
        };
        let weight_before = checker.state().weight;
        let transition = checker.record(judgement);
        if let Verdict::Failure(fault) | Verdict::LocalError(fault) = &outcome.verdict {
            let (check, fault) = (Arc::clone(&checker.config), fault.clone());
            self.events.push_back(Event::Failure { of: of(), check, transition, fault });
        }
        self.memory_changed |= transition.first || transition.changed;
        let weighs_other = checker.state().weight != weight_before;
        let news = checker.should_notify(&transition) || transition.first || weighs_other;
        if news && checker.config.mode == Mode::Enforce {
            let check = Arc::clone(&checker.config);
            let evidence = Box::new(Evidence { check, transition, latency: outcome.latency });
            let kind = checker.config.probe.kind.name();
            let cause = Cause::Check { kind, detail: last_detail(checker), evidence };
            // An alpha check that had to wait for the others is told by the last of them.
            let tell = transition.first && (!transition.to || server.has_alpha_check());
            self.judge(pool_at, server_at, tell, &cause);
        }
        transition.retrying
    }

    /// A checker of this server has news: does the server, its weight or the quorum?
    fn judge(&mut self, pool_at: usize, server_at: usize, tell: bool, cause: &Cause) {
        let changed = self.announce_change(pool_at, server_at, cause);
        if !changed && tell {
            self.announce_first(pool_at, server_at, cause);
        }
        self.unsettled.insert(pool_at);
    }

    /// Brings a server's part in its pool up to date and tells what changed. Was it its state?
    fn announce_change(&mut self, pool_at: usize, server_at: usize, cause: &Cause) -> bool {
        let Some(pool) = self.pools.get_mut(pool_at) else { return false };
        let virtual_server = Arc::clone(&pool.config);
        let Some(server) = pool.real_servers.get_mut(server_at) else { return false };
        let (alive, weight, counted) = (server.is_alive(), server.effective_weight(), server.counted.weight);
        let of = Server { virtual_server, real_server: Arc::clone(&server.config) };
        let stood = server.was_alive || server.kept;
        let changed = alive != std::mem::replace(&mut server.was_alive, alive);
        // Whoever stands and fails stays until the guards have looked at all that came in.
        let keep = stood && !alive && server.can_play();
        let left = server.kept && !keep;
        if left {
            pool.keep(server_at, false);
        }
        let Some(server) = pool.real_servers.get_mut(server_at) else { return false };
        if changed {
            server.since = self.now;
            server.told = true;
        }
        if keep && !server.kept {
            pool.keep(server_at, true);
        }
        let weighed = !changed && (alive || keep) && weight != counted;
        if changed {
            let cause = cause.clone();
            self.events.push_back(Event::RealServer { of, alive, news: News::Changed, cause });
        } else if weighed {
            self.events.push_back(Event::Weight { of, from: counted, to: weight, cause: cause.clone() });
        }
        pool.count(server_at);
        if changed || weighed || left {
            self.dirty.insert(pool_at);
            self.memory_changed = true;
        }
        changed
    }

    /// Tells a state that did not change to those who never heard of it: once per server, and not
    /// before all its checks agree on what there is to tell.
    fn announce_first(&mut self, pool_at: usize, server_at: usize, cause: &Cause) {
        let Some(pool) = self.pools.get_mut(pool_at) else { return };
        let virtual_server = Arc::clone(&pool.config);
        let Some(server) = pool.real_servers.get_mut(server_at) else { return };
        let alive = server.is_alive();
        let known = if alive { server.is_judged() } else { server.has_failed_check() };
        if server.told || !known {
            return;
        }
        server.told = true;
        let of = Server { virtual_server, real_server: Arc::clone(&server.config) };
        self.events.push_back(Event::RealServer { of, alive, news: News::First, cause: cause.clone() });
    }

    /// Looks at the quorums that an input touched. Once for all its servers: what several of them do
    /// to one quorum is one change, or none.
    fn settle_quorums(&mut self) {
        let mut unsettled = std::mem::take(&mut self.unsettled);
        unsettled.extend(self.settle_guards(&unsettled));
        for pool_at in unsettled {
            self.update_quorum(pool_at);
        }
    }

    /// The same of the guards alone, for all pools.
    fn settle_all_guards(&mut self) {
        self.unsettled.clear();
        let all = (0..self.pools.len()).collect();
        self.settle_guards(&all);
    }

    fn update_quorum(&mut self, pool_at: usize) {
        let Some(pool) = self.pools.get_mut(pool_at) else { return };
        let quorum = pool.update_quorum();
        if quorum.kind != QuorumKind::NoChange {
            pool.since = self.now;
            let virtual_server = Arc::clone(&pool.config);
            self.events.push_back(Event::Quorum { virtual_server, quorum });
            self.dirty.insert(pool_at);
            self.memory_changed = true;
        }
    }
}

fn last_detail(checker: &Checker) -> String {
    checker.state().last.as_ref().map(|last| last.detail.to_string()).unwrap_or_default()
}
