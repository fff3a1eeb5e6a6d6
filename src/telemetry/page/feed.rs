//! One painter for all who look: a picture a second at most while anybody does, and what is new in it for
//! those who keep looking. Whoever does not take what is sent is cut off.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::body::Events;
use crate::telemetry::http::{Line, Streaming};

/// What is shown, as of one moment.
pub trait Document: Send + Sync + 'static {
    /// All of it as JSON, on one line.
    fn whole(&self) -> Result<String, Broken>;
    /// All of it for people.
    fn text(&self) -> String;
    fn changes(&self, before: &Self) -> Result<Change, Broken>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    /// In the shape of [`Document::whole`], what is new.
    Some(String),
    /// It cannot be told as a change.
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("there is no picture of the daemon")]
pub struct Broken;

/// Makes a picture, within a few seconds whatever the daemon does; none if it does not answer.
pub type Source<D> = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<D>> + Send>> + Send + Sync>;

/// Between two pictures; as long one is shown to those who come later.
const PACE: Duration = Duration::from_secs(1);
/// Events on their way to one viewer: more of them means that it does not read.
const QUEUE: usize = 3;
/// Something is sent at least this often, so that either side notices when the other is gone.
const BEAT: Duration = Duration::from_secs(15);

/// Clones are the same feed. Needs a tokio runtime with timers.
pub struct Feed<D>(Arc<Shared<D>>);

struct Shared<D> {
    source: Source<D>,
    /// Somebody came who has nothing to look at yet.
    came: Notify,
    /// A mutex and no message: it is held for a few instructions, never across an await.
    state: Mutex<State<D>>,
}

struct State<D> {
    /// There is a painter.
    is_painted: bool,
    latest: Option<Arc<Shown<D>>>,
    /// For the next picture. Bounded by the connections of the listener.
    waiting: VecDeque<oneshot::Sender<Result<Arc<Shown<D>>, Broken>>>,
    viewers: Vec<Viewer>,
}

struct Viewer {
    queue: mpsc::Sender<Bytes>,
    line: Line,
    /// It has had the whole of a picture.
    has_whole: bool,
}

struct Shown<D> {
    document: D,
    at: Instant,
    /// Made when the first wants it.
    whole: OnceLock<Result<Bytes, Broken>>,
    text: OnceLock<Bytes>,
}

impl<D: Document> Feed<D> {
    pub fn new(source: Source<D>) -> Self {
        let state = State { is_painted: false, latest: None, waiting: VecDeque::new(), viewers: Vec::new() };
        Self(Arc::new(Shared { source, came: Notify::new(), state: Mutex::new(state) }))
    }

    /// JSON, not older than a second.
    pub async fn whole(&self) -> Result<Bytes, Broken> {
        let shown = self.look().await?;
        away(move || shown.whole()).await?
    }

    /// For people, likewise.
    pub async fn text(&self) -> Result<Bytes, Broken> {
        let shown = self.look().await?;
        away(move || shown.text.get_or_init(|| Bytes::from(shown.document.text() + "\n")).clone()).await
    }

    /// Events from here on, the first with everything.
    pub(super) fn watch(&self, stream: Streaming) -> Events {
        let (queue, events) = mpsc::channel(QUEUE);
        let viewer = Viewer { queue, line: stream.line().clone(), has_whole: false };
        let mut state = self.0.lock();
        state.viewers.push(viewer);
        self.paint(&mut state);
        self.0.came.notify_one();
        drop(state);
        Events::new(events, stream)
    }

    async fn look(&self) -> Result<Arc<Shown<D>>, Broken> {
        let receiver = {
            let mut state = self.0.lock();
            if let Some(latest) = state.latest.as_ref().filter(|latest| latest.at.elapsed() < PACE) {
                return Ok(Arc::clone(latest));
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back(sender);
            self.paint(&mut state);
            receiver
        };
        receiver.await.unwrap_or(Err(Broken))
    }

    fn paint(&self, state: &mut State<D>) {
        if !std::mem::replace(&mut state.is_painted, true) {
            tokio::spawn(
                Painter { shared: Arc::clone(&self.0), sent: Instant::now(), is_in_trouble: false }.paint(),
            );
        }
    }
}

impl<D> Clone for Feed<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D> fmt::Debug for Feed<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

impl<D> Shared<D> {
    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Document> Shown<D> {
    fn whole(&self) -> Result<Bytes, Broken> {
        self.whole.get_or_init(|| self.document.whole().map(Bytes::from)).clone()
    }
}

/// On a thread that may take its time: probes of this daemon's health are answered meanwhile.
async fn away<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Broken> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Broken)
}

struct Painter<D> {
    shared: Arc<Shared<D>>,
    /// When something was last sent to all.
    sent: Instant,
    /// And that there is no picture.
    is_in_trouble: bool,
}

impl<D: Document> Painter<D> {
    async fn paint(mut self) {
        loop {
            let next = Instant::now() + PACE;
            if let Err(Broken) = self.round().await {
                self.shared.lock().waiting.drain(..).for_each(|waiting| drop(waiting.send(Err(Broken))));
                self.is_in_trouble = true;
                self.send_all(&message("trouble", b"{}"));
            } else if std::mem::take(&mut self.is_in_trouble) {
                self.send_all(&message("beat", b"{}"));
            }
            loop {
                tokio::select! {
                    () = self.shared.came.notified() => drop(self.welcome().await),
                    () = sleep_until(next) => break,
                }
            }
            if self.sent.elapsed() >= BEAT {
                self.send_all(&Bytes::from_static(b": still here\nevent: beat\ndata: {}\n\n"));
            }
            let mut state = self.shared.lock();
            state.viewers.retain(|viewer| !viewer.queue.is_closed());
            state.waiting.retain(|waiting| !waiting.is_closed());
            if state.viewers.is_empty() && state.waiting.is_empty() {
                state.is_painted = false;
                state.latest = None;
                return;
            }
        }
    }

    /// A picture, and what is new in it.
    async fn round(&mut self) -> Result<(), Broken> {
        let document = (self.shared.source)().await.ok_or(Broken)?;
        let (whole, text) = (OnceLock::new(), OnceLock::new());
        let shown = Arc::new(Shown { document, at: Instant::now(), whole, text });
        let before = self.shared.lock().latest.clone();
        let (new, old) = (Arc::clone(&shown), before);
        let change = away(move || match old {
            Some(old) => new.document.changes(&old.document),
            None => Ok(Change::Everything),
        });
        let change = change.await??;
        let waiting = {
            let mut state = self.shared.lock();
            state.latest = Some(Arc::clone(&shown));
            if change == Change::Everything {
                state.viewers.iter_mut().for_each(|viewer| viewer.has_whole = false);
            }
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|waiting| drop(waiting.send(Ok(Arc::clone(&shown)))));
        if let Change::Some(text) = change {
            self.send_all(&message("change", text.as_bytes()));
        }
        self.welcome().await
    }

    /// Everything, for those who have nothing to look at yet.
    async fn welcome(&mut self) -> Result<(), Broken> {
        let latest = {
            let state = self.shared.lock();
            let latest =
                state.latest.clone().filter(|_| state.viewers.iter().any(|viewer| !viewer.has_whole));
            let Some(latest) = latest else { return Ok(()) };
            latest
        };
        let whole = away(move || latest.whole().map(|whole| message("whole", &whole))).await??;
        self.send(&whole, |viewer| !std::mem::replace(&mut viewer.has_whole, true));
        Ok(())
    }

    fn send_all(&mut self, event: &Bytes) {
        self.sent = Instant::now();
        self.send(event, |viewer| viewer.has_whole);
    }

    fn send(&self, event: &Bytes, mut to: impl FnMut(&mut Viewer) -> bool) {
        self.shared.lock().viewers.retain_mut(|viewer| {
            let stays = !to(viewer) || viewer.queue.try_send(event.clone()).is_ok();
            if !stays {
                viewer.line.cut();
            }
            stays
        });
    }
}

/// A painter that breaks lets all go who waited for it; the next who comes has a new one.
impl<D> Drop for Painter<D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.shared.lock();
            state.is_painted = false;
            state.waiting.clear();
            state.viewers.drain(..).for_each(|viewer| viewer.line.cut());
        }
    }
}

/// `data` has no line breaks: JSON escapes them.
fn message(event: &str, data: &[u8]) -> Bytes {
    let mut message = format!("event: {event}\nretry: 3000\ndata: ").into_bytes();
    message.extend_from_slice(data);
    message.extend_from_slice(b"\n\n");
    Bytes::from(message)
}

#[cfg(test)]
mod tests;
