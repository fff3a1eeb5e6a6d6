//! The boundary at which a panic inside a check becomes the failure of that check.
//!
//! Must not hide it: the outcome's phase is [`Phase::Internal`], for the caller to log and count.

use std::time::Instant;

use crate::anew::caught;
use crate::engine::model::{Fault, Outcome, Phase, Verdict};

/// Awaits `future`, which has `started`; if it panics, the outcome is a failure in [`Phase::Internal`] with the
/// panic's text, and the future is not polled again.
pub async fn guarded<F: Future<Output = Outcome>>(started: Instant, future: F) -> Outcome {
    // Nothing outlives the future that it could have left half changed: a probe owns its socket and shares only
    // immutable data.
    caught(future).await.unwrap_or_else(|panic| Outcome {
        verdict: Verdict::Failure(Fault {
            phase: Phase::Internal,
            reason: format!("the check panicked: {panic}"),
        }),
        latency: started.elapsed(),
    })
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
