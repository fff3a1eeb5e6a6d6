//! What routing must do for packets of clients and replies of servers.

use std::collections::BTreeMap;

use super::super::facts::{RouteKind, covers};
use super::{Case, Finding, Level, is_direct, servers};
use crate::engine::model::{Family, Forwarding, VirtualServer};
use crate::engine::table::ServiceId;

const FORWARD_V4: &str = "net/ipv4/ip_forward";
const FORWARD_V6: &str = "net/ipv6/conf/all/forwarding";

pub(super) fn examine(case: &Case<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = [ip_forward(case, Family::Ipv4), ip_forward(case, Family::Ipv6)].concat();
    found.extend(accept_ra(case));
    found.extend(send_redirects(case));
    found.extend(rp_filter(case));
    found
}

/// Addresses of other hosts behind NAT, with the device that leads there.
fn translated<'a>(case: &'a Case<'_>, pool: &VirtualServer, family: Family) -> Vec<Option<&'a str>> {
    let sorry = pool.sorry_server.as_ref().map(|sorry| (sorry.address, sorry.forwarding));
    servers(pool)
        .map(|server| (server.id.address, server.forwarding))
        .chain(sorry)
        .filter(|(_, forwarding)| *forwarding == Forwarding::Nat)
        .filter(|(address, _)| Family::of(*address) == family && !case.facts.is_local(*address))
        .map(|(address, _)| case.facts.route_to(address).map(|route| route.interface.as_str()))
        .collect()
}

/// Replies of servers behind NAT come back to the director as packets to forward.
fn ip_forward(case: &Case<'_>, family: Family) -> Vec<Finding> {
    let (rule, path) = match family {
        Family::Ipv4 => ("ip_forward", FORWARD_V4),
        Family::Ipv6 => ("ipv6_forwarding", FORWARD_V6),
    };
    let names = case.names(|pool| !translated(case, pool, family).is_empty());
    let Some(value) = case.facts.number(path).filter(|_| !names.is_empty()) else { return Vec::new() };
    if value == 0 {
        let why = "replies of real servers behind NAT reach this host as packets to forward: it drops them, and no \
                   client gets an answer, while every check is good";
        let finding = case.setting(Level::Fault, rule, path);
        return finding.map(|f| f.because(why).concerns(names).set(path, "1")).into_iter().collect();
    }
    // The device where the reply comes in decides; for IPv6 only the host as a whole does.
    let mut closed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pool in case.pools().filter(|_| family == Family::Ipv4) {
        for interface in translated(case, pool, family).into_iter().flatten() {
            if case.facts.number(&format!("net/ipv4/conf/{interface}/forwarding")) == Some(0) {
                let names = closed.entry(interface).or_default();
                if names.last() != Some(&pool.name) {
                    names.push(pool.name.clone());
                }
            }
        }
    }
    if closed.is_empty() {
        return case.setting(Level::Ok, rule, path).into_iter().collect();
    }
    let of_interface = |(interface, names): (&str, Vec<String>)| {
        let path = format!("net/ipv4/conf/{interface}/forwarding");
        let why = "real servers behind NAT are reached by this device, and their replies come back by it: it does not \
                   forward, though the host as a whole does";
        let finding = case.setting(Level::Fault, rule, &path)?;
        Some(finding.because(why).concerns(names).set(&path, "1"))
    };
    closed.into_iter().filter_map(of_interface).collect()
}

/// A router takes no advertisements of other routers, unless told to.
fn accept_ra(case: &Case<'_>) -> Option<Finding> {
    let names = case.names(|pool| !translated(case, pool, Family::Ipv6).is_empty());
    let route = case.facts.routes.iter().find(|r| r.prefix == 0 && r.kind == RouteKind::Advertised)?;
    let path = format!("net/ipv6/conf/{}/accept_ra", route.interface);
    if names.is_empty() || case.facts.number(&path)? == 2 {
        return None;
    }
    let why = "the default route comes from a router's advertisements, which a host that forwards does not listen to \
               unless this is 2: it vanishes when its lifetime ends";
    let finding = case.setting(Level::Fault, "accept_ra", &path)?;
    Some(finding.because(why).concerns(names).set(&path, "2"))
}

/// With clients and servers on one net, replies are forwarded out of the device by which they came.
fn send_redirects(case: &Case<'_>) -> Vec<Finding> {
    let mut shared: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pool in case.pools() {
        let inside = translated(case, pool, Family::Ipv4);
        let outside = addresses(pool).filter_map(|address| case.facts.link_of(address));
        for interface in outside.filter(|interface| inside.contains(&Some(interface))) {
            let names = shared.entry(interface).or_default();
            if names.last() != Some(&pool.name) {
                names.push(pool.name.clone());
            }
        }
    }
    let of_interface = |(interface, names): (&str, Vec<String>)| {
        let own = format!("net/ipv4/conf/{interface}/send_redirects");
        // It is on if either is.
        let on: Vec<&str> = ["net/ipv4/conf/all/send_redirects", own.as_str()]
            .into_iter()
            .filter(|path| case.facts.number(path).is_some_and(|value| value != 0))
            .collect();
        let Some(first) = on.first() else { return case.setting(Level::Ok, "send_redirects", &own) };
        let why = format!(
            "virtual address and real servers share the network of {interface}: this host tells the servers that \
             clients there can be reached directly, and replies that take that way are not translated"
        );
        let finding = case.setting(Level::Advice, "send_redirects", first)?.because(why).concerns(names);
        Some(on.iter().fold(finding, |finding, path| finding.set(path, "0")))
    };
    shared.into_iter().filter_map(of_interface).collect()
}

/// Strict filtering drops packets of clients whose way back is another device.
fn rp_filter(case: &Case<'_>) -> Vec<Finding> {
    let default = case.facts.routes.iter().filter(|r| r.prefix == 0 && r.network.is_ipv4());
    let Some(default) = default.min_by_key(|r| r.metric).map(|r| r.interface.as_str()) else {
        return Vec::new();
    };
    let mut strict: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pool in case.pools() {
        for interface in addresses(pool).filter_map(|address| case.facts.link_of(address)) {
            let asymmetric = interface != default && interface != "lo";
            if asymmetric && case.facts.larger(interface, "rp_filter") == Some(1) {
                let names = strict.entry(interface).or_default();
                if names.last() != Some(&pool.name) {
                    names.push(pool.name.clone());
                }
            }
        }
    }
    let of_interface = |(interface, names): (&str, Vec<String>)| {
        let own = format!("net/ipv4/conf/{interface}/rp_filter");
        let direct = case
            .pools()
            .any(|pool| names.contains(&pool.name) && servers(pool).any(|s| is_direct(s.forwarding)));
        let way =
            if direct { "though the servers answer past this host" } else { "which is where replies leave" };
        let why = format!(
            "the virtual address is on the network of {interface}, the default route on {default}, {way}: packets of \
             clients beyond a router that come in by {interface} are dropped. 2 takes what has any way back; the \
             larger of this and net.ipv4.conf.all.rp_filter counts"
        );
        let finding = Finding::new(
            Level::Advice,
            "rp_filter",
            format!("strict rp_filter on {interface}"),
            format!("/proc/sys/{own}"),
        );
        finding.because(why).concerns(names).set(&own, "2")
    };
    strict.into_iter().map(of_interface).collect()
}

/// IPv4 virtual addresses of a pool.
fn addresses(pool: &VirtualServer) -> impl Iterator<Item = std::net::IpAddr> + '_ {
    pool.services.iter().filter_map(|service| match service {
        ServiceId::Address { address, .. } if address.is_ipv4() => Some(*address),
        ServiceId::Address { .. } | ServiceId::Mark { .. } => None,
    })
}

/// Would a check of this target leave from this address? The first one of a device's network does.
pub(super) fn source_of(case: &Case<'_>, target: std::net::IpAddr) -> Option<std::net::IpAddr> {
    let interface = case.facts.link_of(target)?;
    let on_link = case.facts.addresses.iter().filter(|a| a.interface == interface);
    on_link.filter(|a| covers(a.address, a.prefix, target)).map(|a| a.address).next()
}
