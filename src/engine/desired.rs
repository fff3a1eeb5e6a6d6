//! The IPVS table of one virtual service as a function of its pool's state. The only place
//! that decides what the kernel should hold.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::model::{self, RealServerId, SchedulerFlag};
use super::real_server::{RealServer, destination_id};
use super::snapshot::Order;
use super::table::{Destination, DestinationId, Service, ServiceAttributes, ServiceFlags, ServiceId};
use super::virtual_server::VirtualServer;

/// A sorry server takes all the traffic there is, so its weight only has to be above 0.
const SORRY_WEIGHT: u32 = 1;

/// What the kernel should hold for `service`, one of the pool's services; nothing while it is not active.
pub(super) fn service(pool: &VirtualServer, service: &ServiceId) -> Option<Service> {
    let entry = || Service {
        attributes: attributes(&pool.config, service),
        destinations: destinations(pool, service),
    };
    (!pool.inactive.contains_key(service)).then(entry)
}

fn attributes(config: &model::VirtualServer, service: &ServiceId) -> ServiceAttributes {
    let persistence = config.persistence.as_ref();
    let one_packet = if config.one_packet { ServiceFlags::ONE_PACKET } else { ServiceFlags::default() };
    ServiceAttributes {
        scheduler: config.scheduler.clone(),
        flags: config.scheduler_flags.iter().fold(one_packet, |flags, flag| {
            flags.with(match flag {
                SchedulerFlag::One => ServiceFlags::SCHEDULER_1,
                SchedulerFlag::Two => ServiceFlags::SCHEDULER_2,
                SchedulerFlag::Three => ServiceFlags::SCHEDULER_3,
            })
        }),
        persistence: persistence.map(|p| p.timeout.get()),
        netmask: persistence.and_then(|p| p.netmask).unwrap_or(service.family().bits()),
        persistence_engine: persistence.and_then(|p| p.engine.clone()),
    }
}

fn destinations(pool: &VirtualServer, service: &ServiceId) -> BTreeMap<DestinationId, Destination> {
    let entry = |server: &RealServer| {
        let weight = weight_in_table(server, pool.is_sorry())?;
        Some((destination_id(server.id(), server.config.forwarding, service), server.destination(weight)))
    };
    // Two servers can share an entry where dr or tun hide their ports: the heavier one has it, of equals the first
    // in the file.
    let mut entries: Vec<_> = pool.real_servers.iter().filter_map(entry).collect();
    entries.sort_by_key(|(id, destination)| (*id, Reverse(destination.weight)));
    entries.dedup_by_key(|(id, _)| *id);
    // Made at one go it is half as large as one that grew.
    let mut entries = entries.into_iter().collect();
    if let Some(sorry) = &pool.config.sorry_server {
        insert_sorry_server(&mut entries, pool, sorry, service);
    }
    entries
}

/// A server's weight in the table, or `None` if it has no place there.
fn weight_in_table(server: &RealServer, sorry: bool) -> Option<u32> {
    let failed = || server.config.inhibit_on_failure.then_some(0);
    if !server.stands() {
        return failed();
    }
    if !sorry {
        return Some(server.effective_weight());
    }
    if server.is_ordered(Order::Drain) { Some(0) } else { failed() }
}

/// The sorry server may be one of the real servers as well: then it is one entry with two reasons,
/// at its own weight while that server is alive.
fn insert_sorry_server(
    entries: &mut BTreeMap<DestinationId, Destination>,
    pool: &VirtualServer,
    sorry: &model::SorryServer,
    service: &ServiceId,
) {
    let id =
        destination_id(RealServerId { address: sorry.address, port: sorry.port }, sorry.forwarding, service);
    let twin = pool
        .real_servers
        .iter()
        .filter(|server| destination_id(server.id(), server.config.forwarding, service) == id)
        .max_by_key(|server| (server.stands(), server.effective_weight()));
    if pool.is_sorry() {
        let entry = match twin {
            Some(server) if server.stands() && server.is_ordered(Order::Drain) => server.destination(0),
            Some(server) if server.stands() => {
                server.destination(server.effective_weight().max(SORRY_WEIGHT))
            }
            Some(server) => server.destination(SORRY_WEIGHT),
            None => own_entry(sorry, SORRY_WEIGHT),
        };
        entries.insert(id, entry);
    } else if sorry.inhibit {
        entries.entry(id).or_insert_with(|| own_entry(sorry, 0));
    }
}

fn own_entry(sorry: &model::SorryServer, weight: u32) -> Destination {
    Destination { forwarding: sorry.forwarding, weight, upper_threshold: 0, lower_threshold: 0 }
}
