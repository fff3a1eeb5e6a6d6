//! The queues: one per object, so that what happens to one is told in order, and no object waits
//! for another.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tracing::Level;

use super::event::Event;
use super::script::{self, Ended, How};
use crate::engine::model::Argv;
use crate::process::helper::Fault;

/// One program to run because of one event. Those of one object run one after the other, in the order
/// of their dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub argv: Argv,
    /// Runs as this user; unset: as the daemon.
    pub user: Option<String>,
    /// Of the run, before TERM.
    pub limit: Duration,
    pub event: Arc<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Notifications that wait for one object. The oldest gives way: the last one tells the state
    /// that holds.
    pub pending: usize,
    /// Scripts that run at the same time, beside those of the daemon's own start and stop.
    pub processes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pending: 64, processes: 32 }
    }
}

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Exited with status 0.
    pub succeeded: u64,
    /// Exited otherwise, or killed by a signal that was not ours.
    pub failed: u64,
    pub timed_out: u64,
    /// Missing, refused, or not to be started.
    pub not_started: u64,
    /// Never tried: gave way to newer ones, or the daemon ended.
    pub dropped: u64,
}

/// What [`Dispatcher::finish`] could not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Notifications that never ran, and those whose script was killed.
    pub abandoned: usize,
}

/// Owns all notifications and their processes. Dropping it kills what runs.
#[derive(Debug)]
pub struct Dispatcher {
    shared: Arc<Shared>,
    runtime: Handle,
}

/// For workers to end once they are told.
const END: Duration = Duration::from_secs(1);
/// Background processes of scripts whose output is read on; the oldest gives way.
const MAX_READERS: usize = 64;
/// Programs whose last failure to start is remembered.
const MAX_COMPLAINTS: usize = 1024;

#[derive(Debug)]
struct Shared {
    /// An lvsd, for starting scripts.
    helper: PathBuf,
    limits: Limits,
    processes: Arc<Semaphore>,
    /// A mutex and no inbox: a thousand servers can fail in one turn of the supervisor, and the
    /// bound that must hold then is each object's, not that of an inbox nobody has read yet. Held
    /// for a push or a pop, never across an await.
    state: Mutex<State>,
    /// Apart from the state: a runtime that is shutting down drops a task while it is spawned, and
    /// the task's drop wants the state.
    workers: Mutex<JoinSet<()>>,
    /// The last object has become idle.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Queue>,
    readers: VecDeque<AbortHandle>,
    counters: Counters,
    /// Why a program could not be started, as last said.
    complaints: BTreeMap<PathBuf, String>,
    closed: bool,
}

/// Present while a worker runs for the object.
#[derive(Debug, Default)]
struct Queue {
    pending: VecDeque<Notification>,
    /// Dropped since it was last said.
    dropped: u64,
}

impl Dispatcher {
    /// Scripts run on `runtime`, which needs time and I/O enabled, by `helper`, which is an lvsd.
    pub fn new(runtime: Handle, helper: PathBuf, limits: Limits) -> Self {
        let shared = Shared {
            helper,
            limits,
            processes: Arc::new(Semaphore::new(limits.processes.max(1))),
            state: Mutex::default(),
            workers: Mutex::default(),
            idle: Notify::new(),
        };
        Self { shared: Arc::new(shared), runtime }
    }

    /// Returns at once. Notifications of one object run in the order of these calls.
    pub fn dispatch(&self, notification: Notification) {
        let mut state = self.shared.lock();
        if state.closed {
            state.counters.dropped += 1;
            return;
        }
        let object = notification.event.object();
        if let Some(queue) = state.objects.get_mut(&object) {
            queue.pending.push_back(notification);
            if queue.pending.len() > self.shared.limits.pending.max(1) {
                queue.pending.pop_front();
                queue.dropped += 1;
                state.counters.dropped += 1;
            }
            return;
        }
        state.objects.insert(object.clone(), Queue { pending: [notification].into(), dropped: 0 });
        drop(state);
        let worker = Worker { shared: Arc::clone(&self.shared), object, retired: false };
        let mut workers = self.shared.workers();
        while workers.try_join_next().is_some() {}
        workers.spawn_on(worker.work(), &self.runtime);
    }

    /// Waits until everything dispatched has run, no longer than `limit`, then kills what is left.
    /// Nothing is taken on afterwards.
    pub async fn finish(&self, limit: Duration) -> Finished {
        let deadline = Instant::now() + limit;
        loop {
            let idle = self.shared.idle.notified();
            if self.shared.lock().objects.is_empty() || timeout_at(deadline, idle).await.is_err() {
                break;
            }
        }
        let (abandoned, mut workers) = self.close();
        // A worker that is dropped kills its script: see it happen.
        let _ =
            timeout_at(Instant::now() + END, async { while workers.join_next().await.is_some() {} }).await;
        Finished { abandoned }
    }

    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    /// Returns the number of what was waiting or running, and the workers, which are ending.
    fn close(&self) -> (usize, JoinSet<()>) {
        let mut state = self.shared.lock();
        state.closed = true;
        let objects = std::mem::take(&mut state.objects);
        let pending: usize = objects.values().map(|queue| queue.pending.len()).sum();
        state.counters.dropped += pending as u64;
        drop(state);
        let mut workers = std::mem::take(&mut *self.shared.workers());
        workers.abort_all();
        (pending + objects.len(), workers)
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        let _ending = self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one object's notifications until there are none.
struct Worker {
    shared: Arc<Shared>,
    object: String,
    /// The object's queue is gone or somebody else's.
    retired: bool,
}

impl Worker {
    async fn work(mut self) {
        while self.has_more() {
            // What is about the daemon itself waits for no server's slow script: its stop would be over.
            let _place = match self.object.as_str() {
                "" => None,
                _ => self.shared.processes.acquire().await.ok(),
            };
            // Taken only now: while it waited for a place newer ones may have come.
            let Some(notification) = self.pop() else { continue };
            let ended = script::run(&notification, self.shared.helper.clone()).await;
            self.account(&notification, ended);
        }
    }

    fn has_more(&mut self) -> bool {
        let mut state = self.shared.lock();
        if state.objects.get(&self.object).is_some_and(|queue| !queue.pending.is_empty()) {
            return true;
        }
        state.objects.remove(&self.object);
        self.retired = true;
        if state.objects.is_empty() {
            self.shared.idle.notify_waiters();
        }
        false
    }

    fn pop(&self) -> Option<Notification> {
        let mut state = self.shared.lock();
        let queue = state.objects.get_mut(&self.object)?;
        let next = queue.pending.pop_front();
        let dropped = std::mem::take(&mut queue.dropped);
        drop(state);
        if dropped > 0 {
            tracing::warn!(object = self.object, dropped, "{dropped} notifications gave way to newer ones");
        }
        next
    }

    fn account(&self, notification: &Notification, ended: Ended) {
        let mut state = self.shared.lock();
        if let Some(reader) = ended.reader {
            state.readers.retain(|reader| !reader.is_finished());
            state.readers.push_back(reader);
            if state.readers.len() > MAX_READERS
                && let Some(oldest) = state.readers.pop_front()
            {
                oldest.abort();
            }
        }
        let program = &notification.argv.program;
        let said = match &ended.how {
            How::Exited(status) if status.success() => {
                state.counters.succeeded += 1;
                state.complaints.remove(program);
                Level::DEBUG
            }
            How::Exited(_) => {
                state.counters.failed += 1;
                state.complaints.remove(program);
                Level::WARN
            }
            How::TimedOut => {
                state.counters.timed_out += 1;
                Level::WARN
            }
            How::NotStarted(refused) => {
                state.counters.not_started += 1;
                match (state.complains_anew(program.clone(), refused.reason.clone()), refused.fault) {
                    (false, _) => Level::DEBUG,
                    (true, Fault::Script) => Level::WARN,
                    (true, Fault::Ours) => Level::ERROR,
                }
            }
        };
        drop(state);
        let event = notification.event.kind.name();
        let (object, sequence) = (self.object.as_str(), notification.event.sequence);
        let Ended { how, output, .. } = ended;
        // The level of a line is part of its place in the program.
        macro_rules! say {
            ($say:ident) => {
                tracing::$say!(object, event, sequence, script = %program.display(), output, "notification script {how}")
            };
        }
        match said {
            Level::ERROR => say!(error),
            Level::WARN => say!(warn),
            _ => say!(debug),
        }
    }
}

impl State {
    /// A script that is missing is said once, not for each of a thousand events.
    fn complains_anew(&mut self, program: PathBuf, why: String) -> bool {
        if self.complaints.get(&program) == Some(&why) {
            return false;
        }
        if self.complaints.len() >= MAX_COMPLAINTS {
            self.complaints.pop_first();
        }
        self.complaints.insert(program, why);
        true
    }
}

/// A worker that was aborted or broke leaves no queue behind that nobody serves.
impl Drop for Worker {
    fn drop(&mut self) {
        if self.retired {
            return;
        }
        let mut state = self.shared.lock();
        if state.closed {
            return;
        }
        if let Some(queue) = state.objects.remove(&self.object) {
            state.counters.dropped += queue.pending.len() as u64;
        }
        if state.objects.is_empty() {
            self.shared.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
