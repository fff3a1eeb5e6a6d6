//! Each event as the operator reads it: level, words, fields; and as its script hears it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tracing::Level;

use super::*;
use crate::engine::memory::Memory;
use crate::engine::model::{CheckKind, Config, Mode, OnLocalError, Phase, Probe, Target, Tcp, Timing};
use crate::engine::snapshot::OrderNote;
use crate::engine::table::Table;
use crate::engine::{Engine, Evidence, OrderChange, Readings, Selector, Transition};
use crate::runtime::testing::{self, Line, SOON, logged};

mod orders;

const NOW: Time = Time::from_nanos(1_000_000_000_000);
const SERVER: &str = "198.51.100.11:80";

fn outlets(runtime: &Runtime) -> Outlets {
    let helper = concat!(env!("CARGO_MANIFEST_DIR"), "/src/runtime/testdata/helper").into();
    let settings = testing::config(vec![]).daemon.notify;
    Outlets::new(
        runtime.handle().clone(),
        helper,
        &settings,
        notify::Audience::Configured,
        Default::default(),
    )
}

/// Logs what an announcer makes of these events.
fn announced(events: Vec<Event>) -> Vec<Line> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut announcer = Announcer::new("lvs1".to_owned(), outlets(&runtime));
    logged(|| events.into_iter().for_each(|event| announcer.announce(event, NOW)))
}

fn line(level: Level, message: &str, fields: &[(&'static str, &str)]) -> Line {
    let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned()));
    Line { level, message: message.to_owned(), fields: fields.collect() }
}

fn server() -> Server {
    Server {
        virtual_server: testing::pool("web", "192.0.2.10:80", &[SERVER]),
        real_server: testing::real_server(SERVER),
    }
}

fn check() -> Arc<Check> {
    let target = Target { address: [198, 51, 100, 11].into(), port: 80, source: None };
    let second = Duration::from_secs(1);
    let timing = Timing {
        delay_loop: second,
        timeout: second,
        retry: 2,
        delay_before_retry: second,
        rise: 1,
        warmup: second,
    };
    Arc::new(Check {
        probe: Probe { target, kind: Arc::new(CheckKind::Tcp(Tcp::default())) },
        timing: Arc::new(timing),
        alpha: false,
        mode: Mode::Enforce,
        on_local_error: OnLocalError::Ignore,
    })
}

fn by_check(detail: &str, retries: u32) -> Cause {
    let to = retries == 0;
    let transition = Transition { from: !to, to, changed: true, retrying: false, retries, first: false };
    let evidence = Evidence { check: check(), transition, latency: Duration::from_millis(3) };
    Cause::Check { kind: "tcp", detail: detail.to_owned(), evidence: Box::new(evidence) }
}

fn refused() -> Cause {
    by_check("connect: connection refused (ECONNREFUSED)", 3)
}

fn fault(reason: &str) -> Fault {
    Fault { phase: Phase::Connect, reason: reason.to_owned() }
}

fn note(by: &str, reason: Option<&str>) -> OrderNote {
    OrderNote { by: by.to_owned(), reason: reason.map(str::to_owned), since: NOW, until: None }
}

#[test]
fn a_real_server_goes_down_as_a_warning_and_up_as_information() {
    let event = |alive, news, cause| Event::RealServer { of: server(), alive, news, cause };
    let connected = || by_check("connected", 0);
    let with = |state, reason, check: Option<&'static str>| {
        let mut fields =
            vec![("virtual_server", "web"), ("real_server", SERVER), ("state", state), ("reason", reason)];
        fields.extend(check.map(|check| ("check", check)));
        fields
    };
    let why = "tcp check: connect: connection refused (ECONNREFUSED)";
    assert_eq!(
        announced(vec![
            event(false, News::Changed, refused()),
            event(true, News::Changed, connected()),
            event(false, News::First, refused()),
            event(true, News::First, connected()),
            event(false, News::Changed, Cause::Operator),
            event(true, News::Changed, Cause::Reload),
        ]),
        [
            line(Level::WARN, &format!("{SERVER} in web: down: {why}"), &with("down", why, Some("tcp"))),
            line(
                Level::INFO,
                &format!("{SERVER} in web: up: tcp check: connected"),
                &with("up", "tcp check: connected", Some("tcp"))
            ),
            line(
                Level::WARN,
                &format!("{SERVER} in web: down at its first check: {why}"),
                &with("down", why, Some("tcp"))
            ),
            line(
                Level::INFO,
                &format!("{SERVER} in web: up at its first check: tcp check: connected"),
                &with("up", "tcp check: connected", Some("tcp"))
            ),
            line(
                Level::WARN,
                &format!("{SERVER} in web: down: by the operator's order"),
                &with("down", "by the operator's order", None)
            ),
            line(
                Level::INFO,
                &format!("{SERVER} in web: up: by the reload"),
                &with("up", "by the reload", None)
            ),
        ]
    );
}

#[test]
fn a_failed_try_is_said_at_debug_with_its_number() {
    let failure = |retries| Event::Failure {
        of: server(),
        check: check(),
        transition: Transition {
            from: true,
            to: true,
            changed: false,
            retrying: true,
            retries,
            first: false,
        },
        fault: fault("timed out"),
    };
    let said = |number| {
        line(
            Level::DEBUG,
            &format!("{SERVER} in web: tcp check failed, try {number} of 3: connect: timed out"),
            &[("virtual_server", "web"), ("real_server", SERVER), ("check", "tcp"), ("phase", "connect")],
        )
    };
    assert_eq!(
        announced(vec![failure(1), failure(3), failure(1000)]),
        [said(1), said(3), said(3)],
        "no more tries than there are"
    );
}

#[test]
fn a_quorum_is_lost_as_a_warning_and_gained_as_information() {
    let event = |kind, sorry_action| Event::Quorum {
        virtual_server: server().virtual_server,
        quorum: QuorumEvent { kind, weight: 3, threshold: 2, sorry_action },
    };
    let fields = |quorum| [("virtual_server", "web"), ("quorum", quorum)];
    assert_eq!(
        announced(vec![
            event(QuorumKind::Lost, SorryAction::Install),
            event(QuorumKind::Gained, SorryAction::Remove),
            event(QuorumKind::Lost, SorryAction::None),
            event(QuorumKind::NoChange, SorryAction::None),
        ]),
        [
            line(
                Level::WARN,
                "web: quorum lost, weight 3 of 2, the sorry server takes over",
                &fields("down")
            ),
            line(
                Level::INFO,
                "web: quorum gained, weight 3 of 2, the sorry server steps back",
                &fields("up")
            ),
            line(Level::WARN, "web: quorum lost, weight 3 of 2", &fields("down")),
        ]
    );
}

#[test]
fn errors_of_our_own_are_counted_and_said_hourly() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut announcer = Announcer::new("lvs1".to_owned(), outlets(&runtime));
    let mut say = |reason: &str, now| {
        let event = Event::LocalError { of: server(), check: check(), fault: fault(reason) };
        logged(|| announcer.announce(event, now))
    };
    let said = |tail: &str| {
        let head = format!("{SERVER} in web: tcp check could not be run, its verdict stays: connect: ");
        let fields = [("virtual_server", "web"), ("real_server", SERVER), ("check", "tcp")];
        [line(Level::WARN, &(head + tail), &fields)]
    };
    assert_eq!(say("no such device", NOW), said("no such device"));
    for minute in 1..60 {
        assert_eq!(say("no such device", NOW + Duration::from_secs(60 * minute)), []);
    }
    assert_eq!(say("no descriptors", NOW), said("no descriptors"), "another one is news");
    assert_eq!(
        say("no such device", NOW + Duration::from_secs(3600)),
        said("no such device (59 times more since it was last said)")
    );
}

// -- scripts --------------------------------------------------------------------------------

/// A pool whose scripts write what they are told into a file.
struct Scene {
    directory: TempDir,
    runtime: Runtime,
}

impl Scene {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { directory: TempDir::new().unwrap(), runtime }
    }

    fn announcer(&self) -> Announcer {
        Announcer::new("lvs1".to_owned(), outlets(&self.runtime))
    }

    fn script(&self, word: &str) -> Option<Argv> {
        let told =
            "\"$LVSD_NAME $LVSD_EVENT $LVSD_STATE $LVSD_VIRTUAL_SERVER $LVSD_REAL_SERVER $LVSD_REASON\"";
        let code = format!("echo {word} {told} >>{}", self.directory.path().join("told").display());
        Some(Argv { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".to_owned(), code] })
    }

    fn pool(&self) -> Arc<model::VirtualServer> {
        let mut server = (*testing::real_server(SERVER)).clone();
        server.notify_up = self.script("server-up").map(Arc::new);
        server.notify_down = self.script("server-down").map(Arc::new);
        let mut pool = (*testing::pool("web", "192.0.2.10:80", &[])).clone();
        (pool.quorum_up, pool.quorum_down) = (self.script("quorum-up"), self.script("quorum-down"));
        pool.real_servers.push(Arc::new(server));
        Arc::new(pool)
    }

    /// What has been told when all scripts have ended, in no order between objects.
    fn told(&self, announcer: Announcer) -> Vec<String> {
        self.runtime.block_on(announcer.into_outlets().finish(SOON));
        let text = std::fs::read_to_string(self.directory.path().join("told")).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.sort();
        lines
    }
}

#[test]
fn every_change_runs_its_script() {
    let scene = Scene::new();
    let pool = scene.pool();
    let of = || Server { virtual_server: Arc::clone(&pool), real_server: Arc::clone(&pool.real_servers[0]) };
    let quorum = |kind| Event::Quorum {
        virtual_server: Arc::clone(&pool),
        quorum: QuorumEvent { kind, weight: 0, threshold: 1, sorry_action: SorryAction::None },
    };
    let mut announcer = scene.announcer();
    let events = [
        Event::RealServer { of: of(), alive: false, news: News::Changed, cause: refused() },
        Event::RealServer { of: of(), alive: true, news: News::First, cause: Cause::Reload },
        quorum(QuorumKind::Lost),
        quorum(QuorumKind::NoChange),
        quorum(QuorumKind::Gained),
        // No scripts for these.
        Event::Weight { of: of(), from: 1, to: 2, cause: Cause::Operator },
        Event::Order { of: of(), change: OrderChange::Drain, note: note("alice", None) },
        Event::LocalError { of: of(), check: check(), fault: fault("no such device") },
    ];
    logged(|| events.into_iter().for_each(|event| announcer.announce(event, NOW)));
    assert_eq!(
        scene.told(announcer),
        [
            "quorum-down lvs1 quorum_lost DOWN web",
            "quorum-up lvs1 quorum_gained UP web",
            "server-down lvs1 real_server_down DOWN web 198.51.100.11:80 tcp check: connect: connection refused (ECONNREFUSED)",
            "server-up lvs1 real_server_up UP web 198.51.100.11:80 by the reload",
        ]
    );
}

#[test]
fn the_stop_tells_those_that_are_up() {
    let scene = Scene::new();
    let down = "198.51.100.12:80";
    let mut pool = model::VirtualServer { omega: true, ..(*scene.pool()).clone() };
    let second = (*testing::real_server(down)).clone();
    pool.real_servers.push(Arc::new(model::RealServer {
        notify_down: scene.script("second-down").map(Arc::new),
        ..second
    }));
    let config = Config { virtual_servers: vec![Arc::new(pool)], ..testing::config(vec![]) };
    let mut engine = Engine::start(&config, &Memory::default(), &Table::default(), &Readings::new(), NOW);
    let selector = Selector { address: [198, 51, 100, 12].into(), port: None, virtual_server: None };
    let ordered = engine.handle_order(selector, OrderChange::Disable, &note("alice", None)).unwrap();
    assert_eq!(ordered.servers.len(), 1);
    let mut announcer = scene.announcer();
    announcer.announce_stop(engine.virtual_servers());
    assert_eq!(
        scene.told(announcer),
        [
            "quorum-down lvs1 quorum_lost DOWN web",
            "server-down lvs1 real_server_down DOWN web 198.51.100.11:80",
        ]
    );
}

#[test]
fn frozen_verdicts_are_a_warning_and_thawed_ones_information() {
    let frozen = |reason: &str, first| {
        let symptom = crate::engine::self_test::Symptom::Canary;
        Event::Frozen { symptom, reason: reason.to_owned(), first }
    };
    let fault = |phase| Fault { phase, reason: "timed out".to_owned() };
    let aside = |phase| Event::SetAside { of: server(), check: check(), fault: fault(phase) };
    let thawed = Event::Thawed { lasted: Duration::from_secs(41), set_aside: 212 };
    let lines = announced(vec![frozen("no", true), frozen("neither", false), aside(Phase::Connect), thawed]);
    let about = [("virtual_server", "web"), ("real_server", SERVER), ("check", "tcp"), ("phase", "connect")];
    assert_eq!(
        lines,
        [
            line(
                Level::WARN,
                "this host seems to be sick, verdicts are frozen: no",
                &[("symptom", "canary"), ("reason", "no")]
            ),
            line(
                Level::WARN,
                "this host seems to be sick, verdicts stay frozen: neither",
                &[("symptom", "canary"), ("reason", "neither")]
            ),
            line(
                Level::DEBUG,
                "198.51.100.11:80 in web: tcp check does not count while verdicts are frozen: connect: timed out",
                &about
            ),
            line(
                Level::INFO,
                "this host seems to be well, verdicts count again after 41s, 212 results were set aside",
                &[]
            ),
        ]
    );
    let broken = announced(vec![aside(Phase::Internal)]);
    assert_eq!(broken[0].level, Level::ERROR, "a panic is one whether or not it counts");
}
