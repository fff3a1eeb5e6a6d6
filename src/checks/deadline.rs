//! The one deadline over a whole run.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// What stands in for a deadline that no clock reaches.
const FAR: Duration = Duration::from_secs(100 * 365 * 86400);

pub(super) fn sleep_until(started: Instant, timeout: Duration) -> Sleep {
    let end = started.checked_add(timeout).unwrap_or(started + FAR);
    tokio::time::sleep_until(end.into())
}

/// A timer that every wait of a run shares. Whatever is waited for is asked before the timer:
/// when the daemon itself was held up, a reply that is there counts, however late we look.
#[derive(Debug)]
pub(super) struct Deadline<'a> {
    sleep: Pin<&'a mut Sleep>,
    limit: Duration,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(sleep: Pin<&'a mut Sleep>, limit: Duration) -> Self {
        Self { sleep, limit }
    }

    /// The whole time that a run has.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }

    /// Known without a system call; false until the timer has been polled once.
    pub(super) fn has_passed(&self) -> bool {
        self.sleep.is_elapsed()
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
