//! Runs all checkers at once and says whether all of them are healthy.
//!
//! Must not know how it is asked: [`super::handlers`] turns its answers into HTTP.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::checker::{CheckFailure, Checker};

/// The deadline of a checker that has none of its own.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

type Observer = Arc<dyn Fn(&str, Result<(), &CheckFailure>) + Send + Sync>;
type Liveness = Arc<dyn Fn() -> bool + Send + Sync>;
/// The indices of the checkers that failed, once they are known.
type Evaluation = Option<Arc<[usize]>>;

/// Thread safe. Evaluations need a tokio runtime with timers.
pub struct Aggregator {
    checkers: Vec<Checker>,
    timeout: Duration,
    observer: Option<Observer>,
    liveness: Option<Liveness>,
    shutting_down: AtomicBool,
    /// The evaluation that runs now. A mutex and no message: it is held for a few instructions,
    /// never across an await, and callers come from any task.
    running: Mutex<Option<watch::Receiver<Evaluation>>>,
}

impl Aggregator {
    /// The order of `checkers` is the order in which failures are named.
    pub fn new(checkers: Vec<Checker>) -> Self {
        Self {
            checkers,
            timeout: DEFAULT_TIMEOUT,
            observer: None,
            liveness: None,
            shutting_down: AtomicBool::new(false),
            running: Mutex::new(None),
        }
    }

    /// The deadline of each checker that has none of its own.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Called once per checker and evaluation, in declared order: a mirror for metrics and logs.
    #[must_use]
    pub fn with_result_observer(
        mut self,
        observer: impl Fn(&str, Result<(), &CheckFailure>) + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// What of the process itself must hold for it to be alive. Without one, answering at all is
    /// enough. It must not ask a dependency.
    #[must_use]
    pub fn with_liveness(mut self, alive: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.liveness = Some(Arc::new(alive));
        self
    }

    /// From now on neither ready nor alive. Call it before anything is taken down, so that no new
    /// work arrives meanwhile.
    pub fn set_shutting_down(&self) {
        self.shutting_down.store(true, Ordering::Release);
    }

    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }

    /// The process's own condition, whatever its dependencies do.
    pub fn is_alive(&self) -> bool {
        self.liveness.as_ref().is_none_or(|alive| alive())
    }

    /// Runs all checkers concurrently; (ready, the names of those that failed in declared order).
    ///
    /// Callers that come while an evaluation runs get its result instead of one of their own: a
    /// flood of requests costs one run of each checker per deadline. Dropping the future ends the
    /// waiting only, since others may wait for the same result.
    pub async fn evaluate(self: &Arc<Self>) -> (bool, Vec<String>) {
        let mut result = self.join_or_start();
        let failed = result.wait_for(Option::is_some).await.ok().and_then(|done| done.clone());
        match failed {
            Some(failed) => {
                let names =
                    failed.iter().filter_map(|index| self.checkers.get(*index)).map(name_of).collect();
                (failed.is_empty(), names)
            }
            // The evaluation itself broke: nothing is known to be healthy.
            None => (false, self.checkers.iter().map(name_of).collect()),
        }
    }

    fn join_or_start(self: &Arc<Self>) -> watch::Receiver<Evaluation> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(result) = running.as_ref().filter(|r| r.borrow().is_none() && r.has_changed().is_ok()) {
            return result.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let this = Arc::clone(self);
        // Not owned by its caller, who may go away while others wait; the deadlines end it.
        tokio::spawn(async move { sender.send_replace(Some(this.run_all().await.into())) });
        *running = Some(receiver.clone());
        receiver
    }

    /// A task for each checker, so that one that panics fails alone.
    async fn run_all(&self) -> Vec<usize> {
        let tasks: Vec<_> =
            self.checkers.iter().map(|checker| tokio::spawn(checker.clone().run(self.timeout))).collect();
        let mut failed = Vec::new();
        for (index, (checker, task)) in self.checkers.iter().zip(tasks).enumerate() {
            let result = task.await.unwrap_or(Err(CheckFailure::Panicked));
            if result.is_err() {
                failed.push(index);
            }
            if let Some(observer) = &self.observer {
                observer(checker.name(), result.as_ref().copied());
            }
        }
        failed
    }
}

fn name_of(checker: &Checker) -> String {
    checker.name().to_owned()
}

impl fmt::Debug for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregator")
            .field("checkers", &self.checkers)
            .field("timeout", &self.timeout)
            .field("shutting_down", &self.shutting_down)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
