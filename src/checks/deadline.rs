//! The one deadline over a whole run.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::ready;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// What stands in for a deadline that no clock reaches.
const FAR: Duration = Duration::from_secs(100 * 365 * 86400);

/// The time of a run is spent in so many parts, each of which shows whether the daemon ran meanwhile.
const PARTS: u32 = 4;

/// A part that ends later than this was not the run's: the daemon was stopped, or had no processor.
const HELD_UP: Duration = Duration::from_millis(100);

/// The timer that [`Deadline::new`] takes.
pub(super) fn timer(started: Instant, limit: Duration) -> Sleep {
    tokio::time::sleep_until(after(started, limit / PARTS))
}

fn after(start: Instant, time: Duration) -> Instant {
    start.checked_add(time).unwrap_or(start + FAR)
}

/// A timer that every wait of a run shares. Whatever is waited for is asked before the timer:
/// when the daemon itself was held up, a reply that is there counts, however late we look. And the
/// time for which it was held up is not the server's: a question that waited on our side to be asked
/// has not gone unanswered.
#[derive(Debug)]
pub(super) struct Deadline<'a> {
    sleep: Pin<&'a mut Sleep>,
    limit: Duration,
    /// Parts that come after the one under way.
    parts_left: u32,
    /// Parts that may still be given again. A daemon that is never in time must have an end too.
    repeats_left: u32,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(sleep: Pin<&'a mut Sleep>, limit: Duration) -> Self {
        Self { sleep, limit, parts_left: PARTS - 1, repeats_left: PARTS }
    }

    /// The whole time that a run has.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let (end, now) = (self.sleep.deadline(), Instant::now());
            let start = if self.repeats_left > 0 && now.saturating_duration_since(end) > HELD_UP {
                self.repeats_left -= 1;
                now
            } else if self.parts_left > 0 {
                self.parts_left -= 1;
                end
            } else {
                self.repeats_left = 0;
                return Poll::Ready(());
            };
            self.sleep.as_mut().reset(after(start, self.limit / PARTS));
        }
    }

    /// Known without a system call; false until the timer has been polled once.
    pub(super) fn has_passed(&self) -> bool {
        self.parts_left == 0 && self.sleep.is_elapsed()
    }

    /// `None` if the deadline came first.
    pub(super) async fn race<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => self.poll(cx).map(|()| None),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// How long a wait for nothing takes.
    async fn wait_for_nothing(limit: Duration) -> Duration {
        let started = Instant::now();
        let mut sleep = pin!(timer(started, limit));
        let mut deadline = Deadline::new(sleep.as_mut(), limit);
        assert_eq!(deadline.race(pending::<()>()).await, None);
        assert!(deadline.has_passed());
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_has_its_time_and_no_more() {
        for limit in [Duration::ZERO, Duration::from_millis(7), SECOND, 5 * SECOND] {
            let took = wait_for_nothing(limit).await;
            assert!(took >= limit && took <= limit + Duration::from_millis(2), "{limit:?}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_a_processor_is_not_the_servers() {
        for (running, stopped) in [(10, 5000), (900, 5000), (10, 1001), (600, 60_000)] {
            let (running, stopped) = (Duration::from_millis(running), Duration::from_millis(stopped));
            let started = Instant::now();
            let mut sleep = pin!(timer(started, SECOND));
            let mut deadline = Deadline::new(sleep.as_mut(), SECOND);
            assert_eq!(deadline.race(tokio::time::sleep(running)).await, Some(()));
            tokio::time::advance(stopped).await;
            // The server answers a little later, now that it has been asked.
            let answer = tokio::time::sleep(Duration::from_millis(90));
            assert_eq!(deadline.race(answer).await, Some(()), "{running:?} {stopped:?}");
            assert_eq!(deadline.race(pending::<()>()).await, None);
            let took = started.elapsed();
            assert!(took <= SECOND + SECOND / PARTS + stopped + Duration::from_millis(2), "{took:?}");
        }
    }
}
