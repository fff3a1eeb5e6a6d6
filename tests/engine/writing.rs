//! Brings a kernel's table to what the engine wants as the daemon does: by a plan, which can be cut off
//! after each of its operations.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use lvsd::engine::table::{DestinationId, Service, ServiceId, Table};
use lvsd::ipvs::{Kernel, Memory, plan};

/// Writes, and looks at the table after each operation: a service that can serve before and after must be
/// able to all the while, and a destination that is there before and after, whose connections would end with it,
/// must be there all the while. How many operations it took.
pub(crate) fn write(kernel: &mut Table, changes: Vec<(ServiceId, Option<Arc<Service>>)>) -> usize {
    let ours: BTreeSet<ServiceId> = changes.iter().map(|(id, _)| *id).collect();
    let mut before = kernel.clone();
    before.services.retain(|id, _| ours.contains(id));
    let wanted = Table { services: changes.into_iter().filter_map(|(id, s)| Some((id, s?))).collect() };
    let operations = plan(&before, &wanted, &ours);
    let serving: Vec<&ServiceId> =
        ours.iter().filter(|id| can_serve(&before, id) && can_serve(&wanted, id)).collect();
    let stay: Vec<(&ServiceId, &DestinationId)> = destinations(&before)
        .filter(|(id, to)| wanted.services.get(id).is_some_and(|s| s.destinations.contains_key(to)))
        .collect();
    let mut memory = Memory::with_table(before.clone());
    for operation in &operations {
        for result in memory.apply(slice::from_ref(operation)) {
            result.unwrap();
        }
        let table = memory.table();
        for id in &serving {
            assert!(can_serve(&table, id), "nobody serves {id} after {operation} of {operations:?}");
        }
        for (id, to) in &stay {
            let is_there = table.services.get(id).is_some_and(|s| s.destinations.contains_key(to));
            assert!(is_there, "{to} of {id} has left after {operation} of {operations:?}");
        }
    }
    assert_eq!(memory.table(), wanted, "what the plan made");
    assert_eq!(plan(&wanted, &wanted, &ours), [], "a plan of nothing");
    kernel.services.retain(|id, _| !ours.contains(id));
    kernel.services.extend(wanted.services);
    operations.len()
}

fn destinations(table: &Table) -> impl Iterator<Item = (&ServiceId, &DestinationId)> {
    table.services.iter().flat_map(|(id, service)| service.destinations.keys().map(move |to| (id, to)))
}

fn can_serve(table: &Table, id: &ServiceId) -> bool {
    table.services.get(id).is_some_and(|service| service.destinations.values().any(|d| d.weight > 0))
}

#[test]
fn a_service_that_is_emptied_on_the_way_would_be_seen() {
    // The judge alone: the plan never does so.
    let table = crate::lines::read(&["V {A/1, B/0}".to_owned(), "W {A/0}".to_owned()]);
    let serves: Vec<bool> = table.services.keys().map(|id| can_serve(&table, id)).collect();
    assert_eq!(serves, [true, false]);
}
