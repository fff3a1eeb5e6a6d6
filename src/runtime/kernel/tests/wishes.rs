//! Wishes are answered, the newest counts, and none waits behind a long plan.

use super::faulty::Door;
use super::*;
use crate::runtime::kernel::writer::CHUNK;

#[test]
fn a_wish_is_written_and_answered_with_its_ticket() {
    let mut rig = Rig::new();
    assert_eq!(rig.written(WEB, Some(web(3))), []);
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
    let [Report::Written { operations: 3, settled: true, .. }] = &rig.heard[..] else {
        panic!("{:?}", rig.heard)
    };
    assert_eq!(rig.written(WEB, None), []);
    assert_eq!(rig.table(), Table::default());
}

#[test]
fn an_empty_wish_is_answered_when_all_before_it_is_done() {
    let mut rig = Rig::new();
    rig.kernel.shut(Door::Apply);
    rig.want(WEB, Some(web(3)));
    let mark = rig.writer.want(vec![]);
    rig.kernel.open(Door::Apply);
    assert_eq!(rig.answer(mark), []);
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
    let again = rig.writer.want(vec![]);
    assert_eq!(rig.answer(again), []);
}

#[test]
fn wishes_that_pile_up_coalesce() {
    let mut rig = Rig::new();
    rig.kernel.shut(Door::Apply);
    rig.want(WEB, Some(web(1)));
    rig.kernel.await_caller(Door::Apply);
    let mut last = Ticket::default();
    for weight in 2..=1000 {
        last = rig.want(WEB, Some(web(weight)));
    }
    rig.kernel.open(Door::Apply);
    assert_eq!(rig.answer(last), []);
    assert_eq!(rig.table(), table([(tcp(WEB), web(1000))]));
    let asked = rig.kernel.asked();
    assert_eq!(asked.len(), 4, "three to add it, one to edit it: {asked:?}");
}

#[test]
fn a_change_never_waits_behind_more_than_one_chunk() {
    let mut rig = Rig::new();
    rig.written(WEB, Some(web(3)));
    rig.kernel.faults().batches.clear();
    rig.kernel.shut(Door::Apply);
    // No two of one service, so that each chunk is full.
    let many = (0..2000_u32).map(|n| (tcp(&format!("192.0.2.20:{}", n + 1)), Some(service("rr", &[]))));
    let first = rig.writer.want(many.collect());
    rig.kernel.await_caller(Door::Apply);
    let urgent = rig.want(WEB, Some(web(0)));
    rig.kernel.open(Door::Apply);
    assert_eq!(rig.answer(urgent.max(first)), []);
    let faults = rig.kernel.faults();
    assert_eq!(faults.batches[0].len(), CHUNK);
    assert_eq!(faults.batches[1][0], edit(WEB, FIRST, 0));
    assert!(faults.batches.iter().all(|batch| batch.len() <= CHUNK));
    assert_eq!(faults.batches.iter().flatten().count(), 2001, "nothing is done twice");
}

#[test]
fn services_of_an_earlier_run_go_and_foreign_ones_stay() {
    let foreign = service("rr", &[(FIRST, 5)]);
    let before = table([(tcp(WEB), web(3)), (tcp(OTHER), web(3)), (tcp("192.0.2.99:25"), foreign)]);
    let mut rig = Rig::with(before.clone(), &[WEB, OTHER], Drift::Repair, NEVER);
    assert_eq!(rig.written(WEB, Some(web(3))), []);
    let mut after = before;
    after.services.remove(&tcp(OTHER));
    assert_eq!(rig.table(), after);
    assert_eq!(rig.kernel.asked(), ["-D -t 192.0.2.11:80"]);
}

/// Every kind of post wakes the writer, whatever it was about to do.
#[test]
fn no_wake_up_is_lost() {
    let mut rig = Rig::new();
    for round in 0..3000_u32 {
        let ticket = match round % 5 {
            0 => rig.want(WEB, Some(web(round))),
            1 => rig.writer.want(vec![]),
            2 => rig.writer.set(Settings::default()),
            3 => {
                rig.writer.set_drift(if round % 2 == 0 { Drift::Repair } else { Drift::Warn }, NEVER);
                rig.want(OTHER, (round % 4 == 3).then(|| web(1)))
            }
            _ => {
                assert!(rig.view().table.services.contains_key(&tcp(WEB)));
                continue;
            }
        };
        assert_eq!(rig.answer(ticket), []);
        rig.heard.clear();
    }
}

/// Many posts without waiting for any, from a thread of their own: the last one is answered.
#[test]
fn the_last_of_many_posts_is_answered() {
    let mut rig = Rig::new();
    for burst in 0..50_u32 {
        let mut last = Ticket::default();
        for weight in 0..100 {
            last = rig.want(WEB, Some(web(burst * 100 + weight)));
        }
        assert_eq!(rig.answer(last), []);
        assert_eq!(rig.table(), table([(tcp(WEB), web(burst * 100 + 99))]));
        rig.heard.clear();
    }
}

#[test]
fn a_view_shows_the_table_with_its_counters() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Repair, Duration::from_millis(20));
    assert_eq!(rig.view().table, Table::default());
    rig.written(WEB, Some(web(3)));
    assert_eq!(rig.view().table, table([(tcp(WEB), web(3))]));
    crate::runtime::testing::within("counters of the next dump", || {
        rig.view().counters.get(&(tcp(WEB), destination(FIRST))).map(|_| ())
    });
    // Nobody waits for this one.
    drop(rig.writer.view());
    assert_eq!(rig.view().table, table([(tcp(WEB), web(3))]));
}
