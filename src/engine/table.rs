//! The IPVS table as data: what the kernel should hold, or was seen to hold.
//!
//! Plain values in ordered maps. [`crate::ipvs`] writes and reads them;
//! `engine::desired` makes them from the state of the checks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::model::{Family, Forwarding, Mark, Protocol, Scheduler};

/// What makes two virtual services the same one for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceId {
    /// Protocol, virtual address and port; port 0 means every port.
    Address { protocol: Protocol, address: IpAddr, port: u16 },
    /// Packets that carry this firewall mark.
    Mark { family: Family, mark: Mark },
}

impl ServiceId {
    pub fn family(&self) -> Family {
        match self {
            Self::Address { address, .. } => Family::of(*address),
            Self::Mark { family, .. } => *family,
        }
    }

    /// The port that a real server without one of its own gets: 0 for marks.
    pub fn port(&self) -> u16 {
        match self {
            Self::Address { port, .. } => *port,
            Self::Mark { .. } => 0,
        }
    }
}

/// `tcp 192.0.2.10:80`, `udp [2001:db8::10]:53`, `fwmark 5 ipv4`
impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { protocol, address, port } => {
                write!(f, "{protocol} {}", SocketAddr::new(*address, *port))
            }
            Self::Mark { family, mark } => write!(f, "fwmark {} {family}", mark.get()),
        }
    }
}

/// Attributes of a virtual service that the kernel changes in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAttributes {
    pub scheduler: Scheduler,
    pub flags: ServiceFlags,
    /// Seconds; `None` for a service without persistence.
    pub persistence: Option<u32>,
    /// Prefix length under which persistent clients share a template. Full length if unset.
    pub netmask: u8,
    pub persistence_engine: Option<String>,
}

/// The scheduler flags and one-packet bit of a service. Bits as in `IP_VS_SVC_F_*` of the
/// kernel; the persistent bit is not here, it follows from [`ServiceAttributes::persistence`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceFlags(u32);

impl ServiceFlags {
    pub const ONE_PACKET: Self = Self(0x4);
    /// flag-1, sh-fallback, mh-fallback
    pub const SCHEDULER_1: Self = Self(0x8);
    /// flag-2, sh-port, mh-port
    pub const SCHEDULER_2: Self = Self(0x10);
    /// flag-3
    pub const SCHEDULER_3: Self = Self(0x20);
    const ALL: u32 = 0x3c;

    /// Keeps the bits that are ours to set, drops those that the kernel adds.
    pub const fn from_bits_truncate(bits: u32) -> Self {
        Self(bits & Self::ALL)
    }

    pub const fn bits(self) -> u32 {
        self.0
    }

    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A destination within a service. Port 0 in services by mark and all-ports services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId {
    pub address: IpAddr,
    pub port: u16,
}

impl fmt::Display for DestinationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.address, self.port).fmt(f)
    }
}

/// Everything of a destination that can be edited. An edit always sends the whole of it:
/// the kernel replaces what it is given and what it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub forwarding: Forwarding,
    /// 0 … 2³¹ − 1; the kernel refuses more.
    pub weight: u32,
    /// Connections above which it gets no new ones; 0 = no limit, as in the kernel.
    pub upper_threshold: u32,
    pub lower_threshold: u32,
}

/// One virtual service with its destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub attributes: ServiceAttributes,
    pub destinations: BTreeMap<DestinationId, Destination>,
}

impl Service {
    /// Can any client be served?
    pub fn is_serving(&self) -> bool {
        self.destinations.values().any(|d| d.weight > 0)
    }
}

/// A whole table. Services are shared, so that tables that differ in one service cost one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub services: BTreeMap<ServiceId, Arc<Service>>,
}

/// Connections and traffic of one destination, from the dump that showed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub active: u32,
    pub inactive: u32,
    pub persistent: u32,
    /// Since the destination was added, 64 bits where the kernel has them.
    pub connections: u64,
    pub packets_in: u64,
    pub packets_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// The counters of every destination of a dump. In one piece, and looked up by halves: each interval brings as many
/// anew, and thousands of small pieces that come and go leave holes that the next ones do not fill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersByDestination(Box<[((ServiceId, DestinationId), Counters)]>);

impl CountersByDestination {
    pub fn get(&self, of: &(ServiceId, DestinationId)) -> Option<&Counters> {
        let at = self.0.binary_search_by_key(of, |(id, _)| *id).ok()?;
        self.0.get(at).map(|(_, counters)| counters)
    }

    pub fn of_service(&self, service: &ServiceId) -> impl Iterator<Item = &Counters> {
        let first = self.0.partition_point(|((s, _), _)| s < service);
        let from_it_on = self.0.get(first..).unwrap_or_default();
        from_it_on.iter().take_while(move |((s, _), _)| s == service).map(|(_, counters)| counters)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of two entries for the same destination the later one counts.
impl FromIterator<((ServiceId, DestinationId), Counters)> for CountersByDestination {
    fn from_iter<I: IntoIterator<Item = ((ServiceId, DestinationId), Counters)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|(id, _)| *id);
        entries.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                *kept = *later;
            }
            same
        });
        Self(entries.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests;
