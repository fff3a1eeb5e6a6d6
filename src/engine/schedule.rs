//! When each probe runs. Equal probes of several servers with equal timing are one entry here: they
//! run once and share the result.
//!
//! A probe has a fixed phase: it starts at `phase + n × delay_loop`, whatever a run takes and
//! however late it was, so that checks that were spread once stay spread. A failed try that is to be
//! repeated starts `delay_before_retry` after its end, outside the phase.

mod sharing;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

pub(super) use sharing::Places;

use super::identity::Identity;
use super::model::{Check, Timing};
use super::time::Time;
use sharing::{Questions, gather};

/// Names one probe of this engine, also over reloads that keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeId(u64);

/// Where a checker is: virtual server, real server, checker.
pub(super) type Place = (u32, u32, u32);

#[derive(Clone, Debug)]
pub(super) struct Entry {
    id: ProbeId,
    identity: Identity,
    /// One of the checks that share this entry: they agree in all that matters for a run.
    pub(super) check: Arc<Check>,
    pub(super) places: Places,
    phase: Time,
    next_run: Time,
    run: Run,
    /// A result came of it that was not a local error.
    ran: bool,
}

/// Until when the run in flight must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    None,
    Until(Time),
    /// It is asked for once more.
    UntilThenAgain(Time),
}

impl Run {
    const fn end(self) -> Option<Time> {
        match self {
            Self::None => None,
            Self::Until(end) | Self::UntilThenAgain(end) => Some(end),
        }
    }
}

impl Entry {
    pub(super) const fn identity(&self) -> Identity {
        self.identity
    }

    fn question(&self) -> (Identity, &Timing) {
        (self.identity, self.check.timing.as_ref())
    }

    pub(super) const fn id(&self) -> ProbeId {
        self.id
    }

    pub(super) const fn is_running(&self) -> bool {
        self.run.end().is_some()
    }

    /// Of the run in flight, or of the next one.
    pub(super) const fn due_at(&self) -> Time {
        self.next_run
    }

    /// Is its next run due?
    fn due(&self, now: Time) -> bool {
        !self.is_running() && self.next_run <= now
    }

    /// Goes on with its times and its run, for the checks of `new`.
    fn with_checks_of(self, new: Self) -> Self {
        let Self { id, phase, next_run, run, ran, .. } = self;
        Self { id, phase, next_run, run, ran, ..new }
    }

    /// The first time after `now` that is a whole number of periods away from the phase. The phase may
    /// lie ahead, and by more than a period where a reload has made the check faster.
    fn next_on_phase(&self, now: Time) -> Time {
        let period = self.check.timing.delay_loop.max(Duration::from_nanos(1)).as_nanos();
        let (phase, now) = (u128::from(self.phase.as_nanos()), u128::from(now.as_nanos()));
        let since_slot = (now % period + period - phase % period) % period;
        Time::from_nanos(u64::try_from(now + period - since_slot).unwrap_or(u64::MAX))
    }
}

/// All probes with their due times.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// Ordered by id.
    entries: Vec<Entry>,
    /// May hold times that an entry no longer has; those are skipped.
    queue: BinaryHeap<Reverse<(Time, ProbeId)>>,
    next_id: u64,
    spread: Spread,
}

impl Schedule {
    pub(super) fn entry(&self, id: ProbeId) -> Option<&Entry> {
        self.entries.get(self.index(id)?)
    }

    fn entry_mut(&mut self, id: ProbeId) -> Option<&mut Entry> {
        let index = self.index(id)?;
        self.entries.get_mut(index)
    }

    fn index(&self, id: ProbeId) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_running(&self, id: ProbeId) -> bool {
        self.entry(id).is_some_and(Entry::is_running)
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
            match self.entry_mut(id) {
                Some(entry) if entry.next_run == at && entry.due(now) => {
                    entry.run = Run::Until(now + entry.check.timing.timeout);
                    return Some(id);
                }
                Some(_) | None => {}
            }
        }
        None
    }

    /// A run has ended, by a `local` error or otherwise. Can the check be run, or could it ever?
    pub(super) fn note_ran(&mut self, id: ProbeId, local: bool) -> bool {
        self.entry_mut(id).is_some_and(|entry| {
            entry.ran |= !local;
            entry.ran
        })
    }

    /// Those with a run in flight.
    pub(super) fn running(&self) -> impl Iterator<Item = ProbeId> + '_ {
        self.entries.iter().filter(|entry| entry.is_running()).map(|entry| entry.id)
    }

    /// A run has ended. `again_after`: try again that long after now, outside the phase.
    pub(super) fn ended(&mut self, id: ProbeId, again_after: Option<Duration>, now: Time) {
        let Some(entry) = self.entry_mut(id) else { return };
        let next = match (std::mem::replace(&mut entry.run, Run::None), again_after) {
            (Run::UntilThenAgain(_), _) => now,
            (Run::None | Run::Until(_), Some(delay)) => now + delay,
            (Run::None | Run::Until(_), None) => entry.next_on_phase(now),
        };
        self.set_next_run(id, next);
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn find(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<ProbeId> {
        self.entries.iter().filter(|entry| wanted(entry)).map(|entry| entry.id).collect()
    }

    /// Runs it now, or once more when the run in flight has ended.
    pub(super) fn wake(&mut self, id: ProbeId, now: Time) {
        let Some(entry) = self.entry_mut(id) else { return };
        match entry.run.end() {
            Some(end) => entry.run = Run::UntilThenAgain(end),
            None => self.set_next_run(id, now),
        }
    }

    /// Not later than `at`, unless it is running.
    pub(super) fn hasten(&mut self, id: ProbeId, at: Time) {
        if self.entry(id).is_some_and(|entry| !entry.is_running() && at < entry.next_run) {
            self.set_next_run(id, at);
        }
    }

    fn set_next_run(&mut self, id: ProbeId, at: Time) {
        if let Some(entry) = self.entry_mut(id) {
            entry.next_run = at;
            self.queue.push(Reverse((at, id)));
        }
    }

    /// How far behind its time the slowest probe is: one that waits to be started, or whose run should
    /// have ended. Looks at every run.
    pub(super) fn lateness(&self, now: Time) -> Duration {
        let waiting = self.next_due().map(|due| now.since(due));
        let running = self.entries.iter().filter_map(|e| Some(now.since(e.run.end()?)));
        running.chain(waiting).max().unwrap_or_default()
    }

    /// Goes over to other pools: those that are just the same stand now where `moved` says, and `checks`
    /// are of all others. A probe that goes on with the same timing keeps its phase, its due time and its
    /// run in flight; one whose timing changed keeps the run and comes no later than its new period asks.
    /// Returns the probes whose run is nobody's any more.
    pub(super) fn replace(
        &mut self,
        moved: impl Fn(u32) -> Option<u32>,
        checks: impl Iterator<Item = (Place, Identity, Arc<Check>)>,
        now: Time,
    ) -> Vec<ProbeId> {
        let mut new = Questions::of(gather(checks, now));
        let mut gone = Vec::new();
        let goes_on = |mut entry: Entry| {
            let asked = new.find_like(&entry);
            // Few have company: the others move without a copy.
            match (entry.places.clone().moved(&moved), asked) {
                (Some(places), None) => entry.places = places,
                (Some(places), Some(asked)) => {
                    let places = places.with(&asked.places);
                    entry = entry.with_checks_of(Entry { places, ..asked });
                }
                (None, Some(asked)) => entry = entry.with_checks_of(asked),
                (None, None) => {
                    gone.push(Some(entry));
                    return None;
                }
            }
            Some(entry)
        };
        self.entries = std::mem::take(&mut self.entries).into_iter().filter_map(goes_on).collect();
        self.add_changed(new.left(), &mut gone, now);
        self.entries.sort_unstable_by_key(|entry| entry.id);
        self.entries.shrink_to_fit();
        let waiting = self.entries.iter().filter(|entry| !entry.is_running());
        self.queue.clear();
        self.queue.extend(waiting.map(|entry| Reverse((entry.next_run, entry.id))));
        gone.into_iter().flatten().filter(Entry::is_running).map(|entry| entry.id).collect()
    }

    /// Takes other values of the same checks, by the place of a checker that has them.
    pub(super) fn adopt<'c>(&mut self, check_at: impl Fn(Place) -> Option<&'c Arc<Check>>) {
        for entry in &mut self.entries {
            if let Some(check) = entry.places.iter().next().and_then(&check_at) {
                entry.check = Arc::clone(check);
            }
        }
    }

    /// Entries that are asked anew: the same question with other timing, or a new question. Takes the former
    /// out of `old`.
    fn add_changed(&mut self, mut changed: Vec<Entry>, old: &mut [Option<Entry>], now: Time) {
        let mut leftover: BTreeMap<Identity, &mut Option<Entry>> =
            old.iter_mut().filter_map(|slot| Some((slot.as_ref()?.identity, slot))).collect();
        for entry in &mut changed {
            let timing = &entry.check.timing;
            if let Some(before) = leftover.remove(&entry.identity).and_then(Option::take) {
                let next_run = before.next_run.min(now + timing.delay_loop);
                *entry = Entry { next_run, ..before }.with_checks_of(entry.clone());
            } else {
                let share = self.spread.next();
                (entry.phase, entry.next_run) =
                    (now + share.of(timing.delay_loop), now + share.of(timing.warmup));
                entry.id = ProbeId(self.next_id);
                self.next_id += 1;
            }
        }
        if self.entries.is_empty() {
            self.entries = changed;
        } else {
            self.entries.append(&mut changed);
        }
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
