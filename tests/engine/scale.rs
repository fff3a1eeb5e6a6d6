//! The engine with as many servers as anybody has. The counts of what it says are asserted; times are
//! printed (`--nocapture`), no test depends on them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use lvsd::engine::memory::Memory;
use lvsd::engine::model::{Config, Fault, Outcome, Phase, RealServerId, Verdict, WeightChange};
use lvsd::engine::table::Table;
use lvsd::engine::{Command, Engine, Event, ProbeId, Readings, Time};

use crate::topology::{self, Topology};

fn config(text: &str) -> Config {
    let topology: std::collections::BTreeMap<String, Topology> = toml::from_str(text).unwrap();
    topology::lower(&topology["virtual_server"])
}

/// `10.1.2.3:80` and so on, as an array.
fn servers(first: usize, count: usize) -> String {
    let mut list = String::from("[");
    for n in first..first + count {
        write!(list, "'10.{}.{}.{}:80', ", n >> 16, n >> 8 & 255, n & 255).unwrap();
    }
    list + "]"
}

fn starts(engine: &mut Engine) -> Vec<ProbeId> {
    let command = |command| match command {
        Command::Start { id, .. } => id,
        Command::Cancel { id } => panic!("{id:?} cancelled"),
    };
    std::iter::from_fn(|| engine.next_command()).map(command).collect()
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = act();
    println!("{what}: {:?}", begin.elapsed());
    result
}

const START: Time = Time::from_nanos(1_000_000_000);

#[test]
fn half_of_a_pool_of_ten_thousand_dies_one_by_one() {
    let config =
        config(&format!("virtual_server = [{{ address = 'V', real_server = {} }}]", servers(0, 10_000)));
    let mut engine = timed("start with 10000 servers", || {
        Engine::start(&config, &Memory::default(), &Table::default(), &Readings::new(), START)
    });
    timed("start all checks", || engine.handle_timeout(START));
    let ids = starts(&mut engine);
    assert_eq!(ids.len(), 10_000);
    timed("the first table", || assert_eq!(engine.take_table_changes().len(), 1));
    let good = Verdict::Success { detail: "connected".to_owned(), weight: WeightChange::None };
    let bad = Verdict::Failure(Fault { phase: Phase::Connect, reason: "refused".to_owned() });
    let outcome = |verdict: &Verdict| Outcome { verdict: verdict.clone(), latency: Duration::ZERO };
    timed("5000 die and 5000 live", || {
        for (n, id) in ids.iter().enumerate() {
            engine.handle_outcome(*id, &outcome(if n % 2 == 0 { &bad } else { &good }), START);
            engine.handle_timeout(START);
        }
    });
    let events: Vec<Event> = std::iter::from_fn(|| engine.next_event()).collect();
    let died = events.iter().filter(|e| matches!(e, Event::RealServer { alive: false, .. })).count();
    assert_eq!(died, 5000);
    timed("one table for all of them", || assert_eq!(engine.take_table_changes().len(), 1));
    let service = engine.table().services.into_values().next().unwrap();
    assert_eq!(service.destinations.len(), 5000);
    let snapshot = timed("snapshot", || engine.snapshot(None));
    assert_eq!(snapshot.virtual_servers[0].quorum.weight, 5000);
    timed("memory", || assert_eq!(engine.memory(START).virtual_servers[0].real_servers.len(), 10_000));
}

#[test]
fn a_reload_of_five_thousand_services_that_changes_nothing_says_nothing() {
    let config_of = |changed: bool| {
        let mut text = String::from("virtual_server = [");
        for n in 0..5000 {
            let weight = if changed && n % 100 == 0 { "scheduler = 'wlc', " } else { "" };
            let address = format!("172.16.{}.{}:80", n >> 8, n & 255);
            writeln!(text, "{{ address = '{address}', {weight}real_server = {} }},", servers(4 * n, 4))
                .unwrap();
        }
        config(&(text + "]"))
    };
    let (same, changed) = (config_of(false), config_of(true));
    let mut engine = Engine::start(&same, &Memory::default(), &Table::default(), &Readings::new(), START);
    engine.handle_timeout(START);
    assert_eq!(starts(&mut engine).len(), 20_000);
    timed("the first table of 5000", || assert_eq!(engine.take_table_changes().len(), 5000));
    let plan = timed("reload unchanged", || engine.handle_reload(&same, &Readings::new(), START));
    assert_eq!(plan.actions, []);
    assert!(engine.next_command().is_none() && engine.next_event().is_none());
    timed("its table", || assert_eq!(engine.take_table_changes(), []));
    let plan = timed("reload with 1 % changed", || engine.handle_reload(&changed, &Readings::new(), START));
    assert_eq!(plan.actions.len(), 50);
    assert!(engine.next_command().is_none() && engine.next_event().is_none());
    timed("its table", || assert_eq!(engine.take_table_changes().len(), 50));
}

#[test]
fn thousands_of_orders_end_in_the_same_moment() {
    use lvsd::engine::snapshot::OrderNote;
    use lvsd::engine::{OrderChange, Selector};
    let config = config(&format!(
        "virtual_server = [{{ address = 'V', check = [], real_server = {} }}]",
        servers(0, 10_000)
    ));
    let mut engine = Engine::start(&config, &Memory::default(), &Table::default(), &Readings::new(), START);
    let until = Some(START + Duration::from_secs(60));
    let note = OrderNote { by: "root".to_owned(), reason: None, since: START, until };
    let ids: Vec<RealServerId> = config.virtual_servers[0].real_servers.iter().map(|s| s.id).collect();
    for id in ids.iter().step_by(20) {
        let selector = Selector { address: id.address, port: id.port, virtual_server: None };
        assert_eq!(engine.handle_order(selector, OrderChange::Drain, &note).unwrap().servers.len(), 1);
    }
    assert_eq!(engine.poll_timeout(), until);
    timed("500 of 10000 orders end", || engine.handle_timeout(START + Duration::from_secs(60)));
    assert_eq!(engine.poll_timeout(), None);
    engine.take_table_changes();
    assert!(engine.table().services.values().all(|s| s.destinations.values().all(|d| d.weight == 1)));
}

/// With more checks than the caller begins at a time: those that wait are as late as they are.
#[test]
fn a_start_that_nobody_has_taken_is_late_from_its_time_on() {
    let config =
        config(&format!("virtual_server = [{{ address = 'V', real_server = {} }}]", servers(0, 300)));
    let mut engine = Engine::start(&config, &Memory::default(), &Table::default(), &Readings::new(), START);
    let mut now = START;
    engine.handle_timeout(now);
    let mut left = 300;
    while left > 0 {
        assert_eq!(engine.lateness(now), now.since(START), "{left} are left");
        for _ in 0..100 {
            assert!(matches!(engine.next_command(), Some(Command::Start { .. })));
            left -= 1;
        }
        now = now + Duration::from_millis(10);
        engine.handle_timeout(now);
    }
    assert!(!engine.has_commands());
    assert_eq!(engine.lateness(now), Duration::ZERO, "all run, and have their time");
}
