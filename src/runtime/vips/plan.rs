//! The diff of the virtual addresses that should be announced and those that are, as a list of
//! actions. Pure; [`super::keeper`] carries them out.
//!
//! Every beginning of the list is safe by itself: no action takes away what should be there, touches
//! what is not ours, or adds what should not be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::engine::announcements::VirtualAddress;

/// What should be. Of all other addresses nothing is said, and nothing is done to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Wish {
    pub(in crate::runtime) present: BTreeSet<VirtualAddress>,
    pub(in crate::runtime) absent: BTreeSet<VirtualAddress>,
}

impl Wish {
    fn goal(&self, at: &VirtualAddress) -> Option<Goal> {
        match (self.present.contains(at), self.absent.contains(at)) {
            (true, _) => Some(Goal::Present),
            (false, true) => Some(Goal::Absent),
            (false, false) => None,
        }
    }

    fn goals(&self) -> impl Iterator<Item = &VirtualAddress> {
        self.present.union(&self.absent)
    }

    /// The addresses whose goal is another in `newer`, or that only one of the two knows.
    pub(super) fn changes(&self, newer: &Self) -> BTreeSet<VirtualAddress> {
        let all: BTreeSet<&VirtualAddress> = self.goals().chain(newer.goals()).collect();
        all.into_iter().filter(|at| self.goal(at) != newer.goal(at)).cloned().collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Present,
    Absent,
}

/// What a look found of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Interface {
    pub(in crate::runtime) index: u32,
    pub(in crate::runtime) up: bool,
    /// Those of full prefix length: another one is another address for the kernel, and not ours.
    pub(in crate::runtime) addresses: BTreeSet<IpAddr>,
}

/// By name; those that are not there are not in it.
pub(in crate::runtime) type Observed = BTreeMap<Arc<str>, Interface>;

/// One change of an interface's addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::runtime) enum Action {
    Withdraw(VirtualAddress),
    Announce(VirtualAddress),
}

impl Action {
    pub(in crate::runtime) fn at(&self) -> &VirtualAddress {
        match self {
            Self::Withdraw(at) | Self::Announce(at) => at,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Withdraw(at) => write!(f, "withdraw {} from {}", at.address, at.interface),
            Self::Announce(at) => write!(f, "announce {} on {}", at.address, at.interface),
        }
    }
}

/// Why nothing can be announced on an interface for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Obstacle {
    Missing,
    /// Its addresses would be no routes, and IPv6 ones would not stay.
    Down,
}

impl Obstacle {
    /// In words, with what to do about it.
    pub(in crate::runtime) fn describe(self, interface: &str) -> String {
        match self {
            Self::Missing => format!(
                "there is no interface {interface}: `ip link add {interface} type dummy && ip link set {interface} up` makes it"
            ),
            Self::Down => format!("interface {interface} is down: `ip link set {interface} up`"),
        }
    }
}

pub(in crate::runtime) fn is_there(observed: &Observed, at: &VirtualAddress) -> bool {
    observed.get(&at.interface).is_some_and(|interface| interface.addresses.contains(&at.address))
}

pub(in crate::runtime) fn obstacle(observed: &Observed, interface: &str) -> Option<Obstacle> {
    match observed.get(interface) {
        None => Some(Obstacle::Missing),
        Some(found) if !found.up => Some(Obstacle::Down),
        Some(_) => None,
    }
}

/// What makes `observed` what is wished, as far as the interfaces allow: first all that is to go, but for
/// addresses that come elsewhere: on two interfaces for a moment is legal, on none would be a gap. Only of `among`.
pub(in crate::runtime) fn plan<'a>(
    wish: &Wish,
    observed: &Observed,
    among: impl Iterator<Item = &'a VirtualAddress>,
) -> Vec<Action> {
    let mut actions: Vec<Action> = among
        .filter_map(|at| match (wish.goal(at)?, is_there(observed, at)) {
            (Goal::Absent, true) => Some(Action::Withdraw(at.clone())),
            (Goal::Present, false) if obstacle(observed, &at.interface).is_none() => {
                Some(Action::Announce(at.clone()))
            }
            (Goal::Present, _) | (Goal::Absent, false) => None,
        })
        .collect();
    let comes: BTreeSet<IpAddr> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Announce(at) => Some(at.address),
            Action::Withdraw(_) => None,
        })
        .collect();
    let moves = |action: &Action| matches!(action, Action::Withdraw(at) if comes.contains(&at.address));
    actions.sort_by_cached_key(|action| (moves(action), action.clone()));
    actions
}

/// Is it as wished, or of no concern?
pub(super) fn is_met(wish: &Wish, observed: &Observed, at: &VirtualAddress) -> bool {
    match wish.goal(at) {
        Some(Goal::Present) => is_there(observed, at),
        Some(Goal::Absent) => !is_there(observed, at),
        None => true,
    }
}

#[cfg(test)]
pub(super) mod tests;
