//! Disks that fail, or do not answer at all: traffic matters more than the record.

use super::*;

#[test]
fn a_failing_disk_lets_go_what_it_held_and_is_told_once() {
    let mut rig = Rig::new(&[WEB, OTHER]);
    rig.break_disk();
    rig.admit(&[(WEB, 3)]);
    rig.quiet_turn();
    let (held, news) = rig.answer();
    assert_eq!(names(&held.changes), named(&[(WEB, 3)]));
    assert!(matches!(news, Some(News::Failing(_))), "{news:?}");
    assert_eq!(rig.admit(&[(WEB, 4)]), named(&[(WEB, 4)]), "known from now on");
    for _ in 0..3 {
        rig.quiet_turn();
        assert!(!rig.is_saving(), "not before its time");
        rig.pass(PAUSE);
        rig.quiet_turn();
        let (held, news) = rig.answer();
        assert!(held.is_empty() && news.is_none(), "told once: {news:?}");
    }
    rig.mend_disk();
    rig.pass(PAUSE);
    rig.quiet_turn();
    assert!(matches!(rig.answer().1, Some(News::Recovered)));
    assert!(rig.is_on_record(WEB));
    rig.pass(PAUSE);
    rig.quiet_turn();
    assert!(!rig.is_saving());
}

#[test]
fn a_disk_that_does_not_answer_lets_go_after_a_while() {
    let (mut rig, gate) = Rig::gated(&[WEB]);
    rig.admit(&[(WEB, 3)]);
    rig.quiet_turn();
    assert_eq!(rig.recorder.poll_timeout(), Some(START + PATIENCE));
    rig.pass(PATIENCE - Duration::from_millis(1));
    rig.quiet_turn();
    rig.pass(Duration::from_millis(1));
    let (held, news) = rig.turn();
    assert_eq!(names(&held.changes), named(&[(WEB, 3)]));
    assert!(matches!(news, Some(News::Stuck)), "{news:?}");
    assert_eq!(rig.admit(&[(WEB, 4)]), named(&[(WEB, 4)]));
    drop(gate);
    assert!(matches!(rig.answer().1, Some(News::Recovered)));
    assert!(rig.is_on_record(WEB));
}

/// A loop that sleeps until `poll_timeout` must not spin while the disk takes its time.
#[test]
fn waiting_for_a_slow_disk_takes_no_turns() {
    let (mut rig, gate) = Rig::gated(&[WEB]);
    rig.recorder.note_change();
    rig.quiet_turn();
    assert!(rig.is_saving());
    for _ in 0..5 {
        rig.pass(PATIENCE);
        rig.quiet_turn();
    }
    rig.admit(&[(WEB, 3)]);
    rig.quiet_turn();
    rig.pass(PATIENCE);
    assert_eq!(names(&rig.turn().0.changes), named(&[(WEB, 3)]));
    rig.pass(PATIENCE);
    rig.quiet_turn();
    drop(gate);
}

/// The disk stops while it renews a stamp, which nobody waits for, and the queue fills with more.
#[test]
fn a_disk_that_stopped_at_a_stamp_lets_go_as_well() {
    let (mut rig, gate) = Rig::gated(&[WEB]);
    for _ in 0..100 {
        rig.recorder.renew(rig.now);
    }
    rig.admit(&[(WEB, 3)]);
    rig.quiet_turn();
    assert!(!rig.is_saving(), "there is no room");
    rig.pass(PATIENCE);
    let (held, news) = rig.turn();
    assert_eq!(names(&held.changes), named(&[(WEB, 3)]));
    assert!(matches!(news, Some(News::Stuck)), "{news:?}");
    rig.pass(PATIENCE);
    rig.quiet_turn();
    drop(gate);
    within("there is room again", || {
        rig.pass(PAUSE);
        rig.quiet_turn();
        rig.is_saving().then_some(())
    });
    assert!(matches!(rig.answer().1, Some(News::Recovered)));
    assert!(rig.is_on_record(WEB));
}

/// Each change waits for its own time only.
#[test]
fn patience_counts_from_when_a_change_began_to_wait() {
    let (mut rig, gate) = Rig::gated(&[WEB, OTHER]);
    rig.admit(&[(WEB, 1)]);
    rig.quiet_turn();
    rig.pass(PATIENCE);
    assert_eq!(names(&rig.turn().0.changes), named(&[(WEB, 1)]));
    rig.pass(PATIENCE);
    rig.admit(&[(THIRD, 1)]);
    rig.quiet_turn();
    rig.pass(PATIENCE / 2);
    rig.quiet_turn();
    rig.pass(PATIENCE / 2);
    let (held, news) = rig.turn();
    assert_eq!(names(&held.changes), named(&[(THIRD, 1)]));
    assert!(news.is_none(), "told already: {news:?}");
    drop(gate);
}

#[test]
fn a_last_word_that_cannot_be_written_is_news() {
    let rig = Rig::with(&[WEB], &left_behind(&[WEB]));
    rig.break_disk();
    let state = rig.recorder.state(&rig.engine, rig.now);
    let news = rig.runtime.block_on(rig.recorder.finish(state, SOON));
    assert!(matches!(news, Some(News::Failing(_))), "{news:?}");
}

#[test]
fn the_end_does_not_wait_for_a_disk_that_does_not_answer() {
    for stamps in [0, 100] {
        let (rig, gate) = Rig::gated(&[WEB]);
        for _ in 0..stamps {
            rig.recorder.renew(rig.now);
        }
        let state = rig.recorder.state(&rig.engine, rig.now);
        let news = rig.runtime.block_on(rig.recorder.finish(state, Duration::from_millis(20)));
        assert!(matches!(news, Some(News::Stuck)), "{news:?}");
        drop(gate);
    }
}
