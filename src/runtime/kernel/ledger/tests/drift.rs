//! What a dump may say, and when a difference is drift: told once, repaired or left.

use super::*;

#[test]
fn a_dump_that_began_before_a_write_says_nothing_of_that_service() {
    let mut rig = Rig::settled([(WEB, web(3)), ("192.0.2.11:80", web(3))]);
    rig.by_hand(edit("192.0.2.11:80", FIRST, 99));
    let (seen, began) = (rig.table(), rig.ledger.stamp());
    rig.want(WEB, Some(web(4)));
    rig.write();
    assert_eq!(
        rig.see(&seen, began, Drift::Repair),
        ["-e -t 192.0.2.11:80 -r 198.51.100.11:80 -m -w 3"],
        "of the other service it tells"
    );
    assert_eq!(rig.write(), ["-e -t 192.0.2.11:80 -r 198.51.100.11:80 -m -w 3"]);
    assert_eq!(*rig.ledger.observed(), rig.table());
}

#[test]
fn a_dump_that_began_before_a_removal_does_not_bring_the_service_back() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    let (seen, began) = (rig.table(), rig.ledger.stamp());
    rig.want(WEB, None);
    rig.write();
    assert_eq!(rig.see(&seen, began, Drift::Repair), [""; 0]);
    assert_eq!(*rig.ledger.observed(), Table::default());
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
}

#[test]
fn a_dump_that_began_before_a_failure_does_not_end_the_doubt() {
    let mut rig = Rig::new(Table::default(), []);
    let (seen, began) = (rig.table(), rig.ledger.stamp());
    rig.want(WEB, Some(web(3)));
    rig.write_unheard();
    rig.want(WEB, None);
    rig.see(&seen, began, Drift::Repair);
    rig.write();
    assert!(!rig.ledger.is_settled());
    rig.look(Drift::Repair);
    assert_eq!(rig.write(), ["-D -t 192.0.2.10:80"]);
}

#[test]
fn stamps_of_writes_are_kept_only_as_long_as_a_dump_may_be_older() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    assert_eq!(rig.ledger.written.len(), 1);
    rig.look(Drift::Repair);
    assert_eq!(rig.ledger.written.len(), 0);
}

#[test]
fn drift_is_told_once_for_each_change_and_repaired() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
    rig.by_hand(edit(WEB, FIRST, 99));
    let repair = ["-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3"];
    assert_eq!(rig.look(Drift::Repair), repair);
    assert_eq!(rig.look(Drift::Repair), [""; 0], "told, not yet repaired");
    assert_eq!(rig.write(), repair);
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
    rig.by_hand(removal(WEB));
    assert_eq!(rig.look(Drift::Repair).len(), 3);
    assert_eq!(rig.write().len(), 3);
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
}

#[test]
fn with_warn_or_off_a_hand_edit_stays_until_the_service_is_wanted_anew() {
    for drift in [Drift::Warn, Drift::Off] {
        let mut rig = Rig::settled([(WEB, web(3))]);
        rig.by_hand(edit(WEB, FIRST, 99));
        assert_eq!(rig.look(drift).len(), 1);
        assert_eq!(rig.look(drift), [""; 0], "told once");
        assert_eq!(rig.write(), [""; 0]);
        assert!(rig.ledger.is_settled());
        rig.by_hand(edit(WEB, FIRST, 98));
        assert_eq!(rig.look(drift).len(), 1, "another change, told again");
        assert_eq!(rig.table(), table([(tcp(WEB), web(98))]));
        rig.want(WEB, Some(service("wrr", &[(FIRST, 3), (SECOND, 2)])));
        assert_eq!(
            rig.write(),
            [
                "-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3",
                "-e -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 2"
            ]
        );
    }
}

#[test]
fn a_hand_edit_that_is_taken_back_is_nothing_to_repair() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    rig.by_hand(edit(WEB, FIRST, 99));
    assert_eq!(rig.look(Drift::Warn).len(), 1);
    rig.by_hand(edit(WEB, FIRST, 3));
    assert_eq!(rig.look(Drift::Warn), [""; 0]);
}

#[test]
fn repairing_from_now_on_repairs_what_was_only_told_before() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    rig.by_hand(edit(WEB, FIRST, 99));
    assert_eq!(rig.look(Drift::Warn).len(), 1);
    rig.ledger.unsettle_all();
    assert_eq!(rig.write(), ["-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3"]);
    assert!(rig.ledger.is_settled());
}

#[test]
fn what_others_do_to_their_own_services_is_no_drift() {
    let foreign = service("rr", &[(FIRST, 5)]);
    let mut rig = Rig::new(table([(tcp(FOREIGN), foreign)]), []);
    rig.want(WEB, Some(web(3)));
    rig.write();
    rig.by_hand(edit(FOREIGN, FIRST, 6));
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
    rig.by_hand(removal(FOREIGN));
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
    assert_eq!(rig.write(), [""; 0]);
    assert_eq!(*rig.ledger.observed(), rig.table());
}

#[test]
fn a_change_that_is_still_to_be_written_is_no_drift() {
    let mut rig = Rig::settled([(WEB, web(3))]);
    rig.want(WEB, Some(web(4)));
    rig.by_hand(edit(WEB, FIRST, 99));
    assert_eq!(rig.look(Drift::Repair), [""; 0]);
    assert_eq!(rig.write(), ["-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 4"]);
}
