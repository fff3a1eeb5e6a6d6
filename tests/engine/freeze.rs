//! When verdicts are frozen, written as plainly as possible: from the first round in which no canary
//! answers until three seconds after they do again.

use std::collections::BTreeSet;
use std::time::Duration;

use lvsd::engine::model::{Config, SelfTest};
use lvsd::engine::{ProbeId, Time};

const HOLD: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(crate) struct Freeze {
    frozen: bool,
    /// Canaries answer since then.
    well_since: Option<Time>,
    /// In flight at the end of it: their failures are of the time before.
    doubtful: BTreeSet<ProbeId>,
}

impl Freeze {
    /// Did it begin just now?
    pub(crate) fn hear(&mut self, answers: bool, now: Time) -> bool {
        if answers {
            self.well_since.get_or_insert(now);
            return false;
        }
        self.well_since = None;
        !std::mem::replace(&mut self.frozen, true)
    }

    pub(crate) fn pass(&mut self, now: Time, running: impl Iterator<Item = ProbeId>) {
        if self.frozen && self.well_since.is_some_and(|since| since + HOLD <= now) {
            self.frozen = false;
            self.doubtful = running.collect();
        }
    }

    /// Does this result count?
    pub(crate) fn counts(&mut self, id: ProbeId, failed: bool) -> bool {
        let doubtful = self.doubtful.remove(&id);
        !(self.frozen || doubtful && failed)
    }

    pub(crate) const fn is_frozen(&self) -> bool {
        self.frozen
    }
}

/// The same with a canary, which is what can be silent.
pub(crate) fn with_canary(mut config: Config) -> Config {
    let canary = vec!["192.0.2.1:22".parse().unwrap()];
    config.daemon.self_test = SelfTest { canary, ..SelfTest::off() };
    config
}
