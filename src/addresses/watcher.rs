//! The thread that keeps a picture of the host's addresses up to date.
//!
//! It looks again after each event, after events were lost, and at an interval in any case, and sends
//! whole pictures of which only the newest counts. A thread, since the kernel answers a dump only
//! when nobody else holds its lock of links and addresses; for that reason nobody waits for its end.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::watch;
use tracing::{info, warn};

use super::socket::{DATAGRAM, Socket};
use super::{Picture, ReadError, Reader};
use crate::anew::{Breaks, Part, Watch};

/// Between two looks without a reason.
const INTERVAL: Duration = Duration::from_secs(10);
/// After a look that failed.
const RETRY: Duration = Duration::from_secs(1);
/// Between two looks, however many events there are.
const PAUSE: Duration = Duration::from_millis(20);
/// Datagrams of events thrown away in one go.
const DRAIN: usize = 1024;

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub struct Watcher {
    bell: PipeWriter,
    pictures: watch::Receiver<Option<Arc<Picture>>>,
}

impl Watcher {
    /// The newest picture; `None` until the first one. The sender's end means that the thread has ended.
    pub fn pictures(&self) -> watch::Receiver<Option<Arc<Picture>>> {
        self.pictures.clone()
    }

    /// Makes it look at once, after a change of one's own for instance.
    pub fn look_again(&mut self) {
        // A pipe that is full of rings needs no further one.
        let _ = self.bell.write(b"!");
    }
}

/// Starts the thread. If it breaks off it is begun anew, and what was known counts on meanwhile.
pub fn spawn_watcher(breaks: &Breaks) -> io::Result<Watcher> {
    let mut reader = Reader::new();
    spawn_with(move || reader.read(), breaks)
}

fn spawn_with(
    read: impl FnMut() -> Result<Picture, ReadError> + Send + 'static,
    breaks: &Breaks,
) -> io::Result<Watcher> {
    let (heard, bell) = io::pipe()?;
    nix::fcntl::fcntl(&bell, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    let (sender, pictures) = watch::channel(None);
    let mut watching = Watching {
        heard,
        events: None,
        read: Box::new(read),
        sender,
        problem: None,
        last_look: Instant::now(),
        rest: PAUSE,
        buffer: vec![0; DATAGRAM],
    };
    let mut watch = Watch::over(Part::AddressWatcher, breaks);
    std::thread::Builder::new().name("address-watcher".to_owned()).spawn(move || {
        while watch.breaks_here(|| {
            watching.run();
            Ok(())
        }) {}
    })?;
    Ok(Watcher { bell, pictures })
}

struct Watching {
    heard: PipeReader,
    /// Opened before each look that has none, so that what changes after that look is heard.
    events: Option<Socket>,
    read: Box<dyn FnMut() -> Result<Picture, ReadError> + Send>,
    sender: watch::Sender<Option<Arc<Picture>>>,
    /// Why the last look failed, so as to say it once.
    problem: Option<ReadError>,
    /// When the last look began, and how long it is to be until the next: a host with very many addresses
    /// that change all the time must leave the processor to others as well.
    last_look: Instant,
    rest: Duration,
    buffer: Vec<u8>,
}

/// Why the wait for an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    Look,
    Ended,
}

impl Watching {
    fn run(&mut self) {
        loop {
            let patience = match self.look() {
                Ok(()) => INTERVAL,
                Err(()) => RETRY,
            };
            if self.wait(patience) == Woken::Ended {
                return;
            }
        }
    }

    fn look(&mut self) -> Result<(), ()> {
        self.last_look = Instant::now();
        let looked = self.hear_and_read();
        self.rest = PAUSE.max(2 * self.last_look.elapsed());
        match looked {
            Ok(picture) => {
                if self.problem.take().is_some() {
                    info!("this host's addresses are read again");
                }
                self.sender.send_if_modified(|last| {
                    let changed = last.as_deref() != Some(&picture);
                    if changed {
                        *last = Some(Arc::new(picture));
                    }
                    changed
                });
                Ok(())
            }
            Err(problem) => {
                if self.problem.replace(problem) != Some(problem) {
                    warn!("cannot read this host's addresses: {problem}; trying again until it works");
                }
                Err(())
            }
        }
    }

    fn hear_and_read(&mut self) -> Result<Picture, ReadError> {
        if self.events.is_none() {
            self.events = Some(Socket::to_hear().map_err(ReadError::Socket)?);
        }
        (self.read)()
    }

    /// Waits for an event, a ring, or the end of `patience`.
    fn wait(&mut self, patience: Duration) -> Woken {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Look;
            }
            let timeout =
                PollTimeout::try_from(left.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX);
            let mut waits = vec![PollFd::new(self.heard.as_fd(), PollFlags::POLLIN)];
            waits.extend(self.events.iter().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN)));
            let found = poll(&mut waits, timeout);
            let mut ready = waits.iter().map(|wait| wait.any().unwrap_or(true));
            let (rang, happened) = (ready.next().unwrap_or(true), ready.next().unwrap_or(false));
            match found {
                Err(Errno::EINTR) | Ok(0) => continue,
                Err(_) => return self.pause(),
                Ok(_) => {}
            }
            if rang && !matches!(self.heard.read(&mut [0; 64]), Ok(1..)) {
                return Woken::Ended;
            }
            if rang || happened {
                return self.pause();
            }
        }
    }

    /// Lets further events of the same change come in, and throws them all away: the look that follows
    /// sees what they are about. Whatever comes later wakes the next wait.
    fn pause(&mut self) -> Woken {
        let left = self.rest.saturating_sub(self.last_look.elapsed()).as_millis();
        if left > 0 {
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            let mut waits = [PollFd::new(self.heard.as_fd(), PollFlags::POLLIN)];
            if matches!(poll(&mut waits, timeout), Ok(1..))
                && !matches!(self.heard.read(&mut [0; 64]), Ok(1..))
            {
                return Woken::Ended;
            }
        }
        let Some(events) = &self.events else { return Woken::Look };
        for _ in 0..DRAIN {
            match events.receive(&mut self.buffer) {
                // ENOBUFS: some were lost. The look makes up for it.
                Ok(_) | Err(Errno::ENOBUFS) => {}
                Err(Errno::EAGAIN) => return Woken::Look,
                // Of no use any more: the look opens another one.
                Err(_) => {
                    self.events = None;
                    return Woken::Look;
                }
            }
        }
        Woken::Look
    }
}

#[cfg(test)]
mod tests;
