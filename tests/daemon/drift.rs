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
    let why = || String::from_utf8(director.lvsd("why 198.51.100.11:80").stdout).expect("text");
    let flushed =
        "pool: CHANGED BY OTHERS in the kernel's table: tcp 192.0.2.10:80: 3 changes, repairing: -A ";
    assert!(why().contains(flushed), "{}", why());
    network.director.ipvsadm("-d -t 192.0.2.10:80 -r 198.51.100.11:80");
    wait_for_table(&network.director, &WEB_TABLE);
    let deleted = "  CHANGED BY OTHERS in the kernel's table: tcp 192.0.2.10:80: 1 change, repairing: -a ";
    assert!(why().contains(deleted), "{}", why());
    let other = director.lvsd("why 198.51.100.12:80").stdout;
    let other = String::from_utf8(other).expect("text");
    assert!(other.contains(flushed) && !other.contains(deleted), "{other}");
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

/// The daemon believes what it saw last, ten seconds and more ago: a reload finds that out by itself.
#[test]
fn a_reload_after_hand_edits_that_nobody_has_seen_yet_goes_through() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, WEB);
    let daemon = director.start();
    let director_space = &network.director;
    let edits: [&[&str]; 4] = [
        &["-d -t 192.0.2.10:80 -r 198.51.100.11:80"],
        &["-C"],
        // The service that the next file adds.
        &["-A -t 192.0.2.11:80 -s wlc", "-a -t 192.0.2.11:80 -r 198.51.100.13:80 -m"],
        &["-D -t 192.0.2.11:80"],
    ];
    let more = "\n[[virtual_server]]\naddress = \"192.0.2.11:80\"\nscheduler = \"rr\"\n[[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n";
    for (round, lines) in (4..).zip(edits) {
        for line in lines {
            director_space.ipvsadm(line);
        }
        let added = if round == 6 { more } else { "" };
        director.configure(&(WEB.replace("weight = 3", &format!("weight = {round}")) + added));
        let reload = director.lvsd("reload");
        assert!(reload.status.success(), "{lines:?}: {}", String::from_utf8_lossy(&reload.stderr));
        let first = WEB_TABLE[1].replace("-w 3", &format!("-w {round}"));
        let web = [WEB_TABLE[0], first.as_str(), WEB_TABLE[2]];
        let other = ["-A -t 192.0.2.11:80 -s rr", "-a -t 192.0.2.11:80 -r 198.51.100.11:80 -m -w 1"];
        let both = [&web[..1], &other[..1], &web[1..], &other[1..]].concat();
        let mut found = director_space.table();
        let mut wanted = if added.is_empty() { web.to_vec() } else { both };
        found.sort();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "at once, not at the next look: {lines:?}");
    }
    assert!(!director.log().contains(" ERROR "), "{}", director.log());
    director_space.ipvsadm("-C");
    assert!(daemon.stop().success());
    assert!(!director.log().contains(" ERROR "), "what is gone already is withdrawn: {}", director.log());
}

#[test]
fn a_shorter_interval_counts_from_the_reload_on() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, &format!("drift_interval = \"1h\"\n{WEB}"));
    let mut daemon = director.start();
    director.configure(&format!("drift_interval = \"300ms\"\n{WEB}"));
    daemon.reload_by_signal();
    network.director.ipvsadm("-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 9");
    wait_for_table(&network.director, &WEB_TABLE);
}
