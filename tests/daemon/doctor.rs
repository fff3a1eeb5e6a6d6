//! `lvsd doctor` on a real kernel: each finding appears with its cause and goes with it.

use std::fs;

use serde_json::Value;

use super::process::Director;
use super::{WEB, WEB_SERVICE};
use crate::lab::net::{Network, Space};

/// Level of one rule's finding, as `lvsd doctor --json` says it now.
fn level(director: &Director, rule: &str) -> Option<String> {
    let report = report(director);
    let findings = report["findings"].as_array().expect("findings").clone();
    let found = findings.iter().find(|finding| finding["rule"] == rule);
    found.map(|finding| finding["level"].as_str().expect("a level").to_owned())
}

fn report(director: &Director) -> Value {
    let config = director.config();
    let output = director.lvsd(&format!("doctor --json -c {}", config.display()));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let code = if report["faults"] == 0 { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{report:#}");
    report
}

fn set(space: &Space, path: &str, value: &str) {
    space.run(|| fs::write(format!("/proc/sys/{path}"), value)).expect("root may");
}

#[test]
fn what_is_wrong_is_found_and_goes_when_it_is_mended() {
    let network = Network::new();
    let space = &network.director;
    let director = Director::new(space, WEB);
    let settings = [
        ("net/ipv4/ip_forward", "ip_forward", "fault"),
        ("net/ipv4/conf/back/forwarding", "ip_forward", "fault"),
        ("net/ipv4/vs/expire_nodest_conn", "expire_nodest_conn", "advice"),
        ("net/ipv4/vs/conn_reuse_mode", "conn_reuse_mode", "advice"),
        ("net/ipv4/vs/run_estimation", "run_estimation", "advice"),
    ];
    for (path, rule, wrong) in settings {
        // A kernel may be built without one.
        if space.run(|| fs::exists(format!("/proc/sys/{path}")).unwrap_or(false)) {
            set(space, path, "0");
            assert_eq!(level(&director, rule).as_deref(), Some(wrong), "{path} = 0");
            set(space, path, "1");
            assert_eq!(level(&director, rule).as_deref(), Some("ok"), "{path} = 1");
        } else {
            assert!(path.contains("run_estimation"), "no {path}");
        }
    }
    assert_eq!(level(&director, "ip_vs").as_deref(), Some("ok"));
    assert_eq!(level(&director, "cap_net_admin").as_deref(), Some("ok"));
    assert_eq!(report(&director)["faults"], 0, "{:#}", report(&director));
}

#[test]
fn a_virtual_address_that_is_not_here_is_a_fault() {
    let network = Network::new();
    let director = Director::new(&network.director, WEB);
    assert_eq!(level(&director, "virtual_address").as_deref(), Some("ok"));
    network.director.ip("addr del 192.0.2.10/24 dev front");
    assert_eq!(level(&director, "virtual_address").as_deref(), Some("fault"));
    // As a block, which no device lists among its addresses.
    network.director.ip("route add local 192.0.2.8/29 dev lo");
    assert_eq!(level(&director, "virtual_address").as_deref(), Some("ok"));
}

#[test]
fn services_of_nobody_are_told_from_the_daemons_own() {
    let network = Network::new();
    let director = Director::new(&network.director, WEB);
    network.director.ipvsadm(WEB_SERVICE);
    assert_eq!(level(&director, "taken_over").as_deref(), Some("advice"));
    let daemon = director.start();
    assert_eq!(level(&director, "taken_over"), None);
    drop(daemon);
}
