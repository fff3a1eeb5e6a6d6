//! Short names for table entries, and random ones, for this module's tests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use proptest::prelude::*;

use crate::engine::model::{Family, Forwarding, Mark, Protocol, Scheduler, Tunnel, TunnelChecksum};
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

pub(super) fn forwardings() -> impl Strategy<Value = Forwarding> {
    let checksum =
        || prop_oneof![Just(TunnelChecksum::None), Just(TunnelChecksum::Csum), Just(TunnelChecksum::Remcsum)];
    prop_oneof![
        Just(Forwarding::Nat),
        Just(Forwarding::Dr),
        Just(Forwarding::Tun(Tunnel::Ipip)),
        (1_u16.., checksum()).prop_map(|(port, checksum)| Forwarding::Tun(Tunnel::Gue { port, checksum })),
        checksum().prop_map(|checksum| Forwarding::Tun(Tunnel::Gre { checksum })),
    ]
}

/// Any service that a configuration can ask for.
pub(super) fn services() -> impl Strategy<Value = (ServiceId, ServiceAttributes)> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)];
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    let by_address = (protocol, any::<std::net::IpAddr>(), any::<u16>())
        .prop_map(|(protocol, address, port)| ServiceId::Address { protocol, address, port });
    let by_mark = (family, any::<Mark>()).prop_map(|(family, mark)| ServiceId::Mark { family, mark });
    (
        prop_oneof![by_address, by_mark],
        schedulers(),
        any::<u32>(),
        any::<Option<u32>>(),
        any::<u8>(),
        any::<bool>(),
    )
        .prop_map(|(id, scheduler, flags, persistence, netmask, with_engine)| {
            let lowest = match id.family() {
                Family::Ipv4 => 0,
                Family::Ipv6 => 1,
            };
            let attributes = ServiceAttributes {
                scheduler,
                flags: ServiceFlags::from_bits_truncate(flags),
                persistence,
                netmask: netmask.clamp(lowest, id.family().bits()),
                persistence_engine: with_engine.then(|| "sip".to_owned()),
            };
            (id, attributes)
        })
}

pub(super) fn schedulers() -> impl Strategy<Value = Scheduler> {
    prop_oneof![Just("rr"), Just("wrr"), Just("mh"), Just("sh")]
        .prop_map(|name| Scheduler::new(name).unwrap())
}
