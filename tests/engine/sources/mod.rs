//! The rules of the two designs that the engine's vocabulary comes from, a test for each: a framework
//! of checkers and quorums, and a planner of reloads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lvsd::engine::memory::Memory;
use lvsd::engine::model::{Check, Config, Fault, Outcome, Phase, RealServerId, Verdict, WeightChange};
use lvsd::engine::reload::{Action, ActionKind, Plan};
use lvsd::engine::snapshot::{OrderNote, RealServerStatus, VirtualServerStatus};
use lvsd::engine::table::Table;
use lvsd::engine::{
    Checker, CheckerState, Command, Engine, Event, Judgement, News, OrderChange, OrderRefusal, ProbeId,
    QuorumEvent, QuorumKind, Readings, Selector, SorryAction, Time, Transition,
};

use crate::topology::{self, Topology};
use crate::{lines, names};

mod checker;
mod reload;
mod virtual_server;

/// An engine whose checks find what they are told.
struct Scene {
    engine: Engine,
    now: Time,
    running: BTreeMap<ProbeId, IpAddr>,
    events: Vec<Event>,
}

fn config(text: &str) -> Config {
    let mut topology: BTreeMap<String, Topology> = toml::from_str(text).unwrap();
    topology::lower(&topology.remove("virtual_server").unwrap())
}

impl Scene {
    fn new(text: &str) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let engine =
            Engine::start(&config(text), &Memory::default(), &Table::default(), &Readings::new(), now);
        let mut scene = Self { engine, now, running: BTreeMap::new(), events: Vec::new() };
        scene.take();
        scene
    }

    fn take(&mut self) {
        self.engine.handle_timeout(self.now);
        while let Some(command) = self.engine.next_command() {
            match command {
                Command::Start { id, check } => drop(self.running.insert(id, check.probe.target.address)),
                Command::Cancel { id } => drop(self.running.remove(&id)),
            }
        }
        self.events.extend(std::iter::from_fn(|| self.engine.next_event()));
        self.engine.take_table_changes();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.take();
    }

    /// The runs in flight against `server` end.
    fn find(&mut self, server: &str, verdict: &Verdict) {
        let address = names::read(server).0;
        let ids: Vec<ProbeId> =
            self.running.iter().filter(|(_, a)| **a == address).map(|(id, _)| *id).collect();
        assert!(!ids.is_empty(), "nothing runs against {server}");
        for id in ids {
            self.running.remove(&id);
            let outcome = Outcome { verdict: verdict.clone(), latency: Duration::ZERO };
            self.engine.handle_outcome(id, &outcome, self.now);
        }
        self.take();
    }

    fn reload(&mut self, text: &str) -> Plan {
        let plan = self.engine.handle_reload(&config(text), &Readings::new(), self.now);
        self.take();
        plan
    }

    fn virtual_server(&self) -> VirtualServerStatus {
        self.engine.snapshot(None).virtual_servers[0].clone()
    }

    fn server(&self, name: &str) -> RealServerStatus {
        let id = server_id(name);
        self.virtual_server().real_servers.into_iter().find(|s| s.address == id).unwrap()
    }

    fn table(&self) -> Vec<String> {
        lines::write(&self.engine.table())
    }

    fn quorum_events(&mut self) -> Vec<QuorumEvent> {
        let quorum = |event: Event| match event {
            Event::Quorum { quorum, .. } => Some(quorum),
            _ => None,
        };
        std::mem::take(&mut self.events).into_iter().filter_map(quorum).collect()
    }

    /// Which servers were announced: alive, and whether that was a change.
    fn announcements(&mut self) -> Vec<(bool, News)> {
        let announced = |event: Event| match event {
            Event::RealServer { alive, news, .. } => Some((alive, news)),
            _ => None,
        };
        std::mem::take(&mut self.events).into_iter().filter_map(announced).collect()
    }
}

fn server_id(name: &str) -> RealServerId {
    let (address, port) = names::read(name);
    RealServerId { address, port }
}

fn good() -> Verdict {
    Verdict::Success { detail: "connected".to_owned(), weight: WeightChange::None }
}

fn adds(delta: i64) -> Verdict {
    Verdict::Success { detail: "read".to_owned(), weight: WeightChange::Delta(delta) }
}

fn bad() -> Verdict {
    Verdict::Failure(Fault { phase: Phase::Connect, reason: "refused".to_owned() })
}

const SECOND: Duration = Duration::from_secs(1);
