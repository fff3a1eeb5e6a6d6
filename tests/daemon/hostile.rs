//! Hands, crashes and lies at the same time, on what `announce` keeps: whatever happened, the end is right.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::announce::{FOREIGN, SHARED, WEB, WEB6, addresses_of, backends, wait_for};
use super::process::{Daemon, Director};
use crate::lab::backend::Backend;
use crate::lab::net::{Network, Space};
use crate::lab::wait::{pause, until};

/// A shell's commands, of which some may have nothing to do.
fn shell(space: &Space, script: &str) {
    let run = || Command::new("sh").args(["-c", script]).output();
    space.run(run).expect("there is a shell");
}

/// Every server is taken for alive until it is known to be dead: so more happens.
fn shared() -> String {
    format!("drift_interval = \"1s\"\n{}", SHARED.replace("alpha = true\n", ""))
}

const MAKE: &str = "ip link add lvs0 type dummy; ip link set lvs0 up; ip addr add 203.0.113.99/32 dev lvs0;";

#[test]
fn whatever_hands_and_crashes_do_the_addresses_end_right() {
    let network = Network::new();
    let space = &network.director;
    shell(space, MAKE);
    let mut servers = backends(&network).map(Some);
    let director = Director::new(space, &shared());
    let mut daemon: Option<Daemon<'_>> = Some(director.start());
    let hands = [
        "ip addr del 203.0.113.10/32 dev lvs0",
        "ip addr del 2001:db8:ff::10/128 dev lvs0",
        "ip addr add 203.0.113.10/24 dev lvs0; sleep 0.2; ip addr del 203.0.113.10/24 dev lvs0",
        "ip addr del 2001:db8:ff::10/128 dev lvs0; ip addr add 2001:db8:ff::10/64 dev lvs0 nodad; sleep 0.3; ip addr del 2001:db8:ff::10/64 dev lvs0",
        "ip link set lvs0 down; sleep 0.2; ip link set lvs0 up",
        "ip link del lvs0; sleep 0.2;",
        "ip link set lvs0 down; ip link set lvs0 name lvs9; sleep 0.4; ip link set lvs9 name lvs0; ip link set lvs0 up",
        "ipvsadm -C",
        "ipvsadm -D -t 203.0.113.10:80; ip addr flush dev lvs0; ip addr add 203.0.113.99/32 dev lvs0",
    ];
    // A fixed sequence that looks like none.
    let mut number: u32 = 20_261_130;
    for round in 0..30 {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let pick = usize::try_from(number >> 16).expect("small");
        match pick % 16 {
            hand @ 0..9 => {
                shell(space, hands[hand]);
                shell(space, &format!("{MAKE} true"));
            }
            9 | 10 => {
                if let Some(daemon) = daemon.take() {
                    daemon.kill();
                }
            }
            11 | 12 => servers[pick / 16 % 3] = None,
            13 => {
                let other = shared().replace("203.0.113.10:", "203.0.113.11:");
                director.configure(&other);
                if let Some(daemon) = &mut daemon {
                    daemon.signal(Signal::SIGHUP);
                }
            }
            14 => {
                if let Some(daemon) = &daemon {
                    daemon.signal(Signal::SIGSTOP);
                    shell(space, hands[pick / 16 % hands.len()]);
                    shell(space, MAKE);
                    daemon.signal(Signal::SIGCONT);
                }
            }
            _ => servers = backends_again(&network, servers),
        }
        pause(Duration::from_millis(u64::from(number >> 24)));
        if daemon.is_none() && round % 2 == 0 {
            daemon = Some(director.spawn());
        }
    }
    let _servers = backends_again(&network, servers);
    director.configure(&shared());
    let daemon = match daemon {
        Some(daemon) => {
            daemon.signal(Signal::SIGHUP);
            daemon
        }
        None => director.start(),
    };
    shell(space, MAKE);
    wait_for(space, "lvs0", &[FOREIGN, WEB, WEB6]);
    until("the table is whole", || space.table().len() == 6);
    assert!(daemon.stop().success());
    assert_eq!(addresses_of(space, "lvs0"), [FOREIGN]);
    assert_eq!(space.table(), Vec::<String>::new());
    assert!(!director.log().contains("panicked"), "{}", director.log());
}

fn backends_again(network: &Network, servers: [Option<Backend>; 3]) -> [Option<Backend>; 3] {
    drop(servers);
    backends(network).map(Some)
}

#[test]
fn interfaces_that_change_places_at_a_reload_or_over_a_crash() {
    let network = Network::new();
    let space = &network.director;
    shell(
        space,
        "ip link add lvs0 type dummy; ip link add lvs1 type dummy; ip link set lvs0 up; ip link set lvs1 up",
    );
    let _servers = backends(&network);
    let on = |web: &str, web6: &str| {
        let config = shared().replace(
            "announce = { interface = \"lvs0\" }",
            &format!("announce = {{ interface = \"{web}\" }}"),
        );
        config
            .replace("name = \"web6\"", &format!("name = \"web6\"\nannounce = {{ interface = \"{web6}\" }}"))
    };
    let director = Director::new(space, &on("lvs0", "lvs1"));
    let mut daemon = director.start();
    wait_for(space, "lvs0", &[WEB]);
    wait_for(space, "lvs1", &[WEB6]);
    director.configure(&on("lvs1", "lvs0"));
    daemon.reload_by_signal();
    wait_for(space, "lvs1", &[WEB]);
    wait_for(space, "lvs0", &[WEB6]);
    // Killed at once: what the record says must have reached the disk before the interface.
    for turn in 0..6 {
        let (web, web6) = if turn % 2 == 0 { ("lvs0", "lvs1") } else { ("lvs1", "lvs0") };
        director.configure(&on(web, web6));
        daemon.signal(Signal::SIGHUP);
        pause(Duration::from_millis(20 * turn));
        daemon.kill();
        director.configure(&on(web6, web));
        daemon = director.start();
    }
    wait_for(space, "lvs0", &[WEB]);
    wait_for(space, "lvs1", &[WEB6]);
    assert!(daemon.stop().success());
    assert_eq!((addresses_of(space, "lvs0"), addresses_of(space, "lvs1")), (Vec::new(), Vec::new()));
}

#[test]
fn a_thousand_addresses_come_and_go() {
    let network = Network::new();
    let space = &network.director;
    shell(space, MAKE);
    let servers = backends(&network);
    let config = shared().replace("203.0.113.10:80", "10.9.0.0-10.9.3.231:80");
    let director = Director::new(space, &config);
    let daemon = director.start();
    until("all are there", || addresses_of(space, "lvs0").len() == 1003);
    drop(servers);
    until("all are gone", || addresses_of(space, "lvs0") == [FOREIGN]);
    let _servers = backends(&network);
    until("all are there again", || addresses_of(space, "lvs0").len() == 1003);
    shell(space, "ip addr flush dev lvs0; ip addr add 203.0.113.99/32 dev lvs0");
    until("all are put back", || addresses_of(space, "lvs0").len() == 1003);
    daemon.kill();
    assert_eq!(addresses_of(space, "lvs0").len(), 1003);
    assert!(director.start().stop().success());
    assert_eq!(addresses_of(space, "lvs0"), [FOREIGN]);
}
