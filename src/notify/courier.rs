//! One receiver's queue and the task that empties it: bounded, in order, and what gives way is counted
//! and told with what comes next.
//!
//! Knows nothing of how events are delivered: that is [`Deliver`].

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::event::Event;
use crate::anew::{Breaks, Part, Watch};
use crate::engine::model::EventKind;

/// Events that wait for one receiver. The oldest give way: the newest tell the state that holds.
const MAX_WAITING: usize = 1000;
/// Between tries when the daemon ends.
const LAST_TRIES: Duration = Duration::from_millis(500);

/// The settings of a receiver, and how it is told.
pub(super) trait Deliver: Sized + Send + Sync + PartialEq + 'static {
    /// What its tasks are.
    const PART: Part;

    /// Delivers what is in the outbox until it is closed and empty.
    fn work(outbox: Arc<Outbox<Self>>) -> impl Future<Output = ()> + Send;

    /// Events that it is told of.
    fn events(&self) -> &BTreeSet<EventKind>;

    /// For logs: `mail to mx.example.org:25`.
    fn label(&self) -> String;
}

/// Owns the task. Dropping it ends the task at once.
#[derive(Debug)]
pub(super) struct Courier<S> {
    outbox: Arc<Outbox<S>>,
    task: JoinHandle<()>,
}

impl<S: Deliver> Courier<S> {
    pub(super) fn spawn(runtime: &Handle, settings: S, tally: Tally, breaks: &Breaks) -> Self {
        Self::with_limit(runtime, settings, tally, breaks, MAX_WAITING)
    }

    pub(super) fn with_limit(
        runtime: &Handle,
        settings: S,
        tally: Tally,
        breaks: &Breaks,
        limit: usize,
    ) -> Self {
        let outbox = Arc::new(Outbox::new(settings, tally, limit));
        let mut watch = Watch::over(S::PART, breaks);
        let ours = Arc::clone(&outbox);
        // What waits is kept. An event that breaks it is tried again until it gives way to newer ones.
        let task = runtime
            .spawn(async move { while watch.breaks(S::work(Arc::clone(&ours)), ours.closed()).await {} });
        Self { outbox, task }
    }

    pub(super) fn settings(&self) -> Arc<S> {
        self.outbox.settings()
    }

    /// What waits is delivered as the new settings say, at once if it waited after a failure.
    pub(super) fn change(&self, settings: S) {
        self.outbox.change(settings);
    }

    /// Returns at once.
    pub(super) fn tell(&self, event: &Arc<Event>) {
        self.outbox.push(event);
    }

    /// Delivers what waits, no longer than `limit`; the number of events that were not delivered.
    pub(super) async fn finish(mut self, limit: Duration) -> usize {
        self.outbox.close();
        if timeout(limit, &mut self.task).await.is_err() {
            self.task.abort();
        }
        let left = self.outbox.abandon();
        if left > 0 {
            let label = self.settings().label();
            tracing::warn!(left, "{label}: {left} events were not delivered before the end");
        }
        left
    }
}

impl<S> Drop for Courier<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Events that the receiver took.
    pub delivered: u64,
    /// Events that it refused for good.
    pub refused: u64,
    /// Tries that failed.
    pub failed: u64,
    /// Events that gave way to newer ones, or were left at the end, or that some of the recipients were never told of.
    pub dropped: u64,
}

/// Of all receivers of one kind, those that are configured no longer included: a sum over the others would
/// go down with a reload, which no counter does.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Mutex<Delivered>>);

impl Tally {
    pub(super) fn counters(&self) -> Delivered {
        *self.lock()
    }

    /// A mutex and no message: tasks on any thread count. Held for a sum, never across an await.
    fn lock(&self) -> MutexGuard<'_, Delivered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Outbox<S> {
    /// A mutex and no inbox: the newest events displace the oldest. Held for a push or a pop, never across an await.
    state: Mutex<State<S>>,
    changed: Notify,
    tally: Tally,
    limit: usize,
}

#[derive(Debug)]
struct State<S> {
    settings: Arc<S>,
    /// How often the settings have changed.
    generation: u64,
    waiting: VecDeque<Arc<Event>>,
    /// Given way since it was last told.
    dropped: u64,
    /// The last event of the batch that is being told, and how many of that batch have given way meanwhile:
    /// they are lost only if the batch is.
    under_way: Option<u64>,
    displaced: u64,
    closing: bool,
}

/// What is to be told.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// At least one.
    pub(super) events: Vec<Arc<Event>>,
    /// Events before these that nobody was told of.
    pub(super) dropped: u64,
}

impl<S: Deliver> Outbox<S> {
    fn new(settings: S, tally: Tally, limit: usize) -> Self {
        let state = State {
            settings: Arc::new(settings),
            generation: 0,
            waiting: VecDeque::new(),
            dropped: 0,
            under_way: None,
            displaced: 0,
            closing: false,
        };
        Self { state: Mutex::new(state), changed: Notify::new(), tally, limit: limit.max(1) }
    }

    pub(super) fn settings(&self) -> Arc<S> {
        Arc::clone(&self.lock().settings)
    }

    /// Waits for something to tell; false when there is nothing any more, and never will be.
    pub(super) async fn has_more(&self) -> bool {
        loop {
            let changed = self.changed.notified();
            if !self.lock().waiting.is_empty() {
                return true;
            }
            if self.is_closing() {
                return false;
            }
            changed.await;
        }
    }

    /// What waits now, the oldest first, at most so many. Ends with [`Outbox::done`] or [`Outbox::failed`].
    pub(super) fn batch(&self, most: usize) -> Option<Batch> {
        let mut state = self.lock();
        self.give_up(&mut state);
        let events: Vec<Arc<Event>> = state.waiting.iter().take(most).cloned().collect();
        state.under_way = Some(events.last()?.sequence);
        Some(Batch { events, dropped: state.dropped })
    }

    /// The receiver was told, or will never be.
    pub(super) fn done(&self, batch: &Batch, outcome: Done) {
        let Some(last) = batch.events.last().map(|event| event.sequence) else { return };
        let count = u64::try_from(batch.events.len()).unwrap_or(u64::MAX);
        let mut state = self.lock();
        while state.waiting.front().is_some_and(|event| event.sequence <= last) {
            state.waiting.pop_front();
        }
        (state.under_way, state.displaced) = (None, 0);
        match outcome {
            Done::Delivered => {
                state.dropped = state.dropped.saturating_sub(batch.dropped);
                self.tally.lock().delivered += count;
            }
            Done::Refused => self.tally.lock().refused += count,
        }
    }

    /// The batch stays, to be tried again.
    pub(super) fn failed(&self) {
        self.give_up(&mut self.lock());
        self.tally.lock().failed += 1;
    }

    /// So many are told no more to some who were to be told.
    pub(super) fn lost(&self, events: usize) {
        self.tally.lock().dropped += u64::try_from(events).unwrap_or(u64::MAX);
    }

    /// What gave way while it was under way is lost.
    fn give_up(&self, state: &mut State<S>) {
        state.under_way = None;
        let displaced = std::mem::take(&mut state.displaced);
        state.dropped += displaced;
        self.tally.lock().dropped += displaced;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Waits for the end of the daemon.
    async fn closed(&self) {
        while !self.is_closing() {
            self.changed.notified().await;
        }
    }

    /// Until `until`, or the end of the daemon, which waits for nothing.
    pub(super) async fn gather(&self, until: Instant) {
        while !self.is_closing() && timeout_at(until, self.changed.notified()).await.is_ok() {}
    }

    /// After a failure: until `until`, new settings, or the end of the daemon.
    pub(super) async fn back_off(&self, until: Instant) {
        if self.is_closing() {
            sleep(LAST_TRIES).await;
            return;
        }
        let generation = self.lock().generation;
        loop {
            if self.is_closing() || self.lock().generation != generation {
                return;
            }
            if timeout_at(until, self.changed.notified()).await.is_err() {
                return;
            }
        }
    }

    /// If it is one that the receiver wants.
    fn push(&self, event: &Arc<Event>) {
        let mut state = self.lock();
        if !state.settings.events().contains(&event.kind) {
            return;
        }
        state.waiting.push_back(Arc::clone(event));
        if state.waiting.len() > self.limit {
            let oldest = state.waiting.pop_front().map(|event| event.sequence);
            if oldest <= state.under_way {
                state.displaced += 1;
            } else {
                state.dropped += 1;
                self.tally.lock().dropped += 1;
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    fn change(&self, settings: S) {
        let mut state = self.lock();
        state.settings = Arc::new(settings);
        state.generation += 1;
        drop(state);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_one();
    }

    fn abandon(&self) -> usize {
        let mut state = self.lock();
        self.give_up(&mut state);
        let left = state.waiting.len();
        state.waiting.clear();
        self.tally.lock().dropped += u64::try_from(left).unwrap_or(u64::MAX);
        left
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Delivered,
    Refused,
}

/// Says a failure once, however often it comes, and when it is over.
#[derive(Debug, Default)]
pub(super) struct Complaint {
    said: Option<String>,
    times: u64,
}

impl Complaint {
    pub(super) fn failed(&mut self, label: &str, why: &str, wait: Duration) {
        self.times += 1;
        let seconds = wait.as_secs_f64();
        if self.said.as_deref() == Some(why) {
            tracing::debug!("{label}: {why}; trying again in {seconds:.1}s");
        } else {
            tracing::warn!("{label}: {why}; trying again until it works");
            self.said = Some(why.to_owned());
        }
    }

    pub(super) fn over(&mut self, label: &str) {
        if self.said.take().is_some() {
            let times = std::mem::take(&mut self.times);
            tracing::info!("{label}: works again, after {times} failed tries");
        }
    }
}

#[cfg(test)]
mod tests;
