//! Which services a virtual server has in lvsd's terms: no service twice, families told, bounds kept.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::group::Groups;
use super::model::{Entry, Head, Kind, Protocol, VirtualServer};
use super::reading::Reading;
use super::words::shown;
use crate::config::import::notes::At;
use crate::engine::model::Family;

/// lvsd's own bounds: services in all, and entries in the kernel's table in all.
const MAX_SERVICES: u128 = 65_536;
const MAX_DESTINATIONS: u128 = 1 << 22;

/// First address to last address, and where they are configured.
type Ranges = BTreeMap<u128, (u128, At)>;

/// Of all virtual servers so far.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// None of them twice, by family, protocol and port.
    ranges: BTreeMap<(Family, u8, u16), Ranges>,
    marks: BTreeSet<(Family, u32)>,
    services: u128,
    destinations: u128,
}

/// Of one virtual server.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// As `address` has them.
    pub(super) addresses: Vec<String>,
    pub(super) marks: Vec<u32>,
    pub(super) families: BTreeSet<Family>,
    /// Of marks.
    pub(super) mark_family: Option<Family>,
    /// Of the first address.
    pub(super) first_port: Option<u16>,
    /// An address without a port is among them.
    pub(super) every_port: bool,
    /// 0 for marks and for every port.
    pub(super) ports: BTreeSet<u16>,
    count: u128,
}

impl Services {
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.marks.is_empty()
    }
}

/// `None`: there are none, which is said.
pub(super) fn services(
    reading: &mut Reading<'_>,
    groups: &Groups,
    taken: &mut Taken,
    vs: &VirtualServer,
) -> Option<Services> {
    let entries = match &vs.head {
        Head::Address { ip, port } => vec![Entry::Range { first: *ip, last: *ip, port: *port, at: vs.at }],
        Head::Mark(mark) => vec![Entry::Mark { mark: *mark, family: None, at: vs.at }],
        Head::Group(name) => match groups.entries(name) {
            Some(entries) => entries.to_vec(),
            None => {
                let why = match groups.refused.get(name) {
                    Some(why) => format!("its group {}: {why}", shown(name)),
                    None => format!("there is no virtual_server_group {}", shown(name)),
                };
                reading.notes.not_carried(vs.at, "virtual_server", why);
                return None;
            }
        },
    };
    let protocol = match vs.protocol {
        Some(Protocol::Tcp) => 6,
        Some(Protocol::Sctp) => 132,
        Some(Protocol::Udp) | None => 17,
    };
    let own: Vec<At> = entries.iter().map(Entry::at).collect();
    let mut services = Services::default();
    for entry in &entries {
        match entry {
            Entry::Range { first, last, port, at } => {
                let range = Range { protocol, own: &own, ends: (*first, *last), port: *port, at: *at };
                add_range(reading, taken, &mut services, range);
            }
            Entry::Mark { mark, family, at } => {
                let family = family.or(vs.family).unwrap_or(Family::Ipv4);
                add_mark(reading, taken, &mut services, *mark, family, *at);
            }
        }
    }
    let servers = u128::try_from(vs.servers.len()).unwrap_or(u128::MAX).max(1);
    taken.destinations = taken.destinations.saturating_add(services.count.saturating_mul(servers));
    if taken.destinations > MAX_DESTINATIONS {
        let why = format!(
            "with it there would be more than {MAX_DESTINATIONS} entries in the table; mark the packets and write `fwmark`"
        );
        reading.notes.not_carried(vs.at, "virtual_server", why);
        taken.destinations -= services.count.saturating_mul(servers).min(taken.destinations);
        return None;
    }
    if services.is_empty() {
        reading.notes.not_carried(vs.at, "virtual_server", "none of its services is left");
        return None;
    }
    Some(services)
}

/// One line of a group, or a virtual server's own address.
struct Range<'e> {
    protocol: u8,
    /// All lines of the virtual server.
    own: &'e [At],
    ends: (IpAddr, IpAddr),
    port: Option<u16>,
    at: At,
}

fn add_range(
    reading: &mut Reading<'_>,
    taken: &mut Taken,
    services: &mut Services,
    Range { protocol, own, ends: (first, last), port, at }: Range<'_>,
) {
    let family = Family::of(first);
    let known = taken.ranges.entry((family, protocol, port.unwrap_or(0))).or_default();
    let (first, last) = (number(first), number(last));
    let count = (last - first).saturating_add(1);
    if taken.services.saturating_add(count) > MAX_SERVICES {
        let why = format!(
            "with it there would be more than {MAX_SERVICES} services; mark the packets and write `fwmark`"
        );
        reading.notes.not_carried(at, "address", why);
        return;
    }
    let (pieces, overlap) = subtract(known, first, last);
    if let Some((address, other)) = overlap {
        let address = ip(address, family);
        if own.contains(&other) {
            reading.notes.remark(at, "address", format!("{address} is in the group already"));
        } else {
            let why = format!(
                "{address} with this protocol and port is a service of line {} already; keepalived puts the servers of both into one service",
                other.line
            );
            reading.notes.not_carried(at, "address", why);
        }
    }
    for (first, last) in pieces {
        known.insert(first, (last, at));
        taken.services += last - first + 1;
        services.count += last - first + 1;
        if services.addresses.is_empty() {
            services.first_port = port;
        }
        services.addresses.push(written(ip(first, family), ip(last, family), port));
        services.families.insert(family);
        services.ports.insert(port.unwrap_or(0));
        services.every_port |= port.is_none();
    }
}

/// Ranges, and an address that is not in them with the place that has it.
type Left = (Vec<(u128, u128)>, Option<(u128, At)>);

/// What of `first` to `last` is not known yet.
fn subtract(known: &Ranges, first: u128, last: u128) -> Left {
    let before = known.range(..=first).next_back().filter(|(_, (end, _))| *end >= first);
    let inside = known.range(first.saturating_add(1)..=last.max(first.saturating_add(1)));
    let mut pieces = Vec::new();
    let mut overlap = None;
    let mut next = Some(first);
    for (start, (end, at)) in before.into_iter().chain(inside.filter(|(start, _)| **start <= last)) {
        let from = (*start).max(first);
        overlap.get_or_insert((from, *at));
        if let Some(next) = next.filter(|next| *next < from) {
            pieces.push((next, from - 1));
        }
        next = end.checked_add(1).filter(|next| *next <= last);
        if next.is_none() {
            break;
        }
    }
    pieces.extend(next.filter(|next| *next <= last).map(|next| (next, last)));
    (pieces, overlap)
}

fn add_mark(
    reading: &mut Reading<'_>,
    taken: &mut Taken,
    services: &mut Services,
    mark: u32,
    family: Family,
    at: At,
) {
    if services.mark_family.is_some_and(|known| known != family) {
        let why = "marks of two families in one group; write a virtual server of its own for the others";
        reading.notes.not_carried(at, "fwmark", why);
    } else if !taken.marks.insert((family, mark)) {
        let why = format!(
            "the mark {mark} is a service already; keepalived puts the servers of both into one service"
        );
        reading.notes.not_carried(at, "fwmark", why);
    } else if taken.services >= MAX_SERVICES {
        reading.notes.not_carried(at, "fwmark", format!("more than {MAX_SERVICES} services"));
    } else {
        taken.services += 1;
        services.count += 1;
        services.mark_family = Some(family);
        services.families.insert(family);
        services.marks.push(mark);
        services.ports.insert(0);
    }
}

/// `192.0.2.10-20:80`, `[2001:db8::10]:80`
fn written(first: IpAddr, last: IpAddr, port: Option<u16>) -> String {
    let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
    match (port, first) {
        (None, _) => range,
        (Some(port), IpAddr::V4(_)) => format!("{range}:{port}"),
        (Some(port), IpAddr::V6(_)) => format!("[{range}]:{port}"),
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn ip(number: u128, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX))),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

/// Only a tunnel can take a service's packets to a server of the other family.
pub(super) fn reaches(services: &Services, kind: Kind, server: IpAddr) -> bool {
    kind == Kind::Tun || services.families.iter().all(|family| *family == Family::of(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_range() {
        let at = At::default();
        let known: BTreeMap<u128, (u128, At)> = [(10, (19, at)), (30, (30, at)), (40, (49, at))].into();
        let left = |first, last| subtract(&known, first, last).0;
        assert_eq!(left(1, 5), [(1, 5)]);
        assert_eq!(left(10, 19), []);
        assert_eq!(left(12, 15), []);
        assert_eq!(left(5, 60), [(5, 9), (20, 29), (31, 39), (50, 60)]);
        assert_eq!(left(15, 35), [(20, 29), (31, 35)]);
        assert_eq!(left(30, 30), []);
        assert_eq!(left(0, u128::MAX).len(), 4);
    }

    #[test]
    fn addresses_as_lvsd_writes_them() {
        let text =
            |first: &str, last: &str, port| written(first.parse().unwrap(), last.parse().unwrap(), port);
        assert_eq!(text("192.0.2.1", "192.0.2.1", Some(80)), "192.0.2.1:80");
        assert_eq!(text("192.0.2.1", "192.0.2.9", None), "192.0.2.1-192.0.2.9");
        assert_eq!(text("2001:db8::1", "2001:db8::9", Some(80)), "[2001:db8::1-2001:db8::9]:80");
    }
}
