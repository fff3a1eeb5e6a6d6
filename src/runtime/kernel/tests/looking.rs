//! Dumps: at their interval, on request, late, failing. What they show is drift, or it is not.

use super::faulty::Door;
use super::*;
use crate::runtime::testing::within;

const OFTEN: Duration = Duration::from_millis(20);

fn drifts(rig: &Rig) -> Vec<String> {
    let each = rig.heard.iter().filter_map(|report| match report {
        Report::Drifted(drifted) => Some(drifted.repairs.iter().map(ToString::to_string)),
        Report::Written { .. } | Report::Failed(_) | Report::Recovered => None,
    });
    each.flatten().collect()
}

/// Waits for so many dumps that began after now.
fn look(rig: &Rig, count: usize) {
    let before = rig.kernel.faults().dumps;
    within("dumps", || (rig.kernel.faults().dumps > before + count).then_some(()));
}

#[test]
fn drift_is_told_and_repaired() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Repair, OFTEN);
    rig.written(WEB, Some(web(3)));
    rig.by_hand(edit(WEB, FIRST, 99));
    rig.hear("drift", |report| matches!(report, Report::Drifted(_)));
    rig.settle();
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
    assert_eq!(drifts(&rig), ["-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 3"]);
}

#[test]
fn drift_that_is_only_told_stays_until_it_is_to_be_repaired() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Warn, OFTEN);
    rig.written(WEB, Some(web(3)));
    rig.by_hand(edit(WEB, FIRST, 99));
    rig.hear("drift", |report| matches!(report, Report::Drifted(_)));
    look(&rig, 3);
    assert_eq!(rig.table(), table([(tcp(WEB), web(99))]));
    rig.writer.set_drift(Drift::Repair, OFTEN);
    within("the repair", || (rig.table() == table([(tcp(WEB), web(3))])).then_some(()));
    let mark = rig.writer.want(vec![]);
    rig.answer(mark);
    assert_eq!(drifts(&rig).len(), 1, "{:?}", rig.heard);
}

#[test]
fn with_drift_off_nothing_is_told() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Off, OFTEN);
    rig.written(WEB, Some(web(3)));
    rig.by_hand(removal(WEB));
    within("the view shows it", || rig.view().table.services.is_empty().then_some(()));
    look(&rig, 2);
    let mark = rig.writer.want(vec![]);
    rig.answer(mark);
    assert_eq!(drifts(&rig), [""; 0]);
    assert_eq!(rig.table(), Table::default());
}

#[test]
fn another_interval_takes_effect_at_once() {
    let mut rig = Rig::new();
    rig.written(WEB, Some(web(3)));
    rig.writer.set_drift(Drift::Repair, OFTEN);
    look(&rig, 2);
    rig.by_hand(edit(WEB, FIRST, 99));
    within("the repair", || (rig.table() == table([(tcp(WEB), web(3))])).then_some(()));
}

#[test]
fn a_dump_that_is_overtaken_by_a_write_undoes_nothing() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Repair, OFTEN);
    rig.written(WEB, Some(web(1)));
    for weight in 2..10 {
        rig.kernel.shut(Door::Dump);
        rig.kernel.await_caller(Door::Dump);
        assert_eq!(rig.written(WEB, Some(web(weight))), []);
        rig.kernel.open(Door::Dump);
        look(&rig, 2);
        assert_eq!(rig.table(), table([(tcp(WEB), web(weight))]));
    }
    let mark = rig.writer.want(vec![]);
    rig.answer(mark);
    assert_eq!(drifts(&rig), [""; 0]);
    assert_eq!(rig.kernel.asked().len(), 3 + 8);
}

#[test]
fn a_dump_that_hangs_delays_no_write() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Repair, OFTEN);
    rig.kernel.shut(Door::Dump);
    rig.kernel.await_caller(Door::Dump);
    for weight in 1..20 {
        assert_eq!(rig.written(WEB, Some(web(weight))), []);
    }
    assert_eq!(rig.view().table, table([(tcp(WEB), web(19))]));
    rig.kernel.open(Door::Dump);
}

#[test]
fn failing_dumps_are_told_and_so_is_their_end() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Repair, OFTEN);
    rig.written(WEB, Some(web(3)));
    rig.kernel.faults().dumps_fail = true;
    for _ in 0..3 {
        rig.hear("a dump fails", |report| matches!(report, Report::Failed(_)));
    }
    let answers = rig.writer.answers();
    let (age, limit) = answers.age();
    assert!(age.is_some() && limit >= 2 * OFTEN);
    rig.kernel.faults().dumps_fail = false;
    rig.hear("a dump succeeds", |report| matches!(report, Report::Recovered));
    rig.heard.clear();
    look(&rig, 2);
    let mark = rig.writer.want(vec![]);
    rig.answer(mark);
    let recovered = rig.heard.iter().filter(|report| matches!(report, Report::Recovered)).count();
    assert_eq!(recovered, 0, "told once");
}

#[test]
fn the_age_of_the_last_answer_grows_only_while_dumps_fail() {
    let rig = Rig::with(Table::default(), &[], Drift::Repair, OFTEN);
    let answers = rig.writer.answers();
    look(&rig, 2);
    rig.kernel.faults().dumps_fail = true;
    look(&rig, 1);
    let before = answers.age().0.unwrap();
    within("it grows", || (answers.age().0.unwrap() > before + Duration::from_millis(200)).then_some(()));
    rig.kernel.faults().dumps_fail = false;
    within("it is young again", || (answers.age().0.unwrap() < Duration::from_millis(200)).then_some(()));
}

/// The engine's first table may take longer than an interval to make.
#[test]
fn a_dump_before_the_first_wish_takes_nothing_away() {
    let before = table([(tcp(WEB), web(3))]);
    let mut rig = Rig::with(before.clone(), &[WEB], Drift::Repair, OFTEN);
    look(&rig, 2);
    assert!(rig.written(WEB, Some(web(3))).is_empty());
    assert_eq!(rig.kernel.asked(), Vec::<String>::new());
    assert_eq!(rig.table(), before);
}
