//! The state file: what a start must know of the run before it.
//!
//! Rewritten as a whole (new file, fsync, rename) when something changed; its time stamp is renewed in
//! place, since only the stamp says that the verdicts are still current. A thread of its own does both,
//! so that a slow or full disk delays nothing else.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tracing::warn;

use super::clock;
use super::remembered::{self, LeftOut};
use crate::anew::{Breaks, Part, Watch};
use crate::engine::Time;
use crate::engine::announcements::VirtualAddress;
use crate::engine::memory::Memory;
use crate::engine::model::Timeouts;
use crate::engine::table::ServiceId;

/// A larger one is not written, and so not read: a check takes some 200 bytes, an order what its words take.
const LARGEST: u64 = 512 << 20;

/// Of the text, which is never whole in memory.
const BUFFER: usize = 64 << 10;

/// States and stamps that wait for the disk.
const QUEUE: usize = 4;

/// Everything in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) memory: Memory,
    /// Services that we have written, or are about to write, into the kernel.
    pub(super) owned: BTreeSet<ServiceId>,
    /// Virtual addresses that we have put on an interface, or are about to.
    pub(super) announced: BTreeSet<VirtualAddress>,
    /// The kernel's time-outs before ours; unset if we never changed them.
    pub(super) original_timeouts: Option<Timeouts>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    #[error("cannot read state file {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("state file {} is not usable: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
}

/// What the last run left behind; `None` if there is no file. Verdicts of another boot lose their age.
pub(super) fn read(path: &Path, now: Time) -> Result<Option<State>, StateError> {
    let text = match read_bounded(path, LARGEST) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StateError::Unreadable { path: path.to_owned(), source }),
    };
    let mut left_out = LeftOut::default();
    match remembered::parse(&text, &clock::boot_id(), now, &mut left_out) {
        Ok(state) => {
            left_out.lines().for_each(|what| warn!("state file {}: left out: {what}", path.display()));
            Ok(Some(state))
        }
        Err(reason) => Err(StateError::Malformed { path: path.to_owned(), reason }),
    }
}

fn read_bounded(path: &Path, most: u64) -> std::io::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)?;
    let mut text = String::new();
    // What is no plain file may have no length.
    let is_small = file.metadata()?.len() <= most;
    if !is_small || file.take(most + 1).read_to_string(&mut text)? as u64 > most {
        let reason = format!("it is larger than {} MiB", most >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
    }
    Ok(text)
}

/// One answer for each state handed over, in order: has it reached the disk?
pub(super) type Answer = tokio::sync::oneshot::Sender<std::io::Result<()>>;

enum Job {
    Save(Box<State>, Answer),
    Renew(Time),
    #[cfg(test)]
    Break(Answer),
}

/// The supervisor's end of the thread that writes.
#[derive(Debug)]
pub(super) struct StateFile {
    sender: SyncSender<Job>,
    thread: JoinHandle<()>,
}

impl StateFile {
    pub(super) fn spawn(path: PathBuf, breaks: &Breaks) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let mut watch = Watch::over(Part::StateFile, breaks);
        let thread = std::thread::Builder::new().name("state-file".to_owned()).spawn(move || {
            while watch.breaks_here(|| {
                write_states(&path, &receiver);
                Ok(())
            }) {}
        })?;
        Ok(Self { sender, thread })
    }

    /// False if the disk is so slow that the states before this one still wait: it is not taken.
    pub(super) fn try_save(&self, state: State, answer: Answer) -> bool {
        let is_taken = self.sender.try_send(Job::Save(Box::new(state), answer)).is_ok();
        // Should it pause after it broke off: somebody waits for this.
        self.thread.thread().unpark();
        is_taken
    }

    /// The verdicts in the file are still current. Lost without harm when the disk is slow.
    pub(super) fn renew(&self, now: Time) {
        let _ = self.sender.try_send(Job::Renew(now));
    }

    /// Ends the thread after what it was given.
    pub(super) fn finish(self) {
        drop(self.sender);
        self.thread.thread().unpark();
        // It catches what panics in there.
        let _ = self.thread.join();
    }
}

/// Until nothing more comes. The state that was under way when it broke is answered by the end of its answer.
fn write_states(path: &Path, receiver: &Receiver<Job>) {
    // What a renewal may stamp: not a file whose verdicts a later state should have replaced.
    let mut written: Option<(File, u64)> = None;
    for job in receiver {
        match job {
            Job::Save(state, answer) => {
                let result = write(path, &state, &clock::boot_id());
                let (file, reply) = match result {
                    Ok(file) => (Some(file), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                written = file;
                // The supervisor may be gone by now.
                let _ = answer.send(reply);
            }
            Job::Renew(now) => {
                if let Some((file, at)) = &written {
                    // The next whole write reports what is wrong with the disk.
                    let _ = file.write_all_at(remembered::stamp(now).as_bytes(), *at);
                }
            }
            #[cfg(test)]
            Job::Break(_answer) => std::panic::panic_any("broken on purpose"),
        }
    }
}

/// Replaces the file. Whoever reads it sees the old one or the new one, whole. Returns the file and
/// where its stamp is.
fn write(path: &Path, state: &State, boot_id: &str) -> std::io::Result<(File, u64)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The same in each run: what a kill in the middle of a write leaves goes at the next one.
    let temporary = path.with_file_name(format!(".{name}.new"));
    let result = write_and_rename(&temporary, path, state, boot_id);
    if result.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn write_and_rename(
    temporary: &Path,
    path: &Path,
    state: &State,
    boot_id: &str,
) -> std::io::Result<(File, u64)> {
    match std::fs::remove_file(temporary) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        Ok(()) | Err(_) => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
    let mut text = BufWriter::with_capacity(BUFFER, file);
    let stamp_at = remembered::write(state, boot_id, &mut text, LARGEST)?;
    let file = text.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.sync_all()?;
    std::fs::rename(temporary, path)?;
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        File::open(directory)?.sync_all()?;
    }
    Ok((file, stamp_at))
}

#[cfg(test)]
impl StateFile {
    /// One whose disk does not answer until the returned end is dropped.
    pub(super) fn gated(path: PathBuf) -> (Self, SyncSender<()>) {
        let (gate, shut) = sync_channel(0);
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = std::thread::spawn(move || {
            // Nothing is ever sent: it is the drop that opens.
            let _ = shut.recv();
            write_states(&path, &receiver);
        });
        (Self { sender, thread }, gate)
    }
}

#[cfg(test)]
mod tests;
