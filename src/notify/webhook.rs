//! POST of each event as JSON: in order, one at a time, and again until the server takes it or refuses it
//! for good.

mod payload;
mod post;

#[cfg(feature = "fuzzing")]
pub(super) use post::fuzzing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Backoff;
use super::courier::{Batch, Complaint, Deliver, Done, Outbox};
use crate::anew::Part;
use crate::engine::model::{EventKind, Webhook};
use post::{Answer, Client};

/// After the first failure, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// No server keeps us waiting for longer, whatever it asks for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

impl Deliver for Webhook {
    const PART: Part = Part::Webhook;

    async fn work(outbox: Arc<Outbox<Self>>) {
        let mut client = Client::default();
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        let mut complaint = Complaint::default();
        while outbox.has_more().await {
            while let Some(batch) = outbox.batch(1) {
                deliver(&outbox, &batch, &mut client, &mut backoff, &mut complaint).await;
            }
            // Nobody keeps a connection for days for the sake of one event.
            client.hang_up();
        }
    }

    fn events(&self) -> &BTreeSet<EventKind> {
        &self.events
    }

    fn label(&self) -> String {
        format!("webhook {}", self.url)
    }
}

async fn deliver(
    outbox: &Outbox<Webhook>,
    batch: &Batch,
    client: &mut Client,
    backoff: &mut Backoff,
    complaint: &mut Complaint,
) {
    let settings = outbox.settings();
    let label = settings.label();
    let Some(event) = batch.events.first() else { return };
    match client.post(&settings, &payload::json(event, batch.dropped)).await {
        Answer::Taken => {
            outbox.done(batch, Done::Delivered);
            complaint.over(&label);
            backoff.reset();
        }
        Answer::Refused(why) => {
            outbox.done(batch, Done::Refused);
            let (sequence, event) = (event.sequence, event.kind.name());
            tracing::warn!(sequence, event, "{label}: {why}: the event is not sent again");
            backoff.reset();
        }
        Answer::Again { why, after } => {
            outbox.failed();
            let after = after.unwrap_or_default().min(MAX_RETRY_AFTER);
            let wait = backoff.next().max(after);
            complaint.failed(&label, &why, wait);
            outbox.back_off(Instant::now() + wait).await;
        }
    }
}

#[cfg(test)]
mod tests;
