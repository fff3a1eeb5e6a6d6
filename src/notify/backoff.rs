//! How long to wait after one more failure: twice as long each time, up to a limit, and never all
//! directors at the same moment.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    first: Duration,
    limit: Duration,
}

impl Backoff {
    pub(super) const fn new(first: Duration, limit: Duration) -> Self {
        Self { next: first, first, limit }
    }

    /// Between half of the time and all of it.
    pub(super) fn next(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.limit);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    pub(super) const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_limit() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 10 * second);
        for whole in [1, 2, 4, 8, 10, 10, 10] {
            let time = backoff.next();
            assert!(time >= whole * second / 2 && time <= whole * second, "{whole}: {time:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= second);
    }
}
