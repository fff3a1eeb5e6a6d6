//! The reference model of `active_when`: which services are active, and what must be told of it.
//! Written from the rules alone; the engine's own function is not used.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use lvsd::engine::model::{ActiveWhen, AddressGate, Config, VirtualServer, Whose};
use lvsd::engine::table::ServiceId;
use lvsd::engine::{Event, Holder, Presence};
use proptest::prelude::*;

use crate::lines::service_name;
use crate::names;

/// What was told last of every gated service: is it active?
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates(BTreeMap<ServiceId, bool>);

/// A virtual server's name, a service of it, and whether it is active now.
pub(crate) type Told = (String, ServiceId, bool);

/// A service without a gate is always active.
pub(crate) fn is_active(pool: &VirtualServer, service: &ServiceId, presence: &Presence) -> bool {
    let there = |address: &IpAddr, only: &Option<String>| {
        presence.addresses.iter().filter(|(known, _)| *known == address).flat_map(|(_, on)| on).any(
            |holder| match only {
                Some(interface) => *interface == holder.interface,
                None => holder.interface != "lo",
            },
        )
    };
    match &pool.active_when {
        None => true,
        Some(ActiveWhen::File(path)) => presence.files.contains(path),
        Some(ActiveWhen::Address(gate)) => match (&gate.whose, service) {
            (Whose::AnyOf(addresses), _) => addresses.iter().any(|a| there(a, &gate.interface)),
            (Whose::Own, ServiceId::Address { address, .. }) => there(address, &gate.interface),
            (Whose::Own, ServiceId::Mark { .. }) => false,
        },
    }
}

pub(crate) fn active_services(config: &Config, presence: &Presence) -> BTreeSet<ServiceId> {
    let pools = config.virtual_servers.iter();
    pools.flat_map(|pool| pool.services.iter().filter(|s| is_active(pool, s, presence))).copied().collect()
}

impl Gates {
    /// What must be told after an input: each gated service that is new as such or changed, and each that
    /// lost the gate that kept it out.
    pub(crate) fn expect(&mut self, config: &Config, presence: &Presence) -> BTreeSet<Told> {
        let mut news = BTreeSet::new();
        let mut next = BTreeMap::new();
        for pool in &config.virtual_servers {
            for service in &pool.services {
                let active = is_active(pool, service, presence);
                let was = self.0.get(service).copied();
                let gated = pool.active_when.is_some();
                if if gated { was != Some(active) } else { was == Some(false) } {
                    news.insert((pool.name.clone(), *service, active));
                }
                if gated {
                    next.insert(*service, active);
                }
            }
        }
        self.0 = next;
        news
    }
}

/// What an event of the engine says of gates.
pub(crate) fn told(event: &Event) -> Vec<Told> {
    match event {
        Event::Gate { virtual_server, active, services } => {
            services.iter().map(|(id, _)| (virtual_server.name.clone(), *id, *active)).collect()
        }
        Event::RealServer { .. }
        | Event::Weight { .. }
        | Event::Quorum { .. }
        | Event::Failure { .. }
        | Event::LocalError { .. }
        | Event::SetAside { .. }
        | Event::Frozen { .. }
        | Event::Thawed { .. }
        | Event::Order { .. }
        | Event::OrderEnded { .. }
        | Event::OrderLost(_)
        | Event::OrderRestored { .. }
        | Event::Guard { .. } => Vec::new(),
    }
}

/// An interface as the tests know them: `lo` is the loopback.
pub(crate) fn holder(name: &str) -> Holder {
    Holder { interface: name.to_owned(), loopback: name == "lo" }
}

/// The same as lines of a scenario.
pub(crate) fn lines(event: &Event) -> Vec<String> {
    let line = |(pool, service, active): Told| {
        let not = if active { "" } else { "not " };
        format!("{pool} {} {not}active", service_name(&service))
    };
    told(event).into_iter().map(line).collect()
}

/// `V on eth0`, `/run/active`
pub(crate) fn read_presence(lines: &[String]) -> Presence {
    let mut presence = Presence::default();
    for line in lines {
        match line.split_once(" on ") {
            Some((name, interface)) => {
                let holders = presence.addresses.entry(names::read(name).0).or_default();
                holders.insert(holder(interface));
            }
            None => drop(presence.files.insert(PathBuf::from(line))),
        }
    }
    presence
}

// -- at random ------------------------------------------------------------------------------

fn any_interface() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("eth0"), 1 => Just("eth1"), 1 => Just("lo")].prop_map(str::to_owned)
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    (10..14_u8).prop_map(|last| IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)))
}

fn any_file() -> impl Strategy<Value = PathBuf> {
    prop_oneof![Just("/run/active"), Just("/run/other")].prop_map(PathBuf::from)
}

/// None at all more often than not.
pub(crate) fn any_gate() -> impl Strategy<Value = Option<ActiveWhen>> {
    let some = prop::collection::vec(any_address(), 1..3).prop_map(Whose::AnyOf);
    let whose = prop_oneof![2 => Just(Whose::Own), 1 => some];
    let by_address = (whose, prop::option::weighted(0.3, any_interface()))
        .prop_map(|(whose, interface)| ActiveWhen::Address(AddressGate { whose, interface }));
    let gate = prop_oneof![3 => by_address, 1 => any_file().prop_map(ActiveWhen::File)];
    prop::option::weighted(0.4, gate)
}

pub(crate) fn any_presence() -> impl Strategy<Value = Presence> {
    let on = prop::collection::btree_set(any_interface().prop_map(|name| holder(&name)), 1..3);
    let addresses = prop::collection::btree_map(any_address(), on, 0..4);
    let files = prop::collection::btree_set(any_file(), 0..3);
    (addresses, files).prop_map(|(addresses, files)| Presence { addresses, files })
}
