//! Hand-made plans, and properties over random tables, carried out on the table in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::engine::model::{Family, Forwarding};
use crate::engine::table::ServiceFlags;
use crate::ipvs::handle::Kernel;
use crate::ipvs::memory::Memory;
use crate::ipvs::testing::{attributes, destination, fwmark, nat, schedulers, service, table, tcp};

const A: &str = "198.51.100.1:80";
const B: &str = "198.51.100.2:80";
const C: &str = "198.51.100.3:80";
const D: &str = "198.51.100.4:80";

fn text(operations: &[Operation]) -> Vec<String> {
    operations.iter().map(ToString::to_string).collect()
}

#[test]
fn a_failover_adds_before_it_removes() {
    let web = tcp("192.0.2.10:80");
    let observed = table([(web, service("wlc", &[(A, 1), (B, 0), (C, 2)]))]);
    let desired = table([(web, service("wlc", &[(A, 0), (B, 1), (D, 1)]))]);
    assert_eq!(
        text(&plan(&observed, &desired, &BTreeSet::new())),
        [
            "-e -t 192.0.2.10:80 -r 198.51.100.2:80 -m -w 1",
            "-a -t 192.0.2.10:80 -r 198.51.100.4:80 -m -w 1",
            "-e -t 192.0.2.10:80 -r 198.51.100.1:80 -m -w 0",
            "-d -t 192.0.2.10:80 -r 198.51.100.3:80",
        ]
    );
}

#[test]
fn removals_come_before_edits_before_additions() {
    let (gone, kept, new) = (tcp("192.0.2.30:80"), tcp("192.0.2.20:80"), tcp("192.0.2.10:80"));
    let observed =
        table([(gone, service("rr", &[(A, 1)])), (kept, service("rr", &[(A, 1), (B, 2), (C, 3)]))]);
    let mut edited = Service::clone(&service("sh", &[(A, 1), (B, 20), (D, 4)]));
    edited.attributes.flags = ServiceFlags::SCHEDULER_1;
    let desired = table([(kept, Arc::new(edited)), (new, service("rr", &[(A, 1)]))]);
    assert_eq!(
        text(&plan(&observed, &desired, &BTreeSet::from([gone]))),
        [
            "-D -t 192.0.2.30:80",
            "-E -t 192.0.2.20:80 -s sh -b flag-1",
            "-a -t 192.0.2.20:80 -r 198.51.100.4:80 -m -w 4",
            "-e -t 192.0.2.20:80 -r 198.51.100.2:80 -m -w 20",
            "-d -t 192.0.2.20:80 -r 198.51.100.3:80",
            "-A -t 192.0.2.10:80 -s rr",
            "-a -t 192.0.2.10:80 -r 198.51.100.1:80 -m -w 1",
        ]
    );
}

#[test]
fn foreign_services_do_not_exist() {
    let (ours, foreign, earlier) = (tcp("192.0.2.10:80"), fwmark(5, Family::Ipv4), tcp("192.0.2.9:80"));
    let observed = table([(foreign, service("rr", &[(A, 1)])), (ours, service("rr", &[]))]);
    // Of an earlier run and gone already: nothing to do.
    let owned = BTreeSet::from([ours, earlier]);
    assert_eq!(text(&plan(&observed, &Table::default(), &owned)), ["-D -t 192.0.2.10:80"]);
    assert_eq!(plan(&observed, &Table::default(), &BTreeSet::new()), []);
    let named = [foreign, foreign, earlier, ours];
    assert_eq!(plan_services(&observed, &Table::default(), &BTreeSet::new(), named.iter()), []);
}

#[test]
fn only_the_named_services_are_looked_at() {
    let (one, two) = (tcp("192.0.2.10:80"), tcp("192.0.2.20:80"));
    let observed = table([(one, service("rr", &[(A, 1)])), (two, service("rr", &[(A, 1)]))]);
    let desired = table([(one, service("rr", &[(A, 2)])), (two, service("rr", &[(A, 2)]))]);
    let planned = plan_services(&observed, &desired, &BTreeSet::new(), [two].iter());
    assert_eq!(text(&planned), ["-e -t 192.0.2.20:80 -r 198.51.100.1:80 -m -w 2"]);
}

#[test]
fn maglev_gets_its_destinations_first() {
    let web = tcp("192.0.2.10:80");
    let many = [(A, 1), (B, 1), (C, 1), (D, 1), ("198.51.100.5:80", 1)];
    let full = table([(web, service("mh", &many))]);
    let from_nothing = text(&plan(&Table::default(), &full, &BTreeSet::new()));
    assert_eq!(from_nothing.len(), 7);
    assert_eq!(
        (from_nothing[0].as_str(), from_nothing[6].as_str()),
        ("-A -t 192.0.2.10:80 -s none", "-E -t 192.0.2.10:80 -s mh")
    );
    let few = table([(web, service("mh", &many[..4]))]);
    let from_nothing = text(&plan(&Table::default(), &few, &BTreeSet::new()));
    assert_eq!((from_nothing.len(), from_nothing[0].as_str()), (5, "-A -t 192.0.2.10:80 -s mh"));
    // To maglev last, from maglev first.
    let other = table([(web, service("rr", &[(A, 1)]))]);
    let to = text(&plan(&other, &few, &BTreeSet::new()));
    assert_eq!((to.len(), to[3].as_str()), (4, "-E -t 192.0.2.10:80 -s mh"));
    let back = text(&plan(&few, &other, &BTreeSet::new()));
    assert_eq!((back.len(), back[0].as_str()), (4, "-E -t 192.0.2.10:80 -s rr"));
}

// -- properties -----------------------------------------------------------------------------

/// Few names and few values, so that two random tables have much in common.
fn tables() -> impl Strategy<Value = Table> {
    let ids = prop_oneof![
        (1_u32..3).prop_map(|n| fwmark(n, Family::Ipv4)),
        (1_u8..4).prop_map(|n| tcp(&format!("192.0.2.{n}:80"))),
    ];
    let destinations = proptest::collection::btree_map(
        (1_u8..8).prop_map(|n| destination(&format!("198.51.100.{n}:80"))),
        (prop_oneof![Just(Forwarding::Nat), Just(Forwarding::Dr)], 0_u32..3, 0_u32..2).prop_map(
            |(forwarding, weight, upper_threshold)| Destination {
                forwarding,
                upper_threshold,
                ..nat(weight)
            },
        ),
        0..8,
    );
    let services =
        (schedulers(), any::<bool>(), destinations).prop_map(|(scheduler, is_flagged, destinations)| {
            let mut attributes = ServiceAttributes { scheduler, ..attributes("rr") };
            if is_flagged {
                attributes.flags = ServiceFlags::SCHEDULER_2;
            }
            Arc::new(Service { attributes, destinations })
        });
    proptest::collection::btree_map(ids, services, 0..5).prop_map(|services| Table { services })
}

fn owned() -> impl Strategy<Value = BTreeSet<ServiceId>> {
    tables().prop_map(|table| table.services.into_keys().collect())
}

fn serving(table: &Table, id: &ServiceId) -> bool {
    table.services.get(id).is_some_and(|service| service.is_serving())
}

/// What the table must be in the end: what is wanted, and what is neither wanted nor owned.
fn expected(observed: &Table, desired: &Table, owned: &BTreeSet<ServiceId>) -> Table {
    let mut services: BTreeMap<ServiceId, Arc<Service>> = observed.services.clone();
    services.retain(|id, _| !owned.contains(id));
    services.extend(desired.services.clone());
    Table { services }
}

/// Removing, editing or adding a service, as the order across services has it.
fn phase(operation: &Operation, observed: &Table) -> u8 {
    match operation {
        Operation::RemoveService { .. } => 0,
        other if observed.services.contains_key(other.service()) => 1,
        _ => 2,
    }
}

proptest! {
    #[test]
    fn a_plan_leads_to_what_is_wanted_and_every_prefix_serves(
        observed in tables(), desired in tables(), owned in owned(),
    ) {
        let operations = plan(&observed, &desired, &owned);
        let mut memory = Memory::with_table(observed.clone());
        let both_serve: Vec<&ServiceId> =
            desired.services.keys().filter(|id| serving(&observed, id) && serving(&desired, id)).collect();
        for operation in &operations {
            let results = memory.apply(std::slice::from_ref(operation));
            prop_assert_eq!(results, [Ok(())]);
            let now = memory.table();
            for id in &both_serve {
                prop_assert!(serving(&now, id), "{} after {}", id, operation);
            }
        }
        let reached = memory.table();
        prop_assert_eq!(&reached, &expected(&observed, &desired, &owned));
        prop_assert_eq!(plan(&reached, &desired, &owned), []);
        let phases: Vec<u8> = operations.iter().map(|operation| phase(operation, &observed)).collect();
        prop_assert!(phases.is_sorted());
    }

    /// Planning service by service, in any order, leads to the same table.
    #[test]
    fn plans_of_single_services_add_up(
        observed in tables(), desired in tables(), owned in owned(),
    ) {
        let mut memory = Memory::with_table(observed.clone());
        for id in observed.services.keys().chain(desired.services.keys()).rev() {
            let now = memory.table();
            let operations = plan_services(&now, &desired, &owned, std::iter::once(id));
            prop_assert!(operations.iter().all(|operation| operation.service() == id));
            for result in memory.apply(&operations) {
                prop_assert_eq!(result, Ok(()));
            }
        }
        prop_assert_eq!(memory.table(), expected(&observed, &desired, &owned));
    }

    /// Equal tables need nothing, whether they share their services or not.
    #[test]
    fn a_plan_between_equal_tables_is_empty(observed in tables(), owned in owned()) {
        let copy = Table {
            services: observed.services.iter().map(|(id, s)| (*id, Arc::new(Service::clone(s)))).collect(),
        };
        let owned: BTreeSet<ServiceId> = owned.into_iter().filter(|id| copy.services.contains_key(id)).collect();
        prop_assert_eq!(plan(&observed, &copy, &owned), []);
        prop_assert_eq!(plan(&observed, &observed, &owned), []);
    }
}

/// One changed weight among ten thousand destinations is one operation, by a walk over both.
#[test]
fn a_large_service_is_compared_in_one_pass() {
    let destinations = |weight: u32| -> BTreeMap<DestinationId, Destination> {
        let id = |n: u32| DestinationId {
            address: std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into(),
            port: 80,
        };
        (1..=10_000).map(|n| (id(n), nat(if n == 5_000 { weight } else { 1 }))).collect()
    };
    let web = tcp("192.0.2.10:80");
    let of = |weight| {
        let service = Service { attributes: attributes("wrr"), destinations: destinations(weight) };
        table([(web, Arc::new(service))])
    };
    let planned = plan(&of(1), &of(0), &BTreeSet::new());
    assert_eq!(text(&planned), ["-e -t 192.0.2.10:80 -r 10.0.19.136:80 -m -w 0"]);
}
