//! One check's verdict: retry, alpha, the first result, and who is told.

use super::*;

fn check(text: &str) -> Arc<Check> {
    Arc::clone(&config(text).virtual_servers[0].real_servers[0].checks[0])
}

fn plain(retry: u32) -> Checker {
    let text = format!("virtual_server = [{{ address = 'V', retry = {retry}, real_server = ['A'] }}]");
    // Nobody has run it, and it is believed.
    let state = CheckerState {
        up: true,
        has_run: false,
        failures: 0,
        successes: 0,
        weight: WeightChange::None,
        heard: Time::ZERO,
        last: None,
    };
    Checker::new(check(&text), state)
}

#[test]
fn record_gives_the_whole_transition() {
    let mut checker = plain(1);
    let first = checker.record(Judgement::Success(WeightChange::None));
    let expected =
        Transition { from: true, to: true, changed: false, retrying: false, retries: 0, first: true };
    assert_eq!(first, expected);
    let tried = checker.record(Judgement::Failure);
    let expected =
        Transition { from: true, to: true, changed: false, retrying: true, retries: 1, first: false };
    assert_eq!(tried, expected);
    let failed = checker.record(Judgement::Failure);
    let expected =
        Transition { from: true, to: false, changed: true, retrying: false, retries: 2, first: false };
    assert_eq!(failed, expected);
}

#[test]
fn retry_zero_makes_the_first_failure_decisive() {
    let mut checker = plain(0);
    checker.record(Judgement::Success(WeightChange::None));
    assert!(checker.record(Judgement::Failure).changed);
}

#[test]
fn retries_come_faster_than_the_steady_state() {
    let mut scene = Scene::new(
        "virtual_server = [{ address = 'V', delay_loop = 10, retry = 1, delay_before_retry = 2, real_server = ['A'] }]",
    );
    scene.find("A", &good());
    assert_eq!(scene.engine.poll_timeout(), Some(scene.now + 10 * SECOND));
    scene.pass(10 * SECOND);
    scene.find("A", &bad());
    assert_eq!(scene.engine.poll_timeout(), Some(scene.now + 2 * SECOND));
    scene.pass(2 * SECOND);
    scene.find("A", &bad());
    assert_eq!(scene.engine.poll_timeout(), Some(scene.now + 8 * SECOND), "back on the phase");
}

#[test]
fn alpha_starts_down_and_says_nothing_before_the_first_result() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', alpha = true, real_server = ['A'] }]");
    assert!(!scene.server("A").alive);
    assert_eq!(scene.announcements(), []);
}

#[test]
fn without_alpha_a_server_is_believed_until_a_check_says_otherwise() {
    let scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
    let server = scene.server("A");
    assert!(server.alive && !server.checks[0].has_run);
}

#[test]
fn first_runs_are_staggered_across_servers() {
    let mut scene = Scene::new(
        "virtual_server = [{ address = 'V', delay_loop = 6, warmup = 6, real_server = ['A', 'B', 'C'] }]",
    );
    assert_eq!(scene.running.len(), 1);
    scene.pass(2 * SECOND);
    assert_eq!(scene.running.len(), 2);
    scene.pass(2 * SECOND);
    assert_eq!(scene.running.len(), 3);
}

#[test]
fn a_server_that_was_dead_already_is_told() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', alpha = true, real_server = ['A'] }]");
    scene.find("A", &bad());
    assert_eq!(scene.announcements(), [(false, News::First)]);
    scene.pass(SECOND);
    scene.find("A", &bad());
    assert_eq!(scene.announcements(), []);
}

#[test]
fn a_change_is_always_told() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
    scene.find("A", &bad());
    assert_eq!(scene.announcements(), [(false, News::Changed)]);
    scene.pass(SECOND);
    scene.find("A", &good());
    assert_eq!(scene.announcements(), [(true, News::Changed)]);
}

#[test]
fn a_good_first_result_of_a_believed_server_is_not_told() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
    scene.find("A", &good());
    assert_eq!(scene.announcements(), []);
}
