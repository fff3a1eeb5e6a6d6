//! `active_when`: the kernel's table follows the addresses and files of the host.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::process::{Director, wait_for_table};
use super::{FOREIGN, add_foreign};
use crate::lab::backend::Backend;
use crate::lab::capture::{Capture, writes};
use crate::lab::client::fetch;
use crate::lab::net::{Network, Space};
use crate::lab::wait::{pause, until};

/// Virtual addresses that nobody has yet, each its own service.
const GATED: &str = r#"
drift_interval = "300ms"
[defaults]
delay_loop = "200ms"
delay_before_retry = "50ms"
timeout = "2s"
active_when = { address_present = true }

[[virtual_server]]
name = "web"
address = "192.0.2.20-22:80"
scheduler = "wrr"
check = { http = { path = "/" } }
[[virtual_server.real_server]]
address = "198.51.100.11:80"
weight = 3
[[virtual_server.real_server]]
address = "198.51.100.12:80"
"#;

const MORE: &str = r#"
[[virtual_server]]
name = "more"
address = "[2001:db8:1::20]:80"
scheduler = "rr"
check = { tcp = {} }
[[virtual_server.real_server]]
address = "[2001:db8:2::11]:80"
"#;

/// A network whose director has two interfaces for virtual addresses, and a foreign service.
fn network() -> Network {
    let network = Network::new();
    network
        .director
        .ip("link add vip0 type dummy\nlink add vip1 type dummy\nlink set vip0 up\nlink set vip1 up\n");
    add_foreign(&network.director);
    network
}

/// The service of 192.0.2.`last` with these weights of its two servers, and what is foreign, as
/// `ipvsadm` sorts it.
fn table(services: &[u8], first: bool, second: bool) -> Vec<String> {
    let mut lines: Vec<String> = FOREIGN.map(str::to_owned).to_vec();
    for last in services {
        lines.push(format!("-A -t 192.0.2.{last}:80 -s wrr"));
        let server =
            |ip: u8, weight: u8| format!("-a -t 192.0.2.{last}:80 -r 198.51.100.{ip}:80 -m -w {weight}");
        lines.extend(first.then(|| server(11, 3)));
        lines.extend(second.then(|| server(12, 1)));
    }
    lines.sort();
    lines
}

fn wait_for(space: &Space, wanted: &[String]) {
    wait_for_table(space, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Long enough for a change that must not come.
fn stays(space: &Space, wanted: &[String]) {
    for _ in 0..5 {
        pause(Duration::from_millis(100));
        assert_eq!(space.table(), wanted);
    }
}

fn status(director: &Director) -> serde_json::Value {
    serde_json::from_slice(&director.lvsd("status --json").stdout).expect("JSON")
}

#[test]
fn a_service_is_there_while_its_address_is() {
    let network = network();
    let space = &network.director;
    let _first = Backend::start(&network.servers, "198.51.100.11:80");
    let second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(space, GATED);
    let _daemon = director.start();
    assert_eq!(space.table(), table(&[], true, true), "absent");
    drop(second);
    until("a backup hears of failures", || {
        status(&director)["virtual_servers"][0]["real_servers"][1]["alive"] == false
    });
    let found = status(&director);
    let web = &found["virtual_servers"][0];
    assert_eq!(web["active"], false);
    assert_eq!(web["inactive"][0]["service"], "tcp 192.0.2.20:80");
    assert_eq!(web["inactive"][0]["reason"], "192.0.2.20 is on no interface");

    let capture = Capture::start(space);
    space.ip("addr add 192.0.2.20/32 dev vip0");
    wait_for(space, &table(&[20], true, false));
    let written = writes(&capture.stop(space));
    assert_eq!(written, ["NEW_SERVICE", "NEW_DEST"], "complete at once, and the dead one was never there");
    assert_eq!(network.client.run(|| fetch("192.0.2.20:80")).as_deref(), Ok("198.51.100.11:80"));
    assert_eq!(status(&director)["virtual_servers"][0]["active"], true);

    space.ip("addr add 192.0.2.20/32 dev vip1\naddr del 192.0.2.20/32 dev vip0");
    stays(space, &table(&[20], true, false));
    space.ip("addr change 192.0.2.20/32 dev vip1 valid_lft 4000 preferred_lft 4000");
    space.ip("addr add 192.0.2.22/32 dev vip0");
    wait_for(space, &table(&[20, 22], true, false));
    space.ip("addr del 192.0.2.20/32 dev vip1");
    wait_for(space, &table(&[22], true, false));

    space.ip("addr add 192.0.2.21/32 dev lo");
    stays(space, &table(&[22], true, false));
    space.ip("link set vip0 down");
    wait_for(space, &table(&[], true, false));
    space.ip("link set vip0 up");
    wait_for(space, &table(&[22], true, false));
    let log = director.log();
    for line in [
        "web: tcp 192.0.2.20:80 is not active: 192.0.2.20 is on no interface",
        "web: tcp 192.0.2.20:80 is active: 192.0.2.20 is on vip0",
        "web: tcp 192.0.2.22:80 is active: 192.0.2.22 is on vip0",
    ] {
        assert!(log.contains(line), "no {line:?} in {log}");
    }
}

#[test]
fn what_is_not_active_is_ours_all_the_same() {
    let network = network();
    let space = &network.director;
    space.ipvsadm("-A -t 192.0.2.20:80 -s rr");
    space.ipvsadm("-a -t 192.0.2.20:80 -r 198.51.100.14:80 -m");
    let director = Director::new(space, GATED);
    let _daemon = director.start();
    wait_for(space, &table(&[], true, true));
    // Not only at the start: a backup has no such service, whoever thinks so.
    space.ipvsadm("-A -t 192.0.2.21:80 -s rr");
    wait_for(space, &table(&[], true, true));
    // By then nothing is left that could be taken for ours.
    space.ipvsadm("-A -t 192.0.2.30:80 -s rr");
    pause(Duration::from_secs(1));
    assert!(space.table().contains(&"-A -t 192.0.2.30:80 -s rr".to_owned()));
}

#[test]
fn a_reload_knows_what_is_there_already() {
    let network = network();
    let space = &network.director;
    let _backends = ["198.51.100.11:80", "198.51.100.12:80", "[2001:db8:2::11]:80"]
        .map(|at| Backend::start(&network.servers, at));
    space.ip("addr add 192.0.2.21/32 dev vip0\naddr add 2001:db8:1::20/128 dev vip1");
    // The first configuration asks for no address at all.
    let ungated =
        GATED.replace("active_when = ", "# active_when = ").replace("192.0.2.20-22:80", "192.0.2.22:80");
    let director = Director::new(space, &ungated);
    let mut daemon = director.start();
    assert_eq!(space.table(), table(&[22], true, true));

    director.configure(&format!("{GATED}{MORE}"));
    let plan = director.lvsd(&format!("plan {}", director.config().display()));
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    for line in [
        "add virtual server tcp 192.0.2.20:80: new in the file, not active: 192.0.2.20 is on no interface",
        "add virtual server tcp 192.0.2.21:80: new in the file, active: 192.0.2.21 is on vip0",
        "edit virtual server tcp 192.0.2.22:80: moved or renamed web → web",
    ] {
        let shown = line.split(": moved").next().expect("a part");
        assert!(plan.contains(shown), "no {shown:?} in {plan}");
    }
    daemon.reload_by_signal();
    let mut wanted = table(&[21], true, true);
    wanted.push("-A -t [2001:db8:1::20]:80 -s rr".to_owned());
    wanted.push("-a -t [2001:db8:1::20]:80 -r [2001:db8:2::11]:80 -m -w 1".to_owned());
    wanted.sort();
    assert_eq!(space.table(), wanted, "at the end of the reload, not at the next event");
    space.ip("addr del 2001:db8:1::20/128 dev vip1\naddr add 192.0.2.22/32 dev vip1");
    wait_for(space, &table(&[21, 22], true, true));

    director.configure(&ungated);
    daemon.reload_by_signal();
    assert_eq!(space.table(), table(&[22], true, true));
}

#[test]
fn killed_in_either_role_the_next_start_has_the_role_of_then() {
    let network = network();
    let space = &network.director;
    let _first = Backend::start(&network.servers, "198.51.100.11:80");
    let second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(space, GATED);
    let daemon = director.start();
    drop(second);
    until("it is heard of", || status(&director)["virtual_servers"][0]["real_servers"][1]["alive"] == false);
    // Its word reaches the disk within a second.
    pause(Duration::from_millis(1500));
    daemon.kill();

    space.ip("addr add 192.0.2.20/32 dev vip0");
    let daemon = director.start();
    assert_eq!(space.table(), table(&[20], true, false), "master in its first table");
    daemon.kill();
    assert_eq!(space.table(), table(&[20], true, false));

    let daemon = director.start();
    assert_eq!(space.table(), table(&[20], true, false), "master still");
    daemon.kill();

    space.ip("addr del 192.0.2.20/32 dev vip0");
    let daemon = director.start();
    assert_eq!(space.table(), table(&[], true, false), "backup in its first table");
    assert!(daemon.stop().success());
    assert_eq!(space.table(), FOREIGN);
}

#[test]
fn a_thousand_flaps_end_right() {
    let network = network();
    let space = &network.director;
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(space, GATED);
    let daemon = director.start();
    let flap = "addr add 192.0.2.20/32 dev vip0\naddr del 192.0.2.20/32 dev vip0\n";
    space.ip(&(flap.repeat(1000) + "addr add 192.0.2.20/32 dev vip0\n"));
    wait_for(space, &table(&[20], true, true));
    space.ip(&("addr del 192.0.2.20/32 dev vip0\n".to_owned() + &flap.repeat(1000)));
    wait_for(space, &table(&[], true, true));

    // Far more events than the kernel keeps for a daemon that does not run just now.
    daemon.signal(Signal::SIGSTOP);
    let other = "addr add 192.0.2.99/32 dev vip1\naddr del 192.0.2.99/32 dev vip1\n";
    space.ip(&("addr add 192.0.2.21/32 dev vip0\n".to_owned() + &other.repeat(1000)));
    daemon.signal(Signal::SIGCONT);
    wait_for(space, &table(&[21], true, true));
    daemon.signal(Signal::SIGSTOP);
    space.ip(&(other.repeat(1000) + "addr del 192.0.2.21/32 dev vip0\n"));
    daemon.signal(Signal::SIGCONT);
    wait_for(space, &table(&[], true, true));
    assert!(!director.log().contains(" ERROR "), "{}", director.log());
}

#[test]
fn a_file_opens_and_shuts_the_gate() {
    let network = network();
    let space = &network.director;
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let folder = tempfile::TempDir::new().expect("a folder");
    // The folder of the file comes and goes as well.
    let file = folder.path().join("run/active");
    let config = GATED.replace("{ address_present = true }", &format!("{{ file = {file:?} }}"));
    let director = Director::new(space, &config);
    let daemon = director.start();
    let all = table(&[20, 21, 22], true, true);
    assert_eq!(space.table(), FOREIGN);
    let touch = || {
        std::fs::create_dir_all(folder.path().join("run")).expect("ours");
        std::fs::write(&file, "").expect("ours");
    };
    for _ in 0..3 {
        touch();
        wait_for(space, &all);
        std::fs::remove_file(&file).expect("ours");
        wait_for(space, &table(&[], true, true));
        touch();
        wait_for(space, &all);
        std::fs::remove_dir_all(folder.path().join("run")).expect("ours");
        wait_for(space, &table(&[], true, true));
    }
    touch();
    wait_for(space, &all);
    daemon.kill();
    std::fs::remove_file(&file).expect("ours");
    let _daemon = director.start();
    assert_eq!(space.table(), FOREIGN, "in the first table");
}
