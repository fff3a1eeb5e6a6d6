//! The end: withdrawn or kept, as configured.

use super::process::Director;
use super::{WEB, WEB_ADDRESS, WEB_TABLE};
use crate::lab::backend::Backend;
use crate::lab::client::Conversation;
use crate::lab::net::Network;

#[test]
fn stop_withdraws_and_puts_the_timeouts_back() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let timeouts = || network.director.ipvsadm("-L --timeout");
    let before = timeouts();
    let director = Director::new(&network.director, &format!("timeouts = {{ tcp = \"7m\" }}\n{WEB}"));
    let daemon = director.start();
    assert!(timeouts().contains("420 "), "{}", timeouts());
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), Vec::<String>::new());
    assert_eq!(timeouts(), before);
}

#[test]
fn stop_with_keep_leaves_table_timeouts_and_connections() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let config = format!("on_stop = \"keep\"\ntimeouts = {{ tcp = \"7m\" }}\n{WEB}");
    let director = Director::new(&network.director, &config);
    let daemon = director.start();
    let mut conversation = network.client.run(|| Conversation::open(WEB_ADDRESS)).expect("a connection");
    let server = conversation.say("before").expect("an echo");
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), WEB_TABLE);
    assert!(network.director.ipvsadm("-L --timeout").contains("420 "));
    assert_eq!(conversation.say("between"), Ok(server.clone()));
    let _daemon = director.start();
    assert_eq!(network.director.table(), WEB_TABLE);
    assert_eq!(conversation.say("after"), Ok(server));
}

#[test]
fn one_stop_can_be_told_otherwise() {
    let network = Network::new();
    let _backends = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, WEB);
    let daemon = director.start();
    assert!(director.lvsd("on-stop keep").status.success());
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), WEB_TABLE);
    // It was for that run only.
    assert!(director.start().stop().success());
    assert_eq!(network.director.table(), Vec::<String>::new());
    director.configure(&format!("on_stop = \"keep\"\n{WEB}"));
    let daemon = director.start();
    for order in ["keep", "withdraw"] {
        assert!(director.lvsd(&format!("on-stop {order}")).status.success());
    }
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), Vec::<String>::new());
    let daemon = director.start();
    for order in ["withdraw", "auto"] {
        assert!(director.lvsd(&format!("on-stop {order}")).status.success());
    }
    assert!(daemon.stop().success());
    assert_eq!(network.director.table(), WEB_TABLE);
}
