//! Short names for table entries in this module's tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::engine::model::{Family, Forwarding, Mark, Protocol, Scheduler};
use crate::engine::table::{
    Destination, DestinationId, Service, ServiceAttributes, ServiceFlags, ServiceId, Table,
};

pub(super) fn tcp(text: &str) -> ServiceId {
    let address: SocketAddr = text.parse().unwrap();
    ServiceId::Address { protocol: Protocol::Tcp, address: address.ip(), port: address.port() }
}

pub(super) fn fwmark(mark: u32, family: Family) -> ServiceId {
    ServiceId::Mark { family, mark: Mark::new(mark).unwrap() }
}

pub(super) fn destination(text: &str) -> DestinationId {
    let address: SocketAddr = text.parse().unwrap();
    DestinationId { address: address.ip(), port: address.port() }
}

pub(super) fn nat(weight: u32) -> Destination {
    Destination { forwarding: Forwarding::Nat, weight, upper_threshold: 0, lower_threshold: 0 }
}

/// Of an IPv4 service without persistence.
pub(super) fn attributes(scheduler: &str) -> ServiceAttributes {
    ServiceAttributes {
        scheduler: Scheduler::new(scheduler).unwrap(),
        flags: ServiceFlags::default(),
        persistence: None,
        netmask: 32,
        persistence_engine: None,
    }
}

pub(super) fn service(scheduler: &str, destinations: &[(&str, u32)]) -> Arc<Service> {
    Arc::new(Service {
        attributes: attributes(scheduler),
        destinations: destinations.iter().map(|(id, weight)| (destination(id), nat(*weight))).collect(),
    })
}

pub(super) fn table<const N: usize>(services: [(ServiceId, Arc<Service>); N]) -> Table {
    Table { services: BTreeMap::from(services) }
}
