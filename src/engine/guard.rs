//! Verdicts that are not followed: when the balancer itself is the sick one, all its real servers seem
//! to fail, and a table without any of them serves nobody.
//!
//! A server that failed while it stood in the table can be *kept*: it stays there at its weight and counts
//! for the quorum, although its verdict is down. Which ones are kept is a function of the verdicts, the
//! orders, and what the rule itself must remember: who stood when it failed, and when that was. Nobody
//! who was out is ever put in, and an operator's order is never kept from being done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::RealServerId;
use super::time::Time;
use super::virtual_server::VirtualServer;
use super::{Engine, Event};

/// Why a failed server stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// Without it fewer than `min_alive` would be left.
    MinAlive,
}

impl Guard {
    pub const ALL: [Self; 1] = [Self::MinAlive];

    /// The key that asks for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinAlive => "min_alive",
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

    /// Those that are kept, with the reason, in the order in which they would leave: the last of them are
    /// what is needed.
    fn reasons(&self) -> impl DoubleEndedIterator<Item = (&Kept, Guard)> {
        self.kept.iter().map(|kept| (kept, Guard::MinAlive))
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

    /// Lets go of those that are not needed, the one that failed first before the others. Did any go?
    fn release(&mut self) -> bool {
        let before = self.kept.len();
        while self.kept.len() > self.needed() {
            let Some((_, _, index)) = self.kept.first().copied() else { break };
            self.keep(index, false);
            self.count(index);
        }
        self.kept.len() < before
    }
}

impl Engine {
    /// Decides which failed servers stay. Before the quorums, since those count them.
    pub(super) fn settle_guards(&mut self, pools: &BTreeSet<usize>) {
        for pool_at in pools {
            let Some(pool) = self.pools.get_mut(*pool_at) else { continue };
            if pool.release() {
                self.dirty.insert(*pool_at);
                self.memory_changed = true;
            }
            self.tell_guards(*pool_at);
        }
    }

    /// Tells that a rule begins to keep servers, and that it keeps none any more.
    fn tell_guards(&mut self, pool_at: usize) {
        let Some(pool) = self.pools.get_mut(pool_at) else { return };
        for guard in Guard::ALL {
            let kept: Vec<RealServerId> =
                pool.reasons().filter(|(_, by)| *by == guard).map(|((_, id, _), _)| *id).collect();
            let keeps = !kept.is_empty();
            if keeps == pool.keeping.contains(&guard) {
                continue;
            }
            if keeps {
                pool.keeping.insert(guard)
            } else {
                pool.keeping.remove(&guard)
            };
            let (virtual_server, min_alive) = (Arc::clone(&pool.config), pool.min_alive());
            self.events.push_back(Event::Guard { virtual_server, guard, kept, min_alive });
        }
    }
}
