//! The boundary at which a panic inside a check becomes the failure of that check.
//!
//! Must not hide it: the outcome's phase is [`Phase::Internal`], for the caller to log and count.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Instant;

use crate::engine::model::{Fault, Outcome, Phase, Verdict};

/// Awaits `future`, which has `started`; if it panics, the outcome is a failure in [`Phase::Internal`] with the
/// panic's text, and the future is not polled again.
pub async fn guarded<F: Future<Output = Outcome>>(started: Instant, future: F) -> Outcome {
    let mut future = pin!(future);
    poll_fn(move |cx| {
        // Nothing outlives the future that it could have left half changed: a probe owns its
        // socket and shares only immutable data.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(polled) => polled,
            Err(payload) => Poll::Ready(Outcome {
                verdict: Verdict::Failure(Fault {
                    phase: Phase::Internal,
                    reason: format!("the check panicked: {}", text_of(payload.as_ref())),
                }),
                latency: started.elapsed(),
            }),
        }
    })
    .await
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "no text"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_failed_check_with_its_text() {
        let outcome = guarded(Instant::now(), async {
            tokio::task::yield_now().await;
            panic!("index {} out of range", 7)
        })
        .await;
        let fault =
            Fault { phase: Phase::Internal, reason: "the check panicked: index 7 out of range".to_owned() };
        assert_eq!(outcome.verdict, Verdict::Failure(fault));

        let outcome = guarded(Instant::now(), async { std::panic::panic_any(3_u8) }).await;
        let Verdict::Failure(fault) = outcome.verdict else { panic!("{outcome:?}") };
        assert_eq!(fault.reason, "the check panicked: no text");
    }

    #[tokio::test]
    async fn an_outcome_passes_through() {
        let fault = Fault { phase: Phase::Connect, reason: "x".to_owned() };
        let outcome = Outcome { verdict: Verdict::LocalError(fault), latency: Duration::from_secs(3) };
        assert_eq!(guarded(Instant::now(), async { outcome.clone() }).await, outcome);
    }
}
