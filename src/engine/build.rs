//! The pools of a configuration that takes over, with what is known of them from before.

use std::sync::Arc;

use super::checker::{Checker, CheckerState};
use super::guard::Counted;
use super::inheritance::Orders;
use super::model::{self, Config};
use super::past::{Past, PastServer};
use super::real_server::RealServer;
use super::reload::Plan;
use super::time::Time;
use super::virtual_server::VirtualServer;

/// The pools of `config`: those of `old` that stay just the same as they are, and of all others each server
/// with what the past knows of it.
pub(super) fn build_pools(
    config: &Config,
    old: Vec<VirtualServer>,
    past: &Past,
    plan: &Plan,
    now: Time,
) -> Vec<VirtualServer> {
    let mut old: Vec<Option<VirtualServer>> = old.into_iter().map(Some).collect();
    let pool = |((index, pool), same): ((usize, &Arc<model::VirtualServer>), &Option<usize>)| {
        if let Some(same) = same.and_then(|at| old.get_mut(at)?.take()) {
            return same;
        }
        let among = past.predecessors(&pool.services);
        let servers = pool.real_servers.iter().map(|server| {
            let before = past.server(&among, server.id);
            let starts_down = |alpha| plan.starts_down((index, server.id), alpha);
            let orders = plan.heirs.get(&(index, server.id)).cloned().unwrap_or_default();
            let mut built = build_server(server, before, orders, past, starts_down);
            built.since = before.and_then(|b| b.since(built.was_alive)).unwrap_or(now);
            built
        });
        let quorum_up = plan.carried.quorum_up.get(index).copied().flatten().unwrap_or(false);
        let mut built = VirtualServer::new(Arc::clone(pool), servers.collect(), quorum_up);
        let before = among.first().and_then(|at| past.pools.get(*at));
        built.since = before.and_then(|b| b.since).unwrap_or(now);
        built.keeping = before.map(|b| b.keeping.clone()).unwrap_or_default();
        built
    };
    config.virtual_servers.iter().enumerate().zip(&plan.same).map(pool).collect()
}

fn build_server(
    config: &Arc<model::RealServer>,
    before: Option<&PastServer>,
    orders: Orders,
    past: &Past,
    starts_down: impl Fn(bool) -> bool,
) -> RealServer {
    let state = |check: &model::Check, identity| {
        let carried = before.and_then(|b| b.checkers.get(&identity));
        carried.or_else(|| past.verdict(identity)).cloned().unwrap_or_else(|| {
            // A check that is new to a known server leaves the verdict alone until its first result.
            let held = before.and_then(|b| b.passes_checks);
            CheckerState::assumed(held.unwrap_or_else(|| !starts_down(check.alpha)))
        })
    };
    let checkers =
        config.checks.iter().map(|check| Checker::with(Arc::clone(check), |identity| state(check, identity)));
    let mut server = RealServer {
        config: Arc::clone(config),
        checkers: checkers.collect(),
        order: orders.order,
        operator_weight: orders.operator_weight,
        was_alive: false,
        told: before.is_some_and(|b| b.told),
        since: Time::ZERO,
        kept: before.is_some_and(|b| b.kept),
        counted: Counted::default(),
    };
    server.was_alive = before.and_then(|b| b.was_alive).unwrap_or_else(|| server.is_alive());
    server
}
