//! Results and runs that the schedule did not ask for: what was read before a configuration's first
//! table, and checks that are to run now.

use std::collections::BTreeMap;

use super::model::{Outcome, Probe};
use super::{Engine, Identity, Presence, Time};

/// What was found before a configuration took over. It counts before its first table is made, so that a
/// start or a reload never serves at weights that a file has long since changed, nor in a role that
/// the host has not.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// What checks found.
    pub outcomes: BTreeMap<Identity, Outcome>,
    /// What gates ask for.
    pub presence: Presence,
}

impl Readings {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Engine {
    /// Runs the checks that `wanted` picks at once, outside their phase; one that is running now runs
    /// once more, since its answer may be of the time before.
    pub fn handle_wakeup(&mut self, wanted: impl Fn(&Probe) -> bool, now: Time) {
        for id in self.schedule.find(|entry| wanted(&entry.check.probe)) {
            self.schedule.wake(id, now);
        }
    }

    /// Counts each reading for every checker that asks the same. The quorums are left to the caller.
    pub(super) fn take_readings(&mut self, readings: &Readings, now: Time) {
        let readings = &readings.outcomes;
        if readings.is_empty() {
            return;
        }
        for id in self.schedule.find(|entry| readings.contains_key(&entry.identity())) {
            let Some(entry) = self.schedule.entry(id) else { continue };
            let Some(outcome) = readings.get(&entry.identity()) else { continue };
            let pause = entry.check.timing.delay_before_retry;
            let mut retrying = false;
            for place in entry.places.clone().iter() {
                retrying |= self.record(place, outcome, now);
            }
            if retrying {
                self.schedule.hasten(id, now + pause);
            }
        }
    }
}
