//! What is on record, and what must wait for it: a service or a virtual address is recorded as ours
//! before it is written to the kernel, and so are the kernel's original time-outs before ours.
//!
//! Decides when the state file is written: at most once a second, at once if something waits.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::{error, info};

use super::kernel::{Change, Settings};
use super::state_file::{State, StateFile};
use crate::engine::announcements::VirtualAddress;
use crate::engine::model::Timeouts;
use crate::engine::table::ServiceId;
use crate::engine::{Engine, Time};

/// Between two writes of the file, at least and at most, and how much longer than a write they are: thousands
/// of checks take some time to write.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const PAUSE_FOR_WRITE: u32 = 10;
/// How long changes wait for a disk that does not answer. Traffic matters more than the record.
const PATIENCE: Duration = Duration::from_secs(2);

const ENDED: &str = "the thread that writes it broke off";

#[derive(Debug)]
pub(super) struct Recorder {
    /// `None` in a dry run: nothing is kept, and nothing waits.
    file: Option<StateFile>,
    /// Services that are on record as ours.
    recorded: BTreeSet<ServiceId>,
    /// Virtual addresses that are on record as ours, and those that the configuration announces.
    addresses: BTreeSet<VirtualAddress>,
    announced: BTreeSet<VirtualAddress>,
    /// One of the latter is not among the former: asked at each turn, and there may be thousands.
    lacks_address: bool,
    /// The kernel's time-outs before ours.
    original_timeouts: Timeouts,
    /// We have changed them, or are about to.
    touched_timeouts: bool,
    held: Held,
    /// When the oldest of what is held began to wait.
    held_since: Option<Time>,
    changed: bool,
    /// When a write was last begun, or refused.
    last: Option<Time>,
    pause: Duration,
    saving: Option<Saving>,
    failing: bool,
}

#[derive(Debug)]
struct Saving {
    answer: oneshot::Receiver<std::io::Result<()>>,
    /// On record once it is written.
    services: BTreeSet<ServiceId>,
    addresses: BTreeSet<VirtualAddress>,
    original_timeouts: bool,
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
            addresses: left_behind.announced.clone(),
            announced: BTreeSet::new(),
            lacks_address: false,
            original_timeouts: left_behind.original_timeouts.unwrap_or(timeouts),
            touched_timeouts: left_behind.original_timeouts.is_some(),
            held: Held::default(),
            held_since: None,
            changed: false,
            last: None,
            pause: PAUSE,
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

    /// Does a part of the table wait?
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Does anything wait, be it an address that is to come?
    fn is_urgent(&self) -> bool {
        self.is_holding() || self.lacks_address
    }

    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    /// All that was removed is gone: only these services, each there once, are ours now.
    pub(super) fn forget_others(&mut self, services: impl Iterator<Item = ServiceId> + Clone) {
        if self.recorded.len() > services.clone().count() {
            let services: BTreeSet<ServiceId> = services.collect();
            self.recorded.retain(|id| services.contains(id));
            self.changed = true;
        }
    }

    /// The addresses that the configuration announces: recorded before the first of them is put anywhere.
    pub(super) fn note_addresses(&mut self, announced: BTreeSet<VirtualAddress>) {
        self.announced = announced;
        self.note_lack();
    }

    fn note_lack(&mut self) {
        self.lacks_address = !self.announced.is_subset(&self.addresses);
    }

    /// Those on record as ours.
    pub(super) fn addresses(&self) -> &BTreeSet<VirtualAddress> {
        &self.addresses
    }

    /// All addresses that were taken away are gone: only those that the configuration announces are ours now.
    pub(super) fn forget_addresses(&mut self) {
        let before = self.addresses.len();
        self.addresses.retain(|at| self.announced.contains(at));
        self.note_lack();
        self.changed |= self.addresses.len() < before;
    }

    /// When [`Recorder::turn`] has something to do without further news; after a turn that is later than
    /// its `now`.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.file.as_ref()?;
        let patience = self.held_since.map(|since| since + PATIENCE);
        let rest = self.last.filter(|_| self.saving.is_none() && (self.changed || self.is_urgent()));
        [patience, rest.map(|last| last + self.pause)].into_iter().flatten().min()
    }

    /// Waits for the answer to the write under way, if there is one.
    pub(super) async fn answered(&mut self) -> std::io::Result<()> {
        match &mut self.saving {
            Some(saving) => match (&mut saving.answer).await {
                Ok(result) => result,
                Err(_) => Err(std::io::Error::other(ENDED)),
            },
            None => std::future::pending().await,
        }
    }

    /// The write under way has ended: what waited for it is free.
    pub(super) fn handle_answer(&mut self, result: std::io::Result<()>, now: Time) -> (Held, Option<News>) {
        let took = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.pause = (took * PAUSE_FOR_WRITE).clamp(PAUSE, LONGEST_PAUSE);
        let saving = self.saving.take();
        let news = match result {
            Ok(()) => std::mem::take(&mut self.failing).then_some(News::Recovered),
            Err(error) => {
                self.changed = true;
                (!std::mem::replace(&mut self.failing, true)).then_some(News::Failing(error))
            }
        };
        let held = saving.map(|saving| self.release(&saving)).unwrap_or_default();
        (held, news)
    }

    /// Writes if it is time. Gives up waiting for a disk that does not answer.
    pub(super) fn turn(&mut self, engine: &Engine, now: Time) -> (Held, Option<News>) {
        if self.file.is_none() {
            return (std::mem::take(&mut self.held), None);
        }
        let (mut free, mut news) = (Held::default(), None);
        if !self.is_urgent() {
            // A reload may have taken back what waited, without a write.
            self.held_since = None;
        } else if now.since(*self.held_since.get_or_insert(now)) >= PATIENCE {
            news = (!std::mem::replace(&mut self.failing, true)).then_some(News::Stuck);
            self.changed = true;
            free = self.release_all();
        }
        let rested = self.last.is_none_or(|last| now.since(last) >= self.pause);
        if self.saving.is_some() || !(self.is_urgent() || self.changed && rested) {
            return (free, news);
        }
        let state = self.state(engine, now);
        let (services, addresses) = (state.owned.clone(), state.announced.clone());
        let original_timeouts = state.original_timeouts.is_some();
        let (sender, answer) = oneshot::channel();
        self.last = Some(now);
        if self.file.as_ref().is_some_and(|file| file.try_save(state, sender)) {
            self.saving = Some(Saving { answer, services, addresses, original_timeouts });
            self.changed = false;
        }
        (free, news)
    }

    /// The verdicts in the file are those of now, unless some have changed since they were written.
    pub(super) fn renew(&self, now: Time) {
        if let Some(file) = self.file.as_ref().filter(|_| !self.changed && self.saving.is_none()) {
            file.renew(now);
        }
    }

    /// The last word: waits for the disk, but not for ever. Says what is wrong, however often it was said
    /// before.
    pub(super) async fn finish(self, state: State, deadline: Duration) -> Option<News> {
        let file = self.file?;
        let (sender, answer) = oneshot::channel();
        if !file.try_save(state, sender) {
            return Some(News::Stuck);
        }
        // A disk that does not answer must not keep the daemon from ending.
        let Ok(answered) = tokio::time::timeout(deadline, answer).await else { return Some(News::Stuck) };
        file.finish();
        match answered {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(News::Failing(error)),
            Err(_) => Some(News::Failing(std::io::Error::other(ENDED))),
        }
    }

    /// Everything that the file should say now.
    pub(super) fn state(&self, engine: &Engine, now: Time) -> State {
        let mut owned = self.recorded.clone();
        owned.extend(engine.services());
        let original_timeouts = self.touched_timeouts.then_some(self.original_timeouts);
        let announced = self.addresses.union(&self.announced).cloned().collect();
        State { memory: engine.memory(now), owned, announced, original_timeouts }
    }

    /// What has been written, or tried to be, is waited for no longer.
    fn release(&mut self, saved: &Saving) -> Held {
        self.recorded.extend(&saved.services);
        self.addresses.extend(saved.addresses.iter().cloned());
        self.note_lack();
        let (free, held) = std::mem::take(&mut self.held.changes)
            .into_iter()
            .partition(|(id, _)| self.recorded.contains(id));
        self.held.changes = held;
        // What still waits does so for a write that has not begun.
        self.held_since = None;
        let settings = self.held.settings.take_if(|_| saved.original_timeouts || !self.touched_timeouts);
        Held { changes: free, settings }
    }

    fn release_all(&mut self) -> Held {
        self.recorded.extend(self.held.changes.iter().map(|(id, _)| *id));
        self.addresses.extend(self.announced.iter().cloned());
        self.note_lack();
        self.held_since = None;
        std::mem::take(&mut self.held)
    }
}

/// What became of the record, for the log.
pub(super) fn tell_of_record(path: &Path, news: Option<News>) {
    let path = path.display();
    match news {
        Some(News::Failing(error)) => {
            error!("cannot write state file {path}: {error}; a restart will not know the verdicts of now");
        }
        Some(News::Stuck) => error!("state file {path} is not written: the disk does not answer"),
        Some(News::Recovered) => info!("state file {path} can be written again"),
        None => {}
    }
}

#[cfg(test)]
mod tests;
