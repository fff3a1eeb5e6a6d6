//! Wanted and applied, side by side: what the engine wants in the table, what was last seen or
//! written there, and so what is left to do. Pure; [`super::writer`] does the I/O.
//!
//! A service whose write failed stays unsettled until a dump and a plan say that nothing is left: an
//! operation whose answer was lost may have been carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::model::Drift;
use crate::engine::table::{Service, ServiceId, Table};
use crate::ipvs::{Operation, plan_services};

/// A change of what is wanted: the service's new entry, or that it is to go.
pub(in crate::runtime) type Change = (ServiceId, Option<Arc<Service>>);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    wanted: Table,
    /// As seen by the last dump, brought forward by every write since.
    observed: Table,
    owned: BTreeSet<ServiceId>,
    /// Services of the configuration. Once wanted in the table or out of it, they stay owned: one that is
    /// to be out while another host is active must not come back by anybody's hand.
    configured: BTreeSet<ServiceId>,
    /// Services whose entry may differ from what is wanted.
    unsettled: BTreeSet<ServiceId>,
    /// Those of them that wait for their next try; one that cannot be written never holds up the others.
    held: BTreeSet<ServiceId>,
    /// Services that failed and that no dump has shown since: what the kernel holds of them is unknown,
    /// and `observed` only the likeliest.
    doubtful: BTreeSet<ServiceId>,
    /// When each service was last written, in [`Stamp`]s: a dump that began before says nothing of it.
    written: BTreeMap<ServiceId, Stamp>,
    stamp: Stamp,
}

/// Counts writes, so that a dump can be told to be older than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

/// What a dump showed to be other than it was left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Drifted {
    /// What would put it right, service by service.
    pub(in crate::runtime) repairs: Vec<Operation>,
}

impl Ledger {
    pub(super) fn new(observed: Table, owned: BTreeSet<ServiceId>) -> Self {
        // Services of an earlier run go unless they are wanted: that is for the first plan to find out.
        Self { unsettled: owned.clone(), observed, owned, ..Self::default() }
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The newest wish for each service replaces the one before.
    pub(super) fn want(&mut self, changes: impl IntoIterator<Item = Change>) {
        for (id, service) in changes {
            self.owned.insert(id);
            self.unsettled.insert(id);
            self.held.remove(&id);
            match service {
                Some(service) => self.wanted.services.insert(id, service),
                None => self.wanted.services.remove(&id),
            };
        }
    }

    /// Which services are configured from now on.
    pub(super) fn keep(&mut self, configured: BTreeSet<ServiceId>) {
        self.configured = configured;
    }

    /// Wants nothing any more: all that is owned is to go.
    pub(super) fn want_nothing(&mut self) {
        self.wanted = Table::default();
        self.unsettled = self.owned.clone();
        self.held.clear();
    }

    /// What is left to do, but for the services that are held back after a failure.
    pub(super) fn plan(&self) -> Vec<Operation> {
        let free = self.unsettled.iter().filter(|id| !self.held.contains(id));
        plan_services(&self.observed, &self.wanted, &self.owned, free)
    }

    /// Compares every service with what is wanted at the next plan: drift that was only told so far is
    /// to be repaired from now on.
    pub(super) fn unsettle_all(&mut self) {
        self.unsettled.extend(&self.owned);
    }

    /// Tries again what was held back, but for services that no dump has shown since they failed.
    pub(super) fn release(&mut self) {
        self.held.retain(|id| self.doubtful.contains(id));
    }

    /// Keeps services that failed from being tried again, also where they are wanted anew.
    pub(super) fn hold<'a>(&mut self, services: impl Iterator<Item = &'a ServiceId>) {
        self.held.extend(services);
    }

    /// Has no dump shown this service since it failed?
    pub(super) fn is_doubtful(&self, id: &ServiceId) -> bool {
        self.doubtful.contains(id)
    }

    /// An operation was carried out.
    pub(super) fn applied(&mut self, operation: &Operation) {
        self.stamp = Stamp(self.stamp.0 + 1);
        self.written.insert(*operation.service(), self.stamp);
        bring_forward(&mut self.observed, operation);
    }

    /// An operation was refused, or may or may not have been carried out: its service waits.
    pub(super) fn failed(&mut self, operation: &Operation) {
        self.stamp = Stamp(self.stamp.0 + 1);
        self.written.insert(*operation.service(), self.stamp);
        self.held.insert(*operation.service());
        self.doubtful.insert(*operation.service());
    }

    /// The plan has been carried out but for what was held back: what is equal now needs no further
    /// look, unless it only seems to be equal.
    pub(super) fn settle(&mut self) {
        let open = self.held.union(&self.doubtful).copied().collect();
        for id in std::mem::replace(&mut self.unsettled, open) {
            if self.unsettled.contains(&id) {
                continue;
            }
            match (self.wanted.services.get(&id), self.observed.services.get_mut(&id)) {
                // One entry instead of two equal ones: comparing them again costs nothing.
                (Some(wanted), Some(observed)) if wanted == observed => *observed = Arc::clone(wanted),
                (Some(_), _) | (None, Some(_)) => {}
                (None, None) if self.configured.contains(&id) => {}
                (None, None) => {
                    self.owned.remove(&id);
                }
            }
        }
    }

    /// Takes over what a dump saw that began at `began`. Of services written since then it says
    /// nothing; of our settled ones it tells drift.
    pub(super) fn observe(&mut self, seen: &Table, began: Stamp, drift: Drift) -> Drifted {
        let mut drifted = BTreeSet::new();
        let ids: BTreeSet<ServiceId> =
            seen.services.keys().chain(self.observed.services.keys()).copied().collect();
        for id in ids {
            if self.written.get(&id).is_some_and(|at| *at > began) {
                continue;
            }
            let (before, now) = (self.observed.services.get(&id), seen.services.get(&id));
            if before == now {
                continue;
            }
            match now {
                Some(service) => self.observed.services.insert(id, Arc::clone(service)),
                None => self.observed.services.remove(&id),
            };
            if self.owned.contains(&id) && !self.unsettled.contains(&id) {
                drifted.insert(id);
            }
        }
        self.written.retain(|_, at| *at > began);
        self.doubtful.retain(|id| self.written.contains_key(id));
        let repairs = plan_services(&self.observed, &self.wanted, &self.owned, drifted.iter());
        if drift == Drift::Repair {
            self.unsettled.extend(drifted);
        }
        Drifted { repairs }
    }

    pub(super) fn wanted(&self) -> &Table {
        &self.wanted
    }

    pub(super) fn observed(&self) -> &Table {
        &self.observed
    }

    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// Services that are not, or may not be, as they are wanted.
    pub(super) fn unsettled(&self) -> &BTreeSet<ServiceId> {
        &self.unsettled
    }

    /// Those of them that wait for their next try.
    pub(super) fn held(&self) -> &BTreeSet<ServiceId> {
        &self.held
    }

    /// There are services with somebody to serve them, none of them is in the table so that it can, and some
    /// wait for another try: the kernel has refused them.
    pub(super) fn is_barred(&self) -> bool {
        let able = |service: &Arc<Service>| service.destinations.values().any(|record| record.weight > 0);
        let mut is_refused = false;
        for (id, _) in self.wanted.services.iter().filter(|(_, wanted)| able(wanted)) {
            if self.observed.services.get(id).is_some_and(able) {
                return false;
            }
            is_refused |= self.held.contains(id);
        }
        is_refused
    }

    pub(super) fn is_settled_for(&self, id: &ServiceId) -> bool {
        !self.unsettled.contains(id)
    }
}

/// What the table holds after `operation`, if the kernel did what it was asked.
fn bring_forward(table: &mut Table, operation: &Operation) {
    match operation {
        Operation::AddService { service, attributes } => {
            let new = Service { attributes: attributes.clone(), destinations: BTreeMap::new() };
            table.services.insert(*service, Arc::new(new));
        }
        Operation::EditService { service, attributes } => {
            if let Some(entry) = table.services.get_mut(service) {
                Arc::make_mut(entry).attributes = attributes.clone();
            }
        }
        Operation::RemoveService { service } => {
            table.services.remove(service);
        }
        Operation::AddDestination { service, destination, record }
        | Operation::EditDestination { service, destination, record } => {
            if let Some(entry) = table.services.get_mut(service) {
                Arc::make_mut(entry).destinations.insert(*destination, *record);
            }
        }
        Operation::RemoveDestination { service, destination } => {
            if let Some(entry) = table.services.get_mut(service) {
                Arc::make_mut(entry).destinations.remove(destination);
            }
        }
    }
}

#[cfg(test)]
mod tests;
