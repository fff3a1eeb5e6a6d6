//! Which virtual addresses should stand on which interface: a function of configuration, quorum and gates.
//!
//! An address counts for all of its services, whichever virtual servers they belong to: it is wanted
//! while any of them is active and has quorum, so that one service's failure never takes another's address away.
//! A sorry server that serves does not hold it, as keepalived's `quorum_down` would take it away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::model;
use super::table::ServiceId;
use super::virtual_server::VirtualServer;

/// A virtual address and the interface that it is announced by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualAddress {
    pub interface: Arc<str>,
    pub address: IpAddr,
}

/// `192.0.2.10 on lvs0`
impl fmt::Display for VirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.address, self.interface)
    }
}

/// What is known of one address that the configuration announces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Services of this address that have quorum, with their virtual servers' names; the address is
    /// wanted while there is one.
    pub with_quorum: Vec<(ServiceId, Arc<model::VirtualServer>)>,
    pub without: Vec<(ServiceId, Arc<model::VirtualServer>)>,
    /// Services that `active_when` keeps out of the table; they do not count, whatever their quorum.
    pub inactive: Vec<(ServiceId, Arc<model::VirtualServer>)>,
}

/// What the announcements depend on beside the configuration: to be compared, so as to make them anew
/// only when they can have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grounds(Vec<(bool, Vec<ServiceId>)>);

impl Grounds {
    pub fn of(pools: &[VirtualServer]) -> Self {
        Self(pools.iter().map(|pool| (pool.quorum_up, pool.inactive.keys().copied().collect())).collect())
    }

    /// Are they still those of `pools`?
    pub fn hold(&self, pools: &[VirtualServer]) -> bool {
        self.0.len() == pools.len()
            && self.0.iter().zip(pools).all(|((quorum_up, inactive), pool)| {
                *quorum_up == pool.quorum_up && inactive.iter().eq(pool.inactive.keys())
            })
    }
}

impl Holders {
    /// Should the address be announced?
    pub fn is_held(&self) -> bool {
        !self.with_quorum.is_empty()
    }
}

/// Every address that the configuration announces, and who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcements {
    pub addresses: BTreeMap<VirtualAddress, Holders>,
}

impl Announcements {
    /// Linear in the services, but for the maps' logarithms.
    pub fn of(pools: &[VirtualServer]) -> Self {
        let interfaces: BTreeMap<IpAddr, Arc<str>> = pools
            .iter()
            .filter_map(|pool| pool.config().announce.as_ref().map(|announce| (pool, announce)))
            .flat_map(|(pool, announce)| {
                addresses(pool).map(|(_, address)| (address, Arc::clone(&announce.interface)))
            })
            .collect();
        let mut announcements = Self::default();
        if interfaces.is_empty() {
            return announcements;
        }
        for pool in pools {
            for (service, address) in addresses(pool) {
                let Some(interface) = interfaces.get(&address) else { continue };
                let key = VirtualAddress { interface: Arc::clone(interface), address };
                let holders = announcements.addresses.entry(key).or_default();
                let side = match (pool.inactive.contains_key(&service), pool.is_quorum_up()) {
                    (true, _) => &mut holders.inactive,
                    (false, true) => &mut holders.with_quorum,
                    (false, false) => &mut holders.without,
                };
                side.push((service, Arc::clone(pool.config())));
            }
        }
        announcements
    }

    /// All that the configuration announces.
    pub fn configured(&self) -> BTreeSet<VirtualAddress> {
        self.addresses.keys().cloned().collect()
    }

    pub fn wanted(&self) -> impl Iterator<Item = &VirtualAddress> {
        self.addresses.iter().filter(|(_, holders)| holders.is_held()).map(|(address, _)| address)
    }
}

fn addresses(pool: &VirtualServer) -> impl Iterator<Item = (ServiceId, IpAddr)> + '_ {
    pool.config().services.iter().filter_map(|service| match service {
        ServiceId::Address { address, .. } => Some((*service, *address)),
        ServiceId::Mark { .. } => None,
    })
}

#[cfg(test)]
mod tests;
