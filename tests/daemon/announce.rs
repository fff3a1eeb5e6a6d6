//! Virtual addresses on a dummy interface while they have quorum, judged on the kernel's addresses, on
//! what BIRD tells a neighbour, and on every netlink request.

use std::process::Command;
use std::time::Duration;

use super::process::Director;
use crate::lab::backend::Backend;
use crate::lab::bird::{self, Bird};
use crate::lab::capture::{Capture, changes, writes};
use crate::lab::client::Conversation;
use crate::lab::net::{Network, Space};
use crate::lab::wait::{output, pause, until};

/// One address that a web and a name service share, and an IPv6 one.
pub(super) const SHARED: &str = r#"
[defaults]
delay_loop = "300ms"
delay_before_retry = "100ms"
timeout = "2s"
alpha = true
check = { tcp = {} }
announce = { interface = "lvs0" }

[[virtual_server]]
name = "web"
address = "203.0.113.10:80"
[[virtual_server.real_server]]
address = "198.51.100.11:80"

[[virtual_server]]
name = "dns"
address = "203.0.113.10:53"
protocol = "udp"
[[virtual_server.real_server]]
address = "198.51.100.12:53"

[[virtual_server]]
name = "web6"
address = "[2001:db8:ff::10]:80"
[[virtual_server.real_server]]
address = "[2001:db8:2::11]:80"
"#;

/// As `ip` shows it: the lvsd's, then one that is somebody else's.
pub(super) const WEB: &str = "203.0.113.10/32";
pub(super) const WEB6: &str = "2001:db8:ff::10/128";
pub(super) const FOREIGN: &str = "203.0.113.99/32";

fn dummy(space: &Space) {
    space.ip(&format!("link add lvs0 type dummy\nlink set lvs0 up\naddr add {FOREIGN} dev lvs0\n"));
}

/// The addresses of an interface but for the link's own, sorted; empty without it.
pub(super) fn addresses_of(space: &Space, interface: &str) -> Vec<String> {
    let text = space.output("ip", "-o addr show");
    let on = text.lines().filter(|line| line.split_whitespace().nth(1) == Some(interface));
    let mut found: Vec<String> = on
        .filter(|line| !line.contains("fe80:"))
        .filter_map(|line| line.split_whitespace().nth(3).map(str::to_owned))
        .collect();
    found.sort();
    found
}

/// Shows what it sees on the way.
pub(super) fn wait_for(space: &Space, interface: &str, wanted: &[&str]) {
    let mut wanted = wanted.to_vec();
    wanted.sort_unstable();
    let mut seen = Vec::new();
    until(&format!("{interface} has {wanted:?}"), || {
        let found = addresses_of(space, interface);
        if found != seen {
            eprintln!("{interface}: {found:?}");
            seen.clone_from(&found);
        }
        found == wanted
    });
}

fn addresses(space: &Space) -> Vec<String> {
    addresses_of(space, "lvs0")
}

fn wait_for_addresses(space: &Space, wanted: &[&str]) {
    wait_for(space, "lvs0", wanted);
}

/// The upstream router's kernel's routes to the virtual addresses.
fn routes(space: &Space) -> Vec<String> {
    let both =
        space.output("ip", "-4 route show proto bird") + &space.output("ip", "-6 route show proto bird");
    let mut found: Vec<String> =
        both.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    found.sort();
    found
}

fn status(director: &Director) -> serde_json::Value {
    serde_json::from_slice(&director.lvsd("status --json").stdout).expect("JSON")
}

pub(super) fn backends(network: &Network) -> [Backend; 3] {
    ["198.51.100.11:80", "198.51.100.12:53", "[2001:db8:2::11]:80"]
        .map(|at| Backend::start(&network.servers, at))
}

#[test]
fn bird_understands_the_example() {
    let words = "-p -c config/examples/announce/bird.conf";
    drop(output(Command::new("bird").args(words.split_whitespace())));
}

/// The table needs no write, so that no answer of the kernel comes after the record.
#[test]
fn addresses_that_are_new_to_an_adopted_table_hold_up_nothing() {
    let network = Network::new();
    let space = &network.director;
    dummy(space);
    let _backends = backends(&network);
    let without = SHARED.replace("announce = { interface = \"lvs0\" }\n", "");
    let director = Director::new(space, &without);
    let daemon = director.start();
    until("all are alive", || {
        let alive = |pool: &serde_json::Value| pool["real_servers"][0]["alive"] == true;
        status(&director)["virtual_servers"].as_array().is_some_and(|pools| pools.iter().all(alive))
    });
    // For the verdicts to be on record.
    pause(Duration::from_secs(2));
    daemon.kill();
    director.configure(SHARED);
    let capture = Capture::start(space);
    let daemon = director.start();
    wait_for_addresses(space, &[WEB, WEB6, FOREIGN]);
    assert_eq!(writes(&capture.stop(space)), Vec::<&str>::new());
    assert!(daemon.stop().success());
}

#[test]
fn neighbours_hear_of_an_address_while_any_service_of_it_has_quorum() {
    let network = Network::new();
    dummy(&network.director);
    let upstream = Bird::start(&network.client, bird::UPSTREAM);
    let local = Bird::start(&network.director, bird::DIRECTOR);
    let director = Director::new(&network.director, SHARED);
    let daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN]);
    ["upstream4", "upstream6"].iter().for_each(|protocol| local.wait_for_session(protocol));
    let has = |wanted: &[&str]| {
        let mut wanted = [&["203.0.113.99"], wanted].concat();
        wanted.sort_unstable();
        until(&format!("routes to {wanted:?}"), || routes(&network.client) == wanted);
    };
    has(&[]);

    let [web, dns, web6] = backends(&network);
    has(&["203.0.113.10", "2001:db8:ff::10"]);
    let routed = upstream.ask("show route 203.0.113.10/32 all");
    assert!(routed.contains("192.0.2.10 on eth0") && routed.contains("65010"), "{routed}");
    let talk =
        || network.client.run(|| Conversation::open("203.0.113.10:80").and_then(|mut c| c.say("hello")));
    assert_eq!(talk(), Ok("198.51.100.11:80".to_owned()), "by the route that was announced");

    // One of two services: the address stays.
    drop(web);
    until("web is down", || director.log().contains("web: quorum lost"));
    pause(Duration::from_secs(1));
    has(&["203.0.113.10", "2001:db8:ff::10"]);
    drop(dns);
    has(&["2001:db8:ff::10"]);
    wait_for_addresses(&network.director, &[FOREIGN, WEB6]);
    let log = director.log();
    assert!(log.contains("203.0.113.10 announced on lvs0: "), "{log}");
    assert!(log.contains("203.0.113.10 withdrawn from lvs0: no quorum in dns, web"), "{log}");
    let announce = status(&director)["virtual_servers"][0]["announce"].clone();
    assert_eq!(
        (&announce[0]["announced"], &announce[0]["wanted"]),
        (&false.into(), &false.into()),
        "{announce}"
    );

    let _web = Backend::start(&network.servers, "198.51.100.11:80");
    has(&["203.0.113.10", "2001:db8:ff::10"]);
    assert_eq!(talk(), Ok("198.51.100.11:80".to_owned()));
    drop(web6);
    has(&["203.0.113.10"]);
    assert!(daemon.stop().success());
    has(&[]);
}

#[test]
fn an_address_comes_after_its_services_and_goes_before_them() {
    let network = Network::new();
    dummy(&network.director);
    let _backends = backends(&network);
    let director = Director::new(&network.director, SHARED);
    let capture = Capture::start(&network.director);
    let daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
    // The same file again: nothing to write, neither of the table nor of addresses.
    let seen = capture.stop(&network.director);
    let started = changes(&seen);
    let first = started.iter().position(|name| *name == "NEW_ADDRESS").expect("an address");
    assert!(
        started[..first].contains(&"NEW_SERVICE") && started[..first].contains(&"NEW_DEST"),
        "{started:?}"
    );
    assert!(!started[first..].contains(&"NEW_SERVICE"), "{started:?}");

    let capture = Capture::start(&network.director);
    assert!(director.lvsd("reload").status.success());
    assert_eq!(changes(&capture.stop(&network.director)), Vec::<&str>::new(), "an unchanged reload");

    let capture = Capture::start(&network.director);
    assert!(daemon.stop().success());
    let seen = capture.stop(&network.director);
    let stopped = changes(&seen);
    assert_eq!(stopped[..2], ["DEL_ADDRESS", "DEL_ADDRESS"], "{stopped:?}");
    assert!(stopped[2..].contains(&"DEL_SERVICE") && !stopped[2..].contains(&"DEL_ADDRESS"), "{stopped:?}");
    assert_eq!(addresses(&network.director), [FOREIGN]);
}

#[test]
fn a_killed_daemon_leaves_its_addresses_to_the_next_one() {
    let network = Network::new();
    dummy(&network.director);
    let _backends = backends(&network);
    let director = Director::new(&network.director, SHARED);
    let daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
    daemon.kill();
    assert_eq!(addresses(&network.director).len(), 3);

    // The same file: adopted, without a gap.
    let capture = Capture::start(&network.director);
    let daemon = director.start();
    pause(Duration::from_secs(1));
    let seen = capture.stop(&network.director);
    assert!(!seen.iter().any(|name| name.ends_with("_ADDRESS")), "{seen:?}");
    assert_eq!(addresses(&network.director).len(), 3);
    daemon.kill();

    // Another one: what is announced no more goes, and so does what one service of it moved away from.
    director.configure(&SHARED.replace("203.0.113.10:", "203.0.113.11:"));
    let mut daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN, "203.0.113.11/32", WEB6]);

    // A reload that says nothing of announcing takes them away.
    director.configure(&SHARED.replace("announce =", "#"));
    daemon.reload_by_signal();
    wait_for_addresses(&network.director, &[FOREIGN]);
    until("the log says so", || director.log().contains("the configuration does not announce it any more"));
    director.configure(SHARED);
    daemon.reload_by_signal();
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
    assert!(!director.log().contains(" ERROR "), "{}", director.log());
}

#[test]
fn stop_with_keep_leaves_the_addresses() {
    let network = Network::new();
    dummy(&network.director);
    let _backends = backends(&network);
    let director = Director::new(&network.director, &format!("on_stop = \"keep\"\n{SHARED}"));
    let daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
    assert!(daemon.stop().success());
    assert_eq!(addresses(&network.director).len(), 3);
    // Withdrawn by the next one, which has them on record.
    director.configure(SHARED);
    assert!(director.start().stop().success());
    assert_eq!(addresses(&network.director), [FOREIGN]);
}

#[test]
fn what_a_hand_takes_away_comes_back_and_is_counted() {
    let network = Network::new();
    dummy(&network.director);
    let _backends = backends(&network);
    // Long: it is the events that tell of it.
    let director = Director::new(&network.director, &format!("drift_interval = \"1h\"\n{SHARED}"));
    let _daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
    network.director.ip(&format!("addr del {WEB} dev lvs0"));
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
    until("the log tells of it", || {
        director.log().contains("putting it right: 203.0.113.10 is gone from lvs0")
    });
    assert_eq!(status(&director)["kernel"]["drift"], 1);

    // Taken away as a whole: an obstacle with its remedy, until it is back.
    network.director.ip("link del lvs0");
    let missing = "there is no interface lvs0: `ip link add lvs0 type dummy && ip link set lvs0 up` makes it";
    until("the log tells of it", || director.log().contains(missing));
    let shown = || String::from_utf8_lossy(&director.lvsd("status").stdout).into_owned();
    assert!(shown().contains(&format!("203.0.113.10 NOT ANNOUNCED on lvs0: {missing}")), "{}", shown());
    network.director.ip("link add lvs0 type dummy");
    until("down", || shown().contains("interface lvs0 is down: `ip link set lvs0 up`"));
    assert_eq!(addresses(&network.director), Vec::<String>::new());
    network.director.ip("link set lvs0 up");
    wait_for_addresses(&network.director, &[WEB, WEB6]);
    until("shown", || shown().contains("  203.0.113.10 announced on lvs0\n"));
    // The kernel takes IPv6 addresses away from an interface that goes down.
    network.director.ip("link set lvs0 down\nlink set lvs0 up\n");
    wait_for_addresses(&network.director, &[WEB, WEB6]);
}

#[test]
fn a_service_that_the_kernel_refuses_is_not_announced() {
    let network = Network::new();
    dummy(&network.director);
    let _backends = backends(&network);
    let config = SHARED.replace("name = \"web6\"", "name = \"web6\"\nscheduler = \"nonesuch\"");
    let director = Director::new(&network.director, &config);
    let mut daemon = director.start();
    wait_for_addresses(&network.director, &[FOREIGN, WEB]);
    let shown = || String::from_utf8_lossy(&director.lvsd("status").stdout).into_owned();
    until("shown", || {
        shown().contains("2001:db8:ff::10 NOT ANNOUNCED on lvs0: waits until the kernel has its")
    });
    director.configure(SHARED);
    daemon.reload_by_signal();
    wait_for_addresses(&network.director, &[FOREIGN, WEB, WEB6]);
}
