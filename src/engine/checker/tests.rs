//! Tables of results and verdicts; needs no time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::*;
use crate::engine::model::{CheckKind, Fault, Mode, OnLocalError, Phase, Probe, Target, Tcp, Timing};

fn checker(retry: u32, rise: u32, alpha: bool, state: CheckerState) -> Checker {
    let timing = Timing {
        delay_loop: Duration::from_secs(6),
        timeout: Duration::from_secs(5),
        retry,
        delay_before_retry: Duration::from_secs(1),
        rise,
        warmup: Duration::ZERO,
    };
    let target = Target { address: IpAddr::V4(Ipv4Addr::LOCALHOST), port: 80, source: None };
    let probe = Probe { target, kind: Arc::new(CheckKind::Tcp(Tcp::default())) };
    let config = Check {
        probe,
        timing: Arc::new(timing),
        alpha,
        mode: Mode::Enforce,
        on_local_error: OnLocalError::Ignore,
    };
    Checker::new(Arc::new(config), state)
}

fn judgement(letter: char) -> Judgement {
    match letter {
        'S' => Judgement::Success(WeightChange::None),
        'F' => Judgement::Failure,
        other => panic!("no such result: {other}"),
    }
}

/// Results, and the verdict after each: `^` up, `v` down, `r` up and to be tried again.
fn verdicts(checker: &mut Checker, results: &str) -> String {
    results
        .chars()
        .map(|letter| {
            let before = checker.is_up();
            let transition = checker.record(judgement(letter));
            assert_eq!((transition.from, transition.to), (before, checker.is_up()));
            assert_eq!(transition.changed, before != checker.is_up());
            assert_eq!(transition.retries, checker.state().failures);
            match (transition.to, transition.retrying) {
                (true, false) => '^',
                (true, true) => 'r',
                (false, false) => 'v',
                (false, true) => panic!("down and yet to be retried"),
            }
        })
        .collect()
}

#[test]
fn retry_rise_and_the_first_result() {
    // Retry, rise, assumed up or has run and what it was, results, verdicts.
    let fresh = |up| CheckerState::assumed(up);
    let run = |up| CheckerState { has_run: true, ..CheckerState::assumed(up) };
    let table = [
        // The first result decides whatever retry and rise say.
        (3, 3, fresh(true), "F", "v"),
        (3, 3, fresh(false), "S", "^"),
        (3, 3, fresh(true), "S", "^"),
        (3, 3, fresh(false), "F", "v"),
        // After it, retry + 1 failures in a row.
        (0, 1, run(true), "F", "v"),
        (1, 1, run(true), "FF", "rv"),
        (3, 1, run(true), "FFFF", "rrrv"),
        (3, 1, run(true), "FFSF", "rr^r"),
        (3, 1, run(true), "FSFSFSFS", "r^r^r^r^"),
        (3, 1, run(true), "SSF", "^^r"),
        (1, 1, run(true), "FFFFF", "rvvvv"),
        // And rise successes in a row.
        (0, 1, run(false), "S", "^"),
        (0, 2, run(false), "SS", "v^"),
        (0, 3, run(false), "SSFSSS", "vvvvv^"),
        (0, 3, run(false), "SSSF", "vv^v"),
        // Both counts start from nothing after a change.
        (1, 2, run(true), "FFSSFSFF", "rvv^r^rv"),
        (1, 2, run(false), "SSFFSS", "v^rvv^"),
    ];
    for (retry, rise, state, results, expected) in table {
        let mut checker = checker(retry, rise, false, state.clone());
        assert_eq!(verdicts(&mut checker, results), expected, "{retry} {rise} {state:?} {results}");
    }
}

#[test]
fn counters_do_not_overflow() {
    let state = CheckerState { has_run: true, failures: u32::MAX, ..CheckerState::assumed(false) };
    let mut down = checker(u32::MAX, u32::MAX, false, state);
    assert_eq!(verdicts(&mut down, "FF"), "vv");
    let state = CheckerState { has_run: true, failures: u32::MAX - 1, ..CheckerState::assumed(true) };
    let mut up = checker(u32::MAX, 1, false, state);
    assert_eq!(verdicts(&mut up, "FF"), "rr", "more failures than can be counted");
}

#[test]
fn only_a_first_result_is_first() {
    let mut checker = checker(0, 1, false, CheckerState::assumed(true));
    assert!(checker.record(Judgement::Failure).first);
    assert!(!checker.record(Judgement::Failure).first);
    assert!(!checker.record(judgement('S')).first);
}

#[test]
fn what_is_worth_telling() {
    // Alpha, state before, result, told?
    let fresh = |up| CheckerState::assumed(up);
    let run = |up| CheckerState { has_run: true, ..CheckerState::assumed(up) };
    let table = [
        (false, fresh(true), 'S', false),
        (false, fresh(true), 'F', true),
        (false, fresh(false), 'S', true),
        (false, fresh(false), 'F', true),
        (true, fresh(true), 'S', true),
        (true, fresh(true), 'F', true),
        (true, fresh(false), 'S', true),
        (true, fresh(false), 'F', true),
        (false, run(true), 'S', false),
        (true, run(true), 'S', false),
        (true, run(false), 'F', false),
        (false, run(true), 'F', true),
        (false, run(false), 'S', true),
    ];
    for (alpha, state, result, told) in table {
        let mut checker = checker(0, 1, alpha, state.clone());
        let transition = checker.record(judgement(result));
        assert_eq!(checker.should_notify(&transition), told, "{alpha} {state:?} {result}");
    }
}

#[test]
fn a_failure_keeps_the_weight_of_the_last_success() {
    let mut checker = checker(0, 1, false, CheckerState::assumed(true));
    checker.record(Judgement::Success(WeightChange::Delta(4)));
    checker.record(Judgement::Failure);
    assert_eq!(checker.state().weight, WeightChange::Delta(4));
    checker.record(Judgement::Success(WeightChange::None));
    assert_eq!(checker.state().weight, WeightChange::None);
}

#[test]
fn remembering_decides_nothing() {
    let mut checker = checker(0, 1, false, CheckerState::assumed(true));
    let fault = Fault { phase: Phase::Socket, reason: "no such device (ENODEV)".to_owned() };
    let outcome = Outcome { verdict: Verdict::LocalError(fault), latency: Duration::from_millis(2) };
    checker.remember(&outcome, Time::from_nanos(7));
    assert!(checker.is_up() && !checker.state().has_run);
    let last = checker.status().last.unwrap();
    assert_eq!((last.ok, last.at), (false, Time::from_nanos(7)));
    assert_eq!(last.detail, "socket: no such device (ENODEV)");
}

/// There are as many as there are checks.
#[test]
fn a_checker_is_small() {
    assert!(size_of::<Checker>() <= 96, "{} bytes", size_of::<Checker>());
}
