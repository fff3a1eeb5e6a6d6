//! Who gets what, how often the daemon is asked, and what becomes of those who do not read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http_body_util::BodyExt;
use tokio::time::{sleep, timeout};

use super::*;
use crate::telemetry::http::{Closed, Line, Places};

/// A number; every tenth cannot be told as a change.
struct Number(u64);

impl Document for Number {
    fn whole(&self) -> Result<String, Broken> {
        Ok(self.0.to_string())
    }

    fn text(&self) -> String {
        format!("number {}", self.0)
    }

    fn changes(&self, before: &Self) -> Result<Change, Broken> {
        Ok(match (before.0, self.0) {
            (old, new) if old == new => Change::Nothing,
            (_, new) if new % 10 == 0 => Change::Everything,
            (old, new) => Change::Some(format!("+{}", new - old)),
        })
    }
}

struct Daemon {
    feed: Feed<Number>,
    number: Arc<AtomicU64>,
    asked: Arc<AtomicUsize>,
    answers: Arc<std::sync::atomic::AtomicBool>,
    places: Arc<Places>,
}

impl Daemon {
    fn new() -> Self {
        let (number, asked) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicUsize::new(0)));
        let answers = Arc::new(std::sync::atomic::AtomicBool::new(true));
        let (now, count, answering) = (Arc::clone(&number), Arc::clone(&asked), Arc::clone(&answers));
        let source: Source<Number> = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let answer = answering.load(Ordering::Relaxed).then(|| Number(now.load(Ordering::Relaxed)));
            Box::pin(async move { answer })
        });
        Self { feed: Feed::new(source), number, asked, answers, places: Places::new(64) }
    }

    fn set(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn watch(&self) -> (Events, Line) {
        let line = Line::new(Arc::clone(&self.places), Closed::default());
        (self.feed.watch(line.try_stream().unwrap()), line)
    }
}

/// The next event: its name and what it holds.
async fn next(events: &mut Events) -> (String, String) {
    let frame = timeout(Duration::from_secs(60), events.frame()).await.expect("an event in time");
    let text = frame.expect("not the end").unwrap().into_data().unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.ends_with("\n\n") && text.matches("\n\n").count() == 1, "{text:?}");
    let line =
        |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().to_owned();
    (line("event: "), line("data: "))
}

fn event(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[tokio::test(start_paused = true)]
async fn everything_first_then_changes_and_everything_again_where_it_must_be() {
    let daemon = Daemon::new();
    let (mut early, _) = daemon.watch();
    assert_eq!(next(&mut early).await, event("whole", "1"));
    daemon.set(4);
    assert_eq!(next(&mut early).await, event("change", "+3"));
    // Who comes later begins with the same moment, and goes on with the same changes.
    let (mut late, _) = daemon.watch();
    assert_eq!(next(&mut late).await, event("whole", "4"));
    daemon.set(6);
    for events in [&mut early, &mut late] {
        assert_eq!(next(events).await, event("change", "+2"));
    }
    daemon.set(20);
    for events in [&mut early, &mut late] {
        assert_eq!(next(events).await, event("whole", "20"));
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_viewers_cost_one_picture_a_second_and_nobody_none() {
    let daemon = Daemon::new();
    let mut viewers: Vec<_> = (0..50).map(|_| daemon.watch()).collect();
    for (events, _) in &mut viewers {
        assert_eq!(next(events).await, event("whole", "1"));
    }
    for second in 0..20 {
        assert_eq!(daemon.feed.whole().await.unwrap(), "1");
        assert!(daemon.asked() <= second + 2, "{} in {second} s", daemon.asked());
        sleep(Duration::from_secs(1)).await;
    }
    drop(viewers);
    sleep(Duration::from_secs(3)).await;
    let asked = daemon.asked();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(daemon.asked(), asked);
    // And the next is not shown something old.
    daemon.set(7);
    let (mut events, _) = daemon.watch();
    assert_eq!(next(&mut events).await, event("whole", "7"));
    assert_eq!(daemon.feed.text().await.unwrap(), "number 7\n");
}

#[tokio::test(start_paused = true)]
async fn nothing_new_is_said_by_a_beat_only() {
    let daemon = Daemon::new();
    let (mut events, _) = daemon.watch();
    assert_eq!(next(&mut events).await, event("whole", "1"));
    let before = Instant::now();
    for _ in 0..3 {
        assert_eq!(next(&mut events).await, event("beat", "{}"));
    }
    let between = before.elapsed() / 3;
    assert!((BEAT - PACE..=BEAT + 2 * PACE).contains(&between), "{between:?}");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_cut_off_and_the_others_go_on() {
    let daemon = Daemon::new();
    let (deaf, line) = daemon.watch();
    let (mut events, _) = daemon.watch();
    assert_eq!(next(&mut events).await, event("whole", "1"));
    for number in 2..9 {
        daemon.set(number);
        assert_eq!(next(&mut events).await, event("change", "+1"));
    }
    timeout(Duration::from_secs(1), line.is_cut()).await.expect("the deaf one is cut off");
    let left = daemon.feed.0.lock().viewers.len();
    assert_eq!(left, 1);
    drop(deaf);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_does_not_answer_is_told_of_and_so_is_its_return() {
    let daemon = Daemon::new();
    let (mut events, _) = daemon.watch();
    assert_eq!(next(&mut events).await, event("whole", "1"));
    daemon.answers.store(false, Ordering::Relaxed);
    assert_eq!(next(&mut events).await, event("trouble", "{}"));
    sleep(PACE).await;
    assert_eq!(daemon.feed.whole().await, Err(Broken));
    daemon.answers.store(true, Ordering::Relaxed);
    while next(&mut events).await != event("beat", "{}") {}
    daemon.set(2);
    assert_eq!(next(&mut events).await, event("change", "+1"));
    assert_eq!(daemon.feed.whole().await.unwrap(), "2");
}

#[tokio::test]
async fn a_painter_that_breaks_lets_everybody_go() {
    let source: Source<Number> = Arc::new(|| panic!("on purpose"));
    let feed = Feed::new(source);
    let line = Line::new(Places::new(1), Closed::default());
    let mut events = feed.watch(line.try_stream().unwrap());
    assert!(events.frame().await.is_none());
    timeout(Duration::from_secs(20), line.is_cut()).await.expect("cut off");
    assert_eq!(feed.whole().await, Err(Broken));
}
