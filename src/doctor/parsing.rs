//! The texts below /proc as facts. Lines of another shape are passed over: a kernel may add some.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::facts::{IpvsTable, Route, RouteKind};
use crate::engine::model::{Family, Mark, Protocol};
use crate::engine::table::ServiceId;

/// Flags of `<linux/route.h>` and `<linux/ipv6_route.h>`.
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;
const ADVERTISED: u32 = 0x0004_0000;
const ANYCAST: u32 = 0x0010_0000;
const LOCAL: u32 = 0x8000_0000;

/// /proc/net/ip_vs. Marks have no family there: they count for both.
pub(super) fn ipvs_table(text: &str) -> IpvsTable {
    let mut table = IpvsTable::default();
    for line in text.lines() {
        if let Some((_, size)) = line.split_once("(size=") {
            table.size = size.trim_end_matches(')').parse().unwrap_or(0);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["->", _, _, _, active, inactive] => {
                let number = |text: &str| text.parse::<u64>().unwrap_or(0);
                table.connections += number(active) + number(inactive);
            }
            ["FWM", mark, ..] => {
                let mark = u32::from_str_radix(mark, 16).ok().and_then(Mark::new);
                for family in [Family::Ipv4, Family::Ipv6] {
                    table.services.extend(mark.map(|mark| ServiceId::Mark { family, mark }));
                }
            }
            [protocol, address, ..] => table.services.extend(service(protocol, address)),
            [_] | [] => {}
        }
    }
    table
}

/// `TCP C000020A:0050`, `UDP [2001:db8::a]:0035`
fn service(protocol: &str, text: &str) -> Option<ServiceId> {
    let protocol = match protocol {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => return None,
    };
    let (address, port) = text.rsplit_once(':')?;
    let address = match address.strip_prefix('[') {
        Some(rest) => IpAddr::V6(rest.trim_end_matches(']').parse().ok()?),
        None => IpAddr::V4(Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?)),
    };
    Some(ServiceId::Address { protocol, address, port: u16::from_str_radix(port, 16).ok()? })
}

/// /proc/net/route: the main table, numbers in the byte order of memory.
pub(super) fn routes_v4(text: &str) -> Vec<Route> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let flags = hex(3)?;
        let network = Ipv4Addr::from(hex(1)?.to_ne_bytes());
        let prefix = u32::from_be_bytes(hex(7)?.to_ne_bytes()).leading_ones();
        (flags & REJECT == 0).then_some(Route {
            network: network.into(),
            prefix: u8::try_from(prefix).ok()?,
            interface: (*words.first()?).to_owned(),
            metric: words.get(6)?.parse().ok()?,
            kind: if flags & GATEWAY == 0 { RouteKind::Link } else { RouteKind::Gateway },
        })
    };
    text.lines().filter_map(route).collect()
}

/// /proc/net/ipv6_route: all tables.
pub(super) fn routes_v6(text: &str) -> Vec<Route> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let flags = hex(8)?;
        let network = Ipv6Addr::from(u128::from_str_radix(words.first()?, 16).ok()?);
        let kind = if flags & LOCAL != 0 {
            RouteKind::Local
        } else if flags & GATEWAY == 0 {
            RouteKind::Link
        } else if flags & ADVERTISED != 0 {
            RouteKind::Advertised
        } else {
            RouteKind::Gateway
        };
        (flags & (REJECT | ANYCAST) == 0).then_some(Route {
            network: network.into(),
            prefix: u8::try_from(hex(1)?).ok()?,
            interface: (*words.get(9)?).to_owned(),
            metric: hex(5)?,
            kind,
        })
    };
    text.lines().filter_map(route).collect()
}

/// /proc/net/fib_trie: what `ip route show table local` has, blocks given to `lo` included.
pub(super) fn local_v4(text: &str) -> Vec<Route> {
    let (mut found, mut network) = (Vec::new(), None);
    for line in text.lines().map(str::trim_start) {
        if let Some(address) = line.strip_prefix("|-- ") {
            network = address.trim().parse::<Ipv4Addr>().ok();
        } else if let (Some(network), Some((prefix, "host LOCAL"))) =
            (network, line.strip_prefix('/').and_then(|rest| rest.split_once(' ')))
            && let Ok(prefix) = prefix.parse()
        {
            let (network, interface) = (network.into(), String::new());
            found.push(Route { network, prefix, interface, metric: 0, kind: RouteKind::Local });
        }
    }
    found
}

/// Names of modules in `modules.dep` and `modules.builtin`: paths of files, `kernel/net/x/ip-vs.ko.xz: …`.
pub(super) fn module_names(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| {
        let path = line.split(':').next()?;
        let (name, _) = path.rsplit('/').next()?.split_once(".ko")?;
        Some(name.replace('-', "_"))
    })
}

/// Addresses and ports behind `virtual_server` of a keepalived.conf.
pub(super) fn keepalived_claims(text: &str) -> Option<BTreeSet<SocketAddr>> {
    let (mut found, mut any) = (BTreeSet::new(), false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["virtual_server", address, port, ..] => {
                any = true;
                let port = port.trim_end_matches('{').parse();
                found.extend(address.parse().ok().zip(port.ok()).map(|(a, p)| SocketAddr::new(a, p)));
            }
            // Their virtual servers are in files that are not looked at.
            ["include" | "virtual_server_group" | "virtual_server", ..] => any = true,
            _ => {}
        }
    }
    any.then_some(found)
}

/// Addresses and ports behind `virtual =` of an ldirectord.cf.
pub(super) fn ldirectord_claims(text: &str) -> BTreeSet<SocketAddr> {
    let service = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "virtual").then(|| value.trim().parse().ok()).flatten()
    };
    text.lines().filter_map(service).collect()
}
