//! The document and the table of one pool in which everything that can be shown is.

use std::net::IpAddr;

use super::*;
use crate::control::protocol::parse_address;
use crate::engine::model::Protocol;
use crate::engine::snapshot::{
    FrozenStatus, Happened, HappenedKind, KernelCounters, LastResult, OperatorWeight,
    Override as OrderStatus, QuorumStatus, Traffic,
};
use crate::engine::table::ServiceId;

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn check(up: bool, failures: u32, last: Option<(&str, u64)>) -> CheckStatus {
    CheckStatus {
        kind: "http",
        mode: Mode::Enforce,
        up,
        has_run: last.is_some(),
        failures,
        last: last.map(|(detail, second)| LastResult {
            ok: up,
            detail: detail.to_owned(),
            latency: Duration::from_micros(1234),
            at: at(second),
        }),
    }
}

fn real_server(address: &str, checks: Vec<CheckStatus>) -> RealServerStatus {
    RealServerStatus {
        address: parse_address(address).unwrap(),
        alive: checks.iter().all(|check| check.up),
        kept: None,
        since: at(910),
        weight: 1,
        effective_weight: 1,
        destinations: Vec::new(),
        installed: true,
        missing: false,
        active_connections: 12,
        inactive_connections: 3,
        traffic: Traffic { connections: 50, packets_in: 1, packets_out: 2, bytes_in: 3, bytes_out: 4 },
        order: None,
        operator_weight: None,
        checks,
    }
}

fn announcement(address: &str, announced: bool, wanted: bool, problem: Option<&str>) -> AnnouncementStatus {
    let (address, problem) = (address.parse().unwrap(), problem.map(ToOwned::to_owned));
    AnnouncementStatus { address, interface: "lvs0".into(), announced, wanted, problem }
}

fn snapshot() -> Snapshot {
    let note = |reason: Option<&str>, until| OrderNote {
        by: "alice".into(),
        reason: reason.map(ToOwned::to_owned),
        since: at(700),
        until,
    };
    let service = |address: &str| ServiceId::Address {
        protocol: Protocol::Tcp,
        address: address.parse::<IpAddr>().unwrap(),
        port: 80,
    };
    let mut drained = real_server("198.51.100.12:80", vec![check(true, 0, Some(("HTTP 200", 999)))]);
    drained.order =
        Some(OrderStatus { order: Order::Drain, note: note(Some("kernel update"), Some(at(2800))) });
    drained.operator_weight = Some(OperatorWeight { weight: 7, note: note(None, None) });
    drained.effective_weight = 0;
    let mut heavy = real_server("[2001:db8:1::11]:80", vec![]);
    heavy.operator_weight = Some(OperatorWeight { weight: 2_147_483_647, note: note(None, None) });
    heavy.effective_weight = 2_147_483_647;
    let mut dead = real_server(
        "198.51.100.13:80",
        vec![check(false, 3, Some(("status: 503, wanted 200-299\u{1b}[31m", 998))), check(false, 0, None)],
    );
    dead.installed = false;
    dead.order = Some(OrderStatus { order: Order::Drain, note: note(None, None) });
    let mut observed =
        real_server("198.51.100.14:80", vec![check(true, 1, Some(("connect: timed out", 990)))]);
    observed.checks[0].mode = Mode::Observe;
    observed.installed = false;
    let mut refused = real_server("198.51.100.15:80", vec![]);
    refused.installed = false;
    refused.missing = true;
    Snapshot {
        nothing_served: false,
        not_in_force: None,
        unconfirmed: None,
        frozen: None,
        kernel: KernelCounters { operations: 7, failures: 1, drift: 2 },
        broken_checks: 3,
        dry_run: true,
        lacks: vec![],
        counted: Some(at(996)),
        recent: vec![Happened {
            number: 9,
            at: at(500),
            kind: HappenedKind::Down,
            virtual_server: "web".into(),
            real_server: Some(parse_address("198.51.100.13:80").unwrap()),
            text: "refused".into(),
        }],
        virtual_servers: vec![
            VirtualServerStatus {
                name: "web".into(),
                services: vec![service("192.0.2.10"), service("2001:db8::10")],
                scheduler: "wrr".into(),
                inactive: vec![],
                quorum: QuorumStatus {
                    up: false,
                    weight: 1,
                    threshold: 3,
                    quorum: 2,
                    hysteresis: 1,
                    since: at(940),
                },
                sorry_server: Some(SorryServerStatus {
                    address: parse_address("198.51.100.99").unwrap(),
                    active: true,
                }),
                real_servers: vec![
                    real_server("198.51.100.11:80", vec![check(true, 0, Some(("HTTP 200", 999)))]),
                    drained,
                    dead,
                    observed,
                    heavy,
                    refused,
                ],
                missing: vec![
                    (service("192.0.2.10"), Some("add service tcp 192.0.2.10:80: no such scheduler".into())),
                    (service("2001:db8::10"), None),
                ],
                announcements: vec![
                    announcement("192.0.2.10", true, true, None),
                    announcement("2001:db8::10", false, true, Some("there is no interface lvs0\u{1b}[31m")),
                    announcement("192.0.2.11", false, false, Some("no quorum in web")),
                ],
            },
            VirtualServerStatus {
                name: "empty".into(),
                services: vec![service("192.0.2.11")],
                scheduler: "rr".into(),
                inactive: vec![(service("192.0.2.11"), "192.0.2.11 is on no interface".into())],
                quorum: QuorumStatus {
                    up: true,
                    weight: 0,
                    threshold: 0,
                    quorum: 1,
                    hysteresis: 1,
                    since: at(1000),
                },
                sorry_server: None,
                real_servers: vec![],
                missing: vec![],
                announcements: vec![],
            },
        ],
    }
}

/// A server drained a minute ago has not been drained since its last verdict.
#[test]
fn the_age_is_that_of_the_state_that_is_shown() {
    let aged = |verdict: u64, order: Option<u64>| {
        let mut server = real_server("198.51.100.11:80", vec![check(true, 0, None)]);
        server.since = at(verdict);
        server.order = order.map(|since| OrderStatus {
            order: Order::Drain,
            note: OrderNote { by: "alice".into(), reason: None, since: at(since), until: None },
        });
        let mut snapshot = snapshot();
        snapshot.virtual_servers.truncate(1);
        snapshot.virtual_servers[0].real_servers = vec![server];
        let all: Vec<_> = snapshot.virtual_servers.iter().collect();
        let table = table(&snapshot, &all, at(1000));
        let row = table.lines().find(|line| line.starts_with("  198.51.100.11:80")).unwrap();
        row.split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(aged(400, None), "10m");
    assert_eq!(aged(400, Some(940)), "1m", "the order is younger");
    assert_eq!(aged(940, Some(400)), "1m", "it has come up since");
}

#[test]
fn json_has_the_documented_keys_in_the_documented_order() {
    let mut snapshot = snapshot();
    snapshot.virtual_servers[0].real_servers.truncate(2);
    snapshot.virtual_servers[0].announcements.swap_remove(1);
    let reply = reply(&snapshot, "lvs1", None, at(1000));
    assert_eq!(
        reply.data.unwrap().get(),
        concat!(
            r#"{"version":1,"name":"lvs1","virtual_servers":[{"name":"web","#,
            r#""services":["tcp 192.0.2.10:80","tcp [2001:db8::10]:80"],"scheduler":"wrr","#,
            r#""quorum":{"up":false,"weight":1,"threshold":3,"quorum":2,"hysteresis":1,"age_ms":60000},"#,
            r#""sorry_server":{"address":"198.51.100.99","active":true},"real_servers":["#,
            r#"{"address":"198.51.100.11:80","alive":true,"kept":null,"age_ms":90000,"weight":1,"effective_weight":1,"installed":true,"missing":false,"#,
            r#""override":null,"connections":{"active":12,"inactive":3},"#,
            r#""traffic":{"connections":50,"packets_in":1,"packets_out":2,"bytes_in":3,"bytes_out":4},"checks":[{"kind":"http","#,
            r#""mode":"enforce","up":true,"has_run":true,"failures":0,"#,
            r#""last":{"ok":true,"detail":"HTTP 200","latency_us":1234,"age_ms":1000}}]},"#,
            r#"{"address":"198.51.100.12:80","alive":true,"kept":null,"age_ms":90000,"weight":1,"effective_weight":0,"installed":true,"missing":false,"#,
            r#""override":{"order":"drain","weight":7,"by":"alice","reason":"kernel update","age_ms":300000,"#,
            r#""left_ms":1800000,"weight_note":{"by":"alice","reason":null,"age_ms":300000,"left_ms":null}},"#,
            r#""connections":{"active":12,"inactive":3},"#,
            r#""traffic":{"connections":50,"packets_in":1,"packets_out":2,"bytes_in":3,"bytes_out":4},"checks":[{"kind":"http","#,
            r#""mode":"enforce","up":true,"has_run":true,"failures":0,"#,
            r#""last":{"ok":true,"detail":"HTTP 200","latency_us":1234,"age_ms":1000}}]}],"#,
            r#""missing":[{"service":"tcp 192.0.2.10:80","refusal":"add service tcp 192.0.2.10:80: no such scheduler"},"#,
            r#"{"service":"tcp [2001:db8::10]:80","refusal":null}],"#,
            r#""announce":[{"address":"192.0.2.10","interface":"lvs0","announced":true,"wanted":true,"problem":null},"#,
            r#"{"address":"192.0.2.11","interface":"lvs0","announced":false,"wanted":false,"problem":"no quorum in web"}],"active":true,"inactive":[]},"#,
            r#"{"name":"empty","services":["tcp 192.0.2.11:80"],"scheduler":"rr","#,
            r#""quorum":{"up":true,"weight":0,"threshold":0,"quorum":1,"hysteresis":1,"age_ms":0},"#,
            r#""sorry_server":null,"real_servers":[],"missing":[],"announce":[],"active":false,"#,
            r#""inactive":[{"service":"tcp 192.0.2.11:80","reason":"192.0.2.11 is on no interface"}]}],"#,
            r#""kernel":{"operations":7,"failures":1,"drift":2,"counted_age_ms":4000},"broken_checks":3,"dry_run":true,"recent":[{"number":9,"age_ms":500000,"#,
            r#""kind":"down","virtual_server":"web","real_server":"198.51.100.13:80","text":"refused"}]}"#,
        )
    );
}

#[test]
fn a_check_that_never_ran_has_no_last_and_a_weight_alone_no_order() {
    let snapshot = snapshot();
    let json =
        serde_json::to_value(Status::new(&snapshot, &[&snapshot.virtual_servers[0]], "lvs1", at(1000)))
            .unwrap();
    let servers = &json["virtual_servers"][0]["real_servers"];
    assert!(servers[2]["checks"][1]["last"].is_null());
    assert_eq!(servers[4]["override"]["order"], serde_json::Value::Null);
    assert_eq!(servers[4]["override"]["weight"], 2_147_483_647);
    assert_eq!(servers[4]["override"]["by"], "alice");
}

#[test]
fn the_table_shows_what_is_not_as_configured() {
    let text = reply(&snapshot(), "lvs1", None, at(1000)).text;
    insta::assert_snapshot!(text);
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn a_server_that_is_kept_is_marked() {
    let mut snapshot = snapshot();
    let server = &mut snapshot.virtual_servers[0].real_servers[2];
    (server.kept, server.installed) = (Some(Guard::MinAlive), true);
    let text = reply(&snapshot, "lvs1", None, at(1000)).text;
    assert!(text.contains("  DOWN, KEPT") && text.contains("  kept in the table by min_alive\n"), "{text}");
    let json =
        serde_json::to_value(Status::new(&snapshot, &[&snapshot.virtual_servers[0]], "lvs1", at(1000)));
    assert_eq!(json.unwrap()["virtual_servers"][0]["real_servers"][2]["kept"], "min_alive");
}

#[test]
fn one_virtual_server_can_be_named() {
    let one = reply(&snapshot(), "lvs1", Some("empty"), at(1000));
    let json: serde_json::Value = serde_json::from_str(one.data.unwrap().get()).unwrap();
    assert_eq!(json["virtual_servers"].as_array().unwrap().len(), 1);
    assert_eq!(json["virtual_servers"][0]["name"], "empty");
    let none = reply(&snapshot(), "lvs1", Some("mail"), at(1000));
    assert_eq!((none.ok, none.text.as_str()), (false, "there is no virtual server \"mail\""));
    assert_eq!(reply(&Snapshot::default(), "lvs1", None, at(0)).text, "no virtual servers");
}

#[test]
fn frozen_verdicts_come_first() {
    let reasons = vec!["no canary answers: 192.0.2.1:22: timed out".to_owned(), "late\u{1b}".to_owned()];
    let frozen = Some(FrozenStatus { since: at(988), reasons, set_aside: 37 });
    let snapshot = Snapshot { frozen, ..Snapshot::default() };
    let reply = reply(&snapshot, "lvs1", None, at(1000));
    let first = reply.text.lines().next().unwrap();
    assert!(
        first.starts_with("VERDICTS FROZEN for 12s, this host seems to be sick: no canary answers: "),
        "{first}"
    );
    assert!(first.ends_with("; 37 results set aside") && !first.contains('\u{1b}'), "{first}");
    let json: serde_json::Value = serde_json::from_str(reply.data.unwrap().get()).unwrap();
    assert_eq!((&json["frozen"]["for_ms"], &json["frozen"]["set_aside"]), (&12_000.into(), &37.into()));
    assert_eq!(json["frozen"]["reasons"][0], "no canary answers: 192.0.2.1:22: timed out");
    let thawed = Snapshot { frozen: None, ..snapshot.clone() };
    assert!(matches!(difference::difference(&snapshot, &thawed), difference::Difference::Some(_)));
}

/// A check that cannot run takes nobody out: without a word of it, its server would look as well as one that is checked.
#[test]
fn a_check_that_could_not_run_is_shown_beneath_a_server_that_is_up() {
    let mut snapshot = snapshot();
    let first = &mut snapshot.virtual_servers[0].real_servers[0];
    let row = |text: &str| {
        let mut lines = text.lines().skip_while(|line| !line.contains("198.51.100.11:80"));
        let server = lines.next().unwrap().to_owned();
        (server, lines.next().unwrap().trim().to_owned())
    };
    let mut check = first.checks[0].clone();
    let detail = "running as \"nobody\" is not permitted".to_owned();
    (check.kind, check.has_run) = ("script", false);
    check.last = Some(LastResult { ok: false, detail, latency: Duration::ZERO, at: at(990) });
    first.checks = vec![check];
    let (server, beneath) = row(&reply(&snapshot, "lvs1", None, at(1000)).text);
    assert!(server.contains("  up  "), "{server}");
    let wanted =
        "script: HAS NEVER BEEN ABLE TO RUN: running as \"nobody\" is not permitted (last tried 10s ago)";
    assert_eq!(beneath, wanted);
    snapshot.virtual_servers[0].real_servers[0].checks[0].has_run = true;
    let (_, beneath) = row(&reply(&snapshot, "lvs1", None, at(1000)).text);
    assert_eq!(beneath, wanted.replace("HAS NEVER BEEN ABLE TO RUN", "did not count"));
}

#[test]
fn what_the_daemon_does_without_is_said_before_the_virtual_servers() {
    let lacks = vec!["NO HTTP: listening for HTTP on 127.0.0.1:9999: in use\u{1b}".to_owned()];
    let lacking = Snapshot { lacks, ..Snapshot::default() };
    let reply = reply(&lacking, "lvs1", None, at(1000));
    let first = reply.text.lines().next().unwrap();
    assert!(first.starts_with("NO HTTP: ") && !first.contains('\u{1b}'), "{first}");
    let json: serde_json::Value = serde_json::from_str(reply.data.unwrap().get()).unwrap();
    assert_eq!(json["lacks"][0].as_str().map(|lack| lack.starts_with("NO HTTP")), Some(true));
    assert!(matches!(
        difference::difference(&lacking, &Snapshot::default()),
        difference::Difference::Some(_)
    ));
}
