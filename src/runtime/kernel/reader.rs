//! The thread that reads: a dump at each interval, and when one is asked for.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::backoff::Backoff;
use super::ledger::Stamp;
use super::{Shared, lock};
use crate::ipvs::Dump;

/// Between two dumps, however often they are asked for.
const DUMP_PAUSE: Duration = Duration::from_millis(50);
/// A spurious wake-up after it is harmless.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// Until the end of [`super::Writer`].
pub(super) fn run(mut dump: Box<dyn Dump>, shared: &Shared) {
    let mut backoff = Backoff::new();
    let mut started = Instant::now();
    let mut retry = None;
    while let Some(began) = wait_for_turn(shared, started, retry) {
        started = Instant::now();
        let seen = dump.dump();
        let answered = seen.is_ok();
        let mut look = lock(&shared.look);
        if answered {
            look.last_answer = Some(Instant::now());
        }
        drop(look);
        lock(&shared.inbox).dump = Some((seen, began));
        shared.news.notify_one();
        retry = if answered {
            backoff.reset();
            None
        } else {
            Some(Instant::now() + backoff.next())
        };
    }
}

/// Waits until a dump is due: an interval after the last one was `started`, or at `retry` if that one
/// failed. `None` at the end.
fn wait_for_turn(shared: &Shared, started: Instant, retry: Option<Instant>) -> Option<Stamp> {
    let earliest = Instant::now() + DUMP_PAUSE;
    let mut look = lock(&shared.look);
    loop {
        if look.stop {
            return None;
        }
        let now = Instant::now();
        // The interval may have become another meanwhile. One without end is none.
        let next = retry.or_else(|| started.checked_add(look.interval)).unwrap_or(now + FOR_EVER);
        let due = if look.wanted { earliest } else { next };
        if due <= now {
            look.wanted = false;
            return Some(look.stamp);
        }
        let (guard, _) = shared.asked.wait_timeout(look, due - now).unwrap_or_else(PoisonError::into_inner);
        look = guard;
    }
}
