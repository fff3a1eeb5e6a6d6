//! One sign with its hysteresis; the newest results of all checks.

use std::collections::VecDeque;
use std::time::Duration;

use crate::engine::schedule::ProbeId;
use crate::engine::time::Time;

/// A sign must have been gone for so long before it is over: what comes and goes is not well.
pub(super) const HOLD: Duration = Duration::from_secs(3);

/// Older results say nothing of now.
const PERIOD: Duration = Duration::from_secs(60);
/// Fewer results than that are no share of anything.
const FEWEST: usize = 10;
const MOST: usize = 1000;
/// A third of the checks has its turn in a third of their period: long enough for a share that is not
/// chance, and soon enough for failures that are tried again before they count.
const PART: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Sign {
    reason: Option<String>,
    /// It has not been seen since.
    gone: Option<Time>,
    is_new: bool,
    /// How often it came up.
    count: u64,
}

impl Sign {
    pub(super) fn seen(&mut self, reason: impl FnOnce() -> String) {
        self.gone = None;
        if self.reason.is_none() {
            self.reason = Some(reason());
            self.is_new = true;
            self.count += 1;
        }
    }

    pub(super) fn unseen(&mut self, now: Time) {
        if self.reason.is_some() {
            self.gone.get_or_insert(now);
        }
    }

    /// Is it there, and not on its way out?
    pub(super) const fn is_lasting(&self) -> bool {
        self.reason.is_some() && self.gone.is_none()
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn ends(&self) -> Option<Time> {
        self.gone.map(|gone| gone + HOLD)
    }

    pub(super) fn end(&mut self) {
        self.reason = None;
        self.gone = None;
        self.is_new = false;
    }

    pub(super) fn end_if_due(&mut self, now: Time) {
        if self.ends().is_some_and(|ends| ends <= now) {
            self.end();
        }
    }

    /// Its reason, if it came up since the last call.
    pub(super) fn take_new(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_new).then(|| self.reason.clone()).flatten()
    }
}

/// The newest results, and how many of them are local errors.
#[derive(Debug, Default)]
pub(super) struct Results {
    newest: VecDeque<(Time, ProbeId, bool)>,
    pub(super) local: usize,
}

impl Results {
    /// `checks`: how many there are.
    pub(super) fn push(&mut self, result: (Time, ProbeId, bool), checks: usize) {
        self.local += usize::from(result.2);
        self.newest.push_back(result);
        while self.newest.len() > (checks / PART).clamp(FEWEST, MOST) {
            self.drop_oldest();
        }
    }

    pub(super) fn expire(&mut self, now: Time) {
        while self.next_to_expire().is_some_and(|at| at <= now) {
            self.drop_oldest();
        }
    }

    pub(super) fn next_to_expire(&self) -> Option<Time> {
        self.newest.front().map(|(at, ..)| *at + PERIOD)
    }

    fn drop_oldest(&mut self) {
        if let Some((.., local)) = self.newest.pop_front() {
            self.local -= usize::from(local);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }

    /// At least that share is local, and not of one check alone.
    pub(super) fn exceed(&self, percent: u8) -> bool {
        let mut ids = self.newest.iter().filter(|(.., local)| *local).map(|(_, id, _)| id);
        self.len() >= FEWEST
            && self.local * 100 >= self.len() * usize::from(percent)
            && ids.next().is_some_and(|first| ids.any(|id| id != first))
    }

    /// Less than half of that share is.
    pub(super) fn are_well_below(&self, percent: u8) -> bool {
        self.local == 0 || self.local * 200 < self.len() * usize::from(percent)
    }
}
