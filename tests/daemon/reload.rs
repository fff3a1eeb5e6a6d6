//! SIGHUP and `lvsd reload`: what did not change is not touched.

use super::process::{Director, wait_for_table};
use super::{WEB, WEB_ADDRESS, WEB_FIRST, WEB_SECOND, WEB_SERVICE, WEB_TABLE};
use crate::lab::backend::Backend;
use crate::lab::capture::{Capture, writes};
use crate::lab::client::{Conversation, Traffic};
use crate::lab::net::Network;
use crate::lab::wait::{SOON, within};

fn web() -> (Network, [Backend; 2]) {
    let network = Network::new();
    let backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    (network, backends)
}

#[test]
fn an_unchanged_file_writes_nothing() {
    let (network, _backends) = web();
    let director = Director::new(&network.director, WEB);
    let mut daemon = director.start();
    let capture = Capture::start(&network.director);
    daemon.reload_by_signal();
    assert!(director.lvsd("reload").status.success());
    assert_eq!(writes(&capture.stop(&network.director)), Vec::<&str>::new());
    assert_eq!(network.director.table(), WEB_TABLE);
}

#[test]
fn one_changed_weight_is_one_write_and_connections_live_on() {
    let (network, _backends) = web();
    let director = Director::new(&network.director, WEB);
    let mut daemon = director.start();
    let mut conversations: Vec<Conversation> = (0..4)
        .map(|_| network.client.run(|| Conversation::open(WEB_ADDRESS)).expect("a connection"))
        .collect();
    let before: Vec<String> =
        conversations.iter_mut().map(|one| one.say("before").expect("an echo")).collect();
    assert!(before.iter().any(|name| name == "198.51.100.11:80"), "{before:?}");
    assert!(before.iter().any(|name| name == "198.51.100.12:80"), "{before:?}");

    let capture = Capture::start(&network.director);
    director.configure(&WEB.replace("weight = 3", "weight = 2"));
    daemon.reload_by_signal();
    assert_eq!(writes(&capture.stop(&network.director)), ["SET_DEST"]);
    assert_eq!(network.director.table(), [WEB_SERVICE, &WEB_FIRST.replace("-w 3", "-w 2"), WEB_SECOND]);
    let after: Vec<String> = conversations.iter_mut().map(|one| one.say("after").expect("an echo")).collect();
    assert_eq!(after, before);
}

#[test]
fn a_removed_server_leaves_and_the_others_connections_live_on() {
    let (network, _backends) = web();
    let director = Director::new(&network.director, WEB);
    let mut daemon = director.start();
    let mut conversations: Vec<Conversation> = (0..4)
        .map(|_| network.client.run(|| Conversation::open(WEB_ADDRESS)).expect("a connection"))
        .collect();
    let servers: Vec<String> =
        conversations.iter_mut().map(|one| one.say("before").expect("an echo")).collect();
    let (rest, _) = WEB.rsplit_once("[[virtual_server.real_server]]").expect("two servers");
    director.configure(rest);
    daemon.reload_by_signal();
    assert_eq!(network.director.table(), [WEB_SERVICE, WEB_FIRST]);
    for (conversation, server) in conversations.iter_mut().zip(&servers) {
        if server == "198.51.100.11:80" {
            assert_eq!(conversation.say("after").as_ref(), Ok(server));
        }
    }
    assert!(servers.iter().any(|server| server == "198.51.100.11:80"), "{servers:?}");
}

#[test]
fn a_broken_file_changes_nothing_and_says_where() {
    let (network, _backends) = web();
    let director = Director::new(&network.director, WEB);
    let mut daemon = director.start();
    let traffic = Traffic::start(&network.client, WEB_ADDRESS);
    let capture = Capture::start(&network.director);
    director.configure(&WEB.replace("weight = 3", "wait = 3"));
    let reload = director.lvsd("reload");
    assert!(!reload.status.success());
    let file = std::fs::read_to_string(director.config()).expect("just written");
    let line = 1 + file.lines().position(|line| line == "wait = 3").expect("just written");
    let place = format!("{}:{line}:1", director.config().display());
    let said = String::from_utf8_lossy(&reload.stderr).into_owned();
    assert!(said.contains(&place), "no {place} in {said}");
    daemon.reload_by_signal();
    assert!(director.log().contains(&place), "no {place} in {}", director.log());
    assert_eq!(writes(&capture.stop(&network.director)), Vec::<&str>::new());
    let report = traffic.stop();
    assert!(report.failures.is_empty() && report.answered > 0, "{report:?}");
}

#[test]
fn reloads_that_pile_up_end_with_the_last_file() {
    let (network, _backends) = web();
    let director = Director::new(&network.director, WEB);
    let daemon = director.start();
    for weight in 4..12 {
        director.configure(&WEB.replace("weight = 3", &format!("weight = {weight}")));
        daemon.signal(nix::sys::signal::Signal::SIGHUP);
    }
    let last = WEB_FIRST.replace("-w 3", "-w 11");
    wait_for_table(&network.director, &[WEB_SERVICE, &last, WEB_SECOND]);
}

#[test]
fn what_the_kernel_refuses_is_said_by_each_reload_until_the_kernel_has_it() {
    let (network, _backends) = web();
    let director = Director::new(&network.director, WEB);
    let mut daemon = director.start();
    let refused = "the kernel has no scheduler nosuch";
    // With one more virtual server, of this scheduler, and this weight of the first server of web.
    let file = |scheduler: &str, weight: u32| {
        let web = WEB.replace("weight = 3", &format!("weight = {weight}"));
        format!("{web}\n[[virtual_server]]\naddress = \"192.0.2.10:81\"\nscheduler = {scheduler:?}\n")
    };
    // New, read again, and beside a change that the kernel takes.
    for weight in [3, 3, 2] {
        director.configure(&file("nosuch", weight));
        let reload = director.lvsd("reload");
        let said = String::from_utf8_lossy(&reload.stderr).into_owned();
        assert!(!reload.status.success(), "{said}");
        assert_eq!(said.matches(refused).count(), 1, "weight {weight}: {said}");
        assert!(!said.contains("reload complete"), "{said}");
    }
    let lighter = WEB_FIRST.replace("-w 3", "-w 2");
    assert_eq!(network.director.table(), [WEB_SERVICE, &lighter, WEB_SECOND]);
    daemon.reload_by_signal();
    let told = "reload applied, but the kernel refused some of it: 1 service not settled";
    within(SOON, told, || (director.log().matches(told).count() == 4).then_some(()));

    director.configure(&file("rr", 2));
    let reload = director.lvsd("reload");
    let said = String::from_utf8_lossy(&reload.stdout).into_owned();
    assert!(reload.status.success() && said.contains("reload complete"), "{said}");
    // In the order of the kernel's hashes.
    let (mut found, mut wanted) =
        (network.director.table(), vec![WEB_SERVICE, &lighter, WEB_SECOND, "-A -t 192.0.2.10:81 -s rr"]);
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}
