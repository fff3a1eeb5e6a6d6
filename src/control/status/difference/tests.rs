//! Whoever applies the differences has what the newest status says.

use std::time::Duration;

use super::*;
use crate::engine::Guard;
use crate::engine::model::Mode;
use crate::engine::snapshot::{CheckStatus, Happened, HappenedKind, LastResult, QuorumStatus, Traffic};
use crate::engine::time::Time;

fn server(address: &str) -> RealServerStatus {
    RealServerStatus {
        address: crate::control::protocol::parse_address(address).unwrap(),
        alive: true,
        kept: None,
        since: Time::ZERO,
        weight: 1,
        effective_weight: 1,
        destinations: vec![],
        installed: true,
        missing: false,
        active_connections: 0,
        inactive_connections: 0,
        traffic: Traffic::default(),
        order: None,
        operator_weight: None,
        checks: vec![],
    }
}

fn pool(name: &str, servers: &[&str]) -> VirtualServerStatus {
    let quorum =
        QuorumStatus { up: true, weight: 1, threshold: 0, quorum: 1, hysteresis: 0, since: Time::ZERO };
    VirtualServerStatus {
        name: name.to_owned(),
        services: vec![],
        scheduler: "wrr".to_owned(),
        inactive: vec![],
        quorum,
        sorry_server: None,
        real_servers: servers.iter().map(|address| server(address)).collect(),
        missing: vec![],
        announcements: vec![],
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        virtual_servers: vec![
            pool("web", &["198.51.100.11:80", "198.51.100.12:80"]),
            pool("mail", &["198.51.100.11:25", "198.51.100.12:25"]),
        ],
        ..Snapshot::default()
    }
}

fn happened(number: u64) -> Happened {
    let (at, kind, virtual_server) = (Time::ZERO, HappenedKind::Up, "web".to_owned());
    Happened { number, at, kind, virtual_server, real_server: None, text: String::new() }
}

/// What a reader of differences does.
fn apply(mut old: Snapshot, difference: Difference, new: &Snapshot) -> Snapshot {
    let some = match difference {
        Difference::Nothing => return old,
        Difference::Everything => return new.clone(),
        Difference::Some(some) => *some,
    };
    for changed in some.virtual_servers {
        let pool = old.virtual_servers.iter_mut().find(|pool| pool.name == changed.name).unwrap();
        let mut servers = std::mem::take(&mut pool.real_servers);
        for server in &changed.real_servers {
            *servers.iter_mut().find(|old| old.address == server.address).unwrap() = server.clone();
        }
        *pool = VirtualServerStatus { real_servers: servers, ..changed };
    }
    let recent = some.recent.into_iter().chain(old.recent).take(3).collect();
    Snapshot { virtual_servers: old.virtual_servers, recent, ..some }
}

type Step = fn(&mut Snapshot);
type Case = (&'static str, Step, Option<(usize, usize)>);

/// Each with how many pools and servers it takes to tell it; none where all is told.
const STEPS: [Case; 10] = [
    ("nothing", |_| {}, Some((0, 0))),
    ("a check ran", |s| s.virtual_servers[1].real_servers[0].checks.push(ran()), Some((1, 1))),
    ("a server is kept", |s| s.virtual_servers[0].real_servers[1].kept = Some(Guard::MinAlive), Some((1, 1))),
    ("a server died", |s| s.virtual_servers[0].real_servers[1].alive = false, Some((1, 1))),
    ("quorum", |s| s.virtual_servers[0].quorum.up = false, Some((1, 0))),
    ("the kernel", |s| s.kernel.drift += 1, Some((0, 0))),
    ("the counters", |s| s.counted = Some(Time::from_nanos(1)), Some((0, 0))),
    ("happened", |s| s.recent = vec![happened(2), happened(1)], Some((0, 0))),
    ("another order", |s| s.virtual_servers[0].real_servers.reverse(), None),
    ("a pool less", |s| drop(s.virtual_servers.pop()), None),
];

fn ran() -> CheckStatus {
    let last = LastResult {
        ok: true,
        detail: "HTTP 200".to_owned(),
        latency: Duration::from_millis(1),
        at: Time::from_nanos(5),
    };
    CheckStatus { kind: "http", mode: Mode::Enforce, up: true, has_run: true, failures: 0, last: Some(last) }
}

#[test]
fn a_difference_has_what_changed_and_nothing_else() {
    for (what, step, size) in STEPS {
        let (before, mut after) = (snapshot(), snapshot());
        step(&mut after);
        let difference = difference(&before, &after);
        let found = match &difference {
            Difference::Nothing => Some((0, 0)),
            Difference::Everything => None,
            Difference::Some(some) => {
                let servers = some.virtual_servers.iter().map(|pool| pool.real_servers.len()).sum();
                Some((some.virtual_servers.len(), servers))
            }
        };
        assert_eq!(found, size, "{what}");
        assert_eq!(difference == Difference::Nothing, before == after, "{what}");
        assert_eq!(apply(before, difference, &after), after, "{what}");
    }
}

#[test]
fn one_after_the_other_they_lead_to_the_newest() {
    let mut now = snapshot();
    let mut reader = snapshot();
    for (what, step, _) in STEPS.into_iter().cycle().take(3 * STEPS.len()) {
        let before = now.clone();
        if now.virtual_servers.is_empty() {
            now = snapshot();
        }
        if now.virtual_servers.len() < 2 && what == "a check ran" {
            continue;
        }
        step(&mut now);
        reader = apply(reader, difference(&before, &now), &now);
        assert_eq!(reader, now, "{what}");
    }
}

#[test]
fn only_what_is_new_of_what_happened() {
    let before = Snapshot { recent: vec![happened(2), happened(1)], ..snapshot() };
    let after = Snapshot { recent: vec![happened(4), happened(3), happened(2)], ..snapshot() };
    let Difference::Some(some) = difference(&before, &after) else { panic!("two are new") };
    assert_eq!(some.recent, [happened(4), happened(3)]);
}
