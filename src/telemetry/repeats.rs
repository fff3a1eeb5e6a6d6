//! Repeats are counted, not printed: a condition that lasts is told when it begins and then at
//! most once a period, with the number of times that it was seen in between.
//!
//! Pure: time comes in as an argument, and what to print goes out as a value.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::time::Time;

/// How often a condition that lasts is told again.
pub const HOURLY: Duration = Duration::from_secs(3600);

/// Remembers at most `capacity` conditions; `K` says which one it is, such as a checker.
#[derive(Clone, Debug)]
pub struct Repeats<K> {
    period: Duration,
    capacity: usize,
    seen: BTreeMap<K, Seen>,
    overflows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    told: Time,
    unsaid: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "says whether to print"]
pub enum Repeat {
    /// Print it. `unsaid`: how often it was seen since it was last printed; 0 the first time.
    Tell { unsaid: u64 },
    /// Seen within the period: counted only.
    Count,
}

impl<K: Ord> Repeats<K> {
    pub fn new(period: Duration, capacity: usize) -> Self {
        Self { period, capacity, seen: BTreeMap::new(), overflows: 0 }
    }

    /// The condition is there now.
    pub fn observe(&mut self, key: K, now: Time) -> Repeat {
        if let Some(seen) = self.seen.get_mut(&key) {
            if now.since(seen.told) < self.period {
                seen.unsaid = seen.unsaid.saturating_add(1);
                return Repeat::Count;
            }
            let unsaid = std::mem::take(&mut seen.unsaid);
            seen.told = now;
            return Repeat::Tell { unsaid };
        }
        if self.seen.len() >= self.capacity {
            self.seen.retain(|_, seen| now.since(seen.told) < self.period);
        }
        if self.seen.len() >= self.capacity {
            // Too many different ones to remember: silence is the safe side of a flood.
            self.overflows = self.overflows.saturating_add(1);
            return Repeat::Count;
        }
        self.seen.insert(key, Seen { told: now, unsaid: 0 });
        Repeat::Tell { unsaid: 0 }
    }

    /// The condition is over: its next time is a first time. Returns what was counted and never
    /// printed, or `None` if there was no such condition.
    pub fn forget(&mut self, key: &K) -> Option<u64> {
        self.seen.remove(key).map(|seen| seen.unsaid)
    }

    /// Forgets what no longer exists, after a reload.
    pub fn retain(&mut self, mut exists: impl FnMut(&K) -> bool) {
        self.seen.retain(|key, _| exists(key));
    }

    /// Conditions that were neither printed nor counted by name, for want of room.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_first_is_told_then_one_an_hour_with_a_count() {
        let mut repeats = Repeats::new(HOURLY, 10);
        let told: Vec<(u64, u64)> = (0..=7200)
            .step_by(10)
            .filter_map(|second| match repeats.observe("bind failed", at(second)) {
                Repeat::Tell { unsaid } => Some((second, unsaid)),
                Repeat::Count => None,
            })
            .collect();
        assert_eq!(told, [(0, 0), (3600, 359), (7200, 359)]);
    }

    #[test]
    fn a_condition_that_ended_is_new_again() {
        let mut repeats = Repeats::new(HOURLY, 10);
        assert_eq!(repeats.observe("a", at(0)), Repeat::Tell { unsaid: 0 });
        assert_eq!(repeats.observe("a", at(1)), Repeat::Count);
        assert_eq!(repeats.forget(&"a"), Some(1));
        assert_eq!(repeats.forget(&"a"), None);
        assert_eq!(repeats.observe("a", at(2)), Repeat::Tell { unsaid: 0 });
        repeats.retain(|_| false);
        assert_eq!(repeats.observe("a", at(3)), Repeat::Tell { unsaid: 0 });
    }

    #[test]
    fn room_is_bounded_and_old_conditions_make_some() {
        let mut repeats = Repeats::new(HOURLY, 2);
        assert_eq!(repeats.observe(1, at(0)), Repeat::Tell { unsaid: 0 });
        assert_eq!(repeats.observe(2, at(10)), Repeat::Tell { unsaid: 0 });
        assert_eq!(repeats.observe(3, at(20)), Repeat::Count);
        assert_eq!(repeats.overflows(), 1);
        assert_eq!(repeats.observe(3, at(3605)), Repeat::Tell { unsaid: 0 });
        assert_eq!(repeats.observe(2, at(3606)), Repeat::Count);
    }

    proptest! {
        #[test]
        fn every_observation_is_told_or_counted(steps in prop::collection::vec((0u8..4, 0u64..2000), 0..200)) {
            let mut repeats = Repeats::new(HOURLY, 4);
            let (mut now, mut accounted) = (0, 0);
            for (key, pause) in &steps {
                now += pause;
                if let Repeat::Tell { unsaid } = repeats.observe(*key, at(now)) {
                    accounted += 1 + unsaid;
                }
            }
            accounted += (0..4).filter_map(|key| repeats.forget(&key)).sum::<u64>();
            prop_assert_eq!(accounted, steps.len() as u64);
        }
    }
}
