//! The settings of IPVS itself, /proc/sys/net/ipv4/vs. The kernel's Documentation/networking/ipvs-sysctl.rst
//! says what each does; here is what that means for a configuration.

use super::{Case, Finding, Level, forwards, is_direct, servers, speaks};
use crate::engine::model::{Family, Protocol, SyncRole, VirtualServer};

/// One setting that should have, or not have, some values.
struct Setting {
    name: &'static str,
    level: Level,
    matters: fn(&Case<'_>, &VirtualServer) -> bool,
    good: fn(i64) -> bool,
    set: &'static str,
    why: &'static str,
}

const SETTINGS: [Setting; 11] = [
    Setting {
        name: "expire_nodest_conn",
        level: Level::Advice,
        matters: |_, pool| servers(pool).any(|s| !s.inhibit_on_failure && !s.checks.is_empty()),
        good: |value| value != 0,
        set: "1",
        why: "a failed server leaves the table, and the kernel then drops the packets of its connections without a \
              word: clients wait for time-outs of their own, and a UDP flow stays with a dead server. With 1 a client \
              is told at once and a flow goes on with another server. Keep 0 if servers fail for moments only and \
              shall find their connections again",
    },
    Setting {
        name: "expire_quiescent_template",
        level: Level::Fault,
        matters: |_, pool| pool.persistence.is_some() && servers(pool).any(|s| s.inhibit_on_failure),
        good: |value| value != 0,
        set: "1",
        why: "with inhibit_on_failure a failed server stays in the table at weight 0, and with 0 here the kernel goes \
              on sending it new connections of every client that it has served within persistence_timeout",
    },
    Setting {
        name: "drop_packet",
        level: Level::Fault,
        matters: |_, _| true,
        good: |value| value != 3,
        set: "0",
        why: "3 drops one of every am_droprate packets to virtual services, whatever the memory",
    },
    Setting {
        name: "drop_entry",
        level: Level::Advice,
        matters: |_, _| true,
        good: |value| value != 3,
        set: "1",
        why: "3 drops connections during their handshake at random, always; 1 does so when memory is short",
    },
    Setting {
        name: "run_estimation",
        level: Level::Advice,
        matters: |_, _| true,
        good: |value| value != 0,
        set: "1",
        why: "with 0 the kernel computes no rates: ipvsadm --rate and whatever reads them show 0",
    },
    Setting {
        name: "sloppy_tcp",
        level: Level::Advice,
        matters: |_, pool| pool.scheduler.as_str() == "mh" && speaks(pool, Protocol::Tcp),
        good: |value| value != 0,
        set: "1",
        why: "mh gives a client to the same server on every director, but with 0 a director that sees a connection \
              only after its handshake (a route or an address has moved to it) refuses it. With one director it is \
              of no use",
    },
    Setting {
        name: "sloppy_sctp",
        level: Level::Advice,
        matters: |_, pool| pool.scheduler.as_str() == "mh" && speaks(pool, Protocol::Sctp),
        good: |value| value != 0,
        set: "1",
        why: "as sloppy_tcp, for SCTP: an association that has moved to this director is taken on",
    },
    Setting {
        name: "schedule_icmp",
        level: Level::Advice,
        matters: |_, pool| pool.scheduler.as_str() == "mh",
        good: |value| value != 0,
        set: "1",
        why: "routers may send ICMP errors (\"fragmentation needed\") to another director than the connection's: with \
              0 it drops what it has no connection for, and large transfers through a narrow path hang. With one \
              director it is of no use",
    },
    Setting {
        name: "backup_only",
        level: Level::Fault,
        matters: |case, _| case.config.daemon.sync.as_ref().is_some_and(|sync| sync.role == SyncRole::Both),
        good: |value| value == 0,
        set: "0",
        why: "a host whose [daemon.sync] receives (state = \"both\") directs nothing while this is on: it lets the \
              packets of all virtual services pass by",
    },
    Setting {
        name: "backup_only",
        level: Level::Advice,
        matters: |case, pool| {
            case.config.daemon.sync.as_ref().is_some_and(|sync| sync.role == SyncRole::Backup)
                && forwards(pool, is_direct)
        },
        good: |value| value != 0,
        set: "1",
        why: "a backup director that is a real server too sends what the master gave to it back into the pool, and \
              packets go in circles",
    },
    Setting {
        name: "sync_version",
        level: Level::Fault,
        matters: |case, pool| {
            let is_v6 = |family| family == Family::Ipv6;
            case.config.daemon.sync.as_ref().is_some_and(|sync| sync.role != SyncRole::Backup)
                && pool.services.iter().any(|service| is_v6(service.family()))
        },
        good: |value| value != 0,
        set: "1",
        why: "version 0 of the synchronisation protocol has no room for IPv6: those connections are lost when the \
              other director takes over",
    },
];

pub(super) fn examine(case: &Case<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = SETTINGS.iter().filter_map(|setting| setting.examine(case)).collect();
    found.extend(conn_reuse_mode(case));
    found.extend(reuse_with_conntrack(case));
    found.extend(persistent_sync(case));
    found
}

impl Setting {
    fn examine(&self, case: &Case<'_>) -> Option<Finding> {
        let path = format!("net/ipv4/vs/{}", self.name);
        let concerned = case.names(|pool| (self.matters)(case, pool));
        if concerned.is_empty() {
            return None;
        }
        if (self.good)(case.facts.number(&path)?) {
            return case.setting(Level::Ok, self.name, &path);
        }
        let finding = case.setting(self.level, self.name, &path)?;
        Some(finding.because(self.why).concerns(concerned).set(&path, self.set))
    }
}

const REUSE: &str = "net/ipv4/vs/conn_reuse_mode";
const CONNTRACK: &str = "net/ipv4/vs/conntrack";

fn conn_reuse_mode(case: &Case<'_>) -> Option<Finding> {
    let concerned = case.names(|pool| speaks(pool, Protocol::Tcp));
    if concerned.is_empty() {
        return None;
    }
    if case.facts.number(REUSE)? != 0 {
        return case.setting(Level::Ok, "conn_reuse_mode", REUSE);
    }
    // 2 is 1 and FIN_WAIT, the last state that a director sees of replies that pass it by.
    let set = if case.pools().any(|pool| forwards(pool, is_direct)) { "2" } else { "1" };
    let why = "a client (a proxy above all) that uses a source port again stays with the server of its last connection, \
               even one that is drained or gone: a busy server is never empty, a new one gets little";
    let finding = case.setting(Level::Advice, "conn_reuse_mode", REUSE)?;
    Some(finding.because(why).concerns(concerned).set(REUSE, set))
}

/// Kernels before 5.9 drop the first SYN of a connection that is scheduled anew while netfilter still
/// knows the last one; the client tries again a second later.
fn reuse_with_conntrack(case: &Case<'_>) -> Option<Finding> {
    let mut numbers = case.facts.kernel_release.split(['.', '-']).map(|n| n.parse::<u32>().ok());
    let version = (numbers.next()??, numbers.next()??);
    let both = case.facts.number(REUSE)? != 0 && case.facts.number(CONNTRACK)? != 0;
    let concerned = case.names(|pool| speaks(pool, Protocol::Tcp));
    if !both || version >= (5, 9) || concerned.is_empty() {
        return None;
    }
    let why = "this kernel is older than 5.9: together with conn_reuse_mode, a connection from a source port that was \
               used just before waits for a second. Set conntrack = 0 unless firewall rules need it";
    let finding = case.setting(Level::Advice, "conntrack", CONNTRACK)?;
    Some(finding.because(why).concerns(concerned).set(CONNTRACK, "0"))
}

/// Mode 1 sends templates only: a taken over connection has no entry until sloppy_tcp lets it make one.
fn persistent_sync(case: &Case<'_>) -> Option<Finding> {
    let (mode, sloppy) = ("net/ipv4/vs/sync_persist_mode", "net/ipv4/vs/sloppy_tcp");
    case.config.daemon.sync.as_ref()?;
    let concerned = case.names(|pool| pool.persistence.is_some() && speaks(pool, Protocol::Tcp));
    if concerned.is_empty() || case.facts.number(mode)? == 0 {
        return None;
    }
    if case.facts.number(sloppy)? != 0 {
        return case.setting(Level::Ok, "sync_persist_mode", mode);
    }
    let why = "connections of persistent services are not synchronised in this mode, their templates are: a director \
               that takes over refuses what is established unless sloppy_tcp lets it in";
    let finding = case.setting(Level::Advice, "sync_persist_mode", mode)?;
    Some(finding.because(why).concerns(concerned).set(sloppy, "1"))
}
