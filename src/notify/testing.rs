//! Events to tell, and what comes of them waited for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use super::event::{Event, EventKind};
use crate::engine::model::{Protocol, RealServerId, VirtualServer};
use crate::engine::table::ServiceId;
use crate::engine::testing::virtual_server;

/// Looks again and again until it is so.
pub(super) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

/// A virtual server with these services, by address and port.
pub(super) fn pool(name: &str, services: &[&str]) -> Arc<VirtualServer> {
    let service = |text: &&str| {
        let at: std::net::SocketAddr = text.parse().unwrap();
        ServiceId::Address { protocol: Protocol::Tcp, address: at.ip(), port: at.port() }
    };
    Arc::new(virtual_server(name, services.iter().map(service).collect()))
}

pub(super) fn server(text: &str) -> RealServerId {
    let at: std::net::SocketAddr = text.parse().unwrap();
    RealServerId { address: at.ip(), port: Some(at.port()) }
}

/// A real server of `192.0.2.10:80`, called `web`, goes down.
pub(super) fn down() -> Event {
    Event {
        sequence: 1,
        at: SystemTime::UNIX_EPOCH,
        kind: EventKind::RealServerDown,
        daemon: "lvs1".to_owned(),
        virtual_server: Some(pool("web", &["192.0.2.10:80"])),
        real_server: Some(server("198.51.100.11:80")),
        reason: Some("status: 503\0, wanted 200-299".to_owned()),
        quorum: None,
    }
}
