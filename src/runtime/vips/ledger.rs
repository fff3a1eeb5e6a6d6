//! Wished and found, side by side: what is still to be done about the virtual addresses, and what
//! others did to them. Pure, as the ledger of the IPVS table is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::{self, Action, Observed, Obstacle, Wish};
use crate::engine::announcements::VirtualAddress;
use crate::engine::model::Drift;

#[derive(Debug)]
pub(super) struct Ledger {
    wish: Wish,
    /// As found by the last look, brought forward by every action since.
    observed: Observed,
    /// What may not be as wished.
    unsettled: BTreeSet<VirtualAddress>,
    /// Those of them whose last try failed: they wait for the next one.
    held: BTreeSet<VirtualAddress>,
    drift: Drift,
}

/// An address that is not as it was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Drifted {
    Gone(VirtualAddress),
    Came(VirtualAddress),
}

impl Ledger {
    pub(super) fn new(observed: Observed) -> Self {
        let (wish, unsettled) = (Wish::default(), BTreeSet::new());
        Self { wish, observed, unsettled, held: BTreeSet::new(), drift: Drift::Repair }
    }

    /// The newest wish replaces the one before; [`Ledger::settle`] finds what of it is met already.
    pub(super) fn want(&mut self, wish: Wish, drift: Drift) {
        let changed = self.wish.changes(&wish);
        self.held.retain(|at| !changed.contains(at));
        self.unsettled.extend(changed);
        self.wish = wish;
        if drift == Drift::Repair && self.drift != Drift::Repair {
            self.unsettle_all();
        }
        self.drift = drift;
    }

    /// Compares everything anew: drift that was only told so far is put right.
    pub(super) fn unsettle_all(&mut self) {
        self.unsettled.extend(self.wish.present.union(&self.wish.absent).cloned());
    }

    /// Takes over what a look found. Settled addresses that are not as they were left are drift.
    pub(super) fn observe(&mut self, seen: Observed) -> Vec<Drifted> {
        let before = std::mem::replace(&mut self.observed, seen);
        let known = self.wish.present.union(&self.wish.absent);
        let drifted: Vec<Drifted> = known
            .filter(|at| !self.unsettled.contains(at))
            .filter_map(|at| match (plan::is_there(&before, at), plan::is_there(&self.observed, at)) {
                (true, false) => Some(Drifted::Gone(at.clone())),
                (false, true) => Some(Drifted::Came(at.clone())),
                (true, true) | (false, false) => None,
            })
            .collect();
        if self.drift == Drift::Repair {
            self.unsettled.extend(drifted.iter().map(|drifted| drifted.at().clone()));
        }
        self.settle();
        if self.drift == Drift::Off { Vec::new() } else { drifted }
    }

    /// What is left to do and can be done, but for what waits after a failure.
    pub(super) fn plan(&self) -> Vec<Action> {
        plan::plan(&self.wish, &self.observed, self.unsettled.difference(&self.held))
    }

    /// Tries again what failed.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    pub(super) fn applied(&mut self, action: &Action) {
        let at = action.at();
        if let Some(interface) = self.observed.get_mut(&at.interface) {
            match action {
                Action::Announce(_) => interface.addresses.insert(at.address),
                Action::Withdraw(_) => interface.addresses.remove(&at.address),
            };
        }
        self.settle();
    }

    pub(super) fn failed(&mut self, action: &Action) {
        self.held.insert(action.at().clone());
    }

    /// The interface that an address is to be put on, by its number.
    pub(super) fn index(&self, at: &VirtualAddress) -> Option<u32> {
        self.observed.get(&at.interface).map(|interface| interface.index)
    }

    /// Interfaces that something should be put on and cannot be.
    pub(super) fn obstacles(&self) -> BTreeMap<Arc<str>, Obstacle> {
        let waiting = self.unsettled.iter().filter(|at| self.wish.present.contains(at));
        waiting
            .filter_map(|at| {
                Some((Arc::clone(&at.interface), plan::obstacle(&self.observed, &at.interface)?))
            })
            .collect()
    }

    /// Those of the addresses that lvsd decides about that are there.
    pub(super) fn there(&self) -> BTreeSet<VirtualAddress> {
        let known = self.wish.present.union(&self.wish.absent);
        known.filter(|at| plan::is_there(&self.observed, at)).cloned().collect()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// What failed and was not tried again since.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Forgets what is as wished. Only once the interfaces of the wish have been looked at: of others
    /// nothing is known.
    pub(super) fn settle(&mut self) {
        let Self { wish, observed, unsettled, held, drift: _ } = self;
        unsettled.retain(|at| !plan::is_met(wish, observed, at));
        held.retain(|at| unsettled.contains(at));
    }
}

impl Drifted {
    pub(in crate::runtime) fn at(&self) -> &VirtualAddress {
        match self {
            Self::Gone(at) | Self::Came(at) => at,
        }
    }
}

#[cfg(test)]
mod tests;
