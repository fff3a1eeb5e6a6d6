//! Events to tell.

use std::sync::Arc;
use std::time::SystemTime;

use super::event::{Event, EventKind};
use crate::engine::model::{Protocol, RealServerId, Scheduler, VirtualServer};
use crate::engine::table::ServiceId;

/// A virtual server with these services, by address and port.
pub(super) fn pool(name: &str, services: &[&str]) -> Arc<VirtualServer> {
    let service = |text: &&str| {
        let at: std::net::SocketAddr = text.parse().unwrap();
        ServiceId::Address { protocol: Protocol::Tcp, address: at.ip(), port: at.port() }
    };
    Arc::new(VirtualServer {
        name: name.to_owned(),
        services: services.iter().map(service).collect(),
        scheduler: Scheduler::new("wlc").unwrap(),
        scheduler_flags: vec![],
        one_packet: false,
        persistence: None,
        quorum: 1,
        hysteresis: 0,
        omega: false,
        sorry_server: None,
        quorum_up: None,
        quorum_down: None,
        active_when: None,
        announce: None,
        real_servers: vec![],
    })
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
