//! Waiting longer after each failure, up to a bound.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(in crate::runtime) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(in crate::runtime) const fn new() -> Self {
        Self { next: FIRST }
    }

    /// How long to wait after one more failure.
    pub(in crate::runtime) fn next(&mut self) -> Duration {
        let delay = self.next;
        self.next = (self.next * 2).min(LONGEST);
        delay
    }

    pub(in crate::runtime) fn reset(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_bound_and_begins_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..11).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        backoff.reset();
        assert_eq!(backoff.next(), FIRST);
    }
}
