//! The thread that reads: a dump at each interval, and when one is asked for.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::backoff::Backoff;
use super::ledger::Stamp;
use super::{Shared, lock};
use crate::engine::table::ServiceId;
use crate::ipvs::Dump;

/// Between two dumps, however often they are asked for.
const DUMP_PAUSE: Duration = Duration::from_millis(50);

/// Until the end of [`super::Writer`].
pub(super) fn run(mut dump: Box<dyn Dump>, shared: &Shared) {
    let mut backoff = Backoff::new();
    let mut next = Next::IntervalAfter(Instant::now());
    while let Some((began, added)) = wait_for_turn(shared, next) {
        let started = Instant::now();
        dump.expect(added);
        let seen = dump.dump();
        let answered = seen.is_ok();
        if answered {
            lock(&shared.look).last_answer = Some(Instant::now());
        }
        lock(&shared.inbox).dump = Some((seen, began));
        shared.news.notify_one();
        next = if answered {
            backoff.reset();
            Next::IntervalAfter(started)
        } else {
            Next::At(Instant::now() + backoff.next())
        };
    }
}

/// When the next dump is due without being asked for.
#[derive(Clone, Copy)]
enum Next {
    /// By the interval that holds when the time comes: a reload may change it.
    IntervalAfter(Instant),
    At(Instant),
}

/// Waits until a dump is due, which is after which write, and what was added since the one before; `None` at
/// the end.
fn wait_for_turn(shared: &Shared, next: Next) -> Option<(Stamp, BTreeSet<ServiceId>)> {
    let earliest = Instant::now() + DUMP_PAUSE;
    let mut look = lock(&shared.look);
    loop {
        if look.stop {
            return None;
        }
        let now = Instant::now();
        let due = match next {
            _ if look.wanted => earliest,
            Next::IntervalAfter(last) => last + look.interval,
            Next::At(at) => at,
        };
        if due <= now {
            look.wanted = false;
            return Some((look.stamp, std::mem::take(&mut look.added)));
        }
        let (guard, _) = shared.asked.wait_timeout(look, due - now).unwrap_or_else(PoisonError::into_inner);
        look = guard;
    }
}
