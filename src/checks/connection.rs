//! Bytes over a connection, plain or through TLS: what was asked is written, what came is read,
//! both at once, until the caller has seen enough.
//!
//! Knows no protocol.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::deadline::Deadline;
use super::fault::Trouble;
use super::tls;
use crate::engine::model::Phase;

/// Bytes read at once, into the stack: a waiting check holds no buffer.
const READ: usize = 16 * 1024;

/// Reads after the deadline of what has arrived already. More is a server that floods us.
const LATE_READS: u8 = 64;

/// What the bytes go through. Another TLS library would be another variant.
#[derive(Debug)]
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(feature = "fuzzing")]
    Memory(Box<crate::net::fuzzing::Memory>),
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Self::poll_read(&mut self, cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Self::poll_write(&mut self, cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_flush(&mut self, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "fuzzing")]
            Self::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Wire {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(feature = "fuzzing")]
            Self::Memory(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "fuzzing")]
            Self::Memory(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "fuzzing")]
            Self::Memory(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
}

/// Why no more bytes come.
#[derive(Debug)]
pub(super) enum End {
    /// The server closed. Through TLS a missing close_notify is not told apart: servers that
    /// leave it out are common, and a reply that has a length shows by itself that it is whole.
    Closed,
    /// Reset, or refused to take the request.
    Broken(io::Error),
    TimedOut,
}

impl End {
    /// `closed`: what it means that the server closed here.
    pub(super) fn into_trouble(self, phase: Phase, closed: &str, deadline: &Deadline<'_>) -> Trouble {
        match self {
            Self::Closed => Trouble::failure(phase, closed),
            Self::Broken(error) => match tls::explain(&error) {
                Some(reason) => Trouble::failure(phase, reason),
                None => Trouble::io(phase, "", &error),
            },
            Self::TimedOut => Trouble::timed_out(phase, deadline),
        }
    }
}

/// One request and the bytes of its reply.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    wire: Wire,
    unsent: &'a [u8],
    flushed: bool,
    /// Writing failed: said only once everything that still came has been read, for a server
    /// may answer and close before it has read the request.
    broken: Option<io::Error>,
    late_reads: u8,
}

impl<'a> Exchange<'a> {
    /// `broken`: the connection is known to take no more bytes.
    pub(super) fn new(wire: Wire, request: &'a [u8], broken: Option<io::Error>) -> Self {
        Self { wire, unsent: request, flushed: request.is_empty(), broken, late_reads: 0 }
    }

    /// One more thing to write; everything before must have been sent.
    pub(super) fn say(&mut self, request: &'a [u8]) {
        self.unsent = request;
        self.flushed = request.is_empty();
    }

    /// The bytes' way, for what comes after this exchange.
    pub(super) fn into_wire(self) -> Wire {
        self.wire
    }

    /// The step that is under way.
    pub(super) fn phase(&self) -> Phase {
        if self.flushed { Phase::Reply } else { Phase::Request }
    }

    /// Writes the whole request.
    pub(super) async fn send(&mut self, deadline: &mut Deadline<'_>) -> Result<(), End> {
        poll_fn(|cx| match self.poll_send(cx) {
            Poll::Ready(()) => Poll::Ready(match self.broken.take() {
                Some(error) => Err(End::Broken(error)),
                None => Ok(()),
            }),
            Poll::Pending => deadline.poll(cx).map(|()| Err(End::TimedOut)),
        })
        .await
    }

    /// Waits for bytes, going on to write the request meanwhile, and shows them to `take`.
    pub(super) async fn receive<T>(
        &mut self,
        deadline: &mut Deadline<'_>,
        mut take: impl FnMut(&[u8]) -> T,
    ) -> Result<T, End> {
        if deadline.has_passed() {
            self.late_reads = self.late_reads.saturating_add(1);
            if self.late_reads > LATE_READS {
                return Err(End::TimedOut);
            }
        }
        poll_fn(|cx| {
            let _goes_on_later = self.poll_send(cx);
            match self.poll_receive(cx, &mut take) {
                Poll::Ready(result) => Poll::Ready(result),
                Poll::Pending => deadline.poll(cx).map(|()| Err(End::TimedOut)),
            }
        })
        .await
    }

    /// Ready when there is nothing left to do, well or badly.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.flushed && self.broken.is_none() {
            let result = if self.unsent.is_empty() {
                ready!(self.wire.poll_flush(cx)).map(|()| self.flushed = true)
            } else {
                ready!(self.wire.poll_write(cx, self.unsent)).and_then(|written| {
                    self.unsent = self.unsent.get(written..).unwrap_or_default();
                    if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
                })
            };
            if let Err(error) = result {
                self.broken = Some(error);
            }
        }
        Poll::Ready(())
    }

    fn poll_receive<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: &mut impl FnMut(&[u8]) -> T,
    ) -> Poll<Result<T, End>> {
        let mut space = [MaybeUninit::<u8>::uninit(); READ];
        let mut buffer = ReadBuf::uninit(&mut space);
        let end = match ready!(self.wire.poll_read(cx, &mut buffer)) {
            Ok(()) if !buffer.filled().is_empty() => return Poll::Ready(Ok(take(buffer.filled()))),
            Ok(()) => None,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => Some(error),
        };
        Poll::Ready(Err(match self.broken.take().or(end) {
            Some(error) => End::Broken(error),
            None => End::Closed,
        }))
    }
}
