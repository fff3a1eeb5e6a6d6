//! What is sent: a text that must be taken within a limit, and events until either side has enough.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::telemetry::http::{Line, Streaming};

/// To take a whole text; the bound on texts of different moments in memory.
const TAKEN: Duration = Duration::from_secs(30);

/// A text that all who ask within a second share.
#[derive(Debug)]
pub(super) struct InTime {
    text: Option<Bytes>,
    /// Ends the watch over it when it is dropped.
    _taken: Option<oneshot::Sender<Infallible>>,
}

impl InTime {
    /// Breaks `line` off if the text is not taken within [`TAKEN`].
    pub(super) fn new(text: Bytes, line: Option<&Line>) -> Self {
        let taken = line.map(|line| {
            let (sender, receiver) = oneshot::channel();
            let line = line.clone();
            tokio::spawn(async move {
                tokio::select! {
                    _dropped = receiver => {}
                    () = sleep(TAKEN) => line.cut(),
                }
            });
            sender
        });
        Self { text: Some(text), _taken: taken }
    }
}

impl Body for InTime {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.text.take().map(|text| Ok(Frame::data(text))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A viewer's events.
pub(super) struct Events {
    queue: mpsc::Receiver<Bytes>,
    /// Its place among the streams of the listener.
    _stream: Option<Streaming>,
}

impl Events {
    pub(super) fn new(queue: mpsc::Receiver<Bytes>, stream: Streaming) -> Self {
        Self { queue, _stream: Some(stream) }
    }

    pub(super) fn none() -> Self {
        Self { queue: mpsc::channel(1).1, _stream: None }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.queue.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
