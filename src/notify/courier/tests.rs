//! One queue: what gives way in it, and a task that breaks off.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::notify::testing;

/// Told nothing by itself.
#[derive(Debug, PartialEq)]
struct Silent(BTreeSet<EventKind>);

impl Deliver for Silent {
    const PART: Part = Part::Webhook;

    async fn work(_: Arc<Outbox<Self>>) {}

    fn events(&self) -> &BTreeSet<EventKind> {
        &self.0
    }

    fn label(&self) -> String {
        "silent".to_owned()
    }
}

fn outbox(limit: usize) -> (Outbox<Silent>, Tally) {
    let tally = Tally::default();
    (Outbox::new(Silent(BTreeSet::from(EventKind::ALL)), tally.clone(), limit), tally)
}

fn push(outbox: &Outbox<Silent>, sequences: std::ops::RangeInclusive<u64>) {
    for sequence in sequences {
        outbox.push(&Arc::new(Event { sequence, ..testing::down() }));
    }
}

fn sequences(batch: &Batch) -> Vec<u64> {
    batch.events.iter().map(|event| event.sequence).collect()
}

#[test]
fn what_gave_way_while_it_was_taken_is_not_lost() {
    let (outbox, tally) = outbox(2);
    push(&outbox, 1..=2);
    let batch = outbox.batch(usize::MAX).unwrap();
    push(&outbox, 3..=5);
    assert_eq!(tally.counters().dropped, 1, "3; of 1 and 2 nobody knows yet");
    outbox.done(&batch, Done::Delivered);
    assert_eq!(tally.counters(), Delivered { delivered: 2, dropped: 1, ..Delivered::default() });
    let batch = outbox.batch(usize::MAX).unwrap();
    assert_eq!((sequences(&batch), batch.dropped), (vec![4, 5], 1));
}

#[test]
fn what_gave_way_while_it_was_tried_in_vain_is_lost() {
    let (outbox, tally) = outbox(2);
    push(&outbox, 1..=2);
    outbox.batch(1).unwrap();
    push(&outbox, 3..=4);
    outbox.failed();
    assert_eq!(tally.counters(), Delivered { failed: 1, dropped: 2, ..Delivered::default() });
    let batch = outbox.batch(1).unwrap();
    assert_eq!((sequences(&batch), batch.dropped), (vec![3], 2));
    push(&outbox, 5..=5);
    assert_eq!(outbox.abandon(), 2);
    assert_eq!(tally.counters().dropped, 5, "3 was under way when all ended");
}

/// Panics in the middle of its first batches.
#[derive(Debug)]
struct Brittle {
    events: BTreeSet<EventKind>,
    panics: AtomicU64,
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Deliver for Brittle {
    const PART: Part = Part::Mail;

    async fn work(outbox: Arc<Outbox<Self>>) {
        while outbox.has_more().await {
            let Some(batch) = outbox.batch(1) else { continue };
            tokio::task::yield_now().await;
            let left = outbox.settings().panics.fetch_sub(1, Ordering::Relaxed);
            assert_eq!(left, 0, "broken on purpose");
            outbox.settings().panics.store(0, Ordering::Relaxed);
            outbox.done(&batch, Done::Delivered);
        }
    }

    fn events(&self) -> &BTreeSet<EventKind> {
        &self.events
    }

    fn label(&self) -> String {
        "brittle".to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_breaks_off_is_begun_anew_without_a_further_event_and_loses_none() {
    let (tally, breaks) = (Tally::default(), Breaks::default());
    let settings = Brittle { events: BTreeSet::from(EventKind::ALL), panics: AtomicU64::new(2) };
    let courier = Courier::spawn(&Handle::current(), settings, tally.clone(), &breaks);
    for sequence in 1..=3 {
        courier.tell(&Arc::new(Event { sequence, ..testing::down() }));
    }
    let delivered = async {
        while tally.counters().delivered < 3 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), delivered).await.unwrap();
    assert_eq!(tally.counters(), Delivered { delivered: 3, ..Delivered::default() });
    assert!(breaks.counts().eq(Part::ALL.map(|part| (part, if part == Part::Mail { 2 } else { 0 }))));
    assert_eq!(courier.finish(Duration::from_secs(60)).await, 0);
}

/// Whatever pause it has come to, and whether it waits already when the end comes.
#[tokio::test(start_paused = true)]
async fn what_waits_while_a_task_pauses_is_delivered_at_once_when_the_daemon_ends() {
    for panics in 1..=6 {
        let (tally, breaks) = (Tally::default(), Breaks::default());
        let settings = Brittle { events: BTreeSet::from(EventKind::ALL), panics: AtomicU64::new(panics) };
        let courier = Courier::spawn(&Handle::current(), settings, tally.clone(), &breaks);
        courier.tell(&Arc::new(Event { sequence: 1, ..testing::down() }));
        let count = |breaks: &Breaks| breaks.counts().map(|(_, count)| count).sum::<u64>();
        while count(&breaks) < panics {
            sleep(Duration::from_millis(10)).await;
        }
        // Wakes whoever waits, as the end does, and is no end.
        courier.tell(&Arc::new(Event { sequence: 2, ..testing::down() }));
        tokio::task::yield_now().await;
        let before = Instant::now();
        assert_eq!(courier.finish(Duration::from_secs(60)).await, 0, "after {panics} breaks");
        assert_eq!((before.elapsed(), tally.counters().delivered), (Duration::ZERO, 2), "{panics} breaks");
    }
}

/// It does not get better: given up when the time is over, and not tried as fast as the processor can.
#[tokio::test(start_paused = true)]
async fn an_event_that_breaks_its_task_again_and_again_is_left_at_the_end() {
    let (tally, breaks) = (Tally::default(), Breaks::default());
    let settings = Brittle { events: BTreeSet::from(EventKind::ALL), panics: AtomicU64::new(u64::MAX) };
    let courier = Courier::spawn(&Handle::current(), settings, tally.clone(), &breaks);
    courier.tell(&Arc::new(testing::down()));
    let limit = Duration::from_secs(5);
    let before = Instant::now();
    assert_eq!(courier.finish(limit).await, 1);
    assert_eq!((before.elapsed(), tally.counters().dropped), (limit, 1));
    let count = breaks.counts().map(|(_, count)| count).sum::<u64>();
    assert!((2..10).contains(&count), "{count}");
}
