//! All servers seem to fail at once: what stays in the table, because the director can be the sick one.

use std::time::{Duration, Instant};

use super::WEB;
use super::process::{Director, wait_for_table};
use crate::lab::backend::Backend;
use crate::lab::net::Network;
use crate::lab::wait::until;

const BEGINS: &str = "web: min_alive = 2 keeps servers in the table that have failed: 198.51.100.";
const SERVICE: &str = "-A -t 192.0.2.10:80 -s wrr";

/// [`WEB`] with three servers of equal weight, and more keys of its virtual server.
fn three(keys: &str) -> String {
    let web = WEB.replace("weight = 3\n", "").replace("name = \"web\"", &format!("name = \"web\"\n{keys}"));
    format!("{web}[[virtual_server.real_server]]\naddress = \"198.51.100.13:80\"\n")
}

fn entry(last: u8) -> String {
    format!("-a -t 192.0.2.10:80 -r 198.51.100.{last}:80 -m -w 1")
}

fn back_ends(network: &Network) -> Vec<Backend> {
    let addresses = ["198.51.100.11:80", "198.51.100.12:80", "198.51.100.13:80"];
    addresses.map(|at| Backend::start(&network.servers, at)).into()
}

#[test]
fn min_alive_leaves_two_of_three_that_die_at_once() {
    let network = Network::new();
    let servers = back_ends(&network);
    let director = Director::new(&network.director, &three("min_alive = 2"));
    let daemon = director.start();
    let all: Vec<String> = [11, 12, 13].map(entry).into();
    wait_for_table(&network.director, &[SERVICE, &all[0], &all[1], &all[2]]);

    drop(servers);
    // Until all three are down by their checks: one has left, two stay.
    until("three servers that are down, two of them kept", || {
        let said = String::from_utf8(director.lvsd("status").stdout).expect("text");
        said.matches("DOWN").count() == 3 && said.matches("DOWN, KEPT").count() == 2
    });
    let table = network.director.table();
    assert_eq!(table.len(), 3, "{table:?}");
    assert!(table[1..].iter().all(|line| all.contains(line)), "{table:?}");

    // A new process finds them kept, and keeps them.
    daemon.kill();
    assert_eq!(director.log().matches(BEGINS).count(), 1, "said once, not for each server");
    let _daemon = director.start();
    assert_eq!(network.director.table(), table);
    until("a new process says it", || director.log().matches(BEGINS).count() == 2);

    let _servers = back_ends(&network);
    until("its end", || director.log().contains("web: min_alive = 2 keeps no failed server any more"));
    wait_for_table(&network.director, &[SERVICE, &all[0], &all[1], &all[2]]);
}

#[test]
fn by_max_down_rate_they_leave_one_by_one() {
    let network = Network::new();
    let servers = back_ends(&network);
    let rate = "max_down_rate = { servers = 1, per = \"2s\" }\n";
    let director = Director::new(&network.director, &format!("{rate}{}", three("")));
    let _daemon = director.start();
    let all: Vec<String> = [11, 12, 13].map(entry).into();
    wait_for_table(&network.director, &[SERVICE, &all[0], &all[1], &all[2]]);

    drop(servers);
    // Every table that is seen on the way, with its time.
    let mut seen: Vec<(usize, Instant)> = Vec::new();
    until("an empty pool", || {
        let left = network.director.table().len() - 1;
        if seen.last().is_none_or(|(last, _)| *last != left) {
            seen.push((left, Instant::now()));
        }
        left == 0
    });
    let counts: Vec<usize> = seen.iter().map(|(left, _)| *left).collect();
    assert!(counts.ends_with(&[2, 1, 0]), "one by one: {counts:?}");
    for pair in seen[seen.len() - 3..].windows(2) {
        let apart = pair[1].1 - pair[0].1;
        // As seen from outside, between two looks at the table.
        assert!(apart > Duration::from_millis(1500), "{apart:?}");
    }
    assert!(
        director.log().contains("web: max_down_rate = 1 per 2s keeps servers in the table that have failed")
    );

    let _servers = back_ends(&network);
    wait_for_table(&network.director, &[SERVICE, &all[0], &all[1], &all[2]]);
}
