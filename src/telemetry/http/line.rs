//! Answers without an end: how many there may be, how a handler begins one, and how it breaks one off.
//!
//! They are counted apart from other connections, so that neither kind pushes the other out.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::Closed;

/// The connection that a request came on. It is among the request's extensions.
#[derive(Clone)]
pub struct Line(Arc<State>);

struct State {
    streaming: AtomicBool,
    cut: Notify,
    places: Arc<Places>,
    closed: Closed,
}

/// Streams at a time, of all connections.
pub(in crate::telemetry) struct Places {
    taken: AtomicUsize,
    limit: usize,
}

impl Places {
    pub(in crate::telemetry) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), limit })
    }
}

impl Line {
    pub(in crate::telemetry) fn new(places: Arc<Places>, closed: Closed) -> Self {
        Self(Arc::new(State { streaming: AtomicBool::new(false), cut: Notify::new(), places, closed }))
    }

    /// To be kept as long as the answer is being sent; none if there are as many as there may be. The
    /// connection may then be as old as [`super::Limits::stream`].
    pub fn try_stream(&self) -> Option<Streaming> {
        let State { places, streaming, .. } = &*self.0;
        let more = |taken| (taken < places.limit).then_some(taken + 1);
        places.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        streaming.store(true, Ordering::Relaxed);
        Some(Streaming(self.clone()))
    }

    /// Breaks the connection off, whatever of an answer is still on its way, and counts it.
    pub fn cut(&self) {
        self.0.closed.count_more(1);
        self.0.cut.notify_one();
    }

    /// Until it is to be broken off.
    pub(in crate::telemetry) async fn is_cut(&self) {
        self.0.cut.notified().await;
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.0.streaming.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("streaming", &self.is_streaming()).finish_non_exhaustive()
    }
}

/// A place among the streams, given back when dropped.
#[derive(Debug)]
pub struct Streaming(Line);

impl Streaming {
    pub fn line(&self) -> &Line {
        &self.0
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.0.streaming.store(false, Ordering::Relaxed);
        self.0.0.places.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
