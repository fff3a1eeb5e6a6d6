//! Which checks share a run: those that ask the same, equally often.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Entry, Place, ProbeId, Run};
use crate::engine::identity::Identity;
use crate::engine::model::{Check, Timing};
use crate::engine::time::Time;

/// By what may share one run: the same question, asked equally often.
fn by_question(one: (Identity, &Timing), other: (Identity, &Timing)) -> Ordering {
    let pace = |timing: &Timing| {
        let Timing { delay_loop, timeout, retry, delay_before_retry, rise, warmup: _ } = *timing;
        (delay_loop, timeout, retry, delay_before_retry, rise)
    };
    one.0.cmp(&other.0).then_with(|| pace(one.1).cmp(&pace(other.1)))
}

/// Who shares an entry. Mostly nobody: that one needs no memory of its own.
#[derive(Clone, Debug)]
pub(in crate::engine) enum Places {
    One(Place),
    Many(Arc<Vec<Place>>),
}

impl Places {
    pub(in crate::engine) fn iter(&self) -> impl Iterator<Item = Place> {
        let places = match self {
            Self::One(place) => std::slice::from_ref(place),
            Self::Many(places) => places.as_slice(),
        };
        places.iter().copied()
    }

    fn push(&mut self, place: Place) {
        match self {
            Self::One(first) => *self = Self::Many(Arc::new(vec![*first, place])),
            Self::Many(places) => Arc::make_mut(places).push(place),
        }
    }

    /// In their order; `None` of none.
    fn of(mut places: Vec<Place>) -> Option<Self> {
        places.sort_unstable();
        match places.as_slice() {
            [] => None,
            [one] => Some(Self::One(*one)),
            [_, _, ..] => Some(Self::Many(Arc::new(places))),
        }
    }

    /// Those that stay, where they stand now.
    pub(super) fn moved(self, pool: impl Fn(u32) -> Option<u32>) -> Option<Self> {
        let to = |(at, server, check): Place| pool(at).map(|at| (at, server, check));
        match self {
            Self::One(place) => to(place).map(Self::One),
            Self::Many(places) if places.iter().all(|place| to(*place) == Some(*place)) => {
                Some(Self::Many(places))
            }
            Self::Many(places) => Self::of(places.iter().copied().filter_map(to).collect()),
        }
    }

    pub(super) fn with(self, others: &Self) -> Self {
        Self::of(self.iter().chain(others.iter()).collect()).unwrap_or(self)
    }
}

/// One entry for all that may share a run, in the order of the first of them. Their ids and times are
/// still to be given.
pub(super) fn gather(checks: impl Iterator<Item = (Place, Identity, Arc<Check>)>, now: Time) -> Vec<Entry> {
    let checks: Vec<_> = checks.collect();
    let question = |at: &u32| {
        checks.get(*at as usize).map(|(place, identity, check)| (*place, (*identity, check.timing.as_ref())))
    };
    let asks_like = |one: &u32, other: &u32| match (question(one), question(other)) {
        (Some((_, one)), Some((_, other))) => by_question(one, other),
        (None, _) | (_, None) => Ordering::Equal,
    };
    let mut order: Vec<u32> = (0..).zip(&checks).map(|(at, _)| at).collect();
    order.sort_unstable_by(|one, other| asks_like(one, other).then_with(|| one.cmp(other)));
    // Of the first of those that share a run; of the others nothing.
    let mut places: Vec<Option<Places>> = vec![None; checks.len()];
    for shared in order.chunk_by(|one, other| asks_like(one, other).is_eq()) {
        let mut all = shared.iter().filter_map(question).map(|(place, _)| place);
        let (Some(first), Some(place)) = (shared.first(), all.next()) else { continue };
        let mut those = Places::One(place);
        all.for_each(|place| those.push(place));
        if let Some(slot) = places.get_mut(*first as usize) {
            *slot = Some(those);
        }
    }
    let (id, run) = (ProbeId(0), Run::None);
    let entry = |((_, identity, check), places): (_, Option<Places>)| {
        Some(Entry { id, identity, check, places: places?, phase: now, next_run: now, run, ran: false })
    };
    checks.into_iter().zip(places).filter_map(entry).collect()
}

/// Entries, no two of which ask the same equally often, to be found by what they ask.
pub(super) struct Questions {
    entries: Vec<Entry>,
    /// Their places, by what they ask.
    sorted: Vec<usize>,
    found: Vec<bool>,
}

impl Questions {
    pub(super) fn of(entries: Vec<Entry>) -> Self {
        let mut sorted: Vec<usize> = (0..entries.len()).collect();
        let question = |at: &usize| entries.get(*at).map(Entry::question);
        sorted.sort_unstable_by(|one, other| match (question(one), question(other)) {
            (Some(one), Some(other)) => by_question(one, other),
            (None, _) | (_, None) => Ordering::Equal,
        });
        let found = vec![false; entries.len()];
        Self { entries, sorted, found }
    }

    pub(super) fn find_like(&mut self, entry: &Entry) -> Option<Entry> {
        let wanted = entry.question();
        let to_wanted = |at: &usize| {
            self.entries.get(*at).map_or(Ordering::Less, |found| by_question(found.question(), wanted))
        };
        let at = *self.sorted.get(self.sorted.binary_search_by(to_wanted).ok()?)?;
        *self.found.get_mut(at)? = true;
        self.entries.get(at).cloned()
    }

    /// Those that were never found.
    pub(super) fn left(self) -> Vec<Entry> {
        let (mut entries, mut found) = (self.entries, self.found.into_iter());
        entries.retain(|_| found.next() != Some(true));
        entries
    }
}
