//! Virtual addresses: whether packets to them reach IPVS, who answers for them, and what else uses them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::forwarding::source_of;
use super::{Case, Finding, Level, is_direct, servers, some};
use crate::engine::model::VirtualServer;
use crate::engine::table::ServiceId;

pub(super) fn examine(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut all_here = true;
    for pool in case.pools() {
        found.extend(announced_where(case, pool));
        let missing = missing(case, pool);
        all_here &= missing.is_empty();
        found.extend(not_here(case, pool, &missing));
        found.extend(nobody_answers(case, pool));
        found.extend(checks_from_it(case, pool));
    }
    if all_here && case.pools().any(|pool| addresses(pool).next().is_some()) {
        let finding = Finding::new(
            Level::Ok,
            "virtual_address",
            "every virtual address is this host's",
            "ip route show table local",
        );
        found.push(finding);
    }
    found
}

fn addresses(pool: &VirtualServer) -> impl Iterator<Item = IpAddr> + '_ {
    pool.services.iter().filter_map(|service| match service {
        ServiceId::Address { address, .. } => Some(*address),
        ServiceId::Mark { .. } => None,
    })
}

/// The interface is the operator's to make.
fn announced_where(case: &Case<'_>, pool: &VirtualServer) -> Option<Finding> {
    let interface = &pool.announce.as_ref()?.interface;
    if case.facts.interfaces.is_empty() || case.facts.interfaces.contains(interface.as_ref()) {
        return None;
    }
    let found = format!("there is no interface {interface} to announce addresses on");
    let why = "the virtual address stands nowhere, and no client is served";
    let finding = Finding::new(Level::Fault, "announce", found, "ip link show").because(why);
    let finding = finding.concerns(vec![pool.name.clone()]);
    Some(finding.run(format!("ip link add {interface} type dummy && ip link set {interface} up")))
}

/// What lvsd puts there itself is not missed.
fn missing(case: &Case<'_>, pool: &VirtualServer) -> BTreeSet<IpAddr> {
    if pool.announce.is_some() {
        return BTreeSet::new();
    }
    addresses(pool).filter(|address| !case.facts.is_local(*address)).collect()
}

/// IPVS looks at packets to this host; others are routed past it.
fn not_here(case: &Case<'_>, pool: &VirtualServer, missing: &BTreeSet<IpAddr>) -> Option<Finding> {
    let first = missing.first()?;
    let movers = case.facts.address_movers.join(", ");
    let (level, reason) = if !movers.is_empty() {
        (Level::Advice, format!("right while the other director has it: {movers} runs here"))
    } else if pool.active_when.is_some() {
        (Level::Advice, "right while the condition of active_when does not hold".to_owned())
    } else if case.config.daemon.sync.is_some() {
        (Level::Advice, "right while the other director of [daemon.sync] has it".to_owned())
    } else {
        (Level::Fault, "IPVS sees only packets to addresses of this host, so no client is served".to_owned())
    };
    let list: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let verb = if list.len() == 1 { "is" } else { "are" };
    let finding = Finding::new(
        level,
        "virtual_address",
        format!("{} {verb} not on this host", some(&list)),
        "ip route show table local",
    );
    let device = case.facts.link_of(*first).unwrap_or("lo");
    let bits = if first.is_ipv4() { 32 } else { 128 };
    let finding = finding.because(reason).concerns(vec![pool.name.clone()]);
    // One that moves is its mover's to add.
    Some(match level {
        Level::Fault => finding.run(format!("ip address add {first}/{bits} dev {device}")),
        Level::Advice | Level::Ok => finding,
    })
}

/// An address on `lo`, in the network of a device that must not answer for addresses of others.
fn nobody_answers(case: &Case<'_>, pool: &VirtualServer) -> Option<Finding> {
    let silent = |address: IpAddr| {
        let holders = case.facts.addresses.iter().filter(|a| a.address == address);
        let holders: Vec<&str> = holders.map(|a| a.interface.as_str()).collect();
        let link = case.facts.link_of(address).filter(|link| *link != "lo" && address.is_ipv4())?;
        let elsewhere = !holders.is_empty() && !holders.contains(&link);
        // 1: only for addresses of the device itself; 2: from the same network, too; 8: for none at all.
        let ignore = case.facts.larger(link, "arp_ignore").filter(|value| matches!(value, 1 | 2 | 8))?;
        elsewhere.then(|| (address, holders.join(", "), link.to_owned(), ignore))
    };
    let (address, holder, link, ignore) = addresses(pool).find_map(silent)?;
    let path = format!("net/ipv4/conf/{link}/arp_ignore");
    let finding = Finding::new(
        Level::Fault,
        "arp_ignore",
        format!("{address} is on {holder}, and {link} answers no ARP for it (arp_ignore = {ignore})"),
        format!("/proc/sys/{path}"),
    );
    let why = format!(
        "hosts in the network of {link} ask there for {address} and hear nothing. That is right on a real server of \
         direct routing; a director must answer. The larger of this and net.ipv4.conf.all.arp_ignore counts"
    );
    let finding = finding.because(why).concerns(vec![pool.name.clone()]);
    let both = ["net/ipv4/conf/all/arp_ignore", path.as_str()];
    let on = both.into_iter().filter(|path| case.facts.number(path).is_some_and(|value| value != 0));
    Some(on.fold(finding, |finding, path| finding.set(path, "0")))
}

/// Real servers of direct routing and tunnels have the virtual address themselves: what comes from it is,
/// to them, from themselves, and is dropped.
fn checks_from_it(case: &Case<'_>, pool: &VirtualServer) -> Option<Finding> {
    let virtual_addresses: BTreeSet<IpAddr> = addresses(pool).collect();
    let direct = servers(pool).filter(|server| is_direct(server.forwarding));
    let mut sources = direct.flat_map(|server| &server.checks).filter_map(|check| {
        let target = &check.probe.target;
        let talks = check.probe.kind.needs_port() || check.probe.kind.name() == "ping";
        let source = target.source().ip.or_else(|| source_of(case, target.address)).filter(|_| talks)?;
        virtual_addresses.contains(&source).then_some((source, target.address))
    });
    let (source, target) = sources.next()?;
    let finding = Finding::new(
        Level::Fault,
        "check_source",
        format!("checks of {target} come from {source}, the virtual address"),
        format!("ip route get {target}"),
    );
    let why = "the real server has that address too (direct routing and tunnels need it), takes such packets for forged \
               and answers none: every check fails. Write bind_ip = \"…\" with another address of this host, or make \
               the virtual address a /32 that is added after the device's own";
    Some(finding.because(why).concerns(vec![pool.name.clone()]))
}
