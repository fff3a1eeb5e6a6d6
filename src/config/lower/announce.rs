//! `announce`: which interface a virtual server's addresses are put on, and that they agree about it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::Lowering;
use crate::config::context::Context;
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::{self, PoolOptions};
use crate::engine::model::{self, ActiveWhen, AddressGate, Whose};
use crate::engine::table::ServiceId;

/// Every address so far that is announced: on what, and where that is configured.
pub(super) type Announced = HashMap<IpAddr, (Arc<str>, Place)>;

pub(super) fn lower(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    raw: &raw::VirtualServer<'_>,
    pool: &PoolOptions,
    (services, gate): (&[ServiceId], Option<&ActiveWhen>),
) -> Option<model::Announce> {
    let announce = pool.announce.get()?;
    let raw::Announce::On(interface) = &announce.value else { return None };
    let by_address = raw.address.is_written();
    // What is inherited is for those that have addresses.
    if !by_address && raw.pool.announce.is_unset() {
        return None;
    }
    if !by_address && !raw.fwmark.is_unset() {
        let finding = Finding::error(announce.place, "there is no address to announce, only a firewall mark");
        let remedy = "write the `address` that carries the mark beside it, or remove `announce`";
        let mark = raw.fwmark.place();
        let finding = mark.into_iter().fold(finding, |f, place| f.label(place, "the mark"));
        cx.push(finding.remedy(remedy));
        return None;
    }
    if let Some(gate_place) = pool.active_when.place().filter(|_| waits_for_itself(gate, interface, services))
    {
        let message = "`active_when` asks for an address that `announce` itself puts there";
        let finding = Finding::error(announce.place, message).label(gate_place, "asks for it");
        let remedy = "write active_when with a file, an address of another service, or the `interface` that a \
                      VRRP daemon puts the address on";
        cx.push(finding.remedy(remedy));
        return None;
    }
    let interface: Arc<str> = Arc::from(interface.as_str());
    claim(cx, all, &interface, services, announce.place);
    Some(model::Announce { interface })
}

/// Whoever announces an address says the same of it.
pub(super) fn claim(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    interface: &Arc<str>,
    services: &[ServiceId],
    place: Place,
) {
    let mut told = false;
    for service in services {
        let ServiceId::Address { address, .. } = service else { continue };
        if address.is_loopback() {
            if !told {
                told = true;
                let message =
                    format!("{address} is this host's own, and would be taken away from it without quorum");
                cx.push(Finding::error(place, message).remedy("write announce = false"));
            }
            continue;
        }
        match all.announced.get(address) {
            None => {
                all.announced.insert(*address, (Arc::clone(interface), place));
            }
            Some((other, first)) if other != interface && !told => {
                told = true;
                let message = format!("{address} is announced on {other} already");
                let finding = Finding::error(place, message).label(*first, "here");
                cx.push(finding.remedy("write the same interface for all services of an address"));
            }
            Some(_) => {}
        }
    }
}

/// Such a gate would never open, or, with other addresses beside, never shut again. On another interface
/// the address may be somebody else's.
fn waits_for_itself(gate: Option<&ActiveWhen>, interface: &str, services: &[ServiceId]) -> bool {
    let Some(ActiveWhen::Address(AddressGate { whose, interface: wanted_on })) = gate else { return false };
    let own = |address: &IpAddr| {
        services
            .iter()
            .any(|service| matches!(service, ServiceId::Address { address: a, .. } if a == address))
    };
    let asks_for_own = match whose {
        Whose::Own => true,
        Whose::AnyOf(addresses) => addresses.iter().any(own),
    };
    asks_for_own && wanted_on.as_ref().is_none_or(|name| name == interface)
}
