//! The rules of aggregation, on paused time.

use std::future::pending;
use std::sync::atomic::AtomicUsize;

use http_body_util::BodyExt;
use hyper::Request;
use tokio::time::Instant;

use super::*;
use crate::health::{Handler, Slot};

fn healthy(name: &str) -> Checker {
    Checker::new(name, || async { Ok(()) })
}

fn failing(name: &str) -> Checker {
    Checker::new(name, || async { Err("connection refused".into()) })
}

fn hanging(name: &str) -> Checker {
    Checker::new(name, pending)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn ask(handler: &Handler) -> (u16, String) {
    let response = handler(Request::new(())).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn ready_when_every_checker_is_healthy_or_there_is_none() {
    for checkers in [vec![], vec![healthy("ipvs")], vec![healthy("ipvs"), healthy("config")]] {
        assert_eq!(Arc::new(Aggregator::new(checkers)).evaluate().await, (true, vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_named_in_declared_order_whatever_the_order_of_their_ends() {
    let slow = Checker::new("b", || async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        Err("late no".into())
    });
    let aggregator =
        Arc::new(Aggregator::new(vec![hanging("d"), slow, healthy("x"), failing("c"), failing("a")]));
    assert_eq!(aggregator.evaluate().await, (false, names(&["d", "b", "c", "a"])));
}

#[tokio::test(start_paused = true)]
async fn hanging_checkers_fail_at_their_deadline_and_all_at_once() {
    let start = Instant::now();
    let aggregator = Arc::new(Aggregator::new((0..100).map(|n| hanging(&n.to_string())).collect()));
    let (ready, failed) = aggregator.evaluate().await;
    assert!(!ready);
    assert_eq!(failed.len(), 100);
    assert_eq!(start.elapsed(), DEFAULT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn deadlines_come_from_the_checker_then_from_the_option() {
    let start = Instant::now();
    let aggregator = Arc::new(
        Aggregator::new(vec![hanging("option"), hanging("own").with_timeout(Duration::from_secs(7))])
            .with_timeout(Duration::from_secs(3)),
    );
    aggregator.evaluate().await;
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    let start = Instant::now();
    let aggregator = Arc::new(Aggregator::new(vec![hanging("option")]).with_timeout(Duration::from_secs(3)));
    aggregator.evaluate().await;
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn a_checker_that_panics_fails_alone() {
    let broken = Checker::new("broken", || async { panic!("on purpose") });
    let broken_at_call =
        Checker::new("broken at call", || -> crate::health::CheckFuture { panic!("so is this") });
    let aggregator = Arc::new(Aggregator::new(vec![broken, healthy("ipvs"), broken_at_call]));
    assert_eq!(aggregator.evaluate().await, (false, names(&["broken", "broken at call"])));
}

#[tokio::test(start_paused = true)]
async fn the_observer_sees_every_checker_once_per_evaluation() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let aggregator = Arc::new(
        Aggregator::new(vec![failing("ipvs"), healthy("config"), hanging("probes")]).with_result_observer(
            move |name, result| {
                log.lock().unwrap().push(format!("{name}: {:?}", result.map_err(ToString::to_string)));
            },
        ),
    );
    for _ in 0..2 {
        aggregator.evaluate().await;
        assert_eq!(
            std::mem::take(&mut *seen.lock().unwrap()),
            [r#"ipvs: Err("connection refused")"#, "config: Ok(())", r#"probes: Err("no answer within 1s")"#]
        );
    }
}

#[tokio::test]
async fn an_observer_that_panics_makes_everything_unready() {
    let aggregator = Arc::new(
        Aggregator::new(vec![healthy("ipvs"), healthy("config")])
            .with_result_observer(|_, _| panic!("on purpose")),
    );
    assert_eq!(aggregator.evaluate().await, (false, names(&["ipvs", "config"])));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_callers_shares_one_evaluation() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let checker = Checker::new("slow", move || {
        count.fetch_add(1, Ordering::Relaxed);
        pending()
    });
    let aggregator = Arc::new(Aggregator::new(vec![checker]));
    let first = tokio::spawn({
        let aggregator = Arc::clone(&aggregator);
        async move { aggregator.evaluate().await }
    });
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..1000)
        .map(|_| {
            let aggregator = Arc::clone(&aggregator);
            tokio::spawn(async move { aggregator.evaluate().await })
        })
        .collect();
    tokio::task::yield_now().await;
    // Whoever asked first may go away: the others are still answered.
    first.abort();
    for other in others {
        assert_eq!(other.await.unwrap(), (false, names(&["slow"])));
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    aggregator.evaluate().await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn handlers_answer_as_documented() {
    let slot = Slot::new();
    let aggregator =
        Arc::new(Aggregator::new(vec![slot.checker("ipvs"), healthy("config"), hanging("probes")]));
    let (live, ready) = (aggregator.live_handler(), aggregator.ready_handler());
    assert_eq!(ask(&live).await, (200, "ok".into()));
    assert_eq!(ask(&ready).await, (503, r#"{"status":"not_ready","failed":["ipvs","probes"]}"#.into()));
    slot.install(|| async { Ok(()) }).unwrap();
    assert_eq!(ask(&ready).await, (503, r#"{"status":"not_ready","failed":["probes"]}"#.into()));
    // A dependency that is down is no reason to restart the process.
    assert_eq!(ask(&live).await, (200, "ok".into()));

    aggregator.set_shutting_down();
    assert_eq!(ask(&ready).await, (503, r#"{"status":"shutting_down"}"#.into()));
    assert_eq!(ask(&live).await, (503, "shutting down".into()));
}

#[tokio::test]
async fn ready_is_200() {
    let aggregator = Arc::new(Aggregator::new(vec![healthy("ipvs")]));
    assert_eq!(ask(&aggregator.ready_handler()).await, (200, r#"{"status":"ready"}"#.into()));
}

#[tokio::test(start_paused = true)]
async fn shutting_down_wins_over_an_evaluation_that_runs() {
    let late = Checker::new("late", || async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(())
    });
    let aggregator = Arc::new(Aggregator::new(vec![late]));
    let ready = aggregator.ready_handler();
    let answer = tokio::spawn(async move { ask(&ready).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    aggregator.set_shutting_down();
    assert_eq!(answer.await.unwrap(), (503, r#"{"status":"shutting_down"}"#.into()));
}

#[tokio::test]
async fn liveness_follows_the_process_condition_only() {
    let turning = Arc::new(AtomicBool::new(true));
    let condition = Arc::clone(&turning);
    let aggregator = Arc::new(
        Aggregator::new(vec![failing("ipvs")]).with_liveness(move || condition.load(Ordering::Relaxed)),
    );
    let live = aggregator.live_handler();
    assert_eq!(ask(&live).await, (200, "ok".into()));
    turning.store(false, Ordering::Relaxed);
    assert_eq!(ask(&live).await, (503, "stalled".into()));
}
