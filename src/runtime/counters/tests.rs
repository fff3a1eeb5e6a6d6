//! What passes the supervisor, and what is counted of it.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::engine::memory::Memory;
use crate::engine::model::{
    Check, CheckKind, Fault, Mode, OnLocalError, Outcome, Phase, Ping, Probe, RealServer, Target, Tcp,
    Timing, WeightChange,
};
use crate::engine::table::Table;
use crate::engine::{Command, ProbeId, Readings};
use crate::runtime::testing;

const NOW: Time = Time::from_nanos(1_000_000_000_000);

fn check(kind: CheckKind, address: &str) -> Arc<Check> {
    let target = Target { address: address.parse().unwrap(), port: 80, source: None };
    let second = Duration::from_secs(1);
    let timing = Timing {
        delay_loop: second,
        timeout: second,
        retry: 0,
        delay_before_retry: second,
        rise: 1,
        warmup: Duration::ZERO,
    };
    let probe = Probe { target, kind: Arc::new(kind) };
    Arc::new(Check {
        probe,
        timing: timing.into(),
        alpha: false,
        mode: Mode::Enforce,
        on_local_error: OnLocalError::Ignore,
    })
}

fn tcp() -> CheckKind {
    CheckKind::Tcp(Tcp::default())
}

/// Real servers on port 80, each with these checks.
fn pool(name: &str, service: &str, servers: &[&str], kinds: &[fn() -> CheckKind]) -> Arc<VirtualServer> {
    let mut pool = Arc::unwrap_or_clone(testing::pool(name, service, &[]));
    pool.real_servers = servers
        .iter()
        .map(|address| {
            let mut server = RealServer::clone(&testing::real_server(&format!("{address}:80")));
            server.checks = kinds.iter().map(|kind| check(kind(), address)).collect();
            Arc::new(server)
        })
        .collect();
    Arc::new(pool)
}

fn engine(config: &Config) -> Engine {
    Engine::start(config, &Memory::default(), &Table::default(), &Readings::new(), NOW)
}

/// All that is due, as the engine starts it.
fn started(engine: &mut Engine) -> Vec<ProbeId> {
    engine.handle_timeout(NOW);
    let commands = std::iter::from_fn(|| engine.next_command());
    commands
        .map(|command| match command {
            Command::Start { id, .. } | Command::Cancel { id } => id,
        })
        .collect()
}

fn ended(id: ProbeId, verdict: Verdict, millis: u64) -> Ended {
    let outcome = Outcome { verdict, latency: Duration::from_millis(millis) };
    Ended { id, outcome, late: Duration::from_millis(2) }
}

fn success() -> Verdict {
    Verdict::Success { detail: String::new(), weight: WeightChange::None }
}

fn fault() -> Fault {
    Fault { phase: Phase::Connect, reason: "refused".to_owned() }
}

/// Hands a result to both, as the supervisor does.
fn handle(counters: &mut Counters, engine: &mut Engine, ended: &Ended) {
    counters.note_outcome(engine, ended);
    engine.handle_outcome(ended.id, &ended.outcome, NOW);
    while let Some(event) = engine.next_event() {
        counters.note_event(&event);
    }
}

fn runs(totals: &Totals, place: usize, kind: &str) -> [u64; 4] {
    let CheckTotals { successes, failures, local_errors, duration } = &totals.pools[place].checks[kind];
    [*successes, *failures, *local_errors, duration.count()]
}

#[test]
fn a_run_counts_once_in_each_virtual_server_that_it_is_for() {
    // One address in two pools, and twice in the second: one probe.
    let mut second = Arc::unwrap_or_clone(pool("b", "192.0.2.11:80", &["198.51.100.1"], &[tcp]));
    let mut twin = RealServer::clone(&second.real_servers[0]);
    twin.id.port = Some(81);
    second.real_servers.push(Arc::new(twin));
    let config = testing::config(vec![
        pool("a", "192.0.2.10:80", &["198.51.100.1", "198.51.100.2"], &[tcp]),
        Arc::new(second),
    ]);
    let (mut engine, mut counters) = (engine(&config), Counters::new(&config, String::new()));
    let ids = started(&mut engine);
    assert_eq!(ids.len(), 2);
    handle(&mut counters, &mut engine, &ended(ids[0], success(), 3));
    handle(&mut counters, &mut engine, &ended(ids[1], Verdict::Failure(fault()), 3));
    // Nobody waits for it any more.
    let more = testing::config(vec![pool(
        "a",
        "192.0.2.10:80",
        &["198.51.100.1", "198.51.100.2", "198.51.100.3"],
        &[tcp],
    )]);
    let strange = started(&mut self::engine(&more))[2];
    assert!(!ids.contains(&strange));
    handle(&mut counters, &mut engine, &ended(strange, success(), 3));
    let totals = counters.totals();
    let both = [runs(&totals, 0, "tcp"), runs(&totals, 1, "tcp")];
    assert!(both == [[1, 1, 0, 2], [1, 0, 0, 1]] || both == [[1, 1, 0, 2], [0, 1, 0, 1]], "{both:?}");
    assert_eq!(totals.lateness.count(), 2);
}

#[test]
fn results_are_told_apart_and_changes_are_counted() {
    let config = testing::config(vec![pool("a", "192.0.2.10:80", &["198.51.100.1"], &[tcp])]);
    let (mut engine, mut counters) = (engine(&config), Counters::new(&config, String::new()));
    let id = started(&mut engine)[0];
    handle(&mut counters, &mut engine, &ended(id, Verdict::LocalError(fault()), 1));
    for verdict in [success(), Verdict::Failure(fault()), success()] {
        engine.handle_timeout(NOW + Duration::from_secs(9));
        handle(&mut counters, &mut engine, &ended(id, verdict, 700));
    }
    let totals = counters.totals();
    assert_eq!(runs(&totals, 0, "tcp"), [2, 1, 1, 4]);
    let server = config.virtual_servers[0].real_servers[0].id;
    assert_eq!(totals.pools[0].server_transitions, BTreeMap::from([(server, 2)]));
    assert_eq!(totals.pools[0].quorum_transitions, 2);
}

#[test]
fn a_reload_forgets_what_is_gone_and_keeps_the_rest() {
    let ping = || CheckKind::Ping(Ping::default());
    let before = testing::config(vec![
        pool("a", "192.0.2.10:80", &["198.51.100.1", "198.51.100.2"], &[tcp, ping]),
        pool("gone", "192.0.2.11:80", &["198.51.100.3"], &[tcp]),
    ]);
    let (mut engine, mut counters) = (engine(&before), Counters::new(&before, "one".to_owned()));
    for id in started(&mut engine) {
        handle(&mut counters, &mut engine, &ended(id, Verdict::Failure(fault()), 3));
    }
    assert_eq!(counters.totals().pools[0].server_transitions.len(), 2);
    let after = testing::config(vec![
        pool("new", "192.0.2.12:80", &["198.51.100.4"], &[tcp]),
        pool("a", "192.0.2.10:80", &["198.51.100.2"], &[tcp]),
    ]);
    counters.handle_reload(&after, "two".to_owned());
    counters.note_reloaded(Reloaded::Done);
    let totals = counters.totals();
    let names: Vec<&str> = totals.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["new", "a"]);
    assert_eq!((runs(&totals, 0, "tcp"), runs(&totals, 1, "tcp")), ([0; 4], [0, 2, 0, 2]));
    assert_eq!(totals.pools[1].checks.len(), 1, "no ping any more");
    let left: Vec<_> = totals.pools[1].server_transitions.keys().map(ToString::to_string).collect();
    assert_eq!(left, ["198.51.100.2:80"]);
    assert_eq!((totals.reloads.digest.as_str(), totals.reloads.done), ("two", 1));
    counters.note_reloaded(Reloaded::Refused);
    assert_eq!(
        (counters.totals().reloads.refused, counters.totals().reloads.last_ok),
        (1, LastReload::Failed)
    );
}

#[test]
fn a_copy_shares_what_has_not_changed_since() {
    let pools = ["a", "b"]
        .map(|name| pool(name, &format!("192.0.2.{}:80", name.as_bytes()[0]), &["198.51.100.1"], &[tcp]));
    let config = testing::config(pools.into());
    let (mut engine, mut counters) = (engine(&config), Counters::new(&config, String::new()));
    let before = counters.totals();
    engine.handle_timeout(NOW);
    counters.pool(&config.virtual_servers[1]).unwrap().quorum_transitions += 1;
    let after = counters.totals();
    assert!(Arc::ptr_eq(&before.pools[0], &after.pools[0]));
    assert_eq!((before.pools[1].quorum_transitions, after.pools[1].quorum_transitions), (0, 1));
}

#[test]
fn a_write_takes_from_the_first_request_that_it_answers() {
    let config = testing::config(vec![]);
    let mut counters = Counters::new(&config, String::new());
    let at = |millis| NOW + Duration::from_millis(millis);
    let mut tickets = testing::tickets();
    let [first, second, third] = [(); 3].map(|()| tickets.next().unwrap());
    counters.note_asked(first, at(0));
    counters.note_asked(first, at(500));
    counters.note_asked(second, at(10));
    counters.note_written(second, 0, at(30));
    assert_eq!((counters.totals().writes.count(), counters.totals().writes.sum()), (2, 0.05));
    // One that failed says nothing of how long it takes.
    counters.note_asked(third, at(40));
    counters.note_written(third, 1, at(50));
    counters.note_written(third, 0, at(60));
    assert_eq!(counters.totals().writes.count(), 2);
}

#[test]
fn a_writer_that_never_answers_costs_no_more_memory() {
    let config = testing::config(vec![]);
    let mut counters = Counters::new(&config, String::new());
    for ticket in testing::tickets().take(3 * WAITING) {
        counters.note_asked(ticket, NOW);
    }
    assert_eq!(counters.asked.len(), WAITING);
    let last = testing::tickets().nth(3 * WAITING - 1).unwrap();
    counters.note_written(last, 0, NOW + Duration::from_secs(1));
    assert_eq!(counters.totals().writes.count(), WAITING as u64);
}
