//! Drives the engine and the reference model side by side and compares them after every input.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lvsd::engine::memory::Memory;
use lvsd::engine::model::{Config, Outcome, Probe, RealServerId, Timing, Verdict, VirtualServer};
use lvsd::engine::self_test::Canary;
use lvsd::engine::snapshot::OrderNote;
use lvsd::engine::table::{ServiceId, Table};
use lvsd::engine::{
    Engine, Event, News as FirstOrChanged, OrderChange, OrderRefusal, Presence, ProbeId, QuorumKind,
    Readings, Selector, Time,
};

use crate::cases::Counts;
use crate::figures;
use crate::freeze::{Freeze, with_canary};
use crate::gate::{self, Gates};
use crate::model::{Model, News, Remembered};
use crate::runs::{Run, describe, wanted};
use crate::writing;

pub(crate) struct Pair {
    pub(crate) engine: Engine,
    pub(crate) model: Model,
    pub(crate) now: Time,
    /// What a kernel would hold that does all it is told.
    pub(crate) kernel: Table,
    pub(crate) running: BTreeMap<ProbeId, Run>,
    /// All that was ever said, for comparing runs.
    pub(crate) log: Vec<String>,
    /// Who was told what; emptied by whoever compares it.
    pub(crate) told: Vec<News>,
    pub(crate) counts: Counts,
    /// When each probe that is wanted was started last, or wanted first.
    pub(crate) last_start: Vec<(Probe, Timing, Time)>,
    pub(crate) config: Config,
    pub(crate) presence: Presence,
    gates: Gates,
    freeze: Freeze,
}

/// Whom an order is about.
#[derive(Clone, Debug)]
pub(crate) struct Whom {
    pub(crate) server: RealServerId,
    pub(crate) any_port: bool,
    pub(crate) pool: Option<String>,
}

impl Pair {
    pub(crate) fn start(config: Config, now: Time) -> Self {
        let nothing = Remembered { model: &Model::default(), saved_at: None };
        let presence = Presence::default();
        Self::start_with(config, &Memory::default(), &nothing, Table::default(), presence, now)
    }

    fn start_with(
        config: Config,
        memory: &Memory,
        remembered: &Remembered<'_>,
        kernel: Table,
        presence: Presence,
        now: Time,
    ) -> Self {
        let config = with_canary(config);
        let (model, news) = Model::start(&config, remembered, &kernel, now);
        let mut pair = Self {
            engine: Engine::start(&config, memory, &kernel, &readings(&presence), now),
            model,
            now,
            kernel,
            running: BTreeMap::new(),
            log: Vec::new(),
            told: Vec::new(),
            counts: Counts::default(),
            last_start: Vec::new(),
            config,
            presence,
            gates: Gates::default(),
            freeze: Freeze::default(),
        };
        pair.engine.handle_canary(&Canary::Answers, now);
        pair.want_probes(&[]);
        pair.settle(news);
        pair
    }

    /// The daemon ends and starts again, with its state file or without.
    pub(crate) fn restart(
        self,
        config: Config,
        remembers: bool,
        kernel_survives: bool,
        gap: Duration,
    ) -> Self {
        let now = self.now + gap;
        let kernel = if kernel_survives { self.kernel } else { Table::default() };
        let mut memory = self.engine.memory(self.now);
        let mut saved_at = Some(self.now);
        if !remembers {
            memory.saved_at = None;
            saved_at = None;
        }
        let remembered = Remembered { model: &self.model, saved_at };
        Self::start_with(config, &memory, &remembered, kernel, self.presence, now)
    }

    // -- inputs -----------------------------------------------------------------------------

    pub(crate) fn reload(&mut self, config: Config) {
        let config = with_canary(config);
        let unchanged = self.config == config;
        let old = std::mem::replace(&mut self.config, config);
        let plan = self.engine.plan_reload(&self.config, &self.presence);
        assert_eq!(plan.actions.is_empty(), unchanged_but_order(&old, &self.config), "{:?}", plan.actions);
        assert_eq!(self.engine.handle_reload(&self.config, &readings(&self.presence), self.now), plan);
        self.pass_time();
        let news = self.model.reload(&self.config);
        let old_wanted = wanted(&old);
        self.want_probes(&old_wanted);
        self.follow_runs(&old_wanted);
        if unchanged {
            assert_eq!(news, [], "the model itself");
        }
        self.settle(news);
    }

    /// Addresses and files come and go; each picture comes twice.
    pub(crate) fn look_around(&mut self, presence: &Presence) {
        self.presence = presence.clone();
        self.engine.handle_presence(presence, self.now);
        self.engine.handle_presence(presence, self.now);
        self.settle(Vec::new());
    }

    /// A canary answers, or none does.
    pub(crate) fn ask_canaries(&mut self, answers: bool) {
        let silent = Canary::Silent("timed out".to_owned());
        self.engine.handle_canary(if answers { &Canary::Answers } else { &silent }, self.now);
        if self.freeze.hear(answers, self.now) {
            self.model.forget_counts();
        }
        self.settle(Vec::new());
    }

    pub(crate) fn in_flight(&self) -> Vec<ProbeId> {
        self.running.keys().copied().collect()
    }

    pub(crate) fn finish(&mut self, id: ProbeId, outcome: &Outcome) {
        // No two results come in the same nanosecond: of two the later is believed.
        self.now = self.now + Duration::from_nanos(1);
        self.engine.handle_outcome(id, outcome, self.now);
        let run = self.running.remove(&id).unwrap();
        self.freeze.pass(self.now, self.running.keys().copied().chain([id]));
        self.pass_time();
        let failed = !matches!(outcome.verdict, Verdict::Success { .. });
        let counts = self.freeze.counts(id, failed);
        let news =
            if counts { self.model.outcome(&run.probe, &run.timing, outcome, self.now) } else { Vec::new() };
        self.settle(news);
    }

    pub(crate) fn order(&mut self, whom: &Whom, change: OrderChange, until: Option<Time>) {
        let note = OrderNote { by: "root".to_owned(), reason: None, since: self.now, until };
        let port = if whom.any_port { None } else { Some(whom.server.port.unwrap_or(0)) };
        let configured = port.filter(|port| *port != 0);
        let selector = Selector { address: whom.server.address, port, virtual_server: whom.pool.as_deref() };
        let with_address: Vec<(&VirtualServer, RealServerId)> = self
            .model
            .pools
            .iter()
            .filter(|p| whom.pool.as_ref().is_none_or(|n| *n == p.config.name))
            .flat_map(|p| p.servers.iter().map(|s| (&*p.config, s.config.id)))
            .filter(|(_, id)| id.address == whom.server.address)
            .collect();
        let as_configured = port.is_some() && with_address.iter().any(|(_, id)| id.port == configured);
        let mut ports: Vec<Option<u16>> = with_address.iter().map(|(_, id)| id.port).collect();
        ports.sort_unstable();
        ports.dedup();
        let one = ports.len() == 1;
        let selects = |pool: &VirtualServer, id: RealServerId| {
            let is_meant = match (port, id.port) {
                (_, has) if as_configured => configured == has,
                (None, _) => one,
                (Some(_), Some(_)) => false,
                (Some(wanted), None) => pool.services.iter().any(|s| s.port() == wanted),
            };
            id.address == whom.server.address
                && is_meant
                && whom.pool.as_ref().is_none_or(|n| *n == pool.name)
        };
        let expected = with_address.iter().filter(|(pool, id)| selects(pool, *id)).count();
        match self.engine.handle_order(selector, change, &note) {
            Ok(ordered) => assert_eq!(ordered.servers.len(), expected),
            Err(OrderRefusal::Ambiguous(servers)) => {
                assert_eq!((port, expected), (None, 0));
                assert_eq!(servers.len(), with_address.len());
            }
            Err(OrderRefusal::Nobody { near }) => {
                assert_eq!((expected, near.len()), (0, with_address.len()));
                assert!(port.is_some() || with_address.is_empty());
            }
        }
        self.pass_time();
        let news = self.model.order(selects, change, until);
        self.settle(news);
    }

    /// Lets time pass, stopping wherever the engine wants to be called.
    pub(crate) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        for _ in 0..100_000 {
            let next = self.engine.poll_timeout().filter(|at| *at <= end).unwrap_or(end);
            self.now = next.max(self.now);
            self.pass_time();
            let news = self.model.expire(self.now);
            self.settle(news);
            let more = self.engine.poll_timeout().is_some_and(|at| at <= end);
            if self.now == end && !more {
                return;
            }
        }
        panic!("the engine wants to be called for ever at {:?}", self.now);
    }

    /// What the rules of the model are told of time.
    fn pass_time(&mut self) {
        self.freeze.pass(self.now, self.running.keys().copied());
        self.model.now = self.now;
        self.model.frozen = self.freeze.is_frozen();
    }

    // -- comparing --------------------------------------------------------------------------

    /// The end of the caller's loop: takes all that the engine says, and compares.
    fn settle(&mut self, mut expected: Vec<News>) {
        self.pass_time();
        let at_once = self.model.expire(self.now);
        expected.extend(at_once);
        self.engine.handle_timeout(self.now);
        assert_eq!(self.engine.is_frozen(), self.freeze.is_frozen(), "frozen at {:?}", self.now);
        while let Some(command) = self.engine.next_command() {
            self.log.push(format!("{:?} {}", self.now, describe(&command)));
            self.obey(command);
        }
        let (mut told, mut gates) = (Vec::new(), BTreeSet::new());
        while let Some(event) = self.engine.next_event() {
            self.log.push(format!("{:?} {event:?}", self.now));
            gates.extend(gate::told(&event));
            told.extend(news_of(event));
        }
        assert_eq!(gates, self.gates.expect(&self.config, &self.presence), "gates at {:?}", self.now);
        let is_server = |n: &&News| matches!(n, News::Server { .. });
        let split =
            |news: &[News]| -> (Vec<News>, Vec<News>) { news.iter().cloned().partition(|n| is_server(&n)) };
        assert_eq!(split(&told), split(&expected), "what was told at {:?}", self.now);
        self.counts.notifications += u64::try_from(told.len() + gates.len()).unwrap();
        self.told.append(&mut told);
        let changes = self.engine.take_table_changes();
        for (id, service) in &changes {
            self.log.push(format!("{:?} {id}: {service:?}", self.now));
        }
        if !changes.is_empty() {
            self.counts.plans += 1;
            self.counts.operations += u64::try_from(writing::write(&mut self.kernel, changes)).unwrap();
        }
        self.counts.tables += 1;
        self.compare();
        self.check_punctuality();
    }

    fn compare(&self) {
        let mut wanted = self.model.table();
        let active = gate::active_services(&self.config, &self.presence);
        wanted.services.retain(|id, _| active.contains(id));
        assert_eq!(self.engine.table(), wanted, "the wanted table at {:?}", self.now);
        for (id, service) in &wanted.services {
            assert_eq!(self.kernel.services.get(id), Some(service), "what the kernel was told of {id}");
        }
        let inactive: BTreeSet<ServiceId> =
            self.engine.services().filter(|id| !active.contains(id)).collect();
        assert!(inactive.iter().all(|id| !self.kernel.services.contains_key(id)), "left in the kernel");
        let snapshot = self.engine.snapshot(None);
        let shown = snapshot.virtual_servers.iter().flat_map(|v| &v.inactive).map(|(id, _)| *id);
        assert_eq!(shown.collect::<BTreeSet<_>>(), inactive);
        assert_eq!(snapshot.virtual_servers.len(), self.model.pools.len());
        figures::compare(&self.engine, &snapshot);
        for (status, pool) in snapshot.virtual_servers.iter().zip(&self.model.pools) {
            let name = &pool.config.name;
            assert_eq!(status.name, *name);
            assert_eq!(status.quorum.up, pool.quorum_up, "quorum of {name}");
            assert_eq!(status.quorum.weight, pool.live_weight(), "live weight of {name}");
            let threshold = u64::try_from(pool.threshold().max(0)).unwrap();
            assert_eq!(status.quorum.threshold, threshold, "threshold of {name}");
            assert_eq!(status.real_servers.len(), pool.servers.len());
            for (status, server) in status.real_servers.iter().zip(&pool.servers) {
                let of = format!("{} of {name}", server.config.id);
                assert_eq!(status.address, server.config.id);
                assert_eq!(status.alive, server.alive(), "{of}");
                assert_eq!(status.kept.is_some(), server.kept, "{of} is kept");
                assert_eq!(status.effective_weight, server.effective_weight(), "{of}");
                assert_eq!(status.order.as_ref().map(|o| (o.order, o.note.until)), server.order, "{of}");
                let weight = status.operator_weight.as_ref().map(|w| (w.weight, w.note.until));
                assert_eq!(weight, server.weight, "{of}");
                let seen: Vec<_> = status.checks.iter().map(|c| (c.up, c.has_run, c.failures)).collect();
                let verdicts = server.checks.iter().map(|c| &c.verdict);
                let expected: Vec<_> = verdicts.map(|v| (v.up, v.has_run, v.failures)).collect();
                assert_eq!(seen, expected, "checks of {of}");
            }
        }
    }
}

pub(crate) fn readings(presence: &Presence) -> Readings {
    Readings { presence: presence.clone(), ..Readings::new() }
}

/// Equal apart from the order of pools and servers in the file.
fn unchanged_but_order(old: &Config, new: &Config) -> bool {
    let sorted = |config: &Config| {
        let mut pools: Vec<VirtualServer> = config.virtual_servers.iter().map(|v| (**v).clone()).collect();
        for pool in &mut pools {
            pool.real_servers.sort_by_key(|s| s.id);
        }
        pools.sort_by(|a, b| a.services.cmp(&b.services));
        pools
    };
    sorted(old) == sorted(new)
}

fn news_of(event: Event) -> Option<News> {
    match event {
        Event::RealServer { of, alive, news, .. } => Some(News::Server {
            pool: of.virtual_server.name.clone(),
            server: of.real_server.id,
            alive,
            first: news == FirstOrChanged::First,
        }),
        Event::Quorum { virtual_server, quorum } => {
            assert_ne!(quorum.kind, QuorumKind::NoChange);
            let gained = quorum.kind == QuorumKind::Gained;
            Some(News::Quorum { pool: virtual_server.name.clone(), gained })
        }
        Event::Guard { virtual_server, guard, kept, .. } => {
            Some(News::Guard { pool: virtual_server.name.clone(), guard, keeps: !kept.is_empty() })
        }
        Event::Weight { .. }
        | Event::Failure { .. }
        | Event::LocalError { .. }
        | Event::SetAside { .. }
        | Event::Frozen { .. }
        | Event::Thawed { .. }
        | Event::Gate { .. }
        | Event::Order { .. }
        | Event::OrderEnded { .. }
        | Event::OrderLost(_)
        | Event::OrderRestored { .. } => None,
    }
}
