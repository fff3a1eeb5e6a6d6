//! When each probe runs. Equal probes of several servers with equal timing are one entry here: they
//! run once and share the result.
//!
//! A probe has a fixed phase: it starts at `phase + n × delay_loop`, whatever a run takes and
//! however late it was, so that checks that were spread once stay spread. A failed try that is to be
//! repeated starts `delay_before_retry` after its end, outside the phase.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use super::identity::Identity;
use super::model::{Check, Timing};
use super::time::Time;

/// Names one probe of this engine, also over reloads that keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(u64);

/// Where a checker is: virtual server, real server, checker.
pub(super) type Place = (u32, u32, u32);

/// What may share one run: the same question, asked equally often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    identity: Identity,
    delay_loop: Duration,
    timeout: Duration,
    retry: u32,
    delay_before_retry: Duration,
    rise: u32,
}

impl Key {
    fn new(identity: Identity, timing: &Timing) -> Self {
        let Timing { delay_loop, timeout, retry, delay_before_retry, rise, warmup: _ } = *timing;
        Self { identity, delay_loop, timeout, retry, delay_before_retry, rise }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    key: Key,
    /// One of the checks that share this entry: they agree in all that matters for a run.
    pub(super) check: Arc<Check>,
    pub(super) places: Arc<[Place]>,
    phase: Time,
    next_run: Time,
    /// When the run in flight must have ended.
    running: Option<Time>,
    /// Asked for once more while it was running.
    again: bool,
}

impl Entry {
    pub(super) const fn identity(&self) -> Identity {
        self.key.identity
    }

    /// Of the run in flight, or of the next one.
    pub(super) const fn due_at(&self) -> Time {
        self.next_run
    }

    /// Is its next run due?
    fn due(&self, now: Time) -> bool {
        self.running.is_none() && self.next_run <= now
    }

    /// The first time after `now` that is a whole number of periods away from the phase. The phase may
    /// lie ahead, and by more than a period where a reload has made the check faster.
    fn next_on_phase(&self, now: Time) -> Time {
        let period = self.key.delay_loop.max(Duration::from_nanos(1)).as_nanos();
        let (phase, now) = (u128::from(self.phase.as_nanos()), u128::from(now.as_nanos()));
        let since_slot = (now % period + period - phase % period) % period;
        Time::from_nanos(u64::try_from(now + period - since_slot).unwrap_or(u64::MAX))
    }
}

/// All probes with their due times.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    entries: BTreeMap<ProbeId, Entry>,
    keys: BTreeMap<Key, ProbeId>,
    /// May hold times that an entry no longer has; those are skipped.
    queue: BinaryHeap<Reverse<(Time, ProbeId)>>,
    next_id: u64,
    spread: Spread,
}

impl Schedule {
    pub(super) fn entry(&self, id: ProbeId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_running(&self, id: ProbeId) -> bool {
        self.entries.get(&id).is_some_and(|e| e.running.is_some())
    }

    /// When the next probe is due, as far as is known without touching the queue: spurious wake-ups
    /// are harmless, late ones do not happen.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes one probe that is due and marks it as running.
    pub(super) fn start_due(&mut self, now: Time) -> Option<ProbeId> {
        while let Some(Reverse((at, id))) = self.queue.peek().copied() {
            if at > now {
                return None;
            }
            self.queue.pop();
            match self.entries.get_mut(&id) {
                Some(entry) if entry.next_run == at && entry.due(now) => {
                    entry.running = Some(now + entry.key.timeout);
                    return Some(id);
                }
                Some(_) | None => {}
            }
        }
        None
    }

    /// A run has ended. `again_after`: try again that long after now, outside the phase.
    pub(super) fn ended(&mut self, id: ProbeId, again_after: Option<Duration>, now: Time) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.running = None;
        let next = match (std::mem::take(&mut entry.again), again_after) {
            (true, _) => now,
            (false, Some(delay)) => now + delay,
            (false, None) => entry.next_on_phase(now),
        };
        self.set_next_run(id, next);
    }

    pub(super) fn find(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<ProbeId> {
        self.entries.iter().filter(|(_, entry)| wanted(entry)).map(|(id, _)| *id).collect()
    }

    /// Runs it now, or once more when the run in flight has ended.
    pub(super) fn wake(&mut self, id: ProbeId, now: Time) {
        match self.entries.get_mut(&id) {
            Some(entry) if entry.running.is_some() => entry.again = true,
            Some(_) => self.set_next_run(id, now),
            None => {}
        }
    }

    /// Not later than `at`, unless it is running.
    pub(super) fn hasten(&mut self, id: ProbeId, at: Time) {
        if self.entries.get(&id).is_some_and(|entry| entry.running.is_none() && at < entry.next_run) {
            self.set_next_run(id, at);
        }
    }

    fn set_next_run(&mut self, id: ProbeId, at: Time) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.next_run = at;
            self.queue.push(Reverse((at, id)));
        }
    }

    /// How far behind its time the slowest probe is: one that waits to be started, or whose run should
    /// have ended. Looks at every run.
    pub(super) fn lateness(&self, now: Time) -> Duration {
        let waiting = self.next_due().map(|due| now.since(due));
        let running = self.entries.values().filter_map(|e| Some(now.since(e.running?)));
        running.chain(waiting).max().unwrap_or_default()
    }

    /// Replaces all entries by those of `checks`. A probe that goes on with the same timing keeps its
    /// phase, its due time and its run in flight; one whose timing changed keeps the run and comes no
    /// later than its new period asks. Returns the probes whose run is nobody's any more.
    pub(super) fn replace(
        &mut self,
        checks: impl Iterator<Item = (Place, Identity, Arc<Check>)>,
        now: Time,
    ) -> Vec<ProbeId> {
        let mut old = std::mem::take(&mut self.entries);
        let old_keys = std::mem::take(&mut self.keys);
        self.queue.clear();
        let mut new: Vec<(Key, Arc<Check>, Vec<Place>)> = Vec::new();
        let mut index: BTreeMap<Key, usize> = BTreeMap::new();
        for (place, identity, check) in checks {
            let key = Key::new(identity, &check.timing);
            let at = *index.entry(key).or_insert_with(|| {
                new.push((key, check, Vec::with_capacity(1)));
                new.len() - 1
            });
            if let Some((_, _, places)) = new.get_mut(at) {
                places.push(place);
            }
        }
        let mut changed = Vec::new();
        for (key, check, places) in new {
            let (places, again) = (places.into(), false);
            let entry = Entry { key, check, places, phase: now, next_run: now, running: None, again };
            match old_keys.get(&entry.key).and_then(|id| Some((*id, old.remove(id)?))) {
                Some((id, kept)) => {
                    let Entry { phase, next_run, running, again, .. } = kept;
                    self.insert(id, Entry { phase, next_run, running, again, ..entry });
                }
                None => changed.push(entry),
            }
        }
        self.insert_changed(changed, &mut old, now);
        old.into_iter().filter(|(_, e)| e.running.is_some()).map(|(id, _)| id).collect()
    }

    /// Entries whose key is new: the same question with other timing, or a new question.
    fn insert_changed(&mut self, changed: Vec<Entry>, old: &mut BTreeMap<ProbeId, Entry>, now: Time) {
        let mut leftover: BTreeMap<Identity, ProbeId> =
            old.iter().map(|(id, e)| (e.key.identity, *id)).collect();
        for entry in changed {
            let before = leftover.remove(&entry.key.identity).and_then(|id| Some((id, old.remove(&id)?)));
            let timing = &entry.check.timing;
            if let Some((id, Entry { phase, next_run, running, again, .. })) = before {
                let next_run = next_run.min(now + timing.delay_loop);
                self.insert(id, Entry { phase, next_run, running, again, ..entry });
            } else {
                let share = self.spread.next();
                let (warmup, period) = (timing.warmup, timing.delay_loop);
                let id = ProbeId(self.next_id);
                self.next_id += 1;
                self.insert(
                    id,
                    Entry { phase: now + share.of(period), next_run: now + share.of(warmup), ..entry },
                );
            }
        }
    }

    fn insert(&mut self, id: ProbeId, entry: Entry) {
        self.keys.insert(entry.key, id);
        if entry.running.is_none() {
            self.queue.push(Reverse((entry.next_run, id)));
        }
        self.entries.insert(id, entry);
    }
}

/// Shares of a period that stay evenly spread however many are taken: multiples of the golden
/// ratio, modulo 1.
#[derive(Clone, Copy, Debug, Default)]
struct Spread(u32);

#[derive(Clone, Copy, Debug)]
struct Share(u32);

impl Spread {
    /// 2³² divided by the golden ratio.
    const STEP: u32 = 2_654_435_769;

    fn next(&mut self) -> Share {
        let share = Share(self.0);
        self.0 = self.0.wrapping_add(Self::STEP);
        share
    }
}

impl Share {
    fn of(self, whole: Duration) -> Duration {
        let nanos = (whole.as_nanos() * u128::from(self.0)) >> 32;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests;
