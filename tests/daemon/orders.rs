//! Orders over a restart: those whose server is still there stand, the end of others is told.

use super::WEB;
use super::process::Director;
use crate::lab::backend::Backend;
use crate::lab::net::Network;

const SECOND: &str = "198.51.100.12:80";
const LOST: &str = "the order is not taken over: drain of 198.51.100.12:80 in web by ";

#[test]
fn an_order_whose_server_left_its_place_while_no_daemon_ran_is_told_by_the_next_start() {
    let network = Network::new();
    let _servers = ["198.51.100.11:80", SECOND].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, WEB);
    let daemon = director.start();
    for words in [&format!("drain {SECOND} --reason disk"), "drain 198.51.100.11:80 --reason stays"] {
        let said = director.lvsd(words);
        assert!(said.status.success(), "{said:?}");
    }
    assert!(daemon.stop().success());
    let server = format!("[[virtual_server.real_server]]\naddress = \"{SECOND}\"\n");
    let api = "[[virtual_server]]\nname = \"api\"\naddress = \"192.0.2.10:8080\"\ncheck = { tcp = {} }\n";
    director.configure(&format!("{}{api}{server}", WEB.replace(&server, "")));
    let _daemon = director.start();
    let log = director.log();
    let lost: Vec<&str> = log.lines().filter(|line| line.contains("the order is not taken over")).collect();
    assert!(lost.len() == 1 && lost[0].contains(LOST) && lost[0].contains("(disk)"), "{lost:?}");
    let why =
        |server: &str| String::from_utf8(director.lvsd(&format!("why {server}")).stdout).expect("UTF-8");
    let moved = why(SECOND);
    assert!(moved.contains("in web: the drain by ") && moved.contains(" takes it over: disk"), "{moved}");
    let stays = why("198.51.100.11:80");
    assert!(stays.contains("drained by ") && !stays.contains("has ended"), "{stays}");
}
