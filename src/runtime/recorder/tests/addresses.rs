//! Virtual addresses are on record before they are put anywhere, and until they are gone.

use super::*;

pub(super) fn set(addresses: &[&str]) -> BTreeSet<VirtualAddress> {
    let on = |address: &&str| VirtualAddress { interface: "lvs0".into(), address: address.parse().unwrap() };
    addresses.iter().map(on).collect()
}

fn left_behind(addresses: &[&str]) -> State {
    State { announced: set(addresses), ..State::default() }
}

#[test]
fn an_address_is_on_record_before_it_counts_as_ours() {
    let mut rig = Rig::new(&[]);
    rig.recorder.note_addresses(set(&["192.0.2.10"]));
    assert!(rig.recorder.is_urgent());
    assert_eq!(rig.recorder.addresses(), &set(&[]));
    rig.quiet_turn();
    assert!(rig.is_saving(), "at once, since something waits");
    rig.recorder.note_addresses(set(&["192.0.2.10", "192.0.2.11"]));
    rig.answer();
    assert_eq!(rig.recorder.addresses(), &set(&["192.0.2.10"]), "not what came after the write began");
    assert!(rig.recorder.is_urgent());
    rig.quiet_turn();
    rig.answer();
    assert_eq!(rig.recorder.addresses(), &set(&["192.0.2.10", "192.0.2.11"]));
    assert_eq!(rig.on_disk().unwrap().announced, set(&["192.0.2.10", "192.0.2.11"]));
    assert!(!rig.recorder.is_urgent());
}

#[test]
fn an_address_of_an_earlier_run_stays_on_record_until_it_is_gone() {
    let mut rig = Rig::with(&[], &left_behind(&["192.0.2.10", "192.0.2.11"]));
    rig.recorder.note_addresses(set(&["192.0.2.10"]));
    assert!(!rig.recorder.is_urgent(), "it is on record already");
    rig.recorder.note_change();
    rig.quiet_turn();
    rig.answer();
    assert_eq!(rig.on_disk().unwrap().announced, set(&["192.0.2.10", "192.0.2.11"]));
    rig.recorder.forget_addresses();
    assert_eq!(rig.recorder.addresses(), &set(&["192.0.2.10"]));
    rig.pass(PAUSE);
    rig.quiet_turn();
    rig.answer();
    assert_eq!(rig.on_disk().unwrap().announced, set(&["192.0.2.10"]));
    rig.recorder.forget_addresses();
    rig.pass(PAUSE);
    rig.quiet_turn();
    assert!(!rig.is_saving(), "nothing changed");
}

#[test]
fn no_address_waits_for_ever_for_a_disk() {
    let (mut rig, gate) = Rig::gated(&[]);
    rig.recorder.note_addresses(set(&["192.0.2.10"]));
    rig.quiet_turn();
    rig.pass(PATIENCE);
    let (_, news) = rig.turn();
    assert!(matches!(news, Some(News::Stuck)), "{news:?}");
    assert_eq!(rig.recorder.addresses(), &set(&["192.0.2.10"]));
    assert!(!rig.recorder.is_urgent());
    drop(gate);
    rig.answer();
    let mut rig = Rig::new(&[]);
    rig.break_disk();
    rig.recorder.note_addresses(set(&["192.0.2.10"]));
    rig.quiet_turn();
    rig.answer();
    assert_eq!(rig.recorder.addresses(), &set(&["192.0.2.10"]));
}

/// The disk hangs at a stamp, so that there is no room for a write, and a reload takes back what it had announced.
#[test]
fn an_address_that_is_no_longer_wanted_is_not_waited_for() {
    let (mut rig, gate) = Rig::gated(&[]);
    for _ in 0..100 {
        rig.recorder.renew(rig.now);
    }
    rig.recorder.note_addresses(set(&["192.0.2.10"]));
    rig.quiet_turn();
    assert!(!rig.is_saving() && rig.recorder.is_urgent());
    rig.recorder.note_addresses(set(&[]));
    for _ in 0..3 {
        rig.pass(PATIENCE);
        rig.quiet_turn();
        assert_eq!(rig.recorder.poll_timeout(), None, "there is nothing to do");
    }
    rig.recorder.note_addresses(set(&["192.0.2.11"]));
    rig.quiet_turn();
    assert_eq!(rig.recorder.poll_timeout(), Some(rig.now + PAUSE), "it has its own time to wait");
    drop(gate);
}
