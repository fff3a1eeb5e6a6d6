//! One service fails, or the whole kernel does not answer: the others go on, and all comes right.

use nix::errno::Errno;

use super::faulty::Door;
use super::*;
use crate::runtime::kernel::writer::CHUNK;
use crate::runtime::testing::within;

const FOR_EVER: usize = usize::MAX;

/// What a look at the table has explained.
fn surprises(rig: &Rig) -> Vec<Option<Errno>> {
    let each = rig.heard.iter().filter_map(|report| match report {
        Report::Surprised(errors) => Some(errors.iter().map(OperationError::errno)),
        Report::Written { .. } | Report::Drifted(_) | Report::Failed(_) | Report::Recovered => None,
    });
    each.flatten().collect()
}

#[test]
fn an_error_that_happens_once_is_got_over() {
    let mut rig = Rig::new();
    rig.kernel.faults().refused.insert(tcp(WEB), (Errno::ENOMEM, 1));
    let failed = rig.written(WEB, Some(web(3)));
    assert_eq!(failed[0].errno(), Some(Errno::ENOMEM));
    rig.settle();
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
}

#[test]
fn while_one_service_fails_for_ever_others_are_written() {
    let mut rig = Rig::new();
    rig.kernel.faults().refused.insert(tcp(WEB), (Errno::EINVAL, FOR_EVER));
    assert_eq!(rig.written(WEB, Some(web(3))).len(), 3);
    for weight in 1..=50 {
        let failed = rig.written(OTHER, Some(web(weight)));
        assert!(failed.iter().all(|error| *error.service() == tcp(WEB)), "{failed:?}");
        assert_eq!(rig.table(), table([(tcp(OTHER), web(weight))]));
    }
    let tries = || FOR_EVER - rig.kernel.faults().refused[&tcp(WEB)].1;
    let before = tries();
    within("it is tried again and again", || (tries() > before + 6).then_some(()));
    rig.kernel.faults().refused.clear();
    rig.settle();
    assert_eq!(rig.table(), table([(tcp(WEB), web(3)), (tcp(OTHER), web(50))]));
}

#[test]
fn a_report_says_whether_anything_is_left() {
    let mut rig = Rig::new();
    rig.kernel.faults().refused.insert(tcp(WEB), (Errno::EINVAL, FOR_EVER));
    rig.written(WEB, Some(web(3)));
    assert_eq!(rig.written(OTHER, Some(web(1))), []);
    let Some(Report::Written { settled: false, .. }) = rig.heard.last() else { panic!("{:?}", rig.heard) };
    assert_eq!(rig.written(WEB, None), [], "it is not there, so there is nothing to do");
    rig.settle();
}

/// A failure that nobody has seen yet is looked at at once, however long others have been failing.
#[test]
fn a_service_that_always_fails_does_not_delay_the_recovery_of_another() {
    let mut rig = Rig::new();
    rig.written(OTHER, Some(web(1)));
    rig.kernel.faults().refused.insert(tcp(WEB), (Errno::EINVAL, FOR_EVER));
    for weight in 0..20 {
        rig.written(WEB, Some(web(weight)));
    }
    for weight in 2..10 {
        rig.by_hand(removal(OTHER));
        let failed = rig.written(OTHER, Some(web(weight)));
        assert!(failed.iter().all(|error| *error.service() == tcp(WEB)), "{failed:?}");
        assert_eq!(rig.table(), table([(tcp(OTHER), web(weight))]), "before the answer");
    }
}

#[test]
fn a_kernel_that_answers_nothing_is_not_asked_on() {
    let mut rig = Rig::new();
    rig.kernel.faults().mute = true;
    let many = (0..2000_u32).map(|n| (tcp(&format!("192.0.2.20:{}", n + 1)), Some(service("rr", &[]))));
    let ticket = rig.writer.want(many.collect());
    assert_eq!(
        rig.answer(ticket).len(),
        CHUNK,
        "of the rest nothing is known but that it is still to be done"
    );
    rig.kernel.faults().mute = false;
    rig.settle();
    assert_eq!(rig.table().services.len(), 2000);
}

#[test]
fn what_was_carried_out_without_an_answer_is_not_done_again() {
    let mut rig = Rig::new();
    rig.kernel.faults().unheard = 1;
    assert_eq!(rig.written(WEB, Some(web(3))), [], "a dump has shown that all went well");
    assert_eq!(surprises(&rig).len(), 3);
    assert_eq!(rig.kernel.asked().len(), 3);
    assert_eq!(rig.table(), table([(tcp(WEB), web(3))]));
    assert!(!rig.heard.iter().any(|report| matches!(report, Report::Drifted(_))), "{:?}", rig.heard);
}

#[test]
fn a_service_that_came_without_an_answer_goes_when_it_is_wanted_no_more() {
    let mut rig = Rig::new();
    rig.kernel.faults().unheard = 1;
    rig.kernel.shut(Door::Dump);
    rig.want(WEB, Some(web(3)));
    rig.kernel.await_caller(Door::Dump);
    let ticket = rig.want(WEB, None);
    rig.kernel.open(Door::Dump);
    assert_eq!(rig.answer(ticket), []);
    assert_eq!(rig.table(), Table::default());
}

#[test]
fn a_mute_kernel_and_failing_dumps_together_are_got_over() {
    let mut rig = Rig::new();
    rig.written(WEB, Some(web(1)));
    {
        let mut faults = rig.kernel.faults();
        (faults.mute, faults.dumps_fail) = (true, true);
    }
    for weight in 2..6 {
        assert!(!rig.written(WEB, Some(web(weight))).is_empty());
    }
    rig.hear("a dump fails", |report| matches!(report, Report::Failed(_)));
    assert_eq!(rig.view().table, table([(tcp(WEB), web(1))]), "as it was last seen");
    {
        let mut faults = rig.kernel.faults();
        (faults.mute, faults.dumps_fail) = (false, false);
    }
    rig.hear("a dump succeeds", |report| matches!(report, Report::Recovered));
    rig.settle();
    assert_eq!(rig.table(), table([(tcp(WEB), web(5))]));
}

#[test]
fn a_hand_that_interferes_is_met_with_a_look_at_once() {
    let mut rig = Rig::new();
    rig.written(WEB, Some(web(1)));
    rig.by_hand(Operation::RemoveDestination { service: tcp(WEB), destination: destination(FIRST) });
    assert_eq!(rig.written(WEB, Some(web(2))), []);
    assert_eq!(rig.table(), table([(tcp(WEB), web(2))]), "before the answer");
    assert_eq!(surprises(&rig), [Some(Errno::ENOENT)]);
}
