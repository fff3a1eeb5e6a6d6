//! The probe pool: a task for each check that runs, and nothing for those that wait, nor for those that have
//! their answer at once.
//!
//! Runs what the engine's commands say and hands every outcome back; decides nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::clock;
use super::supervisor::Supervisor;
use crate::checks::{self, Prepared, Scripts};
use crate::engine::model::{Check, CheckKind, Fault, Outcome, Phase, Verdict};
use crate::engine::{Command, Engine, ProbeId, Time};

/// Descriptors that are not for checks: listeners, clients, netlink, logs, scripts.
const RESERVED_DESCRIPTORS: u64 = 256;

/// Carried out at a time. When more runs are due than can be run, what has begun comes to its end before more
/// begins: thousands of half-done runs hold memory and finish no sooner.
const COMMANDS: usize = 64;

/// The prepared form of every check kind of one configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct PreparedKinds(HashMap<Arc<CheckKind>, Arc<Prepared>>);

impl PreparedKinds {
    /// Reads certificate files: not for the supervisor's thread.
    pub(super) fn new(kinds: &[Arc<CheckKind>], scripts: &Scripts) -> Result<Self, checks::PrepareError> {
        let preparer = checks::Preparer::with_scripts(scripts.clone());
        let prepare = |kind: &Arc<CheckKind>| Ok((Arc::clone(kind), preparer.prepare(kind)?));
        kinds.iter().map(prepare).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn are_any(&self, fits: impl Fn(&CheckKind) -> bool) -> bool {
        self.0.keys().any(|kind| fits(kind))
    }

    pub(super) fn of(&self, kind: &Arc<CheckKind>) -> Option<Arc<Prepared>> {
        self.0.get(kind).cloned()
    }
}

/// A run that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) id: ProbeId,
    pub(super) outcome: Outcome,
    /// How long after its time it began.
    pub(super) late: Duration,
}

#[derive(Debug)]
pub(super) struct Probes {
    prepared: PreparedKinds,
    running: HashMap<ProbeId, AbortHandle>,
    /// As many runs at once as there are descriptors for.
    slots: Arc<Semaphore>,
    at_once: usize,
    outcomes: mpsc::Sender<Ended>,
    /// Runs that were over as soon as they had begun.
    over: Vec<Ended>,
}

impl Probes {
    pub(super) fn new(prepared: PreparedKinds, outcomes: mpsc::Sender<Ended>) -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let slots = limit.saturating_sub(RESERVED_DESCRIPTORS).max(64);
        let slots = usize::try_from(slots).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let semaphore = Arc::new(Semaphore::new(slots));
        Self {
            prepared,
            running: HashMap::new(),
            slots: semaphore,
            at_once: slots,
            outcomes,
            over: Vec::new(),
        }
    }

    /// Servers that do not answer hold their places for a whole time-out each.
    pub(super) fn warn_if_crowded(&self, checks: usize) {
        if checks > self.at_once {
            tracing::warn!(
                "{checks} checks, of which the limit of open files lets {} run at once: while servers do not \
                 answer, others wait to be checked; raise the limit (LimitNOFILE=)",
                self.at_once
            );
        }
    }

    /// After a reload: the kinds of the configuration that is in force now, for those before.
    pub(super) fn replace_kinds(&mut self, prepared: PreparedKinds) -> PreparedKinds {
        std::mem::replace(&mut self.prepared, prepared)
    }

    /// Carries out some of what the engine has decided.
    pub(super) fn obey(&mut self, engine: &mut Engine, now: Time) {
        // The same moment as `now`.
        let mut instant = None;
        // A run begins when one that was over at once has ended: where the clock is a system call, one less.
        let mut ended = None;
        for _ in 0..COMMANDS {
            match engine.next_command() {
                None => break,
                Some(Command::Start { id, check }) => {
                    let due = engine.due(id).map_or(Duration::ZERO, |due| now.since(due));
                    let started = ended.unwrap_or_else(Instant::now);
                    let late = due + started.saturating_duration_since(*instant.get_or_insert(started));
                    ended = self.start(id, check, late, started);
                }
                Some(Command::Cancel { id }) => self.cancel(id),
            }
        }
    }

    /// Begins one run, which is `late` by so much at `now`; when it ended, if it is over at once. Its outcome comes
    /// through the channel or is kept for [`Self::take_over`], whatever happens in it.
    ///
    /// A run is polled once before it becomes a task: a server on this machine has answered by then. With
    /// thousands of checks due together, tasks that are over when they are looked at again would be most of the work.
    fn start(&mut self, id: ProbeId, check: Arc<Check>, late: Duration, now: Instant) -> Option<Instant> {
        let prepared = self.prepared.of(&check.probe.kind);
        let slots = Arc::clone(&self.slots);
        let mut run = Box::pin(async move {
            let (_slot, started) = match slots.try_acquire() {
                Ok(slot) => (Ok(slot), now),
                // The semaphore is never closed.
                Err(_) => (slots.acquire().await, Instant::now()),
            };
            let late = late + started.saturating_duration_since(now);
            let outcome = match prepared {
                Some(prepared) => {
                    checks::run_since(started, &check.probe.target, &prepared, check.timing.timeout).await
                }
                // Every kind of a configuration is prepared before it comes into force.
                None => never_prepared(),
            };
            Ended { id, outcome, late }
        });
        // The task polls it again at its first turn, so that no wake-up is missed.
        if let Poll::Ready(ended) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            let end = now + ended.outcome.latency;
            self.over.push(ended);
            return Some(end);
        }
        let outcomes = self.outcomes.clone();
        let task = tokio::spawn(async move {
            // The supervisor is gone only when the process ends.
            let _ = outcomes.send(run.await).await;
        });
        self.running.insert(id, task.abort_handle());
        None
    }

    /// Runs that were over at once, since the last call.
    pub(super) fn take_over(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.over)
    }

    /// Nobody waits for this run any more.
    fn cancel(&mut self, id: ProbeId) {
        if let Some(task) = self.running.remove(&id) {
            task.abort();
        }
        self.over.retain(|ended| ended.id != id);
    }

    pub(super) fn ended(&mut self, id: ProbeId) {
        self.running.remove(&id);
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// How many may run at once.
    pub(super) fn slots(&self) -> usize {
        self.at_once
    }

    pub(super) fn cancel_all(&mut self) {
        for (_, task) in self.running.drain() {
            task.abort();
        }
        self.over.clear();
    }
}

impl Supervisor {
    /// Begins what is due, and takes in what is over at once; the time by then. A turn of its own for each would cost
    /// more than such a run.
    pub(super) fn begin_runs(&mut self, now: Time) -> Time {
        self.probes.obey(&mut self.engine, now);
        let over = self.probes.take_over();
        if over.is_empty() {
            return now;
        }
        let now = clock::now();
        self.handle_outcomes(over, now);
        self.write_changes();
        now
    }

    pub(super) fn handle_outcomes(&mut self, outcomes: Vec<Ended>, now: Time) {
        for ended in outcomes {
            self.probes.ended(ended.id);
            self.counters.note_outcome(&self.engine, &ended);
            self.engine.handle_outcome(ended.id, &ended.outcome, now);
            self.checking.note_ended(ended.id);
        }
    }
}

/// A check takes a descriptor: as many as the administrator allows.
pub(super) fn raise_descriptor_limit() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft < hard
        && let Err(problem) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!("cannot raise the limit of open files from {soft} to {hard}: {problem}");
    }
}

fn never_prepared() -> Outcome {
    let fault = Fault { phase: Phase::Internal, reason: "it was never prepared".to_owned() };
    Outcome { verdict: Verdict::LocalError(fault), latency: Duration::ZERO }
}

#[cfg(test)]
mod tests;
