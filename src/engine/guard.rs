//! Verdicts that are not followed: when the balancer itself is the sick one, all its real servers seem
//! to fail, and a table without any of them serves nobody.
//!
//! A server that failed while it stood in the table can be *kept*: it stays there at its weight and counts
//! for the quorum, although its verdict is down. Which ones are kept is a function of the verdicts, the
//! orders, and what the rule itself must remember: who stood when it failed, and when that was. Nobody
//! who was out is ever put in, and an operator's order is never kept from being done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::model::{DownRate, RealServerId};
use super::orders::Spot;
use super::table::ServiceId;
use super::time::Time;
use super::virtual_server::VirtualServer;
use super::{Engine, Event};

/// Why a failed server stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Without it fewer than `min_alive` would be left.
    MinAlive,
    /// As many have left lately as `max_down_rate` lets.
    MaxDownRate,
}

impl Guard {
    pub const ALL: [Self; 2] = [Self::MinAlive, Self::MaxDownRate];

    /// The key that asks for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinAlive => "min_alive",
            Self::MaxDownRate => "max_down_rate",
        }
    }
}

/// One that failed and stands: when it failed, who it is, and its place in its pool. In the order in
/// which they leave.
pub(super) type Kept = (Time, RealServerId, usize);

/// What a server adds to the sums of its pool, as it was last counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Its part in the live weight.
    pub(super) weight: u32,
    /// It can be given traffic: not disabled, and of a weight above 0.
    pub(super) plays: bool,
    /// That, and its checks are up.
    pub(super) well: bool,
}

impl VirtualServer {
    /// How many real servers must be left: of those that can be given traffic.
    pub fn min_alive(&self) -> usize {
        self.config.min_alive.of(self.playing)
    }

    /// How many of those that failed must stay.
    fn needed(&self) -> usize {
        self.min_alive().saturating_sub(self.well)
    }

    /// How many of those that failed may leave.
    fn surplus(&self) -> usize {
        self.kept.len().saturating_sub(self.needed())
    }

    /// Those that are kept, with the reason, in the order in which they would leave: the last of them are
    /// what is needed.
    fn reasons(&self) -> impl DoubleEndedIterator<Item = (&Kept, Guard)> {
        let surplus = self.surplus();
        let guard = move |at| if at < surplus { Guard::MaxDownRate } else { Guard::MinAlive };
        self.kept.iter().enumerate().map(move |(at, kept)| (kept, guard(at)))
    }

    /// By their places.
    pub(super) fn kept_by(&self) -> BTreeMap<usize, Guard> {
        self.reasons().map(|((_, _, index), guard)| (*index, guard)).collect()
    }

    /// Keeps a server, or does not.
    pub(super) fn keep(&mut self, index: usize, keep: bool) {
        let Some(server) = self.real_servers.get_mut(index) else { return };
        server.kept = keep;
        let entry = (server.since, server.id(), index);
        if keep {
            self.kept.insert(entry)
        } else {
            self.kept.remove(&entry)
        };
    }
}

/// What `max_down_rate` must remember, for the whole daemon.
#[derive(Debug, Default)]
pub(super) struct DownRates {
    pub(super) limit: Option<DownRate>,
    /// When servers left by a verdict, the oldest first; none that is older than the limit's time.
    pub(super) left: VecDeque<Time>,
    /// Pools with servers that wait until they may leave.
    waiting: BTreeSet<usize>,
}

impl DownRates {
    /// How many may leave now. While verdicts are frozen none of those that wait.
    fn free(&mut self, now: Time, frozen: bool) -> usize {
        let Some(limit) = self.limit else {
            self.left.clear();
            return usize::MAX;
        };
        if frozen {
            return 0;
        }
        while self.left.front().is_some_and(|at| *at + limit.per <= now) {
            self.left.pop_front();
        }
        limit.count().saturating_sub(self.left.len())
    }

    /// When the next one may leave, if any waits.
    pub(super) fn next(&self) -> Option<Time> {
        let limit = self.limit.filter(|_| !self.waiting.is_empty())?;
        let first = self.left.len().saturating_sub(limit.count());
        self.left.get(first).map(|at| *at + limit.per)
    }

    /// Pools have other places now.
    pub(super) fn replaced(&mut self, limit: Option<DownRate>) {
        self.limit = limit;
        self.waiting.clear();
    }
}

impl Engine {
    /// Decides which failed servers stay, in these pools and in those where some wait. Before the quorums,
    /// since those count them. Returns the pools where any has left.
    pub(super) fn settle_guards(&mut self, pools: &BTreeSet<usize>) -> BTreeSet<usize> {
        // Nearly always: each result comes by here.
        let keeps = |at: &usize| {
            self.pools.get(*at).is_some_and(|pool| !pool.kept.is_empty() || !pool.keeping.is_empty())
        };
        if self.rates.waiting.is_empty() && self.rates.left.is_empty() && !pools.iter().any(keeps) {
            return BTreeSet::new();
        }
        let frozen = self.is_frozen();
        let free = self.rates.free(self.now, frozen);
        let mut changed = BTreeSet::new();
        for (pool_at, index) in self.next_to_leave(pools, free) {
            let Some(pool) = self.pools.get_mut(pool_at) else { continue };
            pool.keep(index, false);
            pool.count(index);
            if self.rates.limit.is_some() {
                self.rates.left.push_back(self.now);
            }
            changed.insert(pool_at);
        }
        self.memory_changed |= !changed.is_empty();
        self.dirty.extend(&changed);
        for pool_at in pools | &changed {
            let waits = self.pools.get(pool_at).is_some_and(|pool| pool.surplus() > 0);
            if waits {
                self.rates.waiting.insert(pool_at)
            } else {
                self.rates.waiting.remove(&pool_at)
            };
            self.tell_guards(pool_at);
        }
        changed
    }

    /// The servers that are to leave now, by pool and place, in the order in which they failed. Of several at
    /// one moment the order of the file decides nothing.
    fn next_to_leave(&self, touched: &BTreeSet<usize>, free: usize) -> Vec<Spot> {
        if free == 0 {
            return Vec::new();
        }
        let mut leaving: Vec<(Time, Option<ServiceId>, RealServerId, Spot)> = Vec::new();
        for pool_at in touched | &self.rates.waiting {
            let Some(pool) = self.pools.get(pool_at) else { continue };
            let first = pool.config.services.iter().min().copied();
            let those = pool.kept.iter().take(pool.surplus().min(free));
            leaving.extend(those.map(|(since, id, index)| (*since, first, *id, (pool_at, *index))));
        }
        leaving.sort_unstable();
        leaving.into_iter().take(free).map(|(.., place)| place).collect()
    }

    /// Tells that a rule begins to keep servers, and that it keeps none any more.
    fn tell_guards(&mut self, pool_at: usize) {
        let Some(pool) = self.pools.get_mut(pool_at) else { return };
        for guard in Guard::ALL {
            let count = match guard {
                Guard::MinAlive => pool.kept.len() - pool.surplus(),
                Guard::MaxDownRate => pool.surplus(),
            };
            let keeps = count > 0;
            if keeps == pool.keeping.contains(&guard) {
                continue;
            }
            let kept: Vec<RealServerId> =
                pool.reasons().filter(|(_, by)| *by == guard).map(|((_, id, _), _)| *id).collect();
            if keeps {
                pool.keeping.insert(guard)
            } else {
                pool.keeping.remove(&guard)
            };
            let (virtual_server, min_alive) = (Arc::clone(&pool.config), pool.min_alive());
            let max_down_rate = self.rates.limit;
            self.events.push_back(Event::Guard { virtual_server, guard, kept, min_alive, max_down_rate });
        }
    }
}
