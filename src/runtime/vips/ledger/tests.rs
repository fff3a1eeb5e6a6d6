//! Drift, failures and interfaces that come and go, without a kernel.

use proptest::prelude::*;

use super::*;
use crate::runtime::vips::plan::tests::{carry_out, interface, on, some_observed, some_wish};

const VIP: &str = "192.0.2.10";

fn wish(present: &[&str], absent: &[&str]) -> Wish {
    let set = |list: &[&str]| list.iter().map(|address| on("lvs0", address)).collect();
    Wish { present: set(present), absent: set(absent) }
}

fn seen(addresses: &[&str]) -> Observed {
    Observed::from([("lvs0".into(), interface(true, addresses))])
}

/// Plans and does it all; what was done.
fn settle(ledger: &mut Ledger) -> Vec<String> {
    let plan = ledger.plan();
    plan.iter().for_each(|action| ledger.applied(action));
    assert_eq!(ledger.plan(), vec![]);
    ledger.settle();
    plan.iter().map(ToString::to_string).collect()
}

fn ledger(drift: Drift, wish: Wish, before: Observed) -> Ledger {
    let mut ledger = Ledger::new(Observed::new());
    ledger.want(wish, drift);
    assert_eq!(ledger.observe(before), vec![], "the first look is no drift");
    ledger
}

#[test]
fn what_an_earlier_run_left_is_put_right_however_drift_is_treated() {
    for drift in [Drift::Repair, Drift::Warn, Drift::Off] {
        let mut ledger = ledger(drift, wish(&[VIP], &["192.0.2.20"]), seen(&["192.0.2.20", "192.0.2.99"]));
        let wanted = ["withdraw 192.0.2.20 from lvs0", "announce 192.0.2.10 on lvs0"];
        assert_eq!(settle(&mut ledger), wanted, "{drift:?}");
        assert!(ledger.is_settled());
        assert_eq!(ledger.there(), [on("lvs0", VIP)].into());
    }
}

#[test]
fn drift_is_told_and_repaired_as_configured() {
    let gone = vec![Drifted::Gone(on("lvs0", VIP))];
    let came = [Drifted::Came(on("lvs0", "192.0.2.20"))];
    let table = [
        (Drift::Repair, true, vec!["announce 192.0.2.10 on lvs0"]),
        (Drift::Warn, true, vec![]),
        (Drift::Off, false, vec![]),
    ];
    for (drift, told, repairs) in table {
        let mut ledger = ledger(drift, wish(&[VIP], &["192.0.2.20"]), seen(&[]));
        settle(&mut ledger);
        assert_eq!(
            ledger.observe(seen(&["192.0.2.99"])),
            if told { gone.clone() } else { vec![] },
            "{drift:?}"
        );
        assert_eq!(settle(&mut ledger), repairs, "{drift:?}");
        assert_eq!(ledger.observe(seen(&[VIP, "192.0.2.20"])).contains(&came[0]), told, "{drift:?}");
        assert_eq!(settle(&mut ledger).len(), usize::from(drift == Drift::Repair), "{drift:?}");
    }
}

#[test]
fn from_warning_to_repairing_all_is_put_right() {
    let mut ledger = ledger(Drift::Warn, wish(&[VIP], &[]), seen(&[]));
    settle(&mut ledger);
    ledger.observe(seen(&[]));
    assert_eq!(settle(&mut ledger), Vec::<String>::new());
    ledger.want(wish(&[VIP], &[]), Drift::Repair);
    assert_eq!(settle(&mut ledger), ["announce 192.0.2.10 on lvs0"]);
}

#[test]
fn an_interface_that_is_taken_away_is_an_obstacle_until_it_is_back() {
    let mut ledger = ledger(Drift::Repair, wish(&[VIP], &[]), seen(&[VIP]));
    assert!(ledger.is_settled() && ledger.obstacles().is_empty());
    assert_eq!(ledger.observe(Observed::new()), [Drifted::Gone(on("lvs0", VIP))]);
    assert_eq!(ledger.obstacles(), [("lvs0".into(), Obstacle::Missing)].into());
    let down = Observed::from([("lvs0".into(), interface(false, &[]))]);
    assert_eq!(ledger.observe(down), vec![], "what is being repaired is told once");
    assert_eq!(ledger.obstacles(), [("lvs0".into(), Obstacle::Down)].into());
    assert_eq!((settle(&mut ledger), ledger.is_settled()), (vec![], false));
    ledger.observe(seen(&[]));
    assert_eq!(settle(&mut ledger), ["announce 192.0.2.10 on lvs0"]);
    assert!(ledger.is_settled() && ledger.obstacles().is_empty());
}

#[test]
fn what_failed_waits_for_its_next_try_and_holds_up_nothing_else() {
    let mut ledger = ledger(Drift::Repair, wish(&[VIP, "2001:db8::10"], &[]), seen(&[]));
    let plan = ledger.plan();
    ledger.failed(&plan[1]);
    ledger.applied(&plan[0]);
    assert_eq!(ledger.plan(), vec![]);
    assert!(ledger.is_holding() && !ledger.is_settled());
    ledger.want(wish(&[VIP, "192.0.2.11", "2001:db8::10"], &[]), Drift::Repair);
    assert_eq!(settle(&mut ledger), ["announce 192.0.2.11 on lvs0"]);
    ledger.release();
    assert_eq!(settle(&mut ledger), ["announce 2001:db8::10 on lvs0"]);
    assert!(!ledger.is_holding() && ledger.is_settled());
}

#[test]
fn what_is_wanted_otherwise_is_tried_at_once() {
    let mut ledger = ledger(Drift::Repair, wish(&[VIP], &[]), seen(&[]));
    let plan = ledger.plan();
    ledger.failed(&plan[0]);
    // It may have been carried out, and its answer lost.
    ledger.observe(seen(&[VIP]));
    assert!(ledger.is_settled() && !ledger.is_holding());
    ledger.want(wish(&[], &[VIP]), Drift::Repair);
    assert_eq!(settle(&mut ledger), ["withdraw 192.0.2.10 from lvs0"]);
}

#[derive(Clone, Debug)]
enum Happening {
    Want(Wish),
    See(Observed),
    Act { fail: bool },
    Retry,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        some_wish().prop_map(Happening::Want),
        some_observed().prop_map(Happening::See),
        any::<bool>().prop_map(|fail| Happening::Act { fail }),
        Just(Happening::Retry),
    ]
}

proptest! {
    /// Whatever happens: when it is quiet, all is as wished that can be.
    #[test]
    fn in_the_end_all_is_as_wished(happenings in prop::collection::vec(happening(), 0..20)) {
        let (mut ledger, mut host) = (Ledger::new(Observed::new()), Observed::new());
        for happening in happenings {
            match happening {
                Happening::Want(wish) => ledger.want(wish, Drift::Repair),
                Happening::See(observed) => {
                    host.clone_from(&observed);
                    ledger.observe(observed);
                }
                Happening::Act { fail } => {
                    if let Some(action) = ledger.plan().first() {
                        if fail {
                            ledger.failed(action);
                        } else {
                            carry_out(&mut host, action);
                            ledger.applied(action);
                        }
                    }
                }
                Happening::Retry => ledger.release(),
            }
        }
        ledger.release();
        ledger.observe(host.clone());
        for action in ledger.plan() {
            carry_out(&mut host, &action);
            ledger.applied(&action);
        }
        let blocked = ledger.obstacles();
        prop_assert_eq!(ledger.is_settled(), blocked.is_empty());
        for at in ledger.wish.present.union(&ledger.wish.absent) {
            let met = plan::is_met(&ledger.wish, &host, at);
            prop_assert!(met || blocked.contains_key(&at.interface), "{}", at);
        }
    }
}
