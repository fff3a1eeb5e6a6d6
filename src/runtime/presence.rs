//! What `active_when` asks about, for the engine: the host's addresses and files. Read before a start
//! or a reload makes its first table, and followed from then on. Decides nothing.
//!
//! Addresses are followed by a thread of their own, and only where a configuration asks for them.
//! Whether files exist is looked up on the blocking pool: a path may lead to a disk that hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, warn};

use super::clock;
use super::watcher::Files;
use crate::addresses::{Picture, ReadError, Reader, Watcher, spawn_watcher};
use crate::anew::Breaks;
use crate::engine::model::{ActiveWhen, Config};
use crate::engine::{Holder, Presence, Time};

/// Files are looked for this often also when nobody tells of a change.
const INTERVAL: Duration = Duration::from_secs(5);
/// After that long without an answer a disk hangs.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error("cannot read this host's addresses, which active_when asks for: {0}")]
pub(super) struct Unread(#[from] ReadError);

/// The files whose existence gates a virtual server.
pub(super) fn files(config: &Config) -> Files {
    let gates = config.virtual_servers.iter().filter_map(|v| v.active_when.as_ref());
    let path = |gate: &ActiveWhen| match gate {
        ActiveWhen::File(path) => Some(path.clone()),
        ActiveWhen::Address(_) => None,
    };
    gates.filter_map(path).collect()
}

fn asks_for_addresses(config: &Config) -> bool {
    config.virtual_servers.iter().any(|v| matches!(v.active_when, Some(ActiveWhen::Address(_))))
}

/// Everything that `config` asks for, as it is now.
pub(super) async fn read(config: &Config) -> Result<Presence, Unread> {
    let mut presence = Presence { files: look_patiently(files(config)).await, ..Presence::default() };
    if asks_for_addresses(config) {
        let reading = tokio::task::spawn_blocking(|| Reader::new().read());
        let picture = reading.await.unwrap_or(Err(ReadError::Interrupted))?;
        presence.addresses = addresses(&picture);
    }
    Ok(presence)
}

fn addresses(picture: &Picture) -> BTreeMap<IpAddr, BTreeSet<Holder>> {
    let mut addresses: BTreeMap<IpAddr, BTreeSet<Holder>> = BTreeMap::new();
    for (address, interface) in picture.local() {
        let holder = Holder { interface: interface.name.clone(), loopback: interface.loopback };
        addresses.entry(address.address).or_default().insert(holder);
    }
    addresses
}

/// Those of the files that exist. One that cannot be looked at, for want of a right for instance, is as
/// good as none: what opens a gate must be beyond doubt.
fn look(files: &Files) -> BTreeSet<PathBuf> {
    files.iter().filter(|file| file.metadata().is_ok()).cloned().collect()
}

async fn look_patiently(files: Files) -> BTreeSet<PathBuf> {
    if files.is_empty() {
        return BTreeSet::new();
    }
    let looking = tokio::task::spawn_blocking(move || look(&files));
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(found) => found.unwrap_or_default(),
        Err(_) => {
            warn!(
                "cannot look for the files of active_when: no answer within {PATIENCE:?}; they count as absent"
            );
            BTreeSet::new()
        }
    }
}

/// Follows what the running configuration asks for.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    asks_for_addresses: bool,
    following: Option<Following>,
    /// As read for the last start or reload, for the time before the thread's first picture.
    addresses: BTreeMap<IpAddr, BTreeSet<Holder>>,
    files: Files,
    /// Those of them that exist.
    there: BTreeSet<PathBuf>,
    look: Option<Look>,
    /// Something changed while one was under way.
    again: bool,
    next_look: Time,
    breaks: Breaks,
}

#[derive(Debug)]
struct Following {
    /// Ends its thread when it is dropped.
    _watcher: Watcher,
    pictures: watch::Receiver<Option<Arc<Picture>>>,
}

#[derive(Debug)]
struct Look {
    task: JoinHandle<BTreeSet<PathBuf>>,
    since: Time,
    /// It was said that it takes too long.
    said: bool,
}

/// The thread that follows addresses has broken off, and was not begun anew.
#[derive(Debug)]
pub(super) struct Ended;

impl Surroundings {
    /// Begins to follow what `config` asks for. Until [`Surroundings::known`] nothing is.
    pub(super) fn begin(config: &Config, breaks: Breaks) -> std::io::Result<Self> {
        let mut new = Self { asks_for_addresses: asks_for_addresses(config), breaks, ..Self::default() };
        new.files = files(config);
        if new.asks_for_addresses {
            new.following = Some(Following::start(&new.breaks)?);
        }
        Ok(new)
    }

    /// Waits for the first of everything. The addresses as long as it takes: to serve in a role that the
    /// host may not have is worse than to leave the table as it is a while longer.
    pub(super) async fn known(&mut self) -> Result<(), Ended> {
        self.there = look_patiently(self.files.clone()).await;
        if let Some(following) = &mut self.following {
            following.pictures.wait_for(Option::is_some).await.map_err(|_| Ended)?;
        }
        Ok(())
    }

    /// A new configuration takes over, for which `read` was found.
    pub(super) fn adopt(&mut self, config: &Config, read: Presence) -> Presence {
        self.asks_for_addresses = asks_for_addresses(config);
        (self.addresses, self.there) = (read.addresses, read.files);
        self.files = files(config);
        self.follow();
        // What was under way was a look at other files, or is older than what was read.
        self.look = None;
        self.begin_look(clock::now());
        self.presence()
    }

    /// All that is there now, as far as is known.
    pub(super) fn presence(&mut self) -> Presence {
        let picture = self.following.as_mut().and_then(|f| f.pictures.borrow_and_update().clone());
        let addresses = match picture {
            Some(picture) => addresses(&picture),
            None => self.addresses.clone(),
        };
        Presence { addresses, files: self.there.clone() }
    }

    /// Waits for news of either kind; then [`Surroundings::presence`] may be another.
    pub(super) async fn changed(&mut self) -> Result<(), Ended> {
        let Self { following, look, .. } = self;
        let picture = async {
            match following {
                Some(following) => following.pictures.changed().await.map_err(|_| Ended),
                None => std::future::pending().await,
            }
        };
        let found = async {
            match look {
                Some(look) => (&mut look.task).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = picture => changed,
            found = found => {
                self.look = None;
                if let Ok(found) = found {
                    self.there = found;
                }
                if std::mem::take(&mut self.again) {
                    self.begin_look(clock::now());
                }
                Ok(())
            }
        }
    }

    /// These files have changed, or may have.
    pub(super) fn note_changes(&mut self, changed: &Files, now: Time) {
        if !self.files.is_disjoint(changed) {
            self.begin_look(now);
        }
    }

    /// What is done at intervals.
    pub(super) fn tick(&mut self, now: Time) {
        self.follow();
        if let Some(look) = self.look.as_mut().filter(|look| now.since(look.since) >= PATIENCE) {
            if !std::mem::replace(&mut look.said, true) {
                warn!("looking for the files of active_when takes long: what was found before counts on");
            }
        } else if now >= self.next_look {
            self.begin_look(now);
        }
    }

    fn begin_look(&mut self, now: Time) {
        self.next_look = now + INTERVAL;
        if self.files.is_empty() {
            return;
        }
        if self.look.is_some() {
            self.again = true;
            return;
        }
        let files = self.files.clone();
        let task = tokio::task::spawn_blocking(move || look(&files));
        self.look = Some(Look { task, since: now, said: false });
    }

    /// Starts the thread if there should be one, and ends it if not. Without it the addresses of the last
    /// reading count.
    fn follow(&mut self) {
        if !self.asks_for_addresses {
            self.following = None;
            return;
        }
        if self.following.is_some() {
            return;
        }
        match Following::start(&self.breaks) {
            Ok(following) => self.following = Some(following),
            Err(problem) => error!("cannot follow this host's addresses: {problem}; trying again"),
        }
    }
}

impl Following {
    fn start(breaks: &Breaks) -> std::io::Result<Self> {
        let watcher = spawn_watcher(breaks)?;
        let pictures = watcher.pictures();
        Ok(Self { _watcher: watcher, pictures })
    }
}

#[cfg(test)]
mod tests;
