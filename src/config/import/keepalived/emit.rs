//! A virtual server of keepalived as one of lvsd: defaults written out, rules of lvsd kept, and all that does
//! not fit said.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::checks::{self, Around};
use super::globals::{Globals, fits_in_line};
use super::group::Groups;
use super::mail::Told;
use super::model::{Head, Kind, Method, Protocol, RealServer, VirtualServer};
use super::reading::Reading;
use super::scheduling::{forwarding, persistence, scheduling};
use super::scripts::{Command, other_user};
use super::services::{Services, Taken, reaches, services};
use super::tracking::Certificates;
use crate::config::import::document::{self, Table, Value};
use crate::config::import::notes::At;
use crate::engine::model::Family;

/// keepalived's own defaults.
pub(super) const DELAY_LOOP: Duration = Duration::from_secs(60);

/// What all virtual servers have in common.
pub(super) struct Emitting<'e> {
    pub(super) globals: &'e Globals,
    pub(super) groups: &'e Groups,
    pub(super) certificates: &'e Certificates,
    pub(super) taken: Taken,
    pub(super) names: BTreeSet<String>,
    pub(super) told: Told,
    /// Of all scripts of notifications.
    pub(super) script_user: Option<&'e str>,
    /// A tunnel leads from one family to the other somewhere, which excludes the sync daemon.
    pub(super) mixes_families: bool,
}

/// `None`: it is left out, which is said.
pub(super) fn virtual_server(
    reading: &mut Reading<'_>,
    all: &mut Emitting<'_>,
    vs: &VirtualServer,
) -> Option<document::VirtualServer> {
    if vs.servers.is_empty() {
        let why = "it has no real server; keepalived ignores it";
        reading.notes.not_carried(vs.at, "virtual_server", why);
        return None;
    }
    let services = services(reading, all.groups, &mut all.taken, vs)?;
    let mut lost = vs.lost.clone();
    let servers = usable_servers(reading, &services, vs, &mut lost);
    if servers.is_empty() {
        reading.notes.not_carried(vs.at, "virtual_server", "none of its real servers is left");
        return None;
    }
    let method = vs.method.unwrap_or_default();
    let crosses = |kind, ip: IpAddr| kind == Kind::Tun && !reaches(&services, Kind::Nat, ip);
    all.mixes_families |= servers.iter().any(|rs| crosses(rs.method.unwrap_or(method).kind, rs.ip));
    let mut keys = Table::default();
    head(reading, all, vs, &services, &mut keys);
    scheduling(reading, vs, &services, &mut keys);
    forwarding(&mut keys, Some(method), Method::default());
    persistence(reading, vs, &services, &mut keys, &mut lost);
    quorum(reading, vs, &servers, &mut keys);
    if vs.omega {
        keys.set("omega", true);
    }
    if vs.inhibit {
        keys.set("inhibit_on_failure", true);
    }
    if let Some(host) = &vs.virtualhost {
        checks::host(reading, &mut lost, vs.at, host, &mut keys);
    }
    all.mixes_families |= sorry_server(reading, vs, &services, &servers, &mut keys, &mut lost);
    let scripts = [("quorum_up", &vs.quorum_up), ("quorum_down", &vs.quorum_down)];
    notify_scripts(reading, all, scripts, &mut keys, &mut lost);
    if let Some(at) = vs.ha_suspend {
        gate(reading, vs, at, &services, &mut keys);
    }
    all.told.of_virtual_server(reading, &mut lost, vs.smtp_alert);
    lost.into_iter().for_each(|line| keys.comment(line));
    let real_servers =
        servers.iter().map(|rs| real_server(reading, all, vs, &services, method, rs)).collect();
    Some(document::VirtualServer {
        above: vec![format!("{}:{}", reading.notes.file(vs.at), vs.at.line)],
        keys,
        common: timing(vs),
        real_servers,
    })
}

fn head(
    reading: &mut Reading<'_>,
    all: &mut Emitting<'_>,
    vs: &VirtualServer,
    services: &Services,
    keys: &mut Table,
) {
    if let Head::Group(group) = &vs.head
        // What looks like an address could be another one's name.
        && fits_in_line(group)
        && !group.contains([':', ' ', '.'])
    {
        let number = (2..).map(|n| format!("{group}-{n}"));
        let name = std::iter::once(group.clone()).chain(number).find(|name| !all.names.contains(name));
        if let Some(name) = name {
            keys.set("name", name.clone());
            all.names.insert(name);
        }
    }
    let one_or_list = |mut all: Vec<Value>| if all.len() == 1 { all.remove(0) } else { Value::List(all) };
    if !services.addresses.is_empty() {
        keys.set("address", one_or_list(services.addresses.iter().map(|a| a.as_str().into()).collect()));
    }
    if let Some(family) = services.mark_family {
        keys.set("fwmark", one_or_list(services.marks.iter().map(|mark| (*mark).into()).collect()));
        keys.set("family", family_name(family));
    }
    if services.addresses.is_empty() {
        return;
    }
    if vs.protocol.is_none() {
        reading.notes.remark(vs.at, "virtual_server", "it names no protocol, which is UDP in keepalived");
        keys.comment("no protocol is named, which is UDP in keepalived");
    }
    let protocol = match vs.protocol {
        Some(Protocol::Tcp) => "tcp",
        Some(Protocol::Sctp) => "sctp",
        Some(Protocol::Udp) | None => "udp",
    };
    keys.set("protocol", protocol);
}

fn notify_scripts(
    reading: &mut Reading<'_>,
    all: &Emitting<'_>,
    scripts: [(&'static str, &Option<Command>); 2],
    keys: &mut Table,
    lost: &mut Vec<String>,
) {
    for (key, command) in scripts {
        let Some(command) = command else { continue };
        other_user(reading, lost, all.script_user, command);
        keys.set(key, command.argv.clone());
    }
}

/// keepalived has it for plain addresses; with a group of addresses it suspends the checks for ever, which nobody can have meant.
fn gate(reading: &mut Reading<'_>, vs: &VirtualServer, at: At, services: &Services, keys: &mut Table) {
    if !services.marks.is_empty() {
        reading.notes.remark(at, "ha_suspend", "keepalived ignores it with firewall marks");
        return;
    }
    if matches!(vs.head, Head::Group(_)) {
        let why = "keepalived never checks a group that has it; lvsd serves each address while it is present";
        reading.notes.remark(at, "ha_suspend", why);
    }
    let mut condition = Table::default();
    condition.set("address_present", true);
    keys.set("active_when", condition);
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

/// As keepalived corrects it: no more than the weights, and a hysteresis below it.
fn quorum(reading: &mut Reading<'_>, vs: &VirtualServer, servers: &[&RealServer], keys: &mut Table) {
    let weights: u64 = servers.iter().map(|rs| u64::from(rs.weight.unwrap_or(vs.weight))).sum();
    let most = u32::try_from(weights).unwrap_or(u32::MAX);
    let quorum = vs.quorum.min(most).max(1);
    if quorum < vs.quorum {
        let why =
            format!("a quorum of {} is more than all weights; keepalived lowers it to {quorum}", vs.quorum);
        reading.notes.remark(vs.at, "quorum", why.clone());
        keys.comment(why);
    }
    if vs.quorum != 1 || quorum != vs.quorum {
        keys.set("quorum", quorum);
    }
    let hysteresis = vs.hysteresis.min(quorum - 1);
    if hysteresis < vs.hysteresis {
        let why = format!(
            "a hysteresis of {} is not below the quorum; keepalived lowers it to {hysteresis}",
            vs.hysteresis
        );
        reading.notes.remark(vs.at, "hysteresis", why.clone());
        keys.comment(why);
    }
    if hysteresis > 0 {
        keys.set("hysteresis", hysteresis);
    }
}

/// `true`: it is a tunnel to the other family.
fn sorry_server(
    reading: &mut Reading<'_>,
    vs: &VirtualServer,
    services: &Services,
    servers: &[&RealServer],
    keys: &mut Table,
    lost: &mut Vec<String>,
) -> bool {
    let Some(sorry) = &vs.sorry else { return false };
    let outer = vs.method.unwrap_or_default();
    let method = sorry.method.unwrap_or(outer);
    if !reaches(services, method.kind, sorry.ip) {
        let why = format!("{} is not of the virtual server's family; keepalived skips it", sorry.ip);
        reading.lose(lost, sorry.at, "sorry_server", why);
        return false;
    }
    // Direct routing and tunnels keep the service's port, whatever is written.
    let port = sorry.port.filter(|_| method.kind == Kind::Nat);
    let address = checks::server_address(sorry.ip, port);
    let same = servers.iter().find(|rs| rs.ip == sorry.ip && rs.port == sorry.port);
    let inhibit = same.map_or(sorry.inhibit, |rs| rs.inhibit.unwrap_or(vs.inhibit));
    let mut table = Table::default();
    table.set("address", address.clone());
    forwarding(&mut table, Some(method), if method.kind == outer.kind { outer } else { Method::default() });
    if method == outer {
        // Inherited whole.
        table = Table::default();
        table.set("address", address.clone());
    }
    if inhibit {
        table.set("inhibit", true);
    }
    let alone = table.pairs().count() == 1;
    keys.set("sorry_server", if alone { Value::Text(address) } else { Value::Table(table) });
    method.kind == Kind::Tun && !reaches(services, Kind::Nat, sorry.ip)
}

/// Servers that lvsd takes: reachable, and no two the same to the kernel.
fn usable_servers<'v>(
    reading: &mut Reading<'_>,
    services: &Services,
    vs: &'v VirtualServer,
    lost: &mut Vec<String>,
) -> Vec<&'v RealServer> {
    let mut servers = Vec::with_capacity(vs.servers.len());
    let mut ids = BTreeSet::new();
    let mut same = SameDestination::default();
    for rs in &vs.servers {
        let kind = rs.method.or(vs.method).unwrap_or_default().kind;
        let shown = checks::server_address(rs.ip, rs.port);
        if !ids.insert((rs.ip, rs.port)) {
            reading.notes.remark(
                rs.at,
                "real_server",
                format!("{shown} is there twice; keepalived keeps the first"),
            );
        } else if !reaches(services, kind, rs.ip) {
            let why = format!("{shown} is not of the family of all services");
            reading.lose(lost, rs.at, "real_server", why);
        } else if !same.admits(services, kind, rs) {
            let why = format!("{shown} is the same destination to the kernel as one above");
            reading.lose(lost, rs.at, "real_server", why);
        } else {
            servers.push(rs);
        }
    }
    servers
}

/// Servers with the service's own port, whether it is written or not.
#[derive(Default)]
struct SameDestination {
    /// Whether all of them are tunnels or directly routed, which lvsd warns of, or keepalived ignores.
    at_service_port: BTreeMap<IpAddr, Kind>,
    at_same_port: BTreeSet<IpAddr>,
}

impl SameDestination {
    fn admits(&mut self, services: &Services, kind: Kind, rs: &RealServer) -> bool {
        match (kind, rs.port) {
            (Kind::Nat, Some(port)) if services.ports.contains(&port) => {
                let free = !self.at_service_port.contains_key(&rs.ip);
                if free {
                    self.at_same_port.insert(rs.ip);
                }
                free
            }
            (Kind::Nat, Some(_)) => true,
            (Kind::Nat, None) | (Kind::Dr | Kind::Tun, _) => {
                let free = !self.at_service_port.contains_key(&rs.ip) && !self.at_same_port.contains(&rs.ip);
                if free {
                    self.at_service_port.insert(rs.ip, kind);
                }
                free
            }
        }
    }
}

/// keepalived's default of the delay_loop is ten times lvsd's, and its warmup is as long.
fn timing(vs: &VirtualServer) -> Table {
    let mut common = Table::default();
    if vs.timing.delay_loop.is_none() {
        common.comment("keepalived's default");
    }
    let delay_loop = vs.timing.delay_loop.unwrap_or(DELAY_LOOP);
    common.set("delay_loop", delay_loop);
    common.set("warmup", vs.timing.warmup.unwrap_or(delay_loop));
    common.set_if("timeout", vs.timing.connect_timeout);
    common.set_if("retry", vs.timing.retry);
    common.set_if("delay_before_retry", vs.timing.delay_before_retry);
    common.set_if("alpha", vs.timing.alpha);
    common
}

fn real_server(
    reading: &mut Reading<'_>,
    all: &Emitting<'_>,
    vs: &VirtualServer,
    services: &Services,
    outer: Method,
    rs: &RealServer,
) -> document::RealServer {
    let mut keys = Table::default();
    let mut lost = rs.lost.clone();
    let method = rs.method.unwrap_or(outer);
    keys.set("address", checks::server_address(rs.ip, rs.port));
    let weight = rs.weight.unwrap_or(vs.weight);
    keys.set("weight", weight);
    if method != outer {
        // What is the same as further out is inherited, but for a tunnel of another kind.
        forwarding(
            &mut keys,
            Some(method),
            if method.kind == outer.kind { outer } else { Method::default() },
        );
    }
    thresholds(reading, rs, &mut keys, &mut lost);
    keys.set_if("inhibit_on_failure", rs.inhibit.filter(|inhibit| *inhibit != vs.inhibit));
    if let Some(host) = &rs.virtualhost {
        checks::host(reading, &mut lost, rs.at, host, &mut keys);
    }
    let scripts = [("notify_up", &rs.notify_up), ("notify_down", &rs.notify_down)];
    notify_scripts(reading, all, scripts, &mut keys, &mut lost);
    all.told.of_server(reading, &mut lost, rs.smtp_alert);
    let mut common = Table::default();
    common.set_if("delay_loop", rs.timing.delay_loop);
    let warmup = rs.timing.warmup.or(rs.timing.delay_loop.filter(|_| vs.timing.warmup.is_none()));
    common.set_if("warmup", warmup);
    common.set_if("timeout", rs.timing.connect_timeout);
    common.set_if("retry", rs.timing.retry);
    common.set_if("delay_before_retry", rs.timing.delay_before_retry);
    common.set_if("alpha", rs.timing.alpha);
    let around = Around { globals: all.globals, certificates: all.certificates, services, vs, rs };
    let checks = checks::all(reading, &around, &mut lost);
    lost.into_iter().for_each(|line| keys.comment(line));
    document::RealServer { above: Vec::new(), keys, common, checks }
}

fn thresholds(reading: &mut Reading<'_>, rs: &RealServer, keys: &mut Table, lost: &mut Vec<String>) {
    if rs.upper > 0 {
        keys.set("upper_threshold", rs.upper);
    }
    if rs.lower > 0 && rs.lower <= rs.upper {
        keys.set("lower_threshold", rs.lower);
    } else if rs.lower > 0 {
        let why = "the kernel refuses one that is above the uthreshold, and does not look at one without";
        reading.lose(lost, rs.at, "lthreshold", why);
    }
}
