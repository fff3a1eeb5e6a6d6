//! How another configuration takes over: pools that are just the same go on as they stand, the others are
//! made anew from what was known of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::build_pools;
use super::event::{Cause, Event};
use super::inheritance::LostOrder;
use super::model::Config;
use super::past::Past;
use super::reload::{self, Plan};
use super::time::Time;
use super::{Command, Engine};

impl Engine {
    /// Takes over the values of a configuration that says what the one in force says.
    pub(super) fn adopt(&mut self, config: &Config) {
        reload::adopt(&mut self.pools, config);
        let pools = &self.pools;
        self.schedule.adopt(|(pool, server, check)| {
            let server = pools.get(pool as usize)?.real_servers.get(server as usize)?;
            server.checkers.get(check as usize).map(|checker| &checker.config)
        });
    }

    pub(super) fn replace_pools(&mut self, config: &Config, plan: &Plan, now: Time) {
        let past = Past::of_running(&self.pools, config, &plan.same);
        let dirty = std::mem::take(&mut self.dirty);
        self.pools = build_pools(config, std::mem::take(&mut self.pools), &past, plan, now);
        let was_dirty = |same: &Option<usize>| same.is_some_and(|old| dirty.contains(&old));
        self.dirty =
            plan.same.iter().enumerate().filter(|(_, same)| was_dirty(same)).map(|(i, _)| i).collect();
        self.find_order_end();
        self.replace_schedule(plan, now);
        for pool in plan.changed() {
            for server in 0..self.pools.get(pool).map_or(0, |p| p.real_servers.len()) {
                self.announce_change(pool, server, &Cause::Reload);
            }
        }
    }

    /// After all that the configuration did to those who are still there.
    pub(super) fn tell_lost_orders(&mut self, lost: impl IntoIterator<Item = LostOrder>) {
        self.events.extend(lost.into_iter().map(Event::OrderLost));
    }

    /// New checks for the pools that are not just the same.
    pub(super) fn replace_schedule(&mut self, plan: &Plan, now: Time) {
        let moved: BTreeMap<u32, u32> = (0u32..)
            .zip(&plan.same)
            .filter_map(|(new, old)| Some((u32::try_from((*old)?).ok()?, new)))
            .collect();
        let changed = (0u32..).zip(&self.pools).zip(&plan.same).filter(|(_, same)| same.is_none());
        let checkers = changed.flat_map(|((p, pool), _)| {
            (0u32..).zip(&pool.real_servers).flat_map(move |(s, server)| {
                (0u32..)
                    .zip(&server.checkers)
                    .map(move |(c, checker)| ((p, s, c), checker.identity(), Arc::clone(&checker.config)))
            })
        });
        for id in self.schedule.replace(|pool| moved.get(&pool).copied(), checkers, now) {
            self.commands.push_back(Command::Cancel { id });
        }
        self.dirty.extend(plan.changed());
        self.all_dirty = true;
        self.memory_changed = true;
    }
}
