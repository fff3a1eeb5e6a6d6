//! keepalived's lines for whoever reads the FIFO: first how everything stands, then what happens.
//!
//! One task has the pipe. It never waits for a reader but by the event loop: a reader that stops
//! costs lines, and is told how everything stands once it goes on. Who knows how everything stands is
//! asked through [`Fifo::wants_state`], so that the answer has its place among the lines.
//!
//! A reader that comes is found by trying to open the pipe for writing, which takes a reader: one that
//! waits in open(2) for a writer shows in no other way. keepalived opens both ends itself, does not
//! notice readers, and keeps lines for the next one that may be hours old.

mod backlog;
mod node;
mod stream;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::anew::{Breaks, Part, Watch};
use backlog::{Backlog, Pushed};
use node::{Found, Id, Origin, Problem};
use stream::Stream;

/// How often a reader is looked for.
const SEARCH: Duration = Duration::from_millis(200);
/// For a file system to take the FIFO away at the end.
const REMOVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Fifo {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
    /// Until when lines are written once nothing more comes.
    end: watch::Sender<Option<Instant>>,
    looked: watch::Receiver<Looked>,
}

/// The FIFO has been looked for once: it is there, or what is wrong has been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looked {
    NotYet,
    Once,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// A mutex and no channel: the bound that must hold drops the oldest. Never held across an await.
    backlog: Mutex<Backlog>,
    /// There is more to write.
    more: Notify,
    /// How everything stands is wanted.
    asking: Arc<Notify>,
    /// The next look for a reader panics.
    #[cfg(test)]
    sabotage: std::sync::atomic::AtomicBool,
}

impl Fifo {
    /// `user`: whose programs read it. `asking` is notified when how everything stands is wanted.
    pub(super) fn start(
        runtime: &Handle,
        path: PathBuf,
        user: Option<String>,
        asking: Arc<Notify>,
        breaks: &Breaks,
    ) -> Self {
        let shared = Arc::new(Shared {
            path,
            backlog: Mutex::default(),
            more: Notify::new(),
            asking,
            #[cfg(test)]
            sabotage: Default::default(),
        });
        let (end, ending) = watch::channel(None);
        let (looks, looked) = watch::channel(Looked::NotYet);
        let mut server = Server { shared: Arc::clone(&shared), user, made: None, said: None, ending, looks };
        let mut watch = Watch::over(Part::Fifo, breaks);
        let task = runtime.spawn(async move {
            loop {
                let mut ending = server.ending.clone();
                // Its sender goes with the task itself.
                let ending = async move { drop(ending.wait_for(Option::is_some).await) };
                if !watch.breaks(server.serve(), ending).await {
                    return;
                }
            }
        });
        Self { shared, task, end, looked }
    }

    /// Until a reader can open the FIFO, or it has been said why none can; no longer than `limit`, for a
    /// file system may hang.
    pub(super) async fn opened(&self, limit: Duration) {
        let mut looked = self.looked.clone();
        let _ = timeout(limit, looked.wait_for(|looked| *looked == Looked::Once)).await;
    }

    /// Returns at once.
    pub(super) fn tell(&self, line: String) {
        let pushed = self.shared.backlog().push(line);
        match pushed {
            Pushed::Needless => return,
            Pushed::Queued => {}
            Pushed::Overflowed => {
                let path = self.shared.path.display();
                tracing::warn!("the reader of the FIFO {path} does not keep up: its oldest lines give way");
            }
        }
        self.shared.more.notify_one();
    }

    pub(super) fn wants_state(&self) -> bool {
        self.shared.backlog().wants_state()
    }

    /// Somebody reads and knows how everything stands.
    pub(super) fn is_followed(&self) -> bool {
        self.shared.backlog().is_followed()
    }

    /// How everything stands, in whole lines.
    pub(super) fn show(&self, state: String) {
        self.shared.backlog().show(state);
        self.shared.more.notify_one();
    }

    /// Lines that gave way to newer ones.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.backlog().dropped()
    }

    /// Writes what waits, no longer than `limit`, and removes the FIFO if it was made here.
    pub(super) async fn finish(mut self, limit: Duration) {
        let end = Instant::now() + limit;
        let _ended_by_itself = self.end.send(Some(end));
        let _ = timeout_at(end + REMOVAL, &mut self.task).await;
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task.
struct Server {
    shared: Arc<Shared>,
    user: Option<String>,
    /// What is to be removed at the end.
    made: Option<Id>,
    /// What is wrong, as last said.
    said: Option<String>,
    ending: watch::Receiver<Option<Instant>>,
    looks: watch::Sender<Looked>,
}

impl Server {
    async fn serve(&mut self) {
        // Of a reader that a panic has cut off nobody has said that it is gone.
        self.shared.backlog().end();
        while self.ending.borrow().is_none() {
            let stream = self.look_for_reader().await;
            self.looks.send_replace(Looked::Once);
            if let Some(stream) = stream {
                stream.run(&mut self.ending).await;
                self.shared.backlog().end();
            }
            // Also between two readers: one that ends at its first line would be served without a pause.
            let _elapsed = timeout(SEARCH, self.ending.changed()).await;
        }
        if let Some(made) = self.made {
            let path = self.shared.path.clone();
            match blocking(move || node::remove(&path, made)).await {
                Ok(()) => {}
                Err(problem) => tracing::warn!("{problem}"),
            }
        }
    }

    async fn look_for_reader(&mut self) -> Option<Stream> {
        let (path, user) = (self.shared.path.clone(), self.user.clone());
        #[cfg(test)]
        let sabotage = self.shared.sabotage.swap(false, std::sync::atomic::Ordering::Relaxed);
        let look = move || {
            #[cfg(test)]
            assert!(!sabotage, "broken on purpose");
            node::open(&path, user.as_deref())
        };
        let opened = match blocking(look).await {
            Ok(Found { id, pipe, origin }) => {
                if origin == Origin::Made {
                    self.made = Some(id);
                }
                pipe.map(|pipe| Stream::new(Arc::clone(&self.shared), pipe, id)).transpose()
            }
            Err(problem) => Err(problem),
        };
        match opened {
            Ok(stream) => {
                if self.said.take().is_some() {
                    tracing::info!("the FIFO {} is in order again", self.shared.path.display());
                }
                stream
            }
            Err(problem) => {
                let problem = chain(&problem);
                if self.said.as_ref() != Some(&problem) {
                    tracing::error!("{problem}; trying again until it works");
                    self.said = Some(problem);
                }
                None
            }
        }
    }
}

/// An error with its causes, on one line.
fn chain(problem: &Problem) -> String {
    match std::error::Error::source(problem) {
        Some(source) => format!("{problem}: {source}"),
        None => problem.to_string(),
    }
}

/// The file system may hang; then only the FIFO's task waits.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(act).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            // Breaks this task too, which is begun anew.
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and takes this task with it.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests;
