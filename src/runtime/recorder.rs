//! What is on record, and what must wait for it: a service is recorded as ours before it is written
//! to the kernel, and so are the kernel's original time-outs before ours.
//!
//! Decides when the state file is written: at most once a second, at once if something waits.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::oneshot;

use super::kernel::{Change, Settings};
use super::state_file::{State, StateFile};
use crate::engine::model::Timeouts;
use crate::engine::table::ServiceId;
use crate::engine::{Engine, Time};

/// Between two writes of the file.
const PAUSE: Duration = Duration::from_secs(1);
/// How long changes wait for a disk that does not answer. Traffic matters more than the record.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Recorder {
    /// `None`: nothing is kept (a dry run, or a directory that cannot be written).
    file: Option<StateFile>,
    /// Services that are on record as ours.
    recorded: BTreeSet<ServiceId>,
    /// The kernel's time-outs before ours.
    original_timeouts: Timeouts,
    /// We have changed them, or are about to.
    touched_timeouts: bool,
    held: Held,
    changed: bool,
    last: Option<Time>,
    saving: Option<Saving>,
    failing: bool,
}

#[derive(Debug)]
struct Saving {
    answer: oneshot::Receiver<std::io::Result<()>>,
    services: BTreeSet<ServiceId>,
    since: Time,
}

/// What waits for the record.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) changes: Vec<Change>,
    pub(super) settings: Option<Settings>,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.settings.is_none()
    }
}

/// Whether the file could be written, when that changed.
#[derive(Debug)]
pub(super) enum News {
    Failing(std::io::Error),
    /// The disk has not answered for [`PATIENCE`].
    Stuck,
    Recovered,
}

impl Recorder {
    /// `timeouts` are those that the kernel has now.
    pub(super) fn new(file: Option<StateFile>, left_behind: &State, timeouts: Timeouts) -> Self {
        Self {
            file,
            recorded: left_behind.owned.clone(),
            original_timeouts: left_behind.original_timeouts.unwrap_or(timeouts),
            touched_timeouts: left_behind.original_timeouts.is_some(),
            held: Held::default(),
            changed: false,
            last: None,
            saving: None,
            failing: false,
        }
    }

    /// Returns what may be written to the kernel now; the rest waits for the record.
    pub(super) fn admit(&mut self, changes: Vec<Change>) -> Vec<Change> {
        if self.file.is_none() {
            return changes;
        }
        let waiting: BTreeSet<ServiceId> = self.held.changes.iter().map(|(id, _)| *id).collect();
        let is_free = |id: &ServiceId| self.recorded.contains(id) && !waiting.contains(id);
        let (free, held): (Vec<Change>, Vec<Change>) = changes.into_iter().partition(|(id, _)| is_free(id));
        self.held.changes.extend(held);
        free
    }

    /// The same for the kernel's settings.
    pub(super) fn hold_settings(&mut self, settings: Settings) {
        self.held.settings = Some(settings);
    }

    /// What the kernel's time-outs should be, given what is configured: what is not goes back to what
    /// it was, if we ever changed any.
    pub(super) fn timeouts(&mut self, configured: &Timeouts) -> Timeouts {
        self.touched_timeouts |= *configured != Timeouts::default();
        let original = self.timeouts_before_us();
        Timeouts {
            tcp: configured.tcp.or(original.tcp),
            tcp_fin: configured.tcp_fin.or(original.tcp_fin),
            udp: configured.udp.or(original.udp),
        }
    }

    /// To be put back at the end; none if we changed none.
    pub(super) fn timeouts_before_us(&self) -> Timeouts {
        if self.touched_timeouts { self.original_timeouts } else { Timeouts::default() }
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    /// All that was removed is gone: only these services are ours now.
    pub(super) fn forget_others(&mut self, services: &BTreeSet<ServiceId>) {
        if self.recorded.len() > services.len() {
            self.recorded.retain(|id| services.contains(id));
            self.changed = true;
        }
    }

    /// When [`Recorder::turn`] has something to do without further news.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match (&self.saving, self.changed) {
            (Some(saving), _) => Some(saving.since + PATIENCE),
            (None, true) => self.last.map(|last| last + PAUSE),
            (None, false) => None,
        }
    }

    /// Waits for the answer to the write under way, if there is one.
    pub(super) async fn answered(&mut self) -> std::io::Result<()> {
        match &mut self.saving {
            Some(saving) => match (&mut saving.answer).await {
                Ok(result) => result,
                Err(_) => Err(std::io::Error::other("the thread that writes it has ended")),
            },
            None => std::future::pending().await,
        }
    }

    /// The write under way has ended: what waited for it is free.
    pub(super) fn handle_answer(&mut self, result: std::io::Result<()>) -> (Held, Option<News>) {
        let saving = self.saving.take();
        let news = match result {
            Ok(()) => std::mem::take(&mut self.failing).then_some(News::Recovered),
            Err(error) => {
                self.changed = true;
                (!std::mem::replace(&mut self.failing, true)).then_some(News::Failing(error))
            }
        };
        let services = saving.map(|s| s.services).unwrap_or_default();
        (self.release(&services), news)
    }

    /// Writes if it is time. Gives up waiting for a disk that does not answer.
    pub(super) fn turn(&mut self, engine: &Engine, now: Time) -> (Held, Option<News>) {
        if let Some(saving) = &self.saving {
            if self.held.is_empty() || now.since(saving.since) < PATIENCE {
                return (Held::default(), None);
            }
            let services: BTreeSet<ServiceId> = self.held.changes.iter().map(|(id, _)| *id).collect();
            let news = (!std::mem::replace(&mut self.failing, true)).then_some(News::Stuck);
            return (self.release(&services), news);
        }
        let rested = self.last.is_none_or(|last| now.since(last) >= PAUSE);
        let Some(file) = &self.file else { return (std::mem::take(&mut self.held), None) };
        if !(self.is_holding() || self.changed && rested) {
            return (Held::default(), None);
        }
        let state = self.state(engine, now);
        let services = state.owned.clone();
        let (sender, answer) = oneshot::channel();
        if file.try_save(state, sender) {
            self.saving = Some(Saving { answer, services, since: now });
            self.changed = false;
            self.last = Some(now);
        }
        (Held::default(), None)
    }

    pub(super) fn renew(&self, now: Time) {
        if let Some(file) = &self.file {
            file.renew(now);
        }
    }

    /// The last word: waits for the disk, but not for ever.
    pub(super) async fn finish(self, state: State, deadline: Duration) {
        let Some(file) = self.file else { return };
        let (sender, answer) = oneshot::channel();
        if file.try_save(state, sender) {
            // A disk that does not answer must not keep the daemon from ending.
            if tokio::time::timeout(deadline, answer).await.is_ok() {
                file.finish();
            }
        }
    }

    /// Everything that the file should say now.
    pub(super) fn state(&self, engine: &Engine, now: Time) -> State {
        let mut owned = self.recorded.clone();
        owned.extend(engine.services());
        let original_timeouts = self.touched_timeouts.then_some(self.original_timeouts);
        State { memory: engine.memory(now), owned, original_timeouts }
    }

    fn release(&mut self, services: &BTreeSet<ServiceId>) -> Held {
        self.recorded.extend(services);
        let (free, held) = std::mem::take(&mut self.held.changes)
            .into_iter()
            .partition(|(id, _)| self.recorded.contains(id));
        self.held.changes = held;
        Held { changes: free, settings: self.held.settings.take() }
    }
}
