//! What the tests of mail and webhooks share: events, and who is told of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lvsd::anew::Breaks;
use lvsd::config::{Sources, load};
use lvsd::engine::model::{Config, Mail, Notify, RealServerId, Webhook};
use lvsd::notify::{Audience, Event, EventKind, Outlets, Quorum};

/// Long enough for any machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

fn config() -> Config {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lvsd.toml");
    let pool = "[[virtual_server]]\nname = \"web\"\naddress = \"192.0.2.10:80\"\ncheck = { tcp = {} }\n";
    let server = "[[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n";
    std::fs::write(&path, format!("{pool}{server}")).unwrap();
    load(&Sources::read(&path).unwrap()).unwrap().config
}

pub(crate) fn settings(mail: Option<Mail>, webhooks: Vec<Webhook>) -> Notify {
    Notify { mail, webhooks, ..config().daemon.notify }
}

pub(crate) fn told(mail: Option<Mail>, webhooks: Vec<Webhook>) -> Outlets {
    Outlets::new(
        tokio::runtime::Handle::current(),
        env!("CARGO_BIN_EXE_lvsd").into(),
        &settings(mail, webhooks),
        Audience::Configured,
        Breaks::default(),
    )
}

/// A real server that goes down.
pub(crate) fn event(sequence: u64) -> Event {
    let at: SocketAddr = "198.51.100.11:80".parse().unwrap();
    Event {
        sequence,
        at: SystemTime::now(),
        kind: EventKind::RealServerDown,
        daemon: "lvs1".to_owned(),
        virtual_server: config().virtual_servers.first().map(Arc::clone),
        real_server: Some(RealServerId { address: at.ip(), port: Some(at.port()) }),
        reason: Some("tcp check: connect: connection refused (ECONNREFUSED)".to_owned()),
        quorum: None,
    }
}

/// A quorum that is lost with it.
pub(crate) fn lost(sequence: u64) -> Event {
    let quorum = Some(Quorum { weight: 0, threshold: 1 });
    Event { kind: EventKind::QuorumLost, real_server: None, reason: None, quorum, ..event(sequence) }
}

pub(crate) async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap();
}

pub(crate) async fn closing(outlets: Outlets) {
    outlets.finish(SOON).await;
}
