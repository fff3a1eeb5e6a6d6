//! A sick director and a well one, in virtual time.

use std::sync::Arc;

use super::*;
use crate::engine::model::{
    Check, CheckKind, Config, Fault, Mode, OnLocalError, Probe, Protocol, RealServer, RealServerId,
    SelfTest as Settings, Target, Tcp, Timing, VirtualServer, WeightChange,
};
use crate::engine::self_test::signs::HOLD;
use crate::engine::table::ServiceId;
use crate::engine::{Command, Readings, testing};

const SECOND: Duration = Duration::from_secs(1);

/// As many servers with a check each that runs every six seconds, on one service.
fn config(servers: u16, self_test: Settings) -> Config {
    let timing = Timing {
        delay_loop: 6 * SECOND,
        timeout: 5 * SECOND,
        retry: 1,
        delay_before_retry: SECOND,
        rise: 2,
        warmup: SECOND,
    };
    let timing = Arc::new(timing);
    let kind = Arc::new(CheckKind::Tcp(Tcp::default()));
    let server = |n: u16| {
        let [high, low] = n.to_be_bytes();
        let id = RealServerId { address: [10, 0, high, low].into(), port: Some(80) };
        let target = Target { address: id.address, port: 80, source: None };
        let check = Check {
            probe: Probe { target, kind: Arc::clone(&kind) },
            timing: Arc::clone(&timing),
            alpha: false,
            mode: Mode::Enforce,
            on_local_error: OnLocalError::Fail,
        };
        Arc::new(RealServer { checks: [Arc::new(check)].into(), ..testing::real_server(id) })
    };
    let service = ServiceId::Address { protocol: Protocol::Tcp, address: [192, 0, 2, 10].into(), port: 80 };
    let pool = VirtualServer {
        real_servers: (0..servers).map(server).collect(),
        ..testing::virtual_server("web", vec![service])
    };
    let daemon = crate::engine::model::Daemon { self_test, ..testing::daemon() };
    Config { daemon, virtual_servers: vec![Arc::new(pool)] }
}

/// As a file without `[daemon.self_test]` has it, with or without a canary.
fn settings(canary: &[&str]) -> Settings {
    Settings {
        max_lateness: Some(5 * SECOND),
        local_errors: Some(50),
        canary: canary.iter().map(|at| at.parse().unwrap()).collect(),
        canary_interval: SECOND,
        canary_timeout: SECOND,
    }
}

const CANARY: &[&str] = &["192.0.2.1:22"];

struct World {
    engine: Engine,
    now: Time,
    running: Vec<ProbeId>,
    /// What was said of the self-test, and of servers.
    told: Vec<String>,
    runs: usize,
}

impl World {
    fn new(servers: u16, settings: Settings) -> Self {
        let now = Time::from_nanos(1_000_000_000_000);
        let config = config(servers, settings);
        let engine = Engine::start(&config, &Default::default(), &Default::default(), &Readings::new(), now);
        let mut world = Self { engine, now, running: vec![], told: vec![], runs: 0 };
        world.settle();
        world
    }

    fn settle(&mut self) {
        self.engine.handle_timeout(self.now);
        while let Some(command) = self.engine.next_command() {
            match command {
                Command::Start { id, .. } => self.running.push(id),
                Command::Cancel { id } => self.running.retain(|running| *running != id),
            }
        }
        while let Some(event) = self.engine.next_event() {
            self.told.extend(match event {
                Event::Frozen { symptom, first, .. } => Some(format!("{} {first}", symptom.name())),
                Event::Thawed { lasted, set_aside } => Some(format!("thawed {lasted:?} {set_aside}")),
                Event::RealServer { of, alive, .. } => Some(format!("{} {alive}", of.real_server.id.address)),
                Event::SetAside { .. }
                | Event::Weight { .. }
                | Event::Quorum { .. }
                | Event::Failure { .. }
                | Event::LocalError { .. }
                | Event::Guard { .. }
                | Event::Gate { .. }
                | Event::Order { .. }
                | Event::OrderEnded { .. }
                | Event::OrderLost(_)
                | Event::OrderRestored { .. } => None,
            });
        }
    }

    /// The loop turns in time, and nothing ends.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let next = self.engine.poll_timeout().filter(|at| *at > self.now);
            self.now = next.unwrap_or(end).min(self.now + TURN).min(end);
            self.engine.handle_turn(self.now);
            self.settle();
        }
    }

    /// Time passes, and every run ends at once with what `verdict` says of its number.
    fn run(&mut self, time: Duration, verdict: impl Fn(usize) -> Verdict) {
        let end = self.now + time;
        while self.now < end {
            self.wait(SECOND / 20);
            self.finish(&verdict);
        }
    }

    fn finish(&mut self, verdict: impl Fn(usize) -> Verdict) {
        for id in std::mem::take(&mut self.running) {
            let outcome = Outcome { verdict: verdict(self.runs), latency: Duration::ZERO };
            self.runs += 1;
            self.engine.handle_outcome(id, &outcome, self.now);
        }
        self.settle();
    }

    fn canary(&mut self, answers: bool) {
        let silent = Canary::Silent("192.0.2.1:22: timed out".to_owned());
        self.engine.handle_canary(if answers { &Canary::Answers } else { &silent }, self.now);
        self.settle();
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    fn alive(&self) -> usize {
        let pools = self.engine.virtual_servers().iter();
        pools.flat_map(|pool| pool.real_servers()).filter(|server| server.is_alive()).count()
    }

    fn failures(&self) -> Vec<u32> {
        let snapshot = self.engine.snapshot(None);
        let servers = snapshot.virtual_servers.iter().flat_map(|pool| &pool.real_servers);
        servers.flat_map(|server| &server.checks).map(|check| check.failures).collect()
    }
}

fn good(_: usize) -> Verdict {
    Verdict::Success { detail: "connected".to_owned(), weight: WeightChange::None }
}

fn fault(phase: Phase) -> Fault {
    Fault { phase, reason: "why".to_owned() }
}

fn refused(_: usize) -> Verdict {
    Verdict::Failure(fault(Phase::Connect))
}

fn no_descriptor(_: usize) -> Verdict {
    Verdict::LocalError(fault(Phase::Socket))
}

#[test]
fn what_was_in_flight_while_the_daemon_stood_still_does_not_count() {
    let mut world = World::new(4, settings(&[]));
    world.run(12 * SECOND, good);
    world.wait(7 * SECOND);
    assert_eq!(world.running.len(), 4);
    world.now = world.now + 60 * SECOND;
    world.engine.handle_turn(world.now);
    let late = world.running.split_off(2);
    world.finish(refused);
    assert_eq!((world.alive(), world.failures()), (4, vec![0; 4]));
    assert_eq!(world.told(), ["lateness true"]);
    // The others end after the thaw, of which they know nothing: a success would count.
    world.running = late;
    world.wait(HOLD + SECOND);
    let told = world.told();
    assert!(told.len() == 1 && told[0].starts_with("thawed 3.") && told[0].ends_with(" 2"), "{told:?}");
    world.running.truncate(2);
    world.finish(refused);
    assert_eq!((world.alive(), world.failures()), (4, vec![0; 4]));
    // They are asked again soon, and now it counts.
    world.run(3 * SECOND, refused);
    assert!(world.alive() <= 2, "{:?}", world.told);
}

#[test]
fn a_loop_that_is_in_time_or_a_little_late_is_well() {
    let mut world = World::new(2, settings(&[]));
    for late in [0, 500, 1000, 5999] {
        world.now = world.now + Duration::from_millis(late);
        world.engine.handle_turn(world.now);
        world.settle();
    }
    assert!(!world.engine.is_frozen());
    let mut off = World::new(2, Settings::off());
    off.engine.handle_turn(off.now);
    off.now = off.now + 3600 * SECOND;
    off.engine.handle_turn(off.now);
    assert!(!off.engine.is_frozen());
}

#[test]
fn checks_that_cannot_be_run_any_more_freeze_before_servers_fall() {
    for servers in [20, 300, 10_000] {
        let mut world = World::new(servers, settings(&[]));
        world.run(12 * SECOND, good);
        world.run(30 * SECOND, no_descriptor);
        assert_eq!((world.told(), world.alive()), (vec!["local_errors true".to_owned()], servers.into()));
        let status = world.engine.snapshot(None).frozen.expect("frozen");
        assert!(status.reasons[0].contains("could not be run on this host"), "{status:?}");
        assert!(status.set_aside > 4 * u64::from(servers) - u64::from(servers), "{status:?}");
        world.run(12 * SECOND, good);
        let told = world.told();
        assert!(told.len() == 1 && told[0].starts_with("thawed "), "{told:?}");
        assert_eq!((world.alive(), world.failures()), (servers.into(), vec![0; servers.into()]));
        world.run(12 * SECOND, refused);
        assert_eq!(world.alive(), 0, "what is really dead leaves");
    }
}

#[test]
fn what_is_no_sign_of_a_sick_director() {
    // All servers die at once, in whatever way.
    for verdict in [refused, |_| Verdict::Failure(fault(Phase::Reply))] {
        let mut world = World::new(100, settings(&[]));
        world.run(12 * SECOND, good);
        world.run(12 * SECOND, verdict);
        assert_eq!(world.alive(), 0);
    }
    // Checks that could never be run, such as pings without the privilege.
    let mut world = World::new(100, settings(&[]));
    world.run(30 * SECOND, no_descriptor);
    assert!(!world.engine.is_frozen());
    // A source address that is on the other director now.
    let mut world = World::new(100, settings(&[]));
    world.run(12 * SECOND, good);
    world.run(30 * SECOND, |_| Verdict::LocalError(fault(Phase::Source)));
    assert!(!world.engine.is_frozen());
    // One check alone, and a fifth of many.
    let mut world = World::new(1, settings(&[]));
    world.run(12 * SECOND, good);
    world.run(100 * SECOND, no_descriptor);
    assert!(!world.engine.is_frozen());
    let mut world = World::new(100, settings(&[]));
    world.run(12 * SECOND, good);
    world.run(100 * SECOND, |n| if n % 5 == 0 { no_descriptor(n) } else { good(n) });
    assert!(!world.engine.is_frozen());
}

#[test]
fn a_panic_of_most_checks_is_one() {
    let mut world = World::new(20, settings(&[]));
    world.run(12 * SECOND, good);
    world.run(12 * SECOND, |_| Verdict::Failure(fault(Phase::Internal)));
    assert_eq!((world.told(), world.alive()), (vec!["local_errors true".to_owned()], 20));
}

#[test]
fn results_that_are_old_are_no_sign_of_anything() {
    let mut world = World::new(20, settings(&[]));
    world.run(12 * SECOND, good);
    world.run(12 * SECOND, no_descriptor);
    // Nothing ends any more.
    world.wait(59 * SECOND);
    assert!(world.engine.is_frozen());
    world.wait(2 * SECOND + HOLD);
    assert!(!world.engine.is_frozen());
}

#[test]
fn a_network_that_is_gone_takes_nobody_out_and_brings_nobody_back() {
    let mut world = World::new(4, settings(CANARY));
    world.canary(true);
    // Two are dead already.
    world.run(20 * SECOND, good);
    let dead = |n: usize| if n % 4 < 2 { refused(n) } else { good(n) };
    world.run(20 * SECOND, dead);
    let before = world.alive();
    world.told();
    world.canary(false);
    world.canary(false);
    world.run(60 * SECOND, refused);
    assert_eq!((world.told(), world.alive()), (vec!["canary true".to_owned()], before));
    world.run(60 * SECOND, good);
    assert_eq!((world.told(), world.alive()), (vec![], before));
    world.canary(true);
    world.wait(HOLD - SECOND);
    world.canary(false);
    world.canary(true);
    world.wait(HOLD - SECOND);
    assert!(world.engine.is_frozen(), "it came back meanwhile");
    world.wait(2 * SECOND);
    assert!(!world.engine.is_frozen());
    world.run(20 * SECOND, good);
    assert_eq!(world.alive(), 4);
}

#[test]
fn counting_starts_anew() {
    let mut world = World::new(1, settings(CANARY));
    world.canary(true);
    world.run(SECOND / 10, good);
    world.run(6 * SECOND, refused);
    assert_eq!((world.failures(), world.alive()), (vec![1], 1));
    world.canary(false);
    assert_eq!(world.failures(), [0]);
    world.canary(true);
    world.wait(HOLD);
    world.run(SECOND / 10, good);
    assert_eq!((world.failures(), world.alive()), (vec![0], 1));
}

/// The first result of a check decides alone: at the start it must not be that of a broken network.
#[test]
fn nobody_dies_before_the_first_canary_was_heard() {
    let mut world = World::new(10, settings(CANARY));
    world.run(2 * SECOND, refused);
    assert_eq!((world.told(), world.alive()), (vec![], 10));
    world.canary(true);
    world.run(2 * SECOND, refused);
    assert_eq!(world.alive(), 0, "tried again soon, and not a period later");
}

#[test]
fn reloads_go_on_and_end_what_they_take_away() {
    let mut world = World::new(4, settings(CANARY));
    world.canary(false);
    world.now = world.now + 60 * SECOND;
    world.engine.handle_turn(world.now);
    world.now = world.now + 60 * SECOND;
    world.engine.handle_turn(world.now);
    world.settle();
    assert_eq!(world.told(), ["canary true", "lateness false"]);
    assert_eq!(world.engine.snapshot(None).frozen.map(|f| f.reasons.len()), Some(2));
    world.engine.handle_reload(&config(6, settings(CANARY)), &Readings::new(), world.now);
    world.settle();
    assert_eq!((world.alive(), world.engine.is_frozen()), (6, true));
    world.engine.handle_reload(&config(6, Settings::off()), &Readings::new(), world.now);
    world.settle();
    assert!(!world.engine.is_frozen());
    world.canary(false);
    assert!(!world.engine.is_frozen(), "nobody asks for it");
    let figures = world.engine.self_test_figures();
    assert_eq!(figures.symptoms, [("lateness", 1), ("local_errors", 0), ("canary", 1)]);
}
