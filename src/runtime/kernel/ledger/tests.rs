//! The ledger against a table in memory, step by step: what is left to do, what a dump may say, what
//! is drift. Random interleavings of all of it are in `random`.

use std::collections::BTreeSet;

use super::*;
use crate::engine::table::DestinationId;
use crate::ipvs::{Kernel, Memory};
use crate::runtime::testing::{destination, nat, service, table, tcp};

mod drift;
mod random;

const WEB: &str = "192.0.2.10:80";
const OTHER: &str = "192.0.2.11:80";
const FOREIGN: &str = "192.0.2.99:25";
const FIRST: &str = "198.51.100.11:80";
const SECOND: &str = "198.51.100.12:80";

/// A ledger with the table that it is about.
struct Rig {
    kernel: Memory,
    ledger: Ledger,
}

impl Rig {
    fn new<const N: usize>(before: Table, owned: [&str; N]) -> Self {
        let kernel = Memory::with_table(before.clone());
        let owned = owned.into_iter().map(tcp).collect();
        Self { kernel, ledger: Ledger::new(before, owned) }
    }

    /// One that wants the services and has written them.
    fn settled<const N: usize>(services: [(&str, Arc<Service>); N]) -> Self {
        let mut rig = Self::new(Table::default(), []);
        for (id, service) in services {
            rig.want(id, Some(service));
        }
        rig.write();
        assert!(rig.ledger.is_settled());
        rig
    }

    fn want(&mut self, id: &str, service: Option<Arc<Service>>) {
        self.ledger.want([(tcp(id), service)]);
    }

    /// Carries out what is left to do; returns it as ipvsadm would be told.
    fn write(&mut self) -> Vec<String> {
        let plan = self.ledger.plan();
        for (operation, result) in plan.iter().zip(self.kernel.apply(&plan)) {
            match result {
                Ok(()) => self.ledger.applied(operation),
                Err(_) => self.ledger.failed(operation),
            }
        }
        self.ledger.settle();
        plan.iter().map(ToString::to_string).collect()
    }

    /// All of the plan is lost on the way: not carried out, and nobody knows.
    fn write_into_the_void(&mut self) -> usize {
        let plan = self.ledger.plan();
        plan.iter().for_each(|operation| self.ledger.failed(operation));
        self.ledger.settle();
        plan.len()
    }

    /// All of the plan is carried out, but no answer comes.
    fn write_unheard(&mut self) {
        let plan = self.ledger.plan();
        self.kernel.apply(&plan);
        plan.iter().for_each(|operation| self.ledger.failed(operation));
        self.ledger.settle();
    }

    /// A dump of now.
    fn look(&mut self, drift: Drift) -> Vec<String> {
        let (seen, began) = (self.kernel.table(), self.ledger.stamp());
        self.see(&seen, began, drift)
    }

    fn see(&mut self, seen: &Table, began: Stamp, drift: Drift) -> Vec<String> {
        let drifted = self.ledger.observe(seen, began, drift);
        self.ledger.release();
        drifted.repairs.iter().map(ToString::to_string).collect()
    }

    /// What a hand at ipvsadm does.
    fn by_hand(&mut self, operation: Operation) {
        assert_eq!(self.kernel.apply(&[operation]), [Ok(())]);
    }

    fn table(&self) -> Table {
        self.kernel.table()
    }
}

fn web(weight: u32) -> Arc<Service> {
    service("wrr", &[(FIRST, weight), (SECOND, 1)])
}

fn edit(id: &str, at: &str, weight: u32) -> Operation {
    Operation::EditDestination { service: tcp(id), destination: destination(at), record: nat(weight) }
}

fn removal(id: &str) -> Operation {
    Operation::RemoveService { service: tcp(id) }
}

#[test]
fn it_is_barred_while_all_that_could_serve_is_refused() {
    let nobody = || service("wrr", &[(FIRST, 0), (SECOND, 0)]);
    let unknown = || service("wrrr", &[(FIRST, 1)]);
    let mut rig = Rig::new(Table::default(), []);
    assert!(!rig.ledger.is_barred(), "nothing is wanted");
    rig.want(WEB, Some(nobody()));
    rig.want(OTHER, Some(service("wrrr", &[(FIRST, 0)])));
    rig.write();
    assert!(!rig.ledger.is_barred(), "refused, and nobody could serve it anyway");
    rig.want(OTHER, Some(unknown()));
    assert!(!rig.ledger.is_barred(), "on its way");
    rig.write();
    assert!(rig.ledger.is_barred(), "the only one that could serve is refused");
    rig.look(Drift::Repair);
    rig.write();
    assert!(rig.ledger.is_barred(), "and so it stays when it is tried again");
    rig.want(WEB, Some(web(3)));
    rig.write();
    assert!(!rig.ledger.is_barred(), "one of two is there");
    rig.want(WEB, Some(unknown()));
    rig.write();
    assert!(!rig.ledger.is_barred(), "an edit is refused: what was there before serves");
    rig.want(WEB, None);
    rig.write();
    assert!(rig.ledger.is_barred(), "that one is gone");
    rig.want(OTHER, None);
    rig.write();
    assert!(!rig.ledger.is_barred(), "nothing is wanted any more");
}

/// The service is there, but none of those that are to serve it.
#[test]
fn a_service_whose_servers_are_all_refused_serves_nobody() {
    let mut rig = Rig::new(Table::default(), []);
    rig.want(WEB, Some(web(3)));
    let plan = rig.ledger.plan();
    rig.ledger.applied(&plan[0]);
    plan.iter().skip(1).for_each(|operation| rig.ledger.failed(operation));
    rig.ledger.settle();
    assert!(rig.ledger.is_barred());
    rig.ledger.applied(&plan[1]);
    assert!(!rig.ledger.is_barred());
}

#[test]
fn what_is_wanted_is_planned_written_and_settled() {
    let mut rig = Rig::new(Table::default(), []);
    rig.want(WEB, Some(web(3)));
    assert!(!rig.ledger.is_settled());
    assert_eq!(
        rig.write(),
        [
            "-A -t 192.0.2.10:80 -s wrr",
            "-a -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3",
            "-a -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 1",
        ]
    );
    assert!(rig.ledger.is_settled());
    assert_eq!(rig.write(), [""; 0]);
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
    assert_eq!(*rig.ledger.observed(), rig.table());
}

#[test]
fn the_newest_wish_for_a_service_counts() {
    let mut rig = Rig::new(Table::default(), []);
    rig.ledger.want([(tcp(WEB), Some(web(1))), (tcp(WEB), None), (tcp(WEB), Some(web(7)))]);
    rig.write();
    assert_eq!(rig.table(), table([(tcp(WEB), web(7))]));
    rig.ledger.want([(tcp(WEB), Some(web(8))), (tcp(WEB), None)]);
    assert_eq!(rig.write(), ["-D -t 192.0.2.10:80"]);
    assert_eq!(rig.table(), Table::default());
}

#[test]
fn a_wish_that_is_fulfilled_already_is_no_work() {
    let mut rig = Rig::new(table([(tcp(WEB), web(3))]), []);
    rig.want(WEB, Some(web(3)));
    assert_eq!(rig.write(), [""; 0]);
    assert!(rig.ledger.is_settled());
    // One entry instead of two equal ones.
    let kept = &rig.ledger.observed().services[&tcp(WEB)];
    assert!(Arc::ptr_eq(kept, &rig.ledger.wanted.services[&tcp(WEB)]));
}

#[test]
fn services_of_an_earlier_run_go_unless_they_are_wanted() {
    let before = table([
        (tcp(WEB), web(3)),
        (tcp("192.0.2.11:80"), web(4)),
        (tcp(FOREIGN), service("rr", &[(FIRST, 5)])),
    ]);
    let mut rig = Rig::new(before, [WEB, "192.0.2.11:80", "192.0.2.12:80"]);
    rig.want(WEB, Some(web(2)));
    assert_eq!(
        rig.write(),
        ["-D -t 192.0.2.11:80", "-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 2"],
        "the one that is gone already is no work"
    );
    assert_eq!(rig.table(), table([(tcp(WEB), web(2)), (tcp(FOREIGN), service("rr", &[(FIRST, 5)]))]));
    assert_eq!(rig.ledger.owned, BTreeSet::from([tcp(WEB)]));
}

#[test]
fn wanting_nothing_removes_what_is_owned_and_nothing_else() {
    let foreign = service("rr", &[(FIRST, 5)]);
    let mut rig = Rig::new(table([(tcp(FOREIGN), Arc::clone(&foreign))]), []);
    rig.want(WEB, Some(web(3)));
    rig.want("192.0.2.11:80", Some(web(3)));
    rig.write();
    rig.ledger.want_nothing();
    assert_eq!(rig.write(), ["-D -t 192.0.2.10:80", "-D -t 192.0.2.11:80"]);
    assert_eq!(rig.table(), table([(tcp(FOREIGN), foreign)]));
    assert!(rig.ledger.is_settled() && rig.ledger.owned.is_empty());
}

#[test]
fn wanting_nothing_tries_again_what_was_held() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    rig.want(WEB, Some(web(4)));
    rig.write_into_the_void();
    assert_eq!(rig.write(), [""; 0]);
    rig.ledger.want_nothing();
    assert_eq!(rig.write(), ["-D -t 192.0.2.10:80"]);
}

// -- failures -------------------------------------------------------------------------------

#[test]
fn a_service_that_failed_is_held_while_others_go_on() {
    let mut rig = Rig::new(Table::default(), []);
    rig.want(WEB, Some(service("unheard-of", &[])));
    rig.want("192.0.2.11:80", Some(web(1)));
    assert_eq!(rig.write().len(), 4);
    assert_eq!(rig.table(), table([(tcp("192.0.2.11:80"), web(1))]));
    assert!(!rig.ledger.is_settled());
    rig.want("192.0.2.11:80", Some(web(2)));
    assert_eq!(rig.write(), ["-e -t 192.0.2.11:80 -r 198.51.100.11:80 -m -w 2"], "held: not tried again");
    rig.ledger.release();
    assert_eq!(rig.write(), [""; 0], "no dump has shown it");
    rig.look(Drift::Repair);
    assert_eq!(rig.write(), ["-A -t 192.0.2.10:80 -s unheard-of"], "released: tried again");
    rig.want(WEB, Some(web(5)));
    assert_eq!(rig.write().len(), 3, "wanted anew: tried at once");
    assert!(!rig.ledger.is_settled(), "only a dump can tell that nothing is left of the failures");
    rig.look(Drift::Repair);
    rig.write();
    assert!(rig.ledger.is_settled());
    assert_eq!(rig.table(), table([(tcp(WEB), web(5)), (tcp("192.0.2.11:80"), web(2))]));
}

#[test]
fn what_was_carried_out_of_a_failed_service_is_not_done_again() {
    let mut rig = Rig::new(Table::default(), []);
    // The broadcast address is refused, its neighbours are not.
    rig.want(WEB, Some(service("rr", &[(FIRST, 1), ("255.255.255.255:80", 1)])));
    assert_eq!(rig.write().len(), 3);
    rig.look(Drift::Repair);
    assert_eq!(rig.write(), ["-a -t 192.0.2.10:80 -r 255.255.255.255:80 -m -w 1"]);
    assert_eq!(rig.table(), table([(tcp(WEB), service("rr", &[(FIRST, 1)]))]));
}

#[test]
fn an_operation_whose_answer_was_lost_is_looked_up_not_repeated() {
    let mut rig = Rig::new(Table::default(), []);
    rig.want(WEB, Some(web(3)));
    rig.write_unheard();
    assert_eq!(rig.look(Drift::Repair), [""; 0], "our own work is no drift");
    assert_eq!(rig.write(), [""; 0]);
    assert!(rig.ledger.is_settled());
}

#[test]
fn a_service_that_may_have_been_added_is_removed_when_it_is_wanted_no_more() {
    let mut rig = Rig::new(Table::default(), []);
    rig.want(WEB, Some(web(3)));
    rig.write_unheard();
    rig.want(WEB, None);
    rig.write();
    assert!(!rig.ledger.is_settled(), "nobody knows yet whether it is there");
    rig.look(Drift::Repair);
    assert_eq!(rig.write(), ["-D -t 192.0.2.10:80"]);
    assert_eq!(rig.table(), Table::default());
    assert!(rig.ledger.is_settled() && rig.ledger.owned.is_empty());
}

#[test]
fn an_edit_that_may_have_been_made_is_taken_back_whatever_drift_says() {
    for drift in [Drift::Repair, Drift::Warn, Drift::Off] {
        let mut rig = Rig::settled([(WEB, web(3))]);
        rig.want(WEB, Some(web(9)));
        rig.write_unheard();
        rig.want(WEB, Some(web(3)));
        rig.write();
        assert_eq!(rig.look(drift), [""; 0], "our own work is no drift");
        assert_eq!(rig.write(), ["-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3"]);
        assert!(rig.ledger.is_settled());
    }
}

#[test]
fn a_service_that_was_never_added_is_forgotten_by_the_dump_that_says_so() {
    let mut rig = Rig::new(Table::default(), []);
    rig.want(WEB, Some(web(3)));
    assert_eq!(rig.write_into_the_void(), 3);
    rig.want(WEB, None);
    rig.write();
    assert!(!rig.ledger.is_settled());
    rig.look(Drift::Repair);
    assert_eq!(rig.write(), [""; 0]);
    assert!(rig.ledger.is_settled() && rig.ledger.owned.is_empty());
}

#[test]
fn every_operation_brings_the_observed_table_forward() {
    let id: DestinationId = destination(FIRST);
    let mut rig = Rig::settled([(WEB, web(3))]);
    for (wish, count) in [
        (service("wrr", &[(SECOND, 1)]), 1),
        (service("rr", &[(SECOND, 1)]), 1),
        (service("rr", &[(FIRST, 2), (SECOND, 4)]), 2),
        (
            service(
                "mh",
                &[
                    (FIRST, 2),
                    (SECOND, 4),
                    ("198.51.100.13:80", 1),
                    ("198.51.100.14:80", 1),
                    ("198.51.100.15:80", 1),
                ],
            ),
            4,
        ),
    ] {
        rig.want(WEB, Some(wish));
        assert_eq!(rig.write().len(), count);
        assert_eq!(*rig.ledger.observed(), rig.table());
    }
    assert!(rig.table().services[&tcp(WEB)].destinations.contains_key(&id));
}

#[test]
fn a_configured_service_that_is_not_active_stays_owned() {
    let mut rig = Rig::new(Table::default(), []);
    rig.ledger.keep([tcp(WEB)].into());
    rig.want(WEB, None);
    assert_eq!(rig.write(), [""; 0]);
    assert!(rig.ledger.is_settled());
    // By hand, while another host is the active one.
    rig.by_hand(Operation::AddService { service: tcp(WEB), attributes: web(3).attributes.clone() });
    rig.look(Drift::Repair);
    assert_eq!(rig.write(), ["-D -t 192.0.2.10:80"]);
    // One that has left the configuration is anybody's.
    rig.ledger.keep(BTreeSet::new());
    rig.want(WEB, None);
    rig.write();
    rig.by_hand(Operation::AddService { service: tcp(WEB), attributes: web(3).attributes.clone() });
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
    assert_eq!(rig.write(), [""; 0]);
}
