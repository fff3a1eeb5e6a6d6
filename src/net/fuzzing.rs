//! A server in memory for fuzzing: what it says, in pieces, and how it ends. Nothing here waits, so a
//! reader that does has lost its way.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How what a server says is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// As much as the reader takes.
    Whole,
    /// Pieces of 1, 2, 3 … 13 bytes and so on, each after a moment.
    Uneven,
    Bytes,
}

impl Cut {
    pub(crate) const ALL: [Self; 3] = [Self::Whole, Self::Uneven, Self::Bytes];
}

/// What comes behind the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
}

/// One connection to it. Takes whatever is written.
#[derive(Debug)]
pub(crate) struct Memory {
    says: Box<[u8]>,
    read: usize,
    cut: Cut,
    pieces: usize,
    /// The next read of an uneven one is answered at once.
    awake: bool,
    end: End,
    /// Says nothing before it was asked.
    is_silent: bool,
    waiting: Option<Waker>,
}

impl Memory {
    pub(crate) fn new(says: &[u8], cut: Cut, end: End) -> Self {
        let says = says.into();
        Self { says, read: 0, cut, pieces: 0, awake: false, end, is_silent: false, waiting: None }
    }

    /// A server that waits for a request: some clients take what comes before it for an error.
    pub(crate) fn once_asked(says: &[u8], cut: Cut, end: End) -> Self {
        Self { is_silent: true, ..Self::new(says, cut, end) }
    }

    fn next(&mut self, room: usize) -> &[u8] {
        let most = match self.cut {
            Cut::Whole => room,
            Cut::Uneven => self.pieces % 13 + 1,
            Cut::Bytes => 1,
        };
        self.pieces = self.pieces.wrapping_add(1);
        let rest = self.says.get(self.read..).unwrap_or_default();
        let piece = rest.get(..most.min(room)).unwrap_or(rest);
        self.read += piece.len();
        piece
    }
}

impl AsyncRead for Memory {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_silent {
            self.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.awake = !self.awake;
        if self.cut == Cut::Uneven && self.awake {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let room = buffer.remaining();
        let piece = self.next(room);
        buffer.put_slice(piece);
        Poll::Ready(match (piece.is_empty() && room > 0, self.end) {
            (true, End::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
            (true, End::Closed) | (false, _) => Ok(()),
        })
    }
}

impl AsyncWrite for Memory {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_silent = false;
        self.waiting.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// On a runtime without sockets.
#[expect(clippy::expect_used, reason = "without a runtime there is nothing to try")]
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: RefCell<tokio::runtime::Runtime> = RefCell::new(
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"),
        );
    }
    RUNTIME.with_borrow(|runtime| runtime.block_on(future))
}
