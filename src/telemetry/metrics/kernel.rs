//! The part of a page that is about the kernel's table: our services, and what stands in them.

use std::fmt;

use super::catalogue as list;
use super::encode::Families;
use super::picture::KernelPicture;
use crate::engine::model::VirtualServer;
use crate::engine::table::{Counters, DestinationId, ServiceId};

/// What is nobody's of `pools` is not ours to show.
pub(super) fn show(
    families: &mut Families<'_>,
    pools: &[&VirtualServer],
    kernel: Option<&KernelPicture>,
) -> fmt::Result {
    let services: Vec<Service<'_>> = kernel
        .into_iter()
        .flat_map(|kernel| {
            let ids = pools.iter().flat_map(|pool| pool.services.iter().map(|id| (pool.name.as_str(), id)));
            ids.map(|(pool, id)| Service::new(kernel, pool, id))
        })
        .collect();
    totals(families, &services)?;
    destinations(families, &services)
}

struct Service<'a> {
    pool: &'a str,
    name: String,
    in_sync: bool,
    /// None for one that the kernel does not have.
    totals: Option<Counters>,
    /// Of those that stand there or should.
    destinations: Vec<Destination>,
}

struct Destination {
    name: String,
    wanted: Option<u32>,
    applied: Option<u32>,
    counters: Option<Counters>,
}

impl<'a> Service<'a> {
    fn new(kernel: &KernelPicture, pool: &'a str, id: &ServiceId) -> Self {
        let (wanted, found) = (kernel.wanted.services.get(id), kernel.table.services.get(id));
        let weight = |service: Option<&std::sync::Arc<crate::engine::table::Service>>, at: &DestinationId| {
            service.and_then(|service| Some(service.destinations.get(at)?.weight))
        };
        let mut ids: Vec<DestinationId> = [wanted, found]
            .into_iter()
            .flatten()
            .flat_map(|service| service.destinations.keys().copied())
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let destinations = ids.iter().map(|at| {
            let (wanted, applied) = (weight(wanted, at), weight(found, at));
            let counters = applied.and_then(|_| kernel.counters.get(&(*id, *at)).copied());
            Destination { name: at.to_string(), wanted, applied, counters }
        });
        Self {
            pool,
            name: id.to_string(),
            in_sync: wanted == found,
            // Not zero before the first dump that shows it: that would be taken for a beginning anew.
            totals: found.and_then(|_| kernel.totals.get(id).copied()),
            destinations: destinations.collect(),
        }
    }
}

fn totals(families: &mut Families<'_>, services: &[Service<'_>]) -> fmt::Result {
    families.numbers(&list::IN_SYNC, services.iter().map(|s| ([s.pool, &s.name], s.in_sync)))?;
    let counted = || services.iter().filter_map(|s| Some((s.pool, s.name.as_str(), s.totals?)));
    let connections = counted().map(|(pool, service, c)| ([pool, service], c.connections));
    families.numbers(&list::SERVICE_CONNECTIONS, connections)?;
    let packets = counted().flat_map(|(pool, service, c)| {
        [([pool, service, "in"], c.packets_in), ([pool, service, "out"], c.packets_out)]
    });
    families.numbers(&list::SERVICE_PACKETS, packets)?;
    let bytes = counted().flat_map(|(pool, service, c)| {
        [([pool, service, "in"], c.bytes_in), ([pool, service, "out"], c.bytes_out)]
    });
    families.numbers(&list::SERVICE_BYTES, bytes)
}

fn destinations(families: &mut Families<'_>, services: &[Service<'_>]) -> fmt::Result {
    let all = || {
        services.iter().flat_map(|service| {
            service.destinations.iter().map(|d| ([service.pool, service.name.as_str(), d.name.as_str()], d))
        })
    };
    let wanted = all().filter_map(|(names, d)| Some((names, d.wanted?)));
    families.numbers(&list::DESTINATION_WANTED, wanted)?;
    let applied = all().filter_map(|(names, d)| Some((names, d.applied?)));
    families.numbers(&list::DESTINATION_APPLIED, applied)?;
    let counted = || all().filter_map(|(names, d)| Some((names, d.counters?)));
    let states = counted().flat_map(|([pool, service, at], c)| {
        [([pool, service, at, "active"], c.active), ([pool, service, at, "inactive"], c.inactive)]
    });
    families.numbers(&list::DESTINATION_ACTIVE, states)?;
    let connections = counted().map(|(names, c)| (names, c.connections));
    families.numbers(&list::DESTINATION_CONNECTIONS, connections)?;
    let packets = counted().flat_map(|([pool, service, at], c)| {
        [([pool, service, at, "in"], c.packets_in), ([pool, service, at, "out"], c.packets_out)]
    });
    families.numbers(&list::DESTINATION_PACKETS, packets)?;
    let bytes = counted().flat_map(|([pool, service, at], c)| {
        [([pool, service, at, "in"], c.bytes_in), ([pool, service, at, "out"], c.bytes_out)]
    });
    families.numbers(&list::DESTINATION_BYTES, bytes)
}
