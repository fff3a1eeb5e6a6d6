//! The lab's own tests: what it shows is there, and what it counts was sent.

use super::lab::backend::Backend;
use super::lab::capture::{Capture, writes};
use super::lab::client::{Conversation, Traffic, fetch};
use super::lab::net::{Network, Space};

const VIRTUAL: &str = "192.0.2.10:80";

/// A network with one service and two servers, made with ipvsadm alone.
fn by_hand() -> (Network, [Backend; 2]) {
    let network = Network::new();
    let servers = ["198.51.100.11:80", "198.51.100.12:80"];
    network.director.ipvsadm(&format!("-A -t {VIRTUAL} -s rr"));
    for server in servers {
        network.director.ipvsadm(&format!("-a -t {VIRTUAL} -r {server} -m -w 1"));
    }
    let backends = servers.map(|server| Backend::start(&network.servers, server));
    (network, backends)
}

#[test]
fn a_client_reaches_every_server_through_the_virtual_address() {
    let (network, _backends) = by_hand();
    let mut names: Vec<String> =
        (0..4).map(|_| network.client.run(|| fetch(VIRTUAL)).expect("a reply")).collect();
    names.sort();
    names.dedup();
    assert_eq!(names, ["198.51.100.11:80", "198.51.100.12:80"]);
    assert_eq!(
        network.director.table(),
        [
            "-A -t 192.0.2.10:80 -s rr",
            "-a -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 1",
            "-a -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 1",
        ]
    );
}

#[test]
fn a_dead_server_that_stays_in_the_table_is_noticed_by_clients() {
    let (network, [first, second]) = by_hand();
    let mut conversation = network.client.run(|| Conversation::open(VIRTUAL)).expect("a connection");
    conversation.say("hello").expect("an echo");
    second.set_status(503);
    let refused = (0..4).filter_map(|_| network.client.run(|| fetch(VIRTUAL)).err()).collect::<Vec<_>>();
    assert!(refused.iter().any(|why| why.contains("HTTP/1.1 503")), "{refused:?}");
    drop((first, second));
    conversation.say("still there?").expect_err("its server has gone");
    let traffic = Traffic::start(&network.client, VIRTUAL);
    super::lab::wait::pause(std::time::Duration::from_millis(300));
    let report = traffic.stop();
    assert_eq!(report.answered, 0, "{report:?}");
    assert!(!report.failures.is_empty());
}

#[test]
fn each_request_to_the_kernel_is_counted_once() {
    let (network, _backends) = by_hand();
    let capture = Capture::start(&network.director);
    network.director.table();
    network.director.ipvsadm(&format!("-e -t {VIRTUAL} -r 198.51.100.11:80 -m -w 7"));
    network.director.ipvsadm("-D -t 192.0.2.10:80");
    let requests = capture.stop(&network.director);
    assert_eq!(writes(&requests), ["SET_DEST", "DEL_SERVICE"]);
    assert!(requests.contains(&"GET_SERVICE") && requests.contains(&"GET_DEST"), "{requests:?}");
}

#[test]
fn a_network_around_this_machine_uses_its_table() {
    let network = Network::around_this_machine();
    let before = Space::this_machine().table();
    network.director.ipvsadm("-A -t 192.0.2.10:7 -s rr");
    let made = Space::this_machine().table();
    network.director.ipvsadm("-D -t 192.0.2.10:7");
    assert_eq!(made.len(), before.len() + 1);
    assert!(made.contains(&"-A -t 192.0.2.10:7 -s rr".to_owned()), "{made:?}");
    assert_eq!(Space::this_machine().table(), before);
}
