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
    Checker, CheckerState, Command, Engine, Event, Judgement, News, OrderChange, ProbeId, QuorumEvent,
    QuorumKind, Selector, SorryAction, Time, Transition,
};

use crate::topology::{self, Topology};
use crate::{lines, names};

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
        let engine = Engine::start(&config(text), &Memory::default(), &Table::default(), now);
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
        let plan = self.engine.handle_reload(&config(text), self.now);
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

mod checker {
    use super::*;

    fn check(text: &str) -> Arc<Check> {
        Arc::clone(&config(text).virtual_servers[0].real_servers[0].checks[0])
    }

    fn plain(retry: u32) -> Checker {
        let text = format!("virtual_server = [{{ address = 'V', retry = {retry}, real_server = ['A'] }}]");
        Checker::new(check(&text), CheckerState::assumed(true))
    }

    #[test]
    fn record_gives_the_whole_transition() {
        let mut checker = plain(1);
        let first = checker.record(Judgement::Success(WeightChange::None));
        let expected =
            Transition { from: true, to: true, changed: false, retrying: false, retries: 0, first: true };
        assert_eq!(first, expected);
        let tried = checker.record(Judgement::Failure);
        let expected =
            Transition { from: true, to: true, changed: false, retrying: true, retries: 1, first: false };
        assert_eq!(tried, expected);
        let failed = checker.record(Judgement::Failure);
        let expected =
            Transition { from: true, to: false, changed: true, retrying: false, retries: 2, first: false };
        assert_eq!(failed, expected);
    }

    #[test]
    fn retry_zero_makes_the_first_failure_decisive() {
        let mut checker = plain(0);
        checker.record(Judgement::Success(WeightChange::None));
        assert!(checker.record(Judgement::Failure).changed);
    }

    #[test]
    fn retries_come_faster_than_the_steady_state() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', delay_loop = 10, retry = 1, delay_before_retry = 2, real_server = ['A'] }]",
        );
        scene.find("A", &good());
        assert_eq!(scene.engine.poll_timeout(), Some(scene.now + 10 * SECOND));
        scene.pass(10 * SECOND);
        scene.find("A", &bad());
        assert_eq!(scene.engine.poll_timeout(), Some(scene.now + 2 * SECOND));
        scene.pass(2 * SECOND);
        scene.find("A", &bad());
        assert_eq!(scene.engine.poll_timeout(), Some(scene.now + 8 * SECOND), "back on the phase");
    }

    #[test]
    fn alpha_starts_down_and_says_nothing_before_the_first_result() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', alpha = true, real_server = ['A'] }]");
        assert!(!scene.server("A").alive);
        assert_eq!(scene.announcements(), []);
    }

    #[test]
    fn without_alpha_a_server_is_believed_until_a_check_says_otherwise() {
        let scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
        let server = scene.server("A");
        assert!(server.alive && !server.checks[0].has_run);
    }

    #[test]
    fn first_runs_are_staggered_across_servers() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', delay_loop = 6, warmup = 6, real_server = ['A', 'B', 'C'] }]",
        );
        assert_eq!(scene.running.len(), 1);
        scene.pass(2 * SECOND);
        assert_eq!(scene.running.len(), 2);
        scene.pass(2 * SECOND);
        assert_eq!(scene.running.len(), 3);
    }

    #[test]
    fn a_server_that_was_dead_already_is_told() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', alpha = true, real_server = ['A'] }]");
        scene.find("A", &bad());
        assert_eq!(scene.announcements(), [(false, News::First)]);
        scene.pass(SECOND);
        scene.find("A", &bad());
        assert_eq!(scene.announcements(), []);
    }

    #[test]
    fn a_change_is_always_told() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
        scene.find("A", &bad());
        assert_eq!(scene.announcements(), [(false, News::Changed)]);
        scene.pass(SECOND);
        scene.find("A", &good());
        assert_eq!(scene.announcements(), [(true, News::Changed)]);
    }

    #[test]
    fn a_good_first_result_of_a_believed_server_is_not_told() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
        scene.find("A", &good());
        assert_eq!(scene.announcements(), []);
    }
}

mod virtual_server {
    use super::*;

    const PAIR: &str = "virtual_server = [{ address = 'V', quorum = 2, hysteresis = 1, sorry_server = 'S', real_server = ['A', 'B', 'C'] }]";

    #[test]
    fn the_threshold_is_quorum_minus_hysteresis_while_up_and_plus_while_down() {
        let mut scene = Scene::new(PAIR);
        assert_eq!(scene.virtual_server().quorum.threshold, 1);
        for server in ["A", "B", "C"] {
            scene.find(server, &bad());
        }
        assert_eq!(scene.virtual_server().quorum.threshold, 3);
    }

    #[test]
    fn an_event_has_kind_weight_threshold_and_what_becomes_of_the_sorry_server() {
        let mut scene = Scene::new(PAIR);
        scene.find("A", &bad());
        scene.find("B", &bad());
        assert_eq!(scene.quorum_events(), []);
        scene.find("C", &bad());
        let lost = QuorumEvent {
            kind: QuorumKind::Lost,
            weight: 0,
            threshold: 1,
            sorry_action: SorryAction::Install,
        };
        assert_eq!(scene.quorum_events(), [lost]);
        scene.pass(SECOND);
        for server in ["A", "B", "C"] {
            scene.find(server, &good());
        }
        let gained = QuorumEvent {
            kind: QuorumKind::Gained,
            weight: 3,
            threshold: 3,
            sorry_action: SorryAction::Remove,
        };
        assert_eq!(scene.quorum_events(), [gained]);
    }

    #[test]
    fn without_a_sorry_server_there_is_nothing_to_do_with_it() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
        scene.find("A", &bad());
        let actions: Vec<SorryAction> = scene.quorum_events().iter().map(|q| q.sorry_action).collect();
        assert_eq!(actions, [SorryAction::None]);
    }

    #[test]
    fn live_weight_is_that_of_the_living_and_weight_zero_adds_nothing() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', real_server = [{ address = 'A', weight = 3 }, { address = 'B', weight = 4 }, { address = 'C', weight = 0 }] }]",
        );
        assert_eq!(scene.virtual_server().quorum.weight, 7);
        scene.find("B", &bad());
        assert_eq!(scene.virtual_server().quorum.weight, 3);
        assert_eq!(scene.table(), ["V {A/3, C/0}"]);
    }

    #[test]
    fn inhibit_keeps_a_failed_server_at_weight_zero() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', inhibit_on_failure = true, real_server = ['A'] }]",
        );
        scene.find("A", &bad());
        assert_eq!(scene.table(), ["V {A/0}"]);
    }

    #[test]
    fn contributions_of_several_checks_add_up() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', real_server = [{ address = 'A', weight = 10, check = [{}, { connect_ip = 'B' }, { connect_ip = 'C' }] }] }]",
        );
        scene.find("B", &adds(5));
        scene.find("C", &adds(-2));
        assert_eq!(scene.server("A").effective_weight, 13, "the last one does not win");
        scene.pass(SECOND);
        scene.find("B", &adds(1));
        assert_eq!(scene.server("A").effective_weight, 9, "what it is, not by how much it changed");
    }

    #[test]
    fn a_weight_change_counts_for_the_quorum() {
        let mut scene =
            Scene::new("virtual_server = [{ address = 'V', quorum = 2, real_server = ['A', 'B'] }]");
        scene.find("A", &adds(-1));
        let kinds: Vec<QuorumKind> = scene.quorum_events().iter().map(|q| q.kind).collect();
        assert_eq!(kinds, [QuorumKind::Lost]);
    }

    #[test]
    fn an_order_for_an_unknown_server_finds_nobody() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
        let (address, port) = names::read("B");
        let note = OrderNote { by: "root".to_owned(), reason: None, since: scene.now, until: None };
        let selector = Selector { address, port, virtual_server: None };
        assert_eq!(scene.engine.handle_order(selector, OrderChange::Weight(3), &note), 0);
        assert!(scene.engine.next_event().is_none());
    }

    #[test]
    fn the_first_evaluation_is_no_transition() {
        let mut up = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
        let mut down = Scene::new("virtual_server = [{ address = 'V', alpha = true, real_server = ['A'] }]");
        assert!(up.virtual_server().quorum.up && !down.virtual_server().quorum.up);
        assert_eq!((up.quorum_events(), down.quorum_events()), (vec![], vec![]));
    }

    #[test]
    fn the_first_evaluation_asks_for_the_upper_threshold() {
        // Two live weights, and three are needed to come up.
        let scene = Scene::new(
            "virtual_server = [{ address = 'V', quorum = 2, hysteresis = 1, real_server = ['A', 'B', { address = 'C', alpha = true }] }]",
        );
        let quorum = scene.virtual_server().quorum;
        assert_eq!((quorum.up, quorum.weight, quorum.threshold), (false, 2, 3));
    }

    #[test]
    fn what_starts_below_quorum_starts_with_its_sorry_server_and_loses_it_at_the_first_gain() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', alpha = true, sorry_server = 'S', real_server = ['A'] }]",
        );
        assert_eq!(scene.table(), ["V {S/1}"]);
        scene.find("A", &good());
        let actions: Vec<SorryAction> = scene.quorum_events().iter().map(|q| q.sorry_action).collect();
        assert_eq!(actions, [SorryAction::Remove]);
        assert_eq!(scene.table(), ["V {A/1}"]);
    }
}

mod reload {
    use super::*;

    const ONE: &str = "virtual_server = [{ address = 'V', sorry_server = 'S', real_server = ['A', 'B'] }]";

    fn kinds(plan: &Plan) -> Vec<ActionKind> {
        plan.actions.iter().map(|a| a.kind).collect()
    }

    #[test]
    fn alive_states_are_carried() {
        let mut scene = Scene::new(ONE);
        scene.find("B", &bad());
        let plan = scene.reload(ONE);
        let alive = BTreeMap::from([((0, server_id("A")), true), ((0, server_id("B")), false)]);
        assert_eq!(plan.carried.alive, alive);
        assert_eq!(scene.table(), ["V {A/1}"]);
    }

    #[test]
    fn the_quorum_is_carried_and_not_computed_anew() {
        let text = "virtual_server = [{ address = 'V', quorum = 2, hysteresis = 1, sorry_server = 'S', real_server = ['A', 'B', 'C'] }]";
        let mut scene = Scene::new(text);
        scene.find("A", &bad());
        let plan = scene.reload(text);
        assert_eq!(plan.carried.quorum_up, BTreeMap::from([(0, true)]));
        assert_eq!(scene.table(), ["V {B/1, C/1}"], "two are below quorum + hysteresis");
        assert_eq!(scene.quorum_events(), []);
    }

    #[test]
    fn a_new_alpha_server_starts_down_and_a_new_plain_one_up() {
        let mut scene = Scene::new(ONE);
        let plan = scene.reload(
            "virtual_server = [{ address = 'V', sorry_server = 'S', real_server = ['A', 'B', { address = 'C', alpha = true }, 'D'] }]",
        );
        let (c, d) = ((0, server_id("C")), (0, server_id("D")));
        assert_eq!(plan.new_servers.iter().copied().collect::<Vec<_>>(), [c, d]);
        assert!(plan.starts_down(c, true));
        assert!(!plan.starts_down(d, false));
        assert!(!plan.starts_down((0, server_id("A")), true), "a survivor keeps what it was");
        assert_eq!(scene.table(), ["V {A/1, B/1, D/1}"]);
    }

    #[test]
    fn a_survivor_whose_check_becomes_alpha_stays_up() {
        let mut scene = Scene::new(ONE);
        scene.reload("virtual_server = [{ address = 'V', alpha = true, sorry_server = 'S', real_server = ['A', 'B'] }]");
        assert_eq!(scene.table(), ["V {A/1, B/1}"]);
    }

    #[test]
    fn removals_come_first_then_edits_then_additions() {
        let mut scene = Scene::new(
            "virtual_server = [{ address = 'V', sorry_server = 'S', real_server = ['A', 'B'] }, { address = 'W', real_server = ['A'] }, { address = 'X', sorry_server = 'S', real_server = ['A'] }]",
        );
        let plan = scene.reload(
            "virtual_server = [{ address = 'Y', real_server = ['A'] }, { address = 'X', real_server = ['A'] }, { address = 'V', scheduler = 'wlc', sorry_server = 'T', real_server = [{ address = 'A', weight = 2 }, 'C'] }]",
        );
        let expected = [
            ActionKind::RemoveVirtualServer,
            ActionKind::RemoveRealServer,
            ActionKind::RemoveSorryServer,
            ActionKind::EditVirtualServer,
            ActionKind::EditRealServer,
            ActionKind::SetSorryServer,
            ActionKind::AddVirtualServer,
            ActionKind::AddRealServer,
            ActionKind::AddRealServer,
        ];
        assert_eq!(kinds(&plan), expected);
    }

    #[test]
    fn a_changed_weight_is_the_same_server_and_a_changed_address_another() {
        let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A', 'B'] }]");
        scene.find("A", &bad());
        let plan = scene.reload(
            "virtual_server = [{ address = 'V', real_server = [{ address = 'A', weight = 5 }, 'C'] }]",
        );
        assert_eq!(
            kinds(&plan),
            [ActionKind::RemoveRealServer, ActionKind::EditRealServer, ActionKind::AddRealServer]
        );
        assert!(!scene.server("A").alive);
        let plan = scene.reload("virtual_server = [{ address = 'V', real_server = ['A:81', 'C'] }]");
        assert!(plan.new_servers.contains(&(0, server_id("A:81"))));
        assert!(scene.server("A:81").alive, "nobody has asked port 81 yet");
    }

    #[test]
    fn what_the_kernel_edits_is_edited() {
        let changes = [
            "virtual_server = [{ address = 'V', scheduler = 'wlc', sorry_server = 'S', real_server = ['A', 'B'] }]",
            "virtual_server = [{ address = 'V', persistence_timeout = 60, sorry_server = 'S', real_server = ['A', 'B'] }]",
            "virtual_server = [{ address = 'V', scheduler_flags = ['flag-1'], sorry_server = 'S', real_server = ['A', 'B'] }]",
            "virtual_server = [{ address = 'V', quorum = 2, sorry_server = 'S', real_server = ['A', 'B'] }]",
        ];
        for change in changes {
            let mut scene = Scene::new(ONE);
            assert_eq!(kinds(&scene.reload(change)), [ActionKind::EditVirtualServer], "{change}");
        }
    }

    #[test]
    fn an_action_reads_like_a_line_of_a_log() {
        let mut scene = Scene::new(ONE);
        let plan = scene.reload(
            "virtual_server = [{ name = 'web', address = 'V', sorry_server = 'S', real_server = [{ address = 'A', weight = 5 }, 'B'] }]",
        );
        let lines: Vec<String> = plan.actions.iter().map(Action::to_string).collect();
        assert_eq!(
            lines,
            [
                "edit virtual server tcp 192.0.2.10:80: moved or renamed V → web",
                "edit real server 198.51.100.11:80 in web: weight 1 → 5"
            ]
        );
    }

    #[test]
    fn a_plan_alone_changes_nothing() {
        let mut scene = Scene::new(ONE);
        let before = (scene.table(), scene.engine.snapshot(None), scene.engine.poll_timeout());
        let plan = scene.engine.plan_reload(&config("virtual_server = []"));
        assert_eq!(kinds(&plan), [ActionKind::RemoveVirtualServer]);
        scene.take();
        assert_eq!((scene.table(), scene.engine.snapshot(None), scene.engine.poll_timeout()), before);
    }
}
