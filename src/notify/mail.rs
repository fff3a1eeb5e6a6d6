//! Mail about changes of state: what happens within a moment is one mail, and mails keep a distance.
//!
//! A mail that cannot be sent waits with what happens after it, and is tried again. One that is taken for some of its
//! recipients is done; [`late`] tries again for those who were put off.

mod late;
mod letter;
mod replies;
mod session;

#[cfg(feature = "fuzzing")]
pub(super) use session::fuzzing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use super::courier::{Complaint, Deliver, Done, Outbox};
use crate::anew::Part;
use crate::engine::model::{EventKind, Mail};
use late::Late;
use letter::Letter;
use session::{Sent, Session};

/// What one failure brings along, such as a lost quorum, comes within this time.
const MOMENT: Duration = Duration::from_secs(1);
/// After the first failure, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

impl Deliver for Mail {
    const PART: Part = Part::Mail;

    async fn work(outbox: Arc<Outbox<Self>>) {
        let mut session = Session::default();
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        let mut complaint = Complaint::default();
        let mut last: Option<Instant> = None;
        let mut late = Late::default();
        loop {
            let more = tokio::select! {
                more = outbox.has_more() => Some(more),
                () = late.due() => None,
            };
            // For those who were put off this is also the last time, if it is the end.
            if more != Some(true) {
                late.retry(&mut session, &outbox).await;
            }
            match more {
                Some(true) => {}
                Some(false) => return late.end(&outbox),
                None => continue,
            }
            let settings = outbox.settings();
            let moment = Instant::now() + MOMENT;
            let distance = last.map(|last| last + settings.min_interval);
            outbox.gather(distance.map_or(moment, |distance| distance.max(moment))).await;
            loop {
                let settings = outbox.settings();
                let Some(batch) = outbox.batch(usize::MAX) else { break };
                let label = settings.label();
                let letter = Letter::new(&batch.events, batch.dropped);
                match session.deliver(&settings, &letter, &settings.to).await.and_then(Sent::by_somebody) {
                    Ok(sent) => {
                        outbox.done(&batch, Done::Delivered);
                        complaint.over(&label);
                        late.owe((letter, batch.events.len()), sent.not_taken, &outbox);
                        backoff.reset();
                        last = Some(Instant::now());
                        break;
                    }
                    Err(why) => {
                        outbox.failed();
                        let wait = backoff.next();
                        complaint.failed(&label, &why, wait);
                        outbox.back_off(Instant::now() + wait).await;
                    }
                }
            }
        }
    }

    fn events(&self) -> &BTreeSet<EventKind> {
        &self.events
    }

    fn label(&self) -> String {
        format!("mail to {}", self.server)
    }
}

#[cfg(test)]
mod tests;
