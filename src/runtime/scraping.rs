//! A picture of the daemon for `/metrics`. The supervisor's part is to copy numbers; the kernel's table
//! comes from the writer, and everything that takes a while happens on the front thread and behind it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::kernel::{Answers, View};
use super::readiness::Dependencies;
use super::start::daemon_name;
use super::supervisor::Supervisor;
use super::target::Target;
use crate::anew::Breaks;
use crate::control::server::Refused;
use crate::notify::Delivered;
use crate::telemetry::http::Closed;
use crate::telemetry::metrics::{Around, DaemonPicture, KernelPicture, Notified, Picture, Source};

/// For the supervisor to answer, and then for the writer.
const ANSWER: Duration = Duration::from_secs(2);
/// Scrapes on their way to the supervisor: an exporter asks for few at a time.
pub(super) const SCRAPES: usize = 2;

/// Asks the supervisor for its part of a picture.
pub(super) type Scrape = oneshot::Sender<Part>;

/// The supervisor's part, and the promise of the writer's.
#[derive(Debug)]
pub(super) struct Part {
    daemon: DaemonPicture,
    view: oneshot::Receiver<View>,
}

/// Everything that a picture is made of.
#[derive(Clone)]
pub(super) struct Scraper {
    pub(super) scrapes: mpsc::Sender<Scrape>,
    pub(super) dependencies: Arc<Dependencies>,
    /// Log lines that were never written.
    pub(super) lost: Arc<dyn Fn() -> u64 + Send + Sync>,
    pub(super) refused: Refused,
    pub(super) closed: Closed,
    pub(super) breaks: Breaks,
    pub(super) started: SystemTime,
}

impl Scraper {
    pub(super) fn into_source(self) -> Source {
        let this = Arc::new(self);
        Arc::new(move || {
            let this = Arc::clone(&this);
            Box::pin(async move { this.picture().await })
        })
    }

    async fn picture(&self) -> Picture {
        // Both at once: each has its own deadlines.
        let (part, _ready) = tokio::join!(self.part(), self.dependencies.aggregator.evaluate());
        let (daemon, kernel) = match part {
            Some(Part { daemon, view }) => {
                let view = timeout(ANSWER, view).await.ok().and_then(Result::ok);
                (Some(daemon), view.map(KernelPicture::from))
            }
            None => (None, None),
        };
        Picture { daemon, kernel, around: self.around() }
    }

    /// Does not wait for room: with that many asked already nobody is listening.
    async fn part(&self) -> Option<Part> {
        let (sender, receiver) = oneshot::channel();
        self.scrapes.try_send(sender).ok()?;
        timeout(ANSWER, receiver).await.ok()?.ok()
    }

    fn around(&self) -> Around {
        Around {
            dependencies: self.dependencies.results(),
            silence: self.dependencies.heartbeat.silence(),
            overdue: self.dependencies.vitals.lateness(),
            dumped: self.dependencies.answers().and_then(|answers| last_answer(&answers)),
            started: Some(self.started),
            control_refused: self.refused.count(),
            http_closed: self.closed.count(),
            log_lost: (self.lost)(),
            broken: self.breaks.counts().map(|(part, count)| (part.name(), count)).collect(),
            tasks: tasks(),
        }
    }
}

/// Under way on this thread's runtime.
fn tasks() -> usize {
    Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}

fn last_answer(answers: &Answers) -> Option<SystemTime> {
    SystemTime::now().checked_sub(answers.age().0?)
}

impl From<View> for KernelPicture {
    fn from(view: View) -> Self {
        let View { table, wanted, counters, totals, counted: _, looks: _ } = view;
        Self { table, wanted, counters, totals }
    }
}

impl Supervisor {
    /// On the loop: copies numbers, and shares what does not change.
    pub(super) fn answer_scrape(&self, scrape: Scrape) {
        // Nobody waits for it any more.
        if scrape.is_closed() {
            return;
        }
        let began = Instant::now();
        let view = self.writer.view();
        let daemon = DaemonPicture {
            name: daemon_name(&self.config),
            table: match self.target {
                Target::Kernel => "kernel",
                Target::Memory(_) => "memory",
            },
            figures: self.engine.figures(),
            totals: self.counters.totals(),
            kernel: self.progress.counters,
            broken_checks: self.announcer.broken_checks,
            self_test: self.engine.self_test_figures(),
            running: self.probes.running(),
            slots: self.probes.slots(),
            tasks: tasks(),
            notifications: self.notified(),
            addresses: self.vips.pictures(),
            made_in: began.elapsed(),
        };
        let _ = scrape.send(Part { daemon, view });
    }

    fn notified(&self) -> Vec<Notified> {
        let outlets = self.announcer.outlets();
        let scripts = outlets.script_counters();
        let mut results = vec![
            ("script", "succeeded", scripts.succeeded),
            ("script", "failed", scripts.failed),
            ("script", "timed_out", scripts.timed_out),
            ("script", "not_started", scripts.not_started),
            ("script", "dropped", scripts.dropped),
            ("fifo", "dropped", outlets.dropped_lines()),
        ];
        results.extend(deliveries("mail", outlets.mail_counters()));
        results.extend(deliveries("webhook", outlets.webhook_counters()));
        let notified = |(channel, result, count)| Notified { channel: str::to_owned(channel), result, count };
        results.into_iter().map(notified).collect()
    }
}

fn deliveries(channel: &'static str, counters: Delivered) -> [(&'static str, &'static str, u64); 4] {
    let Delivered { delivered, refused, failed, dropped } = counters;
    [
        (channel, "succeeded", delivered),
        (channel, "refused", refused),
        (channel, "retried", failed),
        (channel, "dropped", dropped),
    ]
}

#[cfg(test)]
mod tests;
