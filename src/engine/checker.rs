//! The verdict of one check of one real server: retry, rise, first result.
//!
//! Knows nothing of time: when a check runs is the business of [`super::schedule`].

use std::sync::Arc;
use std::time::Duration;

use super::identity::Identity;
use super::model::{Check, Outcome, Verdict, WeightChange};
use super::snapshot::{CheckStatus, LastResult};
use super::time::Time;

/// The state of one check of one real server.
#[derive(Clone, Debug)]
pub struct Checker {
    pub(super) config: Arc<Check>,
    identity: Identity,
    state: CheckerState,
}

/// What is carried from one generation of a checker to the next: over a reload, and through
/// the state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckerState {
    /// The verdict in force. Before the first result it is an assumption.
    pub up: bool,
    /// Has any result been recorded?
    pub has_run: bool,
    /// Failures in a row; any success clears them.
    pub failures: u32,
    /// Successes in a row while down; any failure clears them.
    pub successes: u32,
    /// What the last success said of its server's weight.
    pub weight: WeightChange,
    /// When it was heard of last; zero if never. Of identical checks the newest verdict counts.
    pub heard: Time,
    /// For people to read.
    pub last: Option<Last>,
}

/// The last result. No larger than it must be: each check keeps one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last {
    pub ok: bool,
    microseconds: u32,
    pub detail: Box<str>,
    pub at: Time,
}

impl Last {
    /// To the microsecond, and 71 minutes at most.
    pub fn latency(&self) -> Duration {
        Duration::from_micros(self.microseconds.into())
    }
}

/// Bytes of the words that survive a restart: all servers may be down at once.
const REMEMBERED: usize = 160;

impl Last {
    /// A failure of an earlier run.
    pub fn recalled(microseconds: u32, detail: &str, at: Time) -> Self {
        Self { ok: false, microseconds, detail: detail.into(), at }
    }

    /// Without what a server or a script has said: that is quoted, and may be a secret, which no file keeps.
    fn shortened(&self) -> Self {
        let Self { ok, microseconds, ref detail, at } = *self;
        let own = detail.split('"').next().unwrap_or_default();
        let detail = match own.get(..own.floor_char_boundary(REMEMBERED)) {
            Some(begin) if begin.len() < detail.len() => format!("{begin}…").into(),
            _ => detail.clone(),
        };
        Self { ok, microseconds, detail, at }
    }
}

impl CheckerState {
    /// What a later start should know: of a failure only why, in few words.
    pub(super) fn remembered(&self) -> Self {
        let Self { up, has_run, failures, successes, weight, heard, ref last } = *self;
        let last = last.as_ref().filter(|last| !up && !last.ok).map(Last::shortened);
        Self { up, has_run, failures, successes, weight, heard, last }
    }

    /// A checker that has never run and is assumed to be `up`.
    pub(super) const fn assumed(up: bool) -> Self {
        let (failures, successes, weight) = (0, 0, WeightChange::None);
        Self { up, has_run: false, failures, successes, weight, heard: Time::ZERO, last: None }
    }
}

/// How one result counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Success(WeightChange),
    Failure,
}

/// What one result did to the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    pub from: bool,
    pub to: bool,
    pub changed: bool,
    /// A failure was counted, and the verdict waits for the next try.
    pub retrying: bool,
    /// Failures in a row after this result.
    pub retries: u32,
    /// The checker's first result, which matters even when nothing changed.
    pub first: bool,
}

impl Checker {
    pub fn new(config: Arc<Check>, state: CheckerState) -> Self {
        Self::with(config, |_| state)
    }

    /// The state follows from the identity, which takes some time to compute.
    pub(super) fn with(config: Arc<Check>, state: impl FnOnce(Identity) -> CheckerState) -> Self {
        let identity = Identity::of(&config.probe);
        Self { config, identity, state: state(identity) }
    }

    pub const fn identity(&self) -> Identity {
        self.identity
    }

    pub const fn state(&self) -> &CheckerState {
        &self.state
    }

    pub const fn is_up(&self) -> bool {
        self.state.up
    }

    /// Keeps the outcome for people to read; decides nothing.
    pub fn remember(&mut self, outcome: &Outcome, now: Time) {
        self.state.heard = now;
        self.show(outcome, now);
    }

    /// The same of one that says nothing of the verdict.
    pub(super) fn show(&mut self, outcome: &Outcome, now: Time) {
        let (ok, detail) = match &outcome.verdict {
            Verdict::Success { detail, .. } => (true, Box::from(detail.as_str())),
            Verdict::Failure(fault) | Verdict::LocalError(fault) => (false, fault.to_string().into()),
        };
        let microseconds = u32::try_from(outcome.latency.as_micros()).unwrap_or(u32::MAX);
        self.state.last = Some(Last { ok, microseconds, detail, at: now });
    }

    /// What was counted towards the next change is void.
    pub(super) const fn forget_counts(&mut self) {
        self.state.successes = 0;
        if self.state.up {
            self.state.failures = 0;
        }
    }

    /// Counts one result. The first one ever decides on its own; after that it takes
    /// `retry` + 1 failures in a row to go down and `rise` successes in a row to come up.
    pub fn record(&mut self, judgement: Judgement) -> Transition {
        let timing = &self.config.timing;
        let state = &mut self.state;
        let (from, first) = (state.up, !state.has_run);
        state.has_run = true;
        match judgement {
            Judgement::Success(weight) => {
                state.failures = 0;
                state.weight = weight;
                state.successes = if state.up { 0 } else { state.successes.saturating_add(1) };
                if first || state.successes >= timing.rise {
                    state.up = true;
                    state.successes = 0;
                }
            }
            Judgement::Failure => {
                state.successes = 0;
                state.failures = state.failures.saturating_add(1);
                if first || state.failures > timing.retry {
                    state.up = false;
                }
            }
        }
        Transition {
            from,
            to: state.up,
            changed: from != state.up,
            retrying: state.up && state.failures > 0,
            retries: state.failures,
            first,
        }
    }

    /// Is this worth telling? A change always is. So is a first result that changed nothing, if
    /// it was a failure or the checker is alpha: an operator must hear that a server was dead
    /// already when the daemon started (keepalived: `update_svr_checker_state`).
    pub fn should_notify(&self, transition: &Transition) -> bool {
        transition.changed || transition.first && (self.config.alpha || !transition.to)
    }

    pub fn status(&self) -> CheckStatus {
        CheckStatus {
            kind: self.config.probe.kind.name(),
            mode: self.config.mode,
            up: self.state.up,
            has_run: self.state.has_run,
            failures: self.state.failures,
            last: self.state.last.as_ref().map(|last| LastResult {
                ok: last.ok,
                detail: last.detail.to_string(),
                latency: last.latency(),
                at: last.at,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
