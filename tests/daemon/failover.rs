//! Servers that fail and come back, and what clients see of it.

use super::process::{Director, wait_for_table};
use super::{WEB, WEB_ADDRESS, WEB_FIRST, WEB_SECOND, WEB_SERVICE, WEB_TABLE};
use crate::lab::backend::Backend;
use crate::lab::client::fetch;
use crate::lab::net::Network;

#[test]
fn a_dead_server_leaves_and_a_recovered_one_returns() {
    let network = Network::new();
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(&network.director, WEB);
    let _daemon = director.start();
    assert_eq!(network.director.table(), WEB_TABLE);

    drop(first);
    wait_for_table(&network.director, &[WEB_SERVICE, WEB_SECOND]);
    for _ in 0..8 {
        let name = network.client.run(|| fetch(WEB_ADDRESS));
        assert_eq!(name.as_deref(), Ok("198.51.100.12:80"));
    }

    let _first = Backend::start(&network.servers, "198.51.100.11:80");
    wait_for_table(&network.director, &WEB_TABLE);
}

#[test]
fn a_server_that_answers_wrongly_leaves_too() {
    let network = Network::new();
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(&network.director, WEB);
    let _daemon = director.start();
    first.set_status(503);
    wait_for_table(&network.director, &[WEB_SERVICE, WEB_SECOND]);
    first.set_status(200);
    wait_for_table(&network.director, &WEB_TABLE);
}

#[test]
fn an_inhibited_server_stays_at_weight_0_and_returns_at_its_own() {
    let network = Network::new();
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    let inhibit = WEB.replace("scheduler = \"wrr\"", "scheduler = \"wrr\"\ninhibit_on_failure = true");
    let director = Director::new(&network.director, &inhibit);
    let _daemon = director.start();
    drop(first);
    let at_0 = WEB_FIRST.replace("-w 3", "-w 0");
    wait_for_table(&network.director, &[WEB_SERVICE, &at_0, WEB_SECOND]);
    let _first = Backend::start(&network.servers, "198.51.100.11:80");
    wait_for_table(&network.director, &WEB_TABLE);
}

#[test]
fn the_sorry_server_takes_over_when_all_are_gone() {
    let network = Network::new();
    let servers = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let _sorry = Backend::start(&network.servers, "198.51.100.13:80");
    let config =
        WEB.replace("scheduler = \"wrr\"", "scheduler = \"wrr\"\nsorry_server = \"198.51.100.13:80\"");
    let director = Director::new(&network.director, &config);
    let _daemon = director.start();
    assert_eq!(network.director.table(), WEB_TABLE);
    drop(servers);
    wait_for_table(&network.director, &[WEB_SERVICE, "-a -t 192.0.2.10:80 -r 198.51.100.13:80 -m -w 1"]);
    assert_eq!(network.client.run(|| fetch(WEB_ADDRESS)).as_deref(), Ok("198.51.100.13:80"));
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    wait_for_table(&network.director, &[WEB_SERVICE, WEB_SECOND]);
}

#[test]
fn ipv6_is_the_same() {
    let network = Network::new();
    let first = Backend::start(&network.servers, "[2001:db8:2::11]:80");
    let _second = Backend::start(&network.servers, "[2001:db8:2::12]:80");
    let config = WEB
        .replace("192.0.2.10:80", "[2001:db8:1::10]:80")
        .replace("198.51.100.1", "[2001:db8:2::1")
        .replace("1:80\"\nweight", "1]:80\"\nweight")
        .replace("12:80\"", "12]:80\"");
    let director = Director::new(&network.director, &config);
    let _daemon = director.start();
    let table = [
        "-A -t [2001:db8:1::10]:80 -s wrr",
        "-a -t [2001:db8:1::10]:80 -r [2001:db8:2::11]:80 -m -w 3",
        "-a -t [2001:db8:1::10]:80 -r [2001:db8:2::12]:80 -m -w 1",
    ];
    assert_eq!(network.director.table(), table);
    drop(first);
    wait_for_table(&network.director, &[table[0], table[2]]);
    let name = network.client.run(|| fetch("[2001:db8:1::10]:80"));
    assert_eq!(name.as_deref(), Ok("[2001:db8:2::12]:80"));
}
