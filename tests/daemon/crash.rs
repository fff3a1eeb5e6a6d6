//! kill -9 at any moment, then a start: the table converges and nobody else is disturbed.

use std::time::Duration;

use super::process::{Director, wait_for_table};
use super::{FOREIGN, WEB, WEB_ADDRESS, WEB_FIRST, WEB_SERVICE, WEB_TABLE, add_foreign};
use crate::lab::backend::Backend;
use crate::lab::client::Conversation;
use crate::lab::net::Network;
use crate::lab::wait::pause;

/// How many daemons are killed.
const ROUNDS: u64 = 10;

#[test]
fn killed_at_random_moments_the_next_start_converges() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    add_foreign(&network.director);
    let with_foreign =
        |table: &[&'static str]| [&table[..1], &FOREIGN[..1], &table[1..], &FOREIGN[1..]].concat();
    let director = Director::new(&network.director, WEB);
    let first = director.start();
    let mut conversation = network.client.run(|| Conversation::open(WEB_ADDRESS)).expect("a connection");
    let server = conversation.say("before").expect("an echo");
    first.kill();

    let seed = std::process::id().into();
    let mut random = seed;
    for round in 0..ROUNDS {
        // Between "not yet running" and "has been ready for a while", each with its own change
        // of the file under way; a linear congruential generator is random enough for this.
        random = u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_millis((random >> 33) % 600);
        let weight = 4 + round;
        director.configure(&WEB.replace("weight = 3", &format!("weight = {weight}")));
        let daemon = director.spawn();
        pause(moment);
        daemon.kill();
        let found = network.director.table();
        for line in FOREIGN {
            assert!(found.iter().any(|one| one == line), "seed {seed}, round {round}: {found:?}");
        }
        assert_eq!(conversation.say("still").as_ref(), Ok(&server), "seed {seed}, round {round}, {moment:?}");
    }

    director.configure(WEB);
    let daemon = director.start();
    wait_for_table(&network.director, &with_foreign(&WEB_TABLE));
    assert_eq!(conversation.say("after").as_ref(), Ok(&server));
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), FOREIGN, "owned again, so withdrawn");
}

#[test]
fn a_service_that_left_the_file_while_no_daemon_ran_is_removed() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    add_foreign(&network.director);
    let director = Director::new(&network.director, WEB);
    director.start().kill();
    let moved = WEB.replace("192.0.2.10:80", "192.0.2.10:8080");
    director.configure(&moved);
    let _daemon = director.start();
    let found = network.director.table();
    assert!(!found.iter().any(|line| line.contains("192.0.2.10:80 ")), "{found:?}");
    assert!(found.iter().any(|line| line.contains("192.0.2.10:8080 ")), "{found:?}");
    assert!(FOREIGN.iter().all(|line| found.iter().any(|one| one == line)), "{found:?}");
}

#[test]
fn a_server_that_died_while_no_daemon_ran_leaves_after_the_start() {
    let network = Network::new();
    let _first = Backend::start(&network.servers, "198.51.100.11:80");
    let second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(&network.director, WEB);
    director.start().kill();
    drop(second);
    let _daemon = director.start();
    wait_for_table(&network.director, &[WEB_SERVICE, WEB_FIRST]);
}
