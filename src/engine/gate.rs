//! Role awareness: which services may be in the table, as a function of the addresses and files that
//! are there. Whole pictures only: nothing counts events or remembers them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::model::{self, ActiveWhen, AddressGate, Whose};
use super::table::ServiceId;
use super::time::Time;
use super::{Engine, Event};

/// What there is on this host that a gate can ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// The addresses that the kernel takes packets for, each with the interfaces that have it.
    pub addresses: BTreeMap<IpAddr, BTreeSet<Holder>>,
    /// Of the files that were asked for, those that exist.
    pub files: BTreeSet<PathBuf>,
}

/// An interface with some address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    pub interface: String,
    pub loopback: bool,
}

/// Is a service in the table, and why?
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Nothing gates it.
    Ungated,
    Active(String),
    Inactive(String),
}

impl Standing {
    pub const fn is_active(&self) -> bool {
        match self {
            Self::Ungated | Self::Active(_) => true,
            Self::Inactive(_) => false,
        }
    }

    pub fn reason(&self) -> &str {
        match self {
            Self::Ungated => "there is no active_when",
            Self::Active(reason) | Self::Inactive(reason) => reason,
        }
    }
}

impl Presence {
    /// **The** function from what is there to whether `service` of `pool` is in the table.
    pub fn standing(&self, pool: &model::VirtualServer, service: &ServiceId) -> Standing {
        match &pool.active_when {
            None => Standing::Ungated,
            Some(ActiveWhen::File(path)) => {
                let path_shown = path.display();
                if self.files.contains(path) {
                    Standing::Active(format!("{path_shown} exists"))
                } else {
                    Standing::Inactive(format!("{path_shown} does not exist"))
                }
            }
            Some(ActiveWhen::Address(gate)) => match (&gate.whose, service) {
                (Whose::Own, ServiceId::Address { address, .. }) => self.any_of(&[*address], gate),
                // The configuration refuses it: a mark has no address.
                (Whose::Own, ServiceId::Mark { .. }) => {
                    Standing::Inactive("a firewall mark has no address".to_owned())
                }
                (Whose::AnyOf(addresses), _) => self.any_of(addresses, gate),
            },
        }
    }

    fn any_of(&self, addresses: &[IpAddr], gate: &AddressGate) -> Standing {
        for address in addresses {
            let names: Vec<&str> =
                self.holders(address).filter(|h| counts(h, gate)).map(|h| h.interface.as_str()).collect();
            if !names.is_empty() {
                return Standing::Active(format!("{address} is on {}", names.join(" and ")));
            }
        }
        Standing::Inactive(match addresses {
            [address] => self.why_not(address, gate),
            several => {
                let list: Vec<String> = several.iter().map(ToString::to_string).collect();
                let place = gate.interface.as_deref().unwrap_or("any interface");
                format!("none of {} is on {place}", list.join(", "))
            }
        })
    }

    /// Where it is instead is what an operator needs to know.
    fn why_not(&self, address: &IpAddr, gate: &AddressGate) -> String {
        let elsewhere: Vec<&str> = self.holders(address).map(|h| h.interface.as_str()).collect();
        match (&gate.interface, elsewhere.is_empty()) {
            (Some(wanted), true) => format!("{address} is not on {wanted}"),
            (Some(wanted), false) => format!("{address} is on {}, not on {wanted}", elsewhere.join(" and ")),
            (None, true) => format!("{address} is on no interface"),
            (None, false) => format!("{address} is on no interface but {}", elsewhere.join(" and ")),
        }
    }

    fn holders(&self, address: &IpAddr) -> impl Iterator<Item = &Holder> {
        self.addresses.get(address).into_iter().flatten()
    }
}

/// An address on a loopback interface is there whatever the role: that is how a real server of direct
/// routing has it, and a director may be one. It counts only where it is asked for by name.
fn counts(holder: &Holder, gate: &AddressGate) -> bool {
    match &gate.interface {
        Some(name) => holder.interface == *name,
        None => !holder.loopback,
    }
}

/// `{ address_present = true }` and so on, as it is written.
impl fmt::Display for ActiveWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Address(AddressGate { whose, interface }) => {
                match whose {
                    Whose::Own => f.write_str("own address")?,
                    Whose::AnyOf(addresses) => {
                        let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                        write!(f, "address {}", list.join(" or "))?;
                    }
                }
                interface.as_ref().map_or(Ok(()), |name| write!(f, " on {name}"))
            }
        }
    }
}

impl Engine {
    /// What is there now, all of it. The same picture again changes nothing.
    pub fn handle_presence(&mut self, presence: &Presence, now: Time) {
        self.now = now;
        if self.presence != *presence {
            self.presence = presence.clone();
            self.settle_standings();
        }
    }

    /// Looks at every gate, and tells what is active now and was not, or the other way round.
    pub(super) fn settle_standings(&mut self) {
        let mut before = std::mem::take(&mut self.standings);
        for (index, pool) in self.pools.iter_mut().enumerate() {
            pool.inactive.clear();
            if pool.config.active_when.is_none() && before.is_empty() {
                continue;
            }
            let (mut began, mut ended) = (Vec::new(), Vec::new());
            for service in &pool.config.services {
                let standing = self.presence.standing(&pool.config, service);
                let was = before.remove(service);
                let is_news = match (&was, &standing) {
                    (None, Standing::Ungated) => false,
                    // A gate that is new is worth a word, also where it stands open.
                    (None, Standing::Active(_) | Standing::Inactive(_)) => true,
                    (Some(was), now) => was.is_active() != now.is_active(),
                };
                if is_news {
                    let list = if standing.is_active() { &mut began } else { &mut ended };
                    list.push((*service, standing.reason().to_owned()));
                    self.dirty.insert(index);
                }
                if let Standing::Inactive(reason) = &standing {
                    pool.inactive.insert(*service, reason.clone());
                }
                if standing != Standing::Ungated {
                    self.standings.insert(*service, standing);
                }
            }
            for (active, services) in [(true, began), (false, ended)] {
                if !services.is_empty() {
                    let virtual_server = Arc::clone(&pool.config);
                    self.events.push_back(Event::Gate { virtual_server, active, services });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
