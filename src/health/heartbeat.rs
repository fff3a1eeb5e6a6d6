//! "The supervisor loop turned within its bound", as something that another thread can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The loop calls [`beat`](Self::beat) on every turn; [`is_alive`](Self::is_alive) is a liveness
/// condition. Clones are the same heart.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    start: Instant,
    bound: Duration,
    /// Milliseconds from `start` to the last beat.
    last: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Counts as having beaten now.
    pub fn new(bound: Duration) -> Self {
        Self { start: Instant::now(), bound, last: Arc::new(AtomicU64::new(0)) }
    }

    pub fn beat(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    pub fn is_alive(&self) -> bool {
        self.silence() <= self.bound
    }

    /// Time since the last beat, in whole milliseconds.
    pub fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_beyond_the_bound_is_death_and_a_beat_revives() {
        let born_long_ago = Heartbeat {
            start: Instant::now().checked_sub(Duration::from_secs(60)).unwrap(),
            bound: Duration::from_secs(30),
            last: Arc::new(AtomicU64::new(0)),
        };
        assert!(!born_long_ago.is_alive());
        assert!(born_long_ago.silence() >= Duration::from_secs(60));
        born_long_ago.clone().beat();
        assert!(born_long_ago.is_alive());
    }
}
