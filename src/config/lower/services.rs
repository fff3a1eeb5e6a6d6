//! The virtual services of a pool: ranges and blocks expanded, marks by family, no service twice.

use super::Lowering;
use crate::config::address::AddressRange;
use crate::config::context::{At, Context};
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::{PoolOptions, VirtualServer};
use crate::engine::model::{Family, Protocol};
use crate::engine::table::ServiceId;

/// Of all virtual servers together. Each is a service in the kernel, with all its servers.
const MAX_SERVICES: u128 = 65_536;

/// What the rest of the pool has to know about them.
pub(super) struct Services {
    pub(super) ids: Vec<ServiceId>,
    /// One service of each family that occurs.
    pub(super) ipv4: Option<ServiceId>,
    pub(super) ipv6: Option<ServiceId>,
    /// Of the first address: what a server without a port is probed at.
    pub(super) first_port: Option<u16>,
    /// Any address at all: the protocol matters.
    pub(super) by_address: bool,
    /// Everything written about them was good: rules about them can speak.
    pub(super) complete: bool,
}

impl Services {
    /// A service of the other family than `family`.
    pub(super) fn other_than(&self, family: Family) -> Option<ServiceId> {
        match family {
            Family::Ipv4 => self.ipv6,
            Family::Ipv6 => self.ipv4,
        }
    }

    fn push(&mut self, id: ServiceId) {
        let of_family = match id.family() {
            Family::Ipv4 => &mut self.ipv4,
            Family::Ipv6 => &mut self.ipv6,
        };
        of_family.get_or_insert(id);
        self.ids.push(id);
    }
}

/// `192.0.2.10:80`, `192.0.2.10`, `fwmark 5 ipv4`
pub(super) fn short_name(id: &ServiceId) -> String {
    match id {
        ServiceId::Address { address, port: 0, .. } => address.to_string(),
        ServiceId::Address { address, port, .. } => std::net::SocketAddr::new(*address, *port).to_string(),
        ServiceId::Mark { .. } => id.to_string(),
    }
}

pub(super) fn lower(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    vs: &VirtualServer<'_>,
    pool: &PoolOptions,
) -> Services {
    let mut services = Services {
        ids: Vec::new(),
        ipv4: None,
        ipv6: None,
        first_port: None,
        by_address: vs.address.is_written(),
        complete: ![vs.address.is_broken(), vs.fwmark.is_broken(), vs.family.is_broken()].contains(&true),
    };
    if vs.address.is_unset() && vs.fwmark.is_unset() {
        let finding = Finding::error(vs.place, "a virtual server needs an address or a firewall mark");
        cx.push(finding.remedy("write address = \"192.0.2.10:80\" or fwmark = 5"));
        services.complete = false;
    }
    let ranges = vs.address.get().map_or(&[][..], |list| &list.value);
    if vs.address.get().is_some() && ranges.is_empty() {
        let place = vs.address.place().unwrap_or(vs.place);
        cx.push(Finding::error(place, "the list of addresses is empty").remedy("write at least one"));
        services.complete = false;
    }
    if pool.protocol.is_broken() {
        // Which services these are is not known.
        services.complete = false;
        return services;
    }
    services.first_port = ranges.first().and_then(|range| range.value.port);
    let protocol = pool.protocol.value_or(Protocol::Tcp);
    for range in ranges {
        if range.value.port.is_none() && pool.persistence_timeout.is_unset() {
            every_port(cx, range);
        }
        expand(cx, all, &mut services, range, protocol);
    }
    marks(cx, all, vs, &mut services);
    services
}

/// The kernel serves a port that it was not told about only to clients that it remembers.
fn every_port(cx: &mut Context<'_>, range: &At<AddressRange>) {
    let finding = Finding::error(range.place, "an address without a port needs persistence");
    let example = match range.value.family() {
        Family::Ipv4 => "\"192.0.2.10:80\"",
        Family::Ipv6 => "\"[2001:db8::10]:80\"",
    };
    cx.push(finding.remedy(format!("write a port, as in {example}, or persistence_timeout = \"5m\"")));
}

fn expand(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    services: &mut Services,
    range: &At<AddressRange>,
    protocol: Protocol,
) {
    if !has_room(cx, all, range.value.len(), range.place) {
        services.complete = false;
        return;
    }
    for address in range.value.iter() {
        let id = ServiceId::Address { protocol, address, port: range.value.port.unwrap_or(0) };
        insert(cx, all, services, id, range.place);
    }
}

/// For so many more. If not, that is reported.
fn has_room(cx: &mut Context<'_>, all: &Lowering<'_>, more: u128, place: Place) -> bool {
    let so_far = u128::try_from(all.services.len()).unwrap_or(u128::MAX);
    let fits = so_far.saturating_add(more) <= MAX_SERVICES;
    if !fits {
        let message = format!("more than {MAX_SERVICES} virtual services");
        let remedy = "write a smaller block, or mark the packets in the firewall and write `fwmark`";
        cx.push(Finding::error(place, message).remedy(remedy));
    }
    fits
}

fn marks(cx: &mut Context<'_>, all: &mut Lowering<'_>, vs: &VirtualServer<'_>, services: &mut Services) {
    let families = families(cx, vs, services);
    for mark in vs.fwmark.get().map_or(&[][..], |list| &list.value) {
        for family in &families {
            let id = ServiceId::Mark { family: *family, mark: mark.value };
            insert(cx, all, services, id, mark.place);
        }
    }
}

/// Of the marks: as written, else that of the addresses beside them.
fn families(cx: &mut Context<'_>, vs: &VirtualServer<'_>, services: &mut Services) -> Vec<Family> {
    let written = vs.family.get().map_or(&[][..], |list| &list.value);
    if vs.fwmark.is_unset() {
        for family in written {
            let id = services.other_than(family.value);
            if let Some(id) = id {
                let message = format!("the family is {}, but {id} is not", family.value);
                cx.push(
                    Finding::error(family.place, message).remedy("remove `family`; it is for firewall marks"),
                );
            }
        }
        return Vec::new();
    }
    if !written.is_empty() {
        let mut families: Vec<Family> = written.iter().map(|family| family.value).collect();
        families.sort_unstable();
        families.dedup();
        return families;
    }
    match (services.ipv4, services.ipv6) {
        (Some(_), None) => vec![Family::Ipv4],
        (None, Some(_)) => vec![Family::Ipv6],
        (None, None) | (Some(_), Some(_)) => {
            if services.complete {
                let place = vs.fwmark.place().unwrap_or(vs.place);
                let finding = Finding::error(place, "a firewall mark needs a family");
                cx.push(finding.remedy("write family = \"ipv4\" or family = \"ipv6\""));
            }
            services.complete = false;
            Vec::new()
        }
    }
}

fn insert(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    services: &mut Services,
    id: ServiceId,
    place: Place,
) {
    if claim(cx, all, id, place) {
        services.push(id);
    } else {
        services.complete = false;
    }
}

/// `false`: it is another's, which is reported.
fn claim(cx: &mut Context<'_>, all: &mut Lowering<'_>, id: ServiceId, place: Place) -> bool {
    let Some(first) = all.services.get(&id) else {
        all.services.insert(id, place);
        return true;
    };
    if all.overlaps.insert((*first, place)) {
        let finding = Finding::error(place, format!("the service {id} is configured twice"));
        cx.push(finding.label(*first, "first here").remedy("keep it in one virtual server, once"));
    }
    false
}

/// All services of a virtual server that is not read again.
pub(super) fn claim_all(cx: &mut Context<'_>, all: &mut Lowering<'_>, ids: &[ServiceId]) {
    // Marks come after the addresses, and are not counted before.
    let addresses = ids.iter().filter(|id| matches!(id, ServiceId::Address { .. })).count();
    if has_room(cx, all, addresses as u128, Place::UNREAD) {
        for id in ids {
            claim(cx, all, *id, Place::UNREAD);
        }
    }
}
