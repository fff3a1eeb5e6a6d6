//! What the daemon may do on this host, what else writes the table, and how much it can hold.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::super::Lasting;
use super::super::facts::{CAP_NET_ADMIN, CAP_NET_RAW, Holder};
use super::{Case, Finding, Level, servers, some};
use crate::engine::model::{Check, CheckKind, VirtualServer};
use crate::engine::table::ServiceId;

pub(super) fn examine(case: &Case<'_>) -> Vec<Finding> {
    let mut found = vec![net_admin(case)];
    found.extend(ping(case));
    found.extend(descriptors(case));
    found.extend(others(case));
    found.extend(unowned(case));
    found.extend(ipvsadm_service(case));
    found.extend(sync_interface(case));
    found.extend(own_canaries(case));
    found.extend(connection_table(case));
    found.extend(conntrack_size(case));
    found.extend(masquerading(case));
    found
}

/// Where the privileges in question can be seen.
pub(super) fn holder(case: &Case<'_>) -> (&'static str, String) {
    match case.facts.privileges.holder {
        Holder::Daemon(pid) => ("the daemon", format!("/proc/{pid}/status")),
        Holder::Unit => ("the service", "systemctl cat lvsd".to_owned()),
        Holder::Caller => ("this user", "/proc/self/status".to_owned()),
    }
}

fn net_admin(case: &Case<'_>) -> Finding {
    let (who, source) = holder(case);
    if case.facts.privileges.has(CAP_NET_ADMIN) {
        return Finding::new(Level::Ok, "cap_net_admin", format!("{who} has CAP_NET_ADMIN"), source);
    }
    let why = "the kernel lets nobody else write the IPVS table. The packaged unit gives it; in a container: \
               --cap-add NET_ADMIN";
    let found = format!("{who} does not have CAP_NET_ADMIN");
    // A user who only asks need not have what the daemon needs.
    let level = if case.facts.privileges.holder == Holder::Caller { Level::Advice } else { Level::Fault };
    Finding::new(level, "cap_net_admin", found, source).because(why)
}

fn pings(check: &Check) -> bool {
    match check.probe.kind.as_ref() {
        CheckKind::Ping(_) => true,
        // With no reply wanted it pings first.
        CheckKind::Udp(udp) => {
            !udp.require_reply && udp.reply.is_none() && udp.min_reply.is_none() && udp.max_reply.is_none()
        }
        CheckKind::Tcp(_)
        | CheckKind::Http(_)
        | CheckKind::Dns(_)
        | CheckKind::Smtp(_)
        | CheckKind::Script(_)
        | CheckKind::File(_)
        | CheckKind::Grpc(_) => false,
    }
}

fn ping(case: &Case<'_>) -> Option<Finding> {
    const PATH: &str = "net/ipv4/ping_group_range";
    let checked = |pool: &VirtualServer| servers(pool).flat_map(|s| &s.checks).any(|check| pings(check));
    let names = case.names(checked);
    if names.is_empty() {
        return None;
    }
    let (who, source) = holder(case);
    let privileges = &case.facts.privileges;
    if privileges.has(CAP_NET_RAW) {
        return Some(Finding::new(Level::Ok, "ping", format!("{who} has CAP_NET_RAW"), source));
    }
    let range = case.facts.sysctls.get(PATH)?;
    let mut numbers = range.split_whitespace().filter_map(|n| n.parse::<u32>().ok());
    let (low, high) = (numbers.next()?, numbers.next()?);
    if privileges.groups.iter().any(|group| (low..=high).contains(group)) {
        return case.setting(Level::Ok, "ping", PATH);
    }
    let why = format!(
        "{who} has neither CAP_NET_RAW nor a group in this range: ping checks cannot run, and udp checks that want no \
         reply cannot see that a host is gone. The range below adds the group and keeps what is in it"
    );
    let finding = case.setting(Level::Fault, "ping", PATH)?.because(why).concerns(names);
    let Some(group) = privileges.groups.first() else { return Some(finding) };
    // 1 0 is the kernel's way to say "nobody".
    let (low, high) = if low > high { (*group, *group) } else { (low.min(*group), high.max(*group)) };
    let value = format!("{low} {high}");
    let mut finding = finding.run(format!("sysctl -w net.ipv4.ping_group_range=\"{value}\""));
    let line = format!("net.ipv4.ping_group_range = {value}");
    finding.remedy.lasting.push(Lasting { file: super::super::SYSCTL_FILE, line });
    Some(finding)
}

/// One for each check that runs at the moment, and some for everything else.
fn descriptors(case: &Case<'_>) -> Option<Finding> {
    const OTHERS: u64 = 64;
    let checks = case.pools().flat_map(servers).map(|server| server.checks.len() as u64).sum::<u64>();
    let (limit, needed) = (case.facts.privileges.descriptors?, checks + OTHERS);
    let (who, source) = holder(case);
    let source = source.replace("/status", "/limits");
    if limit >= needed {
        let found = format!("{who} may open {limit} files, {needed} are enough for all checks at once");
        return Some(Finding::new(Level::Ok, "descriptors", found, source));
    }
    let found = format!("{who} may open {limit} files, and all checks at once take {needed}");
    let why = "each check that runs has one open: when most servers hang at once, the rest cannot be checked \
               (their verdicts stay, on_local_error decides)";
    let finding = Finding::new(Level::Advice, "descriptors", found, source).because(why);
    let lines = ["[Service]".to_owned(), format!("LimitNOFILE={}", needed.next_power_of_two())];
    let file = "/etc/systemd/system/lvsd.service.d/limits.conf";
    let mut finding = finding.run("systemctl daemon-reload && systemctl restart lvsd");
    finding.remedy.lasting.extend(lines.map(|line| Lasting { file, line }));
    Some(finding)
}

/// Two programs that write one table are right only if they write different services.
fn others(case: &Case<'_>) -> Vec<Finding> {
    let claimed = |pool: &VirtualServer, claims: &BTreeSet<SocketAddr>| {
        pool.services.iter().any(|service| match service {
            ServiceId::Address { address, port, .. } => claims.contains(&SocketAddr::new(*address, *port)),
            ServiceId::Mark { .. } => false,
        })
    };
    let of = |other: &super::super::Other| {
        let names = case.names(|pool| claimed(pool, &other.claims));
        let found = format!("{} runs and writes the IPVS table, too", other.name);
        let source = format!("/proc/{}/cmdline", other.pid);
        if names.is_empty() {
            let why = "services of others are left alone: right if none of its services is one of lvsd's";
            return Finding::new(Level::Advice, "other_daemon", found, source).because(why);
        }
        let why = "both would set the same services, each undoing what the other did: take them out of one of the two";
        Finding::new(Level::Fault, "other_daemon", found, source).because(why).concerns(names)
    };
    case.facts.others.iter().map(of).collect()
}

/// In the table, in the configuration, and on record as nobody's.
fn unowned(case: &Case<'_>) -> Option<Finding> {
    let table = case.facts.table.as_ref()?;
    let owned = case.facts.owned.clone().unwrap_or_default();
    let strange =
        |service: &&ServiceId| table.services.contains(*service) && !owned.contains(&service.to_string());
    let found: Vec<String> =
        case.pools().flat_map(|pool| &pool.services).filter(strange).map(ToString::to_string).collect();
    let names = case.names(|pool| pool.services.iter().any(|service| strange(&service)));
    let first = found.first()?;
    let why = "no lvsd has it on record as its own. The next start or reload takes it over, keeps its connections, and \
               removes it with the rest when it stops: see that nobody else counts on it";
    let is = if found.len() == 1 { "is" } else { "are" };
    let finding = Finding::new(
        Level::Advice,
        "taken_over",
        format!("{} {is} in the table already", some(&found)),
        "ipvsadm -Ln",
    );
    let hint = format!("lvsd plan   # says what would become of {first}");
    Some(finding.because(why).concerns(names).run(hint))
}

fn ipvsadm_service(case: &Case<'_>) -> Option<Finding> {
    let why = "Debian's ipvsadm.service loads a saved table at boot and empties the whole table when it is stopped: \
               lvsd repairs that, but clients notice";
    let finding = Finding::new(
        Level::Advice,
        "ipvsadm_service",
        "AUTO=true for ipvsadm.service",
        "/etc/default/ipvsadm",
    );
    let finding =
        finding.because(why).run("systemctl disable ipvsadm   # stopping it now would empty the table");
    case.facts.ipvsadm_restores.then_some(finding)
}

fn sync_interface(case: &Case<'_>) -> Option<Finding> {
    let interface = &case.config.daemon.sync.as_ref()?.interface;
    if case.facts.interfaces.is_empty() || case.facts.interfaces.contains(interface) {
        return None;
    }
    let found = format!("there is no network device {interface}");
    let why = "[daemon.sync] cannot start: no connection is known to the other director";
    Some(Finding::new(Level::Fault, "sync_interface", found, "ip link show").because(why))
}

/// They answer however sick the host's network is.
fn own_canaries(case: &Case<'_>) -> Option<Finding> {
    let canaries = &case.config.daemon.self_test.canary;
    let own = canaries.iter().filter(|canary| case.facts.is_local(canary.ip()));
    let own: Vec<String> = own.map(ToString::to_string).collect();
    if own.is_empty() {
        return None;
    }
    let is = if own.len() == 1 { "is an address" } else { "are addresses" };
    let all = if own.len() == canaries.len() { "nobody else is asked" } else { "the others are asked" };
    let why = format!("a canary of this host always answers, so lvsd leaves it out while it is one: {all}");
    let found = format!("the canary {} {is} of this host", some(&own));
    Some(Finding::new(Level::Advice, "own_canary", found, "ip address show").because(why))
}

/// Its size is fixed when the module is loaded, until kernels that have conn_lfactor.
fn connection_table(case: &Case<'_>) -> Option<Finding> {
    const MAX_BITS: u32 = 20;
    let table = case.facts.table.as_ref().filter(|table| table.size > 0)?;
    let found = format!("{} connections in a table of {} buckets", table.connections, table.size);
    let source = "/proc/net/ip_vs";
    let grows = case.facts.number("net/ipv4/vs/conn_lfactor").is_some();
    if grows || table.connections <= table.size {
        return Some(Finding::new(Level::Ok, "connection_table", found, source));
    }
    let bits = table.connections.next_power_of_two().trailing_zeros().min(MAX_BITS);
    let why = "more than one connection in each bucket: every packet walks a list. The size takes effect when ip_vs is \
               loaded, as at the next boot";
    let mut finding = Finding::new(Level::Advice, "connection_table", found, source).because(why);
    let line = format!("options ip_vs conn_tab_bits={bits}");
    finding.remedy.lasting.push(Lasting { file: "/etc/modprobe.d/lvsd.conf", line });
    Some(finding)
}

/// Full, netfilter drops new connections before IPVS sees them, whoever's they are.
fn conntrack_size(case: &Case<'_>) -> Option<Finding> {
    const MAX: &str = "net/netfilter/nf_conntrack_max";
    let (count, max) = (case.facts.number("net/netfilter/nf_conntrack_count")?, case.facts.number(MAX)?);
    let found = format!("nf_conntrack holds {count} of at most {max} connections");
    let source = "/proc/sys/net/netfilter/nf_conntrack_count";
    let level = match (count.saturating_mul(100), max) {
        // 0 is no limit.
        (_, 0) => Level::Ok,
        (filled, max) if filled >= max.saturating_mul(95) => Level::Fault,
        (filled, max) if filled >= max.saturating_mul(75) => Level::Advice,
        _ => Level::Ok,
    };
    let finding = Finding::new(level, "nf_conntrack", found, source);
    if level == Level::Ok {
        return Some(finding);
    }
    let why = "when it is full, packets of new connections are dropped before IPVS sees them (\"nf_conntrack: table \
               full\" in the kernel's log)";
    Some(finding.because(why).set(MAX, &max.saturating_mul(2).to_string()))
}

/// IPVS hides its packets from netfilter's tracking unless told otherwise.
fn masquerading(case: &Case<'_>) -> Option<Finding> {
    const PATH: &str = "net/ipv4/vs/conntrack";
    let modules = ["nft_masq", "xt_MASQUERADE", "ipt_MASQUERADE", "xt_nat"];
    let present = modules.into_iter().find(|name| case.facts.modules.loaded.contains(*name))?;
    if case.facts.number(PATH)? != 0 {
        return case.setting(Level::Ok, "conntrack", PATH);
    }
    let why = format!(
        "firewall rules that translate addresses are in use ({present} is loaded). They do not apply to packets of \
         virtual services, nor do rules on connection states, unless this is 1. Keep 0, which is faster, if no such \
         rule is about them"
    );
    let finding = case.setting(Level::Advice, "conntrack", PATH)?;
    Some(finding.because(why).set(PATH, "1"))
}
