//! The first table: complete when the daemon says it is ready, adopted where it is there already.

use super::process::Director;
use super::{FOREIGN, WEB, WEB_TABLE, add_foreign};
use crate::lab::backend::Backend;
use crate::lab::capture::{Capture, writes};
use crate::lab::net::{Network, Space};

#[test]
fn the_table_is_there_when_the_daemon_is_ready() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, WEB);
    let _daemon = director.start();
    assert_eq!(network.director.table(), WEB_TABLE);
}

#[test]
fn foreign_services_are_left_alone() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    add_foreign(&network.director);
    let director = Director::new(&network.director, WEB);
    let daemon = director.start();
    let both = [&WEB_TABLE[..1], &FOREIGN[..1], &WEB_TABLE[1..], &FOREIGN[1..]].concat();
    assert_eq!(network.director.table(), both);
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), FOREIGN);
}

#[test]
fn a_table_that_is_right_already_is_not_written() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    for line in WEB_TABLE {
        network.director.ipvsadm(line);
    }
    let director = Director::new(&network.director, WEB);
    let capture = Capture::start(&network.director);
    let _daemon = director.start();
    let requests = capture.stop(&network.director);
    assert!(requests.contains(&"GET_SERVICE") && requests.contains(&"GET_DEST"), "{requests:?}");
    assert_eq!(writes(&requests), Vec::<&str>::new());
    assert_eq!(network.director.table(), WEB_TABLE);
}

#[test]
fn differences_are_edited_and_strays_removed() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    for line in [
        "-A -t 192.0.2.10:80 -s rr",
        "-a -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 7",
        "-a -t 192.0.2.10:80 -r 198.51.100.13:80 -m -w 1",
    ] {
        network.director.ipvsadm(line);
    }
    let director = Director::new(&network.director, WEB);
    let capture = Capture::start(&network.director);
    let _daemon = director.start();
    super::process::wait_for_table(&network.director, &WEB_TABLE);
    let requests = capture.stop(&network.director);
    assert!(!writes(&requests).contains(&"DEL_SERVICE"), "a service is edited in place: {requests:?}");
}

#[test]
fn a_second_daemon_ends_at_once_and_says_who_holds_the_name_space() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, WEB);
    let daemon = director.start();
    let other = Director::new(&network.director, WEB);
    let status = other.spawn().wait();
    assert!(!status.success());
    assert!(other.log().contains(&daemon.pid().to_string()), "{}", other.log());
    assert_eq!(network.director.table(), WEB_TABLE, "the first one's table stands");
}

#[test]
fn a_daemon_in_another_name_space_is_no_second_one() {
    let spaces = [Space::new("one"), Space::new("two")];
    let directors = [0, 1].map(|n| Director::new(&spaces[n], LOCAL));
    let daemons = [0, 1].map(|n| directors[n].start());
    for space in &spaces {
        assert_eq!(
            space.table(),
            ["-A -t 127.0.0.1:80 -s wlc", "-a -t 127.0.0.1:80 -r 127.0.0.2:80 -m -w 1"]
        );
    }
    drop(daemons);
}

const LOCAL: &str = r#"
[[virtual_server]]
address = "127.0.0.1:80"
[[virtual_server.real_server]]
address = "127.0.0.2:80"
"#;

#[test]
fn ten_thousand_servers_are_in_the_table_and_a_reload_writes_what_changed() {
    let space = Space::new("director");
    let mut config = String::new();
    let mut wanted = Vec::new();
    for service in 0..256 {
        let address = format!("192.0.2.{service}:80");
        config += &format!("[[virtual_server]]\naddress = \"{address}\"\nscheduler = \"rr\"\n");
        wanted.push(format!("-A -t {address} -s rr"));
        for server in 1..=40 {
            let server = format!("198.18.{service}.{server}:80");
            config += &format!("[[virtual_server.real_server]]\naddress = \"{server}\"\n");
            wanted.push(format!("-a -t {address} -r {server} -m -w 1"));
        }
    }
    wanted.sort();
    let director = Director::new(&space, &config);
    let mut daemon = director.start();
    let found = space.table();
    assert_eq!(found.len(), 256 * 41);
    assert!(found == wanted, "all there, but not all as configured");

    let capture = Capture::start(&space);
    daemon.reload_by_signal();
    assert_eq!(writes(&capture.stop(&space)), Vec::<&str>::new());

    let one = "[[virtual_server.real_server]]\naddress = \"198.18.77.7:80\"\n";
    director.configure(&config.replace(one, &format!("{one}weight = 5\n")));
    let capture = Capture::start(&space);
    daemon.reload_by_signal();
    assert_eq!(writes(&capture.stop(&space)), ["SET_DEST"]);
    assert!(space.table().contains(&"-a -t 192.0.2.77:80 -r 198.18.77.7:80 -m -w 5".to_owned()));
}
