//! Processes that matter to the rules: the daemon itself, and other programs that write the table.

use std::collections::BTreeSet;
use std::fs;

use super::facts::{Holder, Other, Privileges};
use super::reading::Host;
use super::unit::Unit;
use super::{access, parsing};

/// More than a machine has; a hostile /proc is not read for ever.
const MAX_PROCESSES: usize = 1 << 20;
const UNIT_FOLDERS: [&str; 4] =
    ["etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

pub(super) fn privileges(host: &Host<'_>) -> Privileges {
    if let Some(pid) = daemon(host) {
        return of_process(host, Holder::Daemon(pid), &pid.to_string());
    }
    let unit = UNIT_FOLDERS.iter().find_map(|folder| host.try_text(format!("{folder}/lvsd.service")));
    match unit {
        Some(unit) => of_unit(host, &unit),
        None => caller(host),
    }
}

pub(super) fn caller(host: &Host<'_>) -> Privileges {
    of_process(host, Holder::Caller, "self")
}

/// Is who asks neither root nor the daemon, now or once it is started?
pub(super) fn is_stranger(host: &Host<'_>, caller: &Privileges) -> bool {
    /// Where nothing else says, it is whom the packages make.
    const SERVICE: &str = "lvsd";
    let daemon = privileges(host);
    let is_daemon = match daemon.holder {
        Holder::Daemon(_) | Holder::Unit => daemon.user_name == caller.user_name,
        Holder::Caller => caller.user_name == SERVICE,
    };
    caller.user.is_some_and(|user| user != 0) && !is_daemon
}

/// A running `lvsd run` of this network name space.
fn daemon(host: &Host<'_>) -> Option<u32> {
    let runs = |pid: &u32| {
        let arguments = host.text(format!("proc/{pid}/cmdline"));
        host.text(format!("proc/{pid}/comm")).trim() == "lvsd"
            && arguments.split('\0').any(|word| word == "run")
            && is_of_this_network(host, *pid)
    };
    processes(host).find(runs)
}

fn processes(host: &Host<'_>) -> impl Iterator<Item = u32> {
    host.names("proc").into_iter().filter_map(|name| name.parse().ok()).take(MAX_PROCESSES)
}

/// Who may not look at it takes it to be.
fn is_of_this_network(host: &Host<'_>, pid: u32) -> bool {
    let space = |of: &str| fs::read_link(host.path(format!("proc/{of}/ns/net"))).ok();
    match (space(&pid.to_string()), space("self")) {
        (Some(theirs), Some(ours)) => theirs == ours,
        (None, _) | (_, None) => true,
    }
}

fn of_process(host: &Host<'_>, holder: Holder, pid: &str) -> Privileges {
    let status = host.text(format!("proc/{pid}/status"));
    let field = |name: &str| {
        let mut lines = status.lines().filter_map(|line| line.strip_prefix(name));
        lines.next().unwrap_or_default().trim()
    };
    let numbers = |text: &str| text.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<u32>>();
    // Real, effective, saved and file system's; the effective one counts.
    let group = numbers(field("Gid:")).into_iter().nth(1);
    let limits = host.text(format!("proc/{pid}/limits"));
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let user = numbers(field("Uid:")).into_iter().nth(1);
    let name = user.map(|user| access::user_name(host, user).unwrap_or_else(|| user.to_string()));
    let group_name = group.map(|group| access::group_name(host, group).unwrap_or_else(|| group.to_string()));
    Privileges {
        holder,
        user,
        user_name: name.unwrap_or_default(),
        group_name: group_name.unwrap_or_default(),
        capabilities: u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0),
        descriptors: files.and_then(|line| line.split_whitespace().next()?.parse().ok()),
        groups: numbers(field("Groups:")).into_iter().chain(group).collect(),
    }
}

fn of_unit(host: &Host<'_>, unit: &str) -> Privileges {
    let mut texts = vec![unit.to_owned()];
    for folder in UNIT_FOLDERS.iter().rev().map(|folder| format!("{folder}/lvsd.service.d")) {
        let names = host.names(&folder).into_iter().filter(|name| name.ends_with(".conf"));
        texts.extend(names.map(|name| host.text(format!("{folder}/{name}"))));
    }
    let unit = Unit::parse(texts.iter().map(String::as_str));
    let name = unit.user.as_deref().unwrap_or("root");
    let account = access::account(host, name);
    // Without Group= it is the user's first.
    let first = || access::group_name(host, account?.1);
    let group = unit.group.clone().or_else(first).unwrap_or_else(|| name.to_owned());
    let more = unit.more_groups.iter().map(String::as_str);
    let named =
        std::iter::once(group.as_str()).chain(more).filter_map(|group| access::group_number(host, group));
    Privileges {
        holder: Holder::Unit,
        user: account.map(|(user, _)| user),
        user_name: name.to_owned(),
        group_name: group.clone(),
        capabilities: unit.effective(),
        descriptors: unit.descriptors,
        groups: named.chain(access::groups(host, name)).collect(),
    }
}

/// keepalived counts when its configuration has virtual servers: without them it only moves addresses,
/// and lvsd lives beside it.
pub(super) fn others(host: &Host<'_>) -> Vec<Other> {
    let mut found: Vec<Other> = Vec::new();
    for pid in processes(host) {
        let name = host.text(format!("proc/{pid}/comm")).trim().to_owned();
        if found.iter().any(|other| other.name == name) || !is_of_this_network(host, pid) {
            continue;
        }
        if let Some(claims) = claims(host, &name, pid) {
            found.push(Other { name, pid, claims });
        }
    }
    found
}

/// Where one of these runs, an address may be on the other director, and rightly.
pub(super) fn address_movers(host: &Host<'_>) -> Vec<String> {
    let known = ["keepalived", "corosync", "pacemakerd", "ucarp", "vrrpd", "heartbeat"];
    let names = processes(host).map(|pid| host.text(format!("proc/{pid}/comm")).trim().to_owned());
    let found: BTreeSet<String> = names.filter(|name| known.contains(&name.as_str())).collect();
    found.into_iter().collect()
}

/// `None`: not a program that writes the table.
fn claims(host: &Host<'_>, name: &str, pid: u32) -> Option<BTreeSet<std::net::SocketAddr>> {
    match name {
        "keepalived" => {
            let arguments = host.text(format!("proc/{pid}/cmdline"));
            let words: Vec<&str> = arguments.split('\0').collect();
            if words.iter().any(|word| *word == "-P" || *word == "--vrrp") {
                return None;
            }
            let named = words.iter().position(|word| *word == "-f" || *word == "--use-file");
            let named = named.and_then(|at| words.get(at + 1)).copied();
            let file = named.unwrap_or("/etc/keepalived/keepalived.conf");
            parsing::keepalived_claims(&host.text(file))
        }
        "ldirectord" => Some(parsing::ldirectord_claims(&host.text("etc/ha.d/ldirectord.cf"))),
        "kube-proxy" | "kube-router" => Some(BTreeSet::new()),
        _ => None,
    }
}
