//! From a request to a page. Clients that ask within a second share one page, and pages that clients are
//! slow to take are bounded in number: the oldest is withdrawn, which breaks their connections off.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use hyper::{Request, Response, StatusCode};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::sleep;

use super::collect::Page;
use super::encode::Format;
use super::picture::Picture;
use crate::telemetry::http::Handler;

/// Makes a picture. It must end within a few seconds, whatever the daemon does.
pub type Source = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Picture> + Send>> + Send + Sync>;

/// How long a page is shown to those who come after the first.
const FRESH: Duration = Duration::from_secs(1);
/// Pages in memory at a time, of both formats together. At a page a second, a client that takes more
/// than some seconds to read one finds it withdrawn; nobody else notices.
const PAGES: usize = 8;
/// And bytes in all of them, but for the newest, which is shown however large it is.
const BYTES: usize = 128 << 20;
/// Handed to a connection at once; copied, so that a page that is withdrawn is gone.
const CHUNK: usize = 32 * 1024;

/// Clones are the same exporter. Needs a tokio runtime with timers.
#[derive(Clone)]
pub struct Exporter(Arc<Shared>);

struct Shared {
    source: Source,
    /// A mutex and no message: it is held for a few instructions, never across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of each format, the page that is being made or is fresh.
    pages: [Option<watch::Receiver<Progress>>; Format::ALL.len()],
    /// All that somebody may still be reading, the oldest first, with their bytes.
    held: VecDeque<(Weak<Text>, usize)>,
}

/// None until it is made.
type Progress = Option<Result<Arc<Text>, Broken>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("making the page broke off")]
struct Broken;

/// A page; none once it is withdrawn. Locked for a copy of a chunk.
struct Text(Mutex<Option<String>>);

impl Exporter {
    pub fn new(source: Source) -> Self {
        Self(Arc::new(Shared { source, state: Mutex::default() }))
    }

    /// Answers GET and HEAD of `/metrics`.
    pub fn handler(&self) -> Handler<Reading> {
        let this = self.clone();
        Arc::new(move |request: Request<()>| {
            let this = this.clone();
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = Format::of_accept(accept);
            Box::pin(async move { this.answer(format).await })
        })
    }

    async fn answer(&self, format: Format) -> Response<Reading> {
        let mut page = self.join_or_start(format);
        // The sender is gone without a page only if its task broke.
        let page = page.wait_for(Option::is_some).await.ok().and_then(|page| page.clone());
        let (status, body) = match page {
            Some(Ok(text)) => (StatusCode::OK, Reading::of(text)),
            Some(Err(Broken)) | None => (StatusCode::INTERNAL_SERVER_ERROR, Reading::nothing()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("accept"));
        response
    }

    fn join_or_start(&self, format: Format) -> watch::Receiver<Progress> {
        let mut state = self.0.lock();
        let place = state.pages.get(format as usize).cloned().flatten();
        // A task that broke has dropped its end without a page.
        if let Some(page) = place.filter(|page| page.borrow().is_some() || page.has_changed().is_ok()) {
            return page;
        }
        let (sender, receiver) = watch::channel(None);
        if let Some(place) = state.pages.get_mut(format as usize) {
            *place = Some(receiver.clone());
        }
        drop(state);
        let shared = Arc::clone(&self.0);
        // Not owned by its caller, who may go away while others wait; the source's deadline ends it.
        tokio::spawn(async move {
            let picture = (shared.source)().await;
            let made = tokio::task::spawn_blocking(move || format.encode(Page::new(picture))).await;
            let text = match made {
                Ok(Ok(text)) => Ok(shared.hold(text)),
                Ok(Err(fmt::Error)) | Err(_) => Err(Broken),
            };
            sender.send_replace(Some(text));
            sleep(FRESH).await;
            // This one's own: nobody replaces a page that is fresh.
            if let Some(place) = shared.lock().pages.get_mut(format as usize) {
                *place = None;
            }
        });
        receiver
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps count of a page, and withdraws the oldest if there are too many.
    fn hold(&self, mut text: String) -> Arc<Text> {
        // It has grown by doubling.
        text.shrink_to_fit();
        let bytes = text.len();
        let text = Arc::new(Text(Mutex::new(Some(text))));
        let mut state = self.lock();
        state.held.retain(|(page, _)| page.strong_count() > 0);
        let mut sum = bytes + state.held.iter().map(|(_, bytes)| bytes).sum::<usize>();
        while state.held.len() >= PAGES || sum > BYTES {
            let Some((oldest, bytes)) = state.held.pop_front() else { break };
            sum -= bytes;
            if let Some(oldest) = oldest.upgrade() {
                *oldest.lock() = None;
            }
        }
        state.held.push_back((Arc::downgrade(&text), bytes));
        text
    }
}

impl Text {
    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// A page on its way to one client.
pub struct Reading {
    text: Option<Arc<Text>>,
    at: usize,
    length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the page was withdrawn: it was read too slowly")]
pub struct Withdrawn;

impl Reading {
    fn of(text: Arc<Text>) -> Self {
        let length = text.lock().as_ref().map_or(0, String::len);
        Self { text: Some(text), at: 0, length }
    }

    fn nothing() -> Self {
        Self { text: None, at: 0, length: 0 }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("at", &self.at).field("length", &self.length).finish_non_exhaustive()
    }
}

impl Body for Reading {
    type Data = Bytes;
    type Error = Withdrawn;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Withdrawn>>> {
        let end = self.length.min(self.at + CHUNK);
        if self.at >= end {
            return Poll::Ready(None);
        }
        let chunk = self.text.as_ref().and_then(|text| {
            let text = text.lock();
            Some(Bytes::copy_from_slice(text.as_ref()?.as_bytes().get(self.at..end)?))
        });
        self.at = end;
        if end == self.length || chunk.is_none() {
            self.text = None;
        }
        Poll::Ready(Some(chunk.map(Frame::data).ok_or(Withdrawn)))
    }

    fn is_end_stream(&self) -> bool {
        self.at >= self.length
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.length - self.at) as u64)
    }
}
