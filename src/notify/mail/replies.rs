//! A mail server's replies as lettre can read them.
//!
//! lettre takes for granted that the text of a line of the reply to EHLO has a word in it, and panics at one of
//! blanks: such a text is none.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::notify::wire::Wire;

/// Of one reading; replies are short.
const CHUNK: usize = 1024;
/// A code, and `-` or a blank: what stands before the text of a line.
const HEAD: usize = 4;

#[derive(Debug)]
pub(super) struct Replies {
    wire: Wire,
    /// What came after the last whole line. Bounded by what the wire lets through.
    line: Vec<u8>,
    /// To be read from here on.
    lines: Vec<u8>,
    read: usize,
}

impl Replies {
    pub(super) const fn of(wire: Wire) -> Self {
        Self { wire, line: Vec::new(), lines: Vec::new(), read: 0 }
    }

    /// More has come; nothing at the end.
    fn take(&mut self, bytes: &[u8]) {
        self.lines.drain(..self.read);
        self.read = 0;
        for byte in bytes {
            self.line.push(*byte);
            if self.line.ends_with(b"\r\n") {
                if is_blank(&self.line) {
                    self.line.drain(HEAD..);
                    self.line.extend_from_slice(b"\r\n");
                }
                self.lines.append(&mut self.line);
            }
        }
        if bytes.is_empty() {
            self.lines.append(&mut self.line);
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    let text = line.get(HEAD..).and_then(|text| str::from_utf8(text).ok());
    text.is_some_and(|text| text.len() > 2 && text.trim().is_empty())
}

impl AsyncRead for Replies {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let waiting = self.lines.get(self.read..).unwrap_or_default();
            if !waiting.is_empty() {
                let count = waiting.len().min(buffer.remaining());
                buffer.put_slice(waiting.get(..count).unwrap_or_default());
                self.read += count;
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.wire).poll_read(cx, &mut chunk))?;
            self.take(chunk.filled());
            if chunk.filled().is_empty() && self.lines.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Replies {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for Replies {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.wire.peer_addr()
    }
}
