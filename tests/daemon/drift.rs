//! Somebody else changes our table: it is put right within `drift_interval`, and counted.

use super::process::{Director, wait_for_table};
use super::{FOREIGN, WEB, WEB_TABLE, add_foreign};
use crate::lab::backend::Backend;
use crate::lab::net::Network;
use crate::lab::wait::{pause, until};

/// How many entries were found changed, as the daemon counts them.
fn drift(director: &Director) -> u64 {
    let status = director.lvsd("status --json");
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    status["kernel"]["drift"].as_u64().unwrap_or_else(|| panic!("no count in {status}"))
}

#[test]
fn a_flushed_table_is_repaired_and_the_repair_is_told() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, &format!("drift_interval = \"500ms\"\n{WEB}"));
    let _daemon = director.start();
    network.director.ipvsadm("-C");
    wait_for_table(&network.director, &WEB_TABLE);
    until("the log tells of it", || director.log().contains("not as it was left"));
    assert!(drift(&director) >= 3, "a service and two servers: {}", drift(&director));
}

#[test]
fn a_changed_weight_is_repaired_and_foreign_services_are_not() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    add_foreign(&network.director);
    let director = Director::new(&network.director, &format!("drift_interval = \"500ms\"\n{WEB}"));
    let _daemon = director.start();
    network.director.ipvsadm("-D -t 192.0.2.11:25");
    network.director.ipvsadm("-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 9");
    wait_for_table(&network.director, &WEB_TABLE);
    assert!(!network.director.table().iter().any(|line| FOREIGN.contains(&line.as_str())));
}

#[test]
fn drift_that_is_only_to_be_warned_of_is_left() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let config = format!("drift = \"warn\"\ndrift_interval = \"300ms\"\n{WEB}");
    let director = Director::new(&network.director, &config);
    let _daemon = director.start();
    network.director.ipvsadm("-d -t 192.0.2.10:80 -r 198.51.100.12:80");
    until("the log tells of it", || director.log().contains("not as it was left"));
    assert!(drift(&director) >= 1, "counted either way");
    pause(std::time::Duration::from_secs(1));
    assert_eq!(network.director.table(), WEB_TABLE[..2]);
}
