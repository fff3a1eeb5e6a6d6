//! The kernel's time-outs: what they were is on record before they change, and comes back.

use super::*;

fn seconds(tcp: Option<u32>, tcp_fin: Option<u32>, udp: Option<u32>) -> Timeouts {
    let unit = |seconds: Option<u32>| seconds.and_then(NonZeroU32::new);
    Timeouts { tcp: unit(tcp), tcp_fin: unit(tcp_fin), udp: unit(udp) }
}

/// As the supervisor does for a configuration.
fn configure(rig: &mut Rig, configured: &Timeouts) -> Timeouts {
    let timeouts = rig.recorder.timeouts(configured);
    rig.recorder.hold_settings(Settings { timeouts, sync: None });
    timeouts
}

#[test]
fn timeouts_are_on_record_before_they_are_set() {
    let mut rig = Rig::new(&[]);
    let set = configure(&mut rig, &seconds(Some(77), None, None));
    assert!(rig.recorder.is_holding());
    rig.quiet_turn();
    assert!(rig.is_saving(), "at once, since something waits");
    let (held, _) = rig.answer();
    assert_eq!(held.settings, Some(Settings { timeouts: set, sync: None }));
    assert_eq!(rig.on_disk().unwrap().original_timeouts, Some(kernels_timeouts()));
}

#[test]
fn a_write_that_began_before_does_not_let_timeouts_go() {
    let mut rig = Rig::new(&[WEB]);
    rig.admit(&[(WEB, 1)]);
    rig.quiet_turn();
    configure(&mut rig, &seconds(Some(77), None, None));
    let (held, _) = rig.answer();
    assert_eq!(names(&held.changes), named(&[(WEB, 1)]));
    assert_eq!(held.settings, None, "the file does not say yet what they were");
    rig.quiet_turn();
    assert!(rig.is_saving());
    assert!(rig.answer().0.settings.is_some());
    assert_eq!(rig.on_disk().unwrap().original_timeouts, Some(kernels_timeouts()));
}

#[test]
fn a_failing_disk_lets_timeouts_go() {
    let mut rig = Rig::new(&[]);
    rig.break_disk();
    configure(&mut rig, &seconds(Some(77), None, None));
    rig.quiet_turn();
    let (held, news) = rig.answer();
    assert!(held.settings.is_some() && matches!(news, Some(News::Failing(_))), "{news:?}");
}

#[test]
fn the_newest_settings_count() {
    let mut rig = Rig::new(&[]);
    configure(&mut rig, &seconds(Some(77), None, None));
    rig.quiet_turn();
    let newest = configure(&mut rig, &seconds(Some(78), None, None));
    assert_eq!(rig.answer().0.settings, Some(Settings { timeouts: newest, sync: None }));
    assert!(!rig.recorder.is_holding());
}

#[test]
fn what_was_never_changed_is_left_alone() {
    let mut recorder = Rig::new(&[]).recorder;
    assert_eq!(recorder.timeouts(&Timeouts::default()), Timeouts::default());
    assert_eq!(recorder.timeouts_before_us(), Timeouts::default());
    let rig = Rig::new(&[]);
    assert_eq!(rig.recorder.state(&rig.engine, rig.now).original_timeouts, None);
}

#[test]
fn what_is_configured_no_more_goes_back_to_what_it_was() {
    let mut recorder = Rig::new(&[]).recorder;
    for (configured, wanted) in [
        (seconds(Some(77), None, None), seconds(Some(77), Some(120), Some(300))),
        (seconds(None, Some(7), Some(8)), seconds(Some(900), Some(7), Some(8))),
        (seconds(Some(1), Some(2), Some(3)), seconds(Some(1), Some(2), Some(3))),
        (seconds(None, None, None), kernels_timeouts()),
    ] {
        assert_eq!(recorder.timeouts(&configured), wanted);
        assert_eq!(recorder.timeouts_before_us(), kernels_timeouts());
    }
}

/// After kill -9 the kernel has our time-outs, and only the record knows what was there before.
#[test]
fn the_record_knows_better_than_the_kernel_what_was_there_before() {
    let recorded = seconds(Some(111), Some(222), Some(333));
    let left = State { original_timeouts: Some(recorded), ..State::default() };
    let mut rig = Rig::with(&[], &left);
    assert_eq!(rig.recorder.timeouts_before_us(), recorded);
    assert_eq!(rig.recorder.timeouts(&Timeouts::default()), recorded, "configured no more");
    assert_eq!(rig.recorder.timeouts(&seconds(Some(7), None, None)), seconds(Some(7), Some(222), Some(333)));
    assert_eq!(rig.recorder.state(&rig.engine, rig.now).original_timeouts, Some(recorded));
}
