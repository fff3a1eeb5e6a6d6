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
