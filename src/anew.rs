//! Parts of the daemon that go on as long as it does: one that breaks off, by a panic or an error, is begun anew,
//! said in the log and counted.
//!
//! Knows nothing of what they do. Not for what the kernel's table hangs on: there the daemon ends, and a new start
//! adopts the table.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tracing::error;

/// Before it is begun anew: after the first time, and at most. One that breaks at once, each time, must not take
/// the processor from the others, nor fill the log.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is begun anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    AddressWatcher,
    Canaries,
    Fifo,
    FileWatcher,
    Front,
    Log,
    Mail,
    StateFile,
    Webhook,
}

impl Part {
    /// In the order of their names.
    pub const ALL: [Self; 9] = [
        Self::AddressWatcher,
        Self::Canaries,
        Self::Fifo,
        Self::FileWatcher,
        Self::Front,
        Self::Log,
        Self::Mail,
        Self::StateFile,
        Self::Webhook,
    ];

    /// In metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AddressWatcher => "address-watcher",
            Self::Canaries => "canaries",
            Self::Fifo => "fifo",
            Self::FileWatcher => "file-watcher",
            Self::Front => "front",
            Self::Log => "log",
            Self::Mail => "mail",
            Self::StateFile => "state-file",
            Self::Webhook => "webhook",
        }
    }

    /// In the log.
    const fn what(self) -> &'static str {
        match self {
            Self::AddressWatcher => "the thread that follows this host's addresses",
            Self::Canaries => "the task that asks the canaries",
            Self::Fifo => "the task that writes the FIFO",
            Self::FileWatcher => "the thread that watches files",
            Self::Front => "the thread of the control socket and of HTTP",
            Self::Log => "the thread that writes the log",
            Self::Mail => "the task that sends mail",
            Self::StateFile => "the thread that writes the state file",
            Self::Webhook => "a task that posts to a webhook",
        }
    }
}

/// How often each part broke off since the start. Clones are the same counts.
#[derive(Clone, Debug, Default)]
pub struct Breaks(Arc<[AtomicU64; Part::ALL.len()]>);

impl Breaks {
    pub fn counts(&self) -> impl Iterator<Item = (Part, u64)> {
        Part::ALL.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Says and counts that it broke off; it has been or will be begun anew.
    pub fn note(&self, part: Part, why: &str) {
        if let Some(count) = self.0.get(part as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        error!("{} broke off and is begun anew: {why}", part.what());
    }
}

/// Watches over one part.
#[derive(Debug)]
pub struct Watch {
    part: Part,
    breaks: Breaks,
    pause: Duration,
    /// The end of the daemon has cut a pause short.
    hurried: bool,
}

impl Watch {
    pub fn over(part: Part, breaks: &Breaks) -> Self {
        Self { part, breaks: breaks.clone(), pause: PAUSE, hurried: false }
    }

    /// Runs the part, as a task. If it broke off, that is said and some time passes: true, to be begun anew. False
    /// once it has ended of itself. `ending`, the end of the daemon, cuts the time short: what is left to do has a deadline
    /// then. One that breaks off again after that waits shortly.
    pub async fn breaks(&mut self, part: impl Future<Output = ()>, ending: impl Future<Output = ()>) -> bool {
        let began = Instant::now();
        let Err(why) = caught(part).await else { return false };
        let pause = self.broke(began, &why);
        if self.hurried {
            tokio::time::sleep(PAUSE).await;
        } else {
            self.hurried = tokio::time::timeout(pause, ending).await.is_ok();
        }
        true
    }

    /// The same of one that has this thread for itself. `unpark` cuts the time short.
    pub fn breaks_here(&mut self, part: impl FnOnce() -> Result<(), String>) -> bool {
        let began = Instant::now();
        match catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|panic| Err(text_of(panic.as_ref()))) {
            Ok(()) => false,
            Err(why) => {
                std::thread::park_timeout(self.broke(began, &why));
                true
            }
        }
    }

    /// Says and counts that what `began` then broke off. How long to wait before it is begun anew.
    pub fn broke(&mut self, began: Instant, why: &str) -> Duration {
        self.breaks.note(self.part, why);
        if began.elapsed() > LONGEST_PAUSE {
            self.pause = PAUSE;
        }
        let pause = self.pause;
        self.pause = LONGEST_PAUSE.min(2 * pause);
        pause
    }
}

/// What comes of `future`; if it panics, the panic's text, and it is not polled again. Whatever it shares with others
/// must be whole between any two statements.
pub async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(text_of(panic.as_ref()))),
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "no text".to_owned()
    }
}

#[cfg(test)]
mod tests;
