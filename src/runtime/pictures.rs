//! A picture of everything that a status shows, for clients of the control socket and for the status page. The
//! supervisor's part is to copy; the kernel's part comes from the writer, and all that takes a while happens
//! away from the loop.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::kernel::View;
use super::requests::{VIEW, fill_in, find_missing};
use super::start::daemon_name;
use super::supervisor::Supervisor;
use super::target::Target;
use super::trial::Trial;
use crate::control::status;
use crate::engine::Time;
use crate::engine::snapshot::Snapshot;
use crate::engine::table::{ServiceId, Table};
use crate::telemetry::page::{Broken, Change, Document, Source};

/// For the supervisor to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// The page's looks on their way to the supervisor: it takes one at a time.
pub(super) const LOOKS: usize = 1;

/// Asks the supervisor for its part of a picture.
pub(super) type Look = oneshot::Sender<Part>;

/// The supervisor's part, and the promise of the writer's.
#[derive(Debug)]
pub(super) struct Part {
    snapshot: Snapshot,
    wanted: Table,
    refusals: BTreeMap<ServiceId, String>,
    daemon: String,
    now: Time,
    view: oneshot::Receiver<View>,
}

/// Everything, as of `now`.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    pub(super) daemon: String,
    pub(super) now: Time,
}

impl Supervisor {
    /// On the loop: copies. Of one virtual server if it is named.
    pub(super) fn depict(&self, name: Option<&str>, now: Time) -> Part {
        let mut snapshot = self.engine.snapshot(name);
        snapshot.kernel = self.progress.counters;
        snapshot.broken_checks = self.announcer.broken_checks;
        snapshot.dry_run = matches!(self.target, Target::Memory(_));
        snapshot.recent = self.recent.of(name);
        snapshot.lacks = self.lacks.lines();
        snapshot.nothing_served = self.health.vitals.is_barred();
        snapshot.not_in_force.clone_from(&self.not_in_force);
        snapshot.unconfirmed = self.trial.as_ref().map(Trial::until);
        let (wanted, refusals) = self.wanted();
        self.vips.show(&mut snapshot);
        Part { snapshot, wanted, refusals, daemon: daemon_name(&self.config), now, view: self.writer.view() }
    }

    pub(super) fn answer_look(&self, look: Look, now: Time) {
        // Nobody waits for it any more.
        if !look.is_closed() {
            let _ = look.send(self.depict(None, now));
        }
    }
}

impl Part {
    /// Waits for the writer, within a limit; what follows takes processor time.
    pub(super) async fn view(self) -> impl FnOnce() -> Seen + Send + 'static {
        let Self { mut snapshot, wanted, refusals, daemon, now, view } = self;
        let view = timeout(VIEW, view).await.ok().and_then(Result::ok);
        move || {
            if let Some(view) = view {
                snapshot.counted = Some(view.counted);
                fill_in(snapshot.virtual_servers.iter_mut().flat_map(|v| &mut v.real_servers), &view);
                find_missing(&mut snapshot, &view, &wanted, &refusals);
            }
            Seen { snapshot, daemon, now }
        }
    }
}

/// For the status page: none from a supervisor that does not answer.
pub(super) fn source(looks: mpsc::Sender<Look>) -> Source<Seen> {
    std::sync::Arc::new(move || {
        let looks = looks.clone();
        Box::pin(async move {
            let (sender, receiver) = oneshot::channel();
            looks.try_send(sender).ok()?;
            let part = timeout(ANSWER, receiver).await.ok()?.ok()?;
            let finish = part.view().await;
            tokio::task::spawn_blocking(finish).await.ok()
        })
    })
}

impl Document for Seen {
    fn whole(&self) -> Result<String, Broken> {
        status::document(&self.snapshot, &self.daemon, self.now).map_err(|_| Broken)
    }

    fn text(&self) -> String {
        let all: Vec<_> = self.snapshot.virtual_servers.iter().collect();
        status::table(&self.snapshot, &all, self.now)
    }

    fn changes(&self, before: &Self) -> Result<Change, Broken> {
        if self.daemon != before.daemon {
            return Ok(Change::Everything);
        }
        match status::difference(&before.snapshot, &self.snapshot) {
            status::Difference::Nothing => Ok(Change::Nothing),
            status::Difference::Everything => Ok(Change::Everything),
            status::Difference::Some(some) => {
                let text = status::document(&some, &self.daemon, self.now).map_err(|_| Broken)?;
                Ok(Change::Some(text))
            }
        }
    }
}
