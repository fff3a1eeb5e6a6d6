//! The difference of two tables as an ordered list of operations. Pure: knows no kernel.
//!
//! Services that are neither wanted nor owned do not exist for it. A service is edited in place,
//! never deleted and made again: its connections and its persistence live on. Across services
//! removals come first, then edits, then additions. Inside one, what serves more comes before
//! what serves less, so that wherever the list is cut off, a service that can serve in both
//! tables has a destination that can.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::sync::Arc;

use super::operation::Operation;
use crate::engine::model::Scheduler;
use crate::engine::table::{Destination, DestinationId, Service, ServiceAttributes, ServiceId, Table};

/// Brings `observed` to `desired`. `owned` are services of an earlier run: removed unless wanted.
pub fn plan(observed: &Table, desired: &Table, owned: &BTreeSet<ServiceId>) -> Vec<Operation> {
    let removable = owned.iter().filter(|id| !desired.services.contains_key(id));
    plan_services(observed, desired, owned, desired.services.keys().chain(removable))
}

/// The same for the services named in `only`, in time that depends on these alone. Naming one
/// twice, or one that is foreign, is harmless.
pub fn plan_services<'a>(
    observed: &Table,
    desired: &Table,
    owned: &BTreeSet<ServiceId>,
    only: impl Iterator<Item = &'a ServiceId>,
) -> Vec<Operation> {
    let mut removals = Vec::new();
    let mut edits = Vec::new();
    let mut additions = Vec::new();
    for id in only.collect::<BTreeSet<_>>() {
        match (observed.services.get(id), desired.services.get(id)) {
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => {}
            (Some(old), Some(new)) => edit_service(&mut edits, *id, old, new),
            (None, Some(new)) => add_service(&mut additions, *id, new),
            (Some(_), None) if owned.contains(id) => removals.push(Operation::RemoveService { service: *id }),
            (Some(_), None) | (None, None) => {}
        }
    }
    joined(joined(removals, edits), additions)
}

/// Mostly one of them is empty, and the other long.
fn joined(mut first: Vec<Operation>, mut second: Vec<Operation>) -> Vec<Operation> {
    if first.is_empty() {
        return second;
    }
    first.append(&mut second);
    first
}

fn edit_service(operations: &mut Vec<Operation>, service: ServiceId, old: &Service, new: &Service) {
    let edit = (old.attributes != new.attributes)
        .then(|| Operation::EditService { service, attributes: new.attributes.clone() });
    // Maglev's table is made anew at each change of a destination: it comes last and goes first.
    let (first, last) = if is_maglev(&new.attributes) { (None, edit) } else { (edit, None) };
    operations.extend(first);
    edit_destinations(operations, service, &old.destinations, &new.destinations);
    operations.extend(last);
}

type Destinations = BTreeMap<DestinationId, Destination>;

fn edit_destinations(
    operations: &mut Vec<Operation>,
    service: ServiceId,
    old: &Destinations,
    new: &Destinations,
) {
    let mut neutral = Vec::new();
    let mut lowering = Vec::new();
    for (destination, change) in (Changes { old: old.iter().peekable(), new: new.iter().peekable() }) {
        match change {
            Change::Added(record) => {
                operations.push(Operation::AddDestination { service, destination, record });
            }
            Change::Removed => lowering.push(Operation::RemoveDestination { service, destination }),
            Change::Edited { from, to } => {
                let list = match (from.weight > 0, to.weight > 0) {
                    (false, true) => &mut *operations,
                    (true, false) => &mut lowering,
                    (true, true) | (false, false) => &mut neutral,
                };
                list.push(Operation::EditDestination { service, destination, record: to });
            }
        }
    }
    operations.append(&mut neutral);
    operations.append(&mut lowering);
}

/// Above this many destinations a new maglev service is filled before it gets its scheduler.
const MAGLEV_AT_ONCE: usize = 4;

fn add_service(operations: &mut Vec<Operation>, service: ServiceId, new: &Service) {
    let attributes = new.attributes.clone();
    // Filling a maglev service costs the kernel a new table for each destination, twenty times
    // the work of one at the end. "none" and not another scheduler: to replace one the kernel
    // waits for an RCU grace period, tens of milliseconds for each service.
    let unscheduled = (is_maglev(&attributes) && new.destinations.len() > MAGLEV_AT_ONCE)
        .then(|| Scheduler::new("none"))
        .flatten()
        .map(|scheduler| ServiceAttributes { scheduler, ..attributes.clone() });
    let (first, last) = match unscheduled {
        None => (attributes, None),
        Some(unscheduled) => (unscheduled, Some(Operation::EditService { service, attributes })),
    };
    operations.push(Operation::AddService { service, attributes: first });
    operations.extend(new.destinations.iter().map(|(destination, record)| Operation::AddDestination {
        service,
        destination: *destination,
        record: *record,
    }));
    operations.extend(last);
}

fn is_maglev(attributes: &ServiceAttributes) -> bool {
    attributes.scheduler.as_str() == "mh"
}

enum Change {
    Added(Destination),
    Removed,
    Edited { from: Destination, to: Destination },
}

/// What differs between two ordered maps, in their order, in one pass over both.
struct Changes<I: Iterator> {
    old: Peekable<I>,
    new: Peekable<I>,
}

impl<'a, I: Iterator<Item = (&'a DestinationId, &'a Destination)>> Iterator for Changes<I> {
    type Item = (DestinationId, Change);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let side = match (self.old.peek(), self.new.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            match side {
                Ordering::Less => return self.old.next().map(|(id, _)| (*id, Change::Removed)),
                Ordering::Greater => {
                    return self.new.next().map(|(id, record)| (*id, Change::Added(*record)));
                }
                Ordering::Equal => {
                    let (Some((_, from)), Some((id, to))) = (self.old.next(), self.new.next()) else {
                        return None;
                    };
                    if from != to {
                        return Some((*id, Change::Edited { from: *from, to: *to }));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
