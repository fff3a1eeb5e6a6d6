//! One time that somebody reads: lines into the pipe, whole ones, as the reader takes them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::Shared;
use super::node::{self, Id, Problem};

/// A write up to this long happens as a whole or not at all (PIPE_BUF), so that no reader finds the
/// rest of a line that another one took.
const WHOLE: usize = 4096;
/// For the reader's open(2), which ours has let go on, to return.
const SETTLE: Duration = Duration::from_millis(50);
/// How often the name is asked whether it still leads here.
const ASK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Stream {
    shared: Arc<Shared>,
    pipe: pipe::Sender,
    id: Id,
    /// Readable when somebody has opened the FIFO; unset if the kernel has no watch left.
    opened: Option<pipe::Receiver>,
}

/// What is being written.
#[derive(Debug, Default)]
struct Current {
    text: Vec<u8>,
    written: usize,
}

impl Stream {
    pub(super) fn new(shared: Arc<Shared>, pipe: File, id: Id) -> Result<Self, Problem> {
        let problem = |source| Problem::System { doing: "writing to", path: shared.path.clone(), source };
        let opened = watch_opens(&pipe)
            .inspect_err(|error| {
                tracing::debug!("a reader that follows another at once is not noticed: {error}")
            })
            .ok();
        let pipe = pipe::Sender::from_owned_fd(OwnedFd::from(pipe)).map_err(problem)?;
        Ok(Self { shared, pipe, id, opened })
    }

    /// Until nobody reads any more, the name leads elsewhere, or the end.
    pub(super) async fn run(mut self, ending: &mut watch::Receiver<Option<Instant>>) {
        let shared = Arc::clone(&self.shared);
        shared.backlog().begin();
        sleep(SETTLE).await;
        if let Some(opened) = &mut self.opened {
            let mut events = [0; 1024];
            let _none = opened.try_read(&mut events);
        }
        shared.asking.notify_one();
        let mut current = Current::default();
        let mut asks = interval(ASK);
        asks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let end = *ending.borrow();
            if current.is_written() && !self.refill(&mut current) && end.is_some() {
                return;
            }
            let interest = match current.is_written() {
                true => Interest::ERROR,
                false => Interest::ERROR | Interest::WRITABLE,
            };
            tokio::select! {
                ready = self.pipe.ready(interest) => match ready {
                    Ok(ready) if !ready.is_error() && !ready.is_write_closed() => {
                        if current.write(&self.pipe).is_err() {
                            return;
                        }
                    }
                    Ok(_) | Err(_) => return,
                },
                () = shared.more.notified(), if current.is_written() => {}
                () = another(&mut self.opened) => {
                    // The rest of a line belongs before what comes next.
                    current.finish_line();
                    shared.backlog().begin();
                    shared.asking.notify_one();
                }
                _ = asks.tick() => if !self.is_in_place().await {
                    return;
                },
                _ = ending.changed(), if end.is_none() => {}
                () = at(end) => return,
            }
        }
    }

    /// Takes on what waits; false if nothing does.
    fn refill(&self, current: &mut Current) -> bool {
        let mut backlog = self.shared.backlog();
        if let Some(text) = backlog.pop() {
            *current = Current { text: text.into(), written: 0 };
            return true;
        }
        if let Some(missed) = backlog.take_missed() {
            drop(backlog);
            let path = self.shared.path.display();
            tracing::info!("the reader of the FIFO {path} has caught up, {missed} lines are missing");
            self.shared.asking.notify_one();
        }
        false
    }

    /// Whoever opens the name now must find us.
    async fn is_in_place(&self) -> bool {
        let (path, id) = (self.shared.path.clone(), self.id);
        super::blocking(move || Ok(node::is_at(&path, id))).await.unwrap_or(false)
    }
}

impl Current {
    fn is_written(&self) -> bool {
        self.written >= self.text.len()
    }

    /// As many whole lines as the pipe takes at once.
    fn write(&mut self, pipe: &pipe::Sender) -> io::Result<()> {
        while !self.is_written() {
            match pipe.try_write(self.chunk()) {
                Ok(length) => self.written += length,
                Err(full) if full.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }

    fn chunk(&self) -> &[u8] {
        let left = self.text.get(self.written..).unwrap_or_default();
        let most = left.get(..WHOLE).unwrap_or(left);
        match most.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => most.get(..=last).unwrap_or(most),
            // A line that is longer than that.
            None => most,
        }
    }

    /// Leaves nothing but the rest of a line that has been begun.
    fn finish_line(&mut self) {
        let is_begun = self.written > 0 && self.text.get(self.written - 1) != Some(&b'\n');
        let left = self.text.get(self.written..).unwrap_or_default();
        let rest = left.split_inclusive(|byte| *byte == b'\n').next().filter(|_| is_begun);
        *self = Self { text: rest.unwrap_or_default().to_vec(), written: 0 };
    }
}

/// By its descriptor: the name may be another's by now.
fn watch_opens(pipe: &File) -> io::Result<pipe::Receiver> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    inotify.add_watch(path.as_str(), AddWatchFlags::IN_OPEN)?;
    // Not a pipe, but read like one.
    pipe::Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)
}

/// Somebody has opened the FIFO. What it was is in no event, so that none is looked at.
async fn another(opened: &mut Option<pipe::Receiver>) {
    let mut events = [0; 1024];
    if let Some(receiver) = opened {
        if receiver.read(&mut events).await.is_ok() {
            return;
        }
        // A watch that broke says no more.
        *opened = None;
    }
    std::future::pending().await
}

async fn at(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}
