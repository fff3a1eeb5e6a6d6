//! One virtual server: its services, its servers, and the rules between them.

use std::collections::HashSet;
use std::sync::Arc;

use super::real_server::{Identities, Lowered};
use super::services::Services;
use super::{Lowering, active_when, announce, forwarding, quorum, real_server, scheduling, services};
use crate::config::context::{At, Context, Field};
use crate::config::defaults;
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::{self, Check, CommonOptions, PoolOptions};
use crate::engine::model::{
    Forwarding, Persistence, Portion, Scheduler, SchedulerFlag, SorryServer, VirtualServer,
};

/// The kernel's Maglev table with its default size takes no more destinations.
const MH_MAXIMUM: usize = 4_093;

/// Entries in the kernel's table, of all services together. Each takes memory there, here and in every dump.
const MAX_DESTINATIONS: u64 = 1 << 22;

/// A virtual server whose name is not final yet.
pub(super) struct Pool {
    pub(super) server: Arc<VirtualServer>,
    pub(super) name: Field<String>,
    pub(super) place: Place,
}

/// What stands around a real server.
pub(super) struct Outer<'x> {
    pub(super) services: &'x Services,
    /// Every port of its services; 0 for marks and for all ports.
    pub(super) ports: HashSet<u16>,
    pub(super) pool: &'x PoolOptions,
    pub(super) common: &'x CommonOptions,
    pub(super) checks: &'x [At<&'x Check>],
}

pub(super) fn lower(cx: &mut Context<'_>, all: &mut Lowering<'_>, raw: &raw::VirtualServer<'_>) -> Pool {
    let pool = raw.pool.or(&all.defaults.pool);
    let common = raw.common.or(&all.defaults.common);
    let services = services::lower(cx, all, raw, &pool);
    let checks = all.resolve(cx, &pool.check);
    let ports = services.ids.iter().map(crate::engine::table::ServiceId::port).collect();
    let outer = Outer { services: &services, ports, pool: &pool, common: &common, checks: &checks };
    let servers = real_servers(cx, all, &outer, raw);
    let sorry_server = raw.sorry_server.get().and_then(|sorry| sorry_server(cx, all, &outer, sorry));
    count_destinations(cx, all, raw.place, services.ids.len(), servers.len());
    tunnel_is_used(cx, raw, &pool, &servers, sorry_server.as_ref());
    quorum::judge_hysteresis(cx, &pool);
    quorum::warn_too_many(cx, &pool, raw.place, servers.len());
    let scheduler = scheduling::scheduler(cx, &pool);
    let flags = scheduling::flags(cx, &pool);
    let persistence = scheduling::persistence(cx, &raw.pool, &pool, &services);
    let active_when = active_when::lower(cx, raw, &pool, &services);
    warn(
        cx,
        raw,
        &pool,
        &servers,
        &Scheduling { scheduler: scheduler.as_ref(), flags: &flags, persistence: persistence.as_ref() },
    );
    // Not collected in place, which would keep the room of what was lowered.
    let mut real_servers = Vec::with_capacity(servers.len());
    real_servers.extend(servers.into_iter().map(|lowered| Arc::new(lowered.server)));
    let server = VirtualServer {
        name: String::new(),
        scheduler_flags: flags,
        one_packet: scheduling::one_packet(cx, &pool, &services),
        persistence,
        quorum: pool.quorum.value_or(defaults::QUORUM),
        hysteresis: pool.hysteresis.value_or(defaults::HYSTERESIS),
        min_alive: pool.min_alive.value_or(Portion::Count(0)),
        omega: pool.omega.value_or(false),
        sorry_server,
        quorum_up: raw.quorum_up.value(),
        quorum_down: raw.quorum_down.value(),
        announce: announce::lower(cx, all, raw, &pool, (&services.ids, active_when.as_ref())),
        active_when,
        real_servers,
        services: services.ids,
        // Broken only if something was reported, and then nobody sees this.
        scheduler: scheduler.unwrap_or_else(default_scheduler),
    };
    Pool { server: Arc::new(server), name: raw.name.clone(), place: raw.place }
}

#[expect(clippy::expect_used, reason = "a constant that a test reads")]
fn default_scheduler() -> Scheduler {
    Scheduler::new(defaults::SCHEDULER).expect("the default scheduler has a good name")
}

fn real_servers(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    outer: &Outer<'_>,
    raw: &raw::VirtualServer<'_>,
) -> Vec<Lowered> {
    let mut identities = Identities::default();
    let sections = raw.real_servers.get().map_or(&[][..], |list| &list.value);
    let mut servers = Vec::with_capacity(sections.len());
    for section in sections {
        if let Some(lowered) = real_server::lower(cx, all, outer, *section) {
            identities.judge(cx, outer, &lowered);
            servers.push(lowered);
        }
    }
    servers
}

/// Every server is an entry in every service.
pub(super) fn count_destinations(
    cx: &mut Context<'_>,
    all: &mut Lowering<'_>,
    place: Place,
    services: usize,
    servers: usize,
) {
    let product = u64::try_from(services.saturating_mul(servers)).unwrap_or(u64::MAX);
    all.destinations = all.destinations.saturating_add(product);
    if all.destinations > MAX_DESTINATIONS {
        let message = format!(
            "{servers} real servers in each of {services} services are too many: more than {MAX_DESTINATIONS} in all"
        );
        let finding = Finding::error(place, message);
        cx.push(
            finding.remedy("mark the packets in the firewall, and write `fwmark` instead of the addresses"),
        );
    }
}

fn sorry_server(
    cx: &mut Context<'_>,
    all: &Lowering<'_>,
    outer: &Outer<'_>,
    raw: &At<raw::SorryServer>,
) -> Option<SorryServer> {
    let forwarding = forwarding::lower(cx, &raw.value.forwarding, &outer.pool.forwarding);
    if raw.value.address.is_unset() {
        let finding = Finding::error(raw.place, "a sorry server needs an address");
        cx.push(finding.remedy("write sorry_server = \"198.51.100.99:80\""));
    }
    let address = raw.value.address.get()?;
    let lb_kind = raw.value.forwarding.lb_kind.or(&outer.pool.forwarding.lb_kind);
    forwarding::judge_family(cx, all, outer.services, address, forwarding, &lb_kind);
    let inhibit = raw.value.inhibit.value_or(false);
    Some(SorryServer { address: address.value.address, port: address.value.port, forwarding, inhibit })
}

/// A tunnel of the virtual server itself must be somebody's.
fn tunnel_is_used(
    cx: &mut Context<'_>,
    raw: &raw::VirtualServer<'_>,
    pool: &PoolOptions,
    servers: &[Lowered],
    sorry: Option<&SorryServer>,
) {
    let Some(place) = raw.pool.forwarding.tunnel.place() else { return };
    let is_tunnel = |forwarding: Forwarding| matches!(forwarding, Forwarding::Tun(_));
    let used = pool.forwarding.kind() == raw::LbKind::Tun
        || servers.iter().any(|lowered| is_tunnel(lowered.server.forwarding))
        || sorry.is_some_and(|sorry| is_tunnel(sorry.forwarding));
    if !used && !pool.forwarding.lb_kind.is_broken() {
        forwarding::without_tun(cx, place);
    }
}

struct Scheduling<'x> {
    scheduler: Option<&'x Scheduler>,
    flags: &'x [SchedulerFlag],
    persistence: Option<&'x Persistence>,
}

/// What is legal, and hardly ever meant.
fn warn(
    cx: &mut Context<'_>,
    raw: &raw::VirtualServer<'_>,
    pool: &PoolOptions,
    servers: &[Lowered],
    scheduling: &Scheduling<'_>,
) {
    let sections = raw.real_servers.get().map_or(0, |list| list.value.len());
    if sections == 0 && !raw.real_servers.is_broken() {
        let finding = Finding::warning(raw.place, "this virtual server has no real servers");
        cx.push(finding.remedy("write a [[virtual_server.real_server]] below it"));
        return;
    }
    // One whose address is wrong has a weight all the same.
    if servers.len() == sections
        && !raw.real_servers.is_broken()
        && !servers.iter().any(|lowered| lowered.weight_varies)
    {
        let weights = servers.iter().map(|lowered| u64::from(lowered.server.weight)).sum();
        quorum::warn_unreachable(cx, pool, raw.place, weights);
    }
    let unchecked = servers.iter().filter(|lowered| lowered.check_unset).count();
    if unchecked > 0 {
        let message =
            format!("{unchecked} of {} real servers have no check: they are always alive", servers.len());
        let finding = Finding::warning(raw.place, message);
        cx.push(finding.remedy("write check = { tcp = {} }, or check = [] if that is meant"));
    }
    warn_inhibit(cx, raw, pool, servers, scheduling);
    let maglev = scheduling.scheduler.is_some_and(|scheduler| scheduler.as_str() == "mh");
    if maglev && servers.len() > MH_MAXIMUM {
        let place = pool.scheduler.place().unwrap_or(raw.place);
        let message = format!("the scheduler mh takes {MH_MAXIMUM} real servers, not {}", servers.len());
        let finding = Finding::warning(place, message).label(raw.place, "of this virtual server");
        cx.push(finding.remedy("write another scheduler, unless the kernel was built with a larger table"));
    }
}

/// A failed server that stays at weight 0 is still chosen by some.
fn warn_inhibit(
    cx: &mut Context<'_>,
    raw: &raw::VirtualServer<'_>,
    pool: &PoolOptions,
    servers: &[Lowered],
    scheduling: &Scheduling<'_>,
) {
    let Some(inhibit) = servers.iter().find_map(|lowered| lowered.inhibit) else { return };
    let label = "a failed server stays in the table at weight 0";
    let hashing = scheduling.scheduler.filter(|scheduler| matches!(scheduler.as_str(), "sh" | "mh"));
    if let Some(scheduler) = hashing.filter(|_| !scheduling.flags.contains(&SchedulerFlag::One)) {
        let message = format!(
            "without {scheduler}-fallback, clients that {scheduler} gives to a failed server get no answer"
        );
        let finding = Finding::warning(pool.scheduler.place().unwrap_or(raw.place), message);
        let remedy =
            format!("write scheduler_flags = [\"{scheduler}-fallback\"], or inhibit_on_failure = false");
        cx.push(finding.label(inhibit, label).remedy(remedy));
    }
    if scheduling.persistence.is_some() {
        let message = "persistent clients of a failed server stay with it";
        let finding = Finding::warning(pool.persistence_timeout.place().unwrap_or(raw.place), message);
        let remedy =
            "set the sysctl net.ipv4.vs.expire_quiescent_template to 1, or write inhibit_on_failure = false";
        cx.push(finding.label(inhibit, label).remedy(remedy));
    }
}
