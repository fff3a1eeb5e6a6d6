//! A connection to a server that wants to be told: its address, plain or TLS, and a bound on what it
//! may send.
//!
//! Without deadlines: those are the caller's, over everything that one delivery does.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::engine::model::{Endpoint, Tls};
use crate::net::explain;
use crate::net::tls::{Client, Name, Settings, explain_handshake};

/// Of one name. More is a mistake of its zone.
const MAX_ADDRESSES: usize = 8;

#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    /// Read before what the server sends.
    first: &'static [u8],
    /// Bytes that the server may still send.
    budget: usize,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(feature = "fuzzing")]
    Memory(Box<crate::net::fuzzing::Memory>),
}

impl Wire {
    pub(super) const fn plain(stream: TcpStream, budget: usize) -> Self {
        Self { stream: Stream::Plain(stream), first: b"", budget }
    }

    pub(super) fn encrypted(stream: TlsStream<TcpStream>, budget: usize) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), first: b"", budget }
    }

    #[cfg(feature = "fuzzing")]
    pub(super) fn memory(stream: crate::net::fuzzing::Memory, budget: usize) -> Self {
        Self { stream: Stream::Memory(Box::new(stream)), first: b"", budget }
    }

    #[must_use]
    pub(super) fn beginning_with(self, first: &'static [u8]) -> Self {
        Self { first, ..self }
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp()?.local_addr()
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp()?.peer_addr()
    }

    fn tcp(&self) -> io::Result<&TcpStream> {
        match &self.stream {
            Stream::Plain(stream) => Ok(stream),
            Stream::Tls(stream) => Ok(stream.get_ref().0),
            #[cfg(feature = "fuzzing")]
            Stream::Memory(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }
}

/// The server's addresses one after the other. Within `limit` none may take the time of the others.
pub(super) async fn connect(server: &Endpoint, limit: Duration) -> Result<TcpStream, String> {
    let addresses = lookup_host((server.host.as_str(), server.port)).await;
    let addresses = addresses.map_err(|error| format!("look up {}: {}", server.host, explain(&error)))?;
    let addresses: Vec<SocketAddr> = addresses.take(MAX_ADDRESSES).collect();
    let count = u32::try_from(addresses.len()).unwrap_or(1).max(1);
    let mut why = format!("look up {}: it has no address", server.host);
    for address in addresses {
        why = match timeout(limit / count, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => format!("connect to {address}: {}", explain(&error)),
            Err(_) => format!("connect to {address}: timed out"),
        };
    }
    Err(why)
}

/// TLS made ready for one server, read from its files when first needed and after a failure.
#[derive(Debug, Default)]
pub(super) struct Security {
    ready: Option<(Tls, Client)>,
}

impl Security {
    pub(super) async fn secure(
        &mut self,
        stream: TcpStream,
        tls: &Tls,
        host: &str,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = tls.server_name.as_deref().unwrap_or(host);
        let name = Name::parse(name).ok_or_else(|| format!("{name} cannot be verified: it is no name"))?;
        // Kept only once it has proved good: a file that was renewed is read again after a failure.
        let client = match self.ready.take() {
            Some((settings, client)) if settings == *tls => client,
            Some(_) | None => prepare(tls.clone()).await?,
        };
        match client.connect(name, stream).await {
            Ok(stream) => {
                self.ready = Some((tls.clone(), client));
                Ok(stream)
            }
            Err(error) => {
                let why = explain_handshake(&error).unwrap_or_else(|| explain(&error));
                Err(format!("TLS handshake: {why}"))
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.ready = None;
    }
}

/// Reads certificates: away from the loop.
async fn prepare(tls: Tls) -> Result<Client, String> {
    let made = tokio::task::spawn_blocking(move || Settings::default().client(&tls));
    match made.await {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(error.to_string()),
        Err(broken) => Err(format!("set up TLS: {broken}")),
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(feature = "fuzzing")]
            Stream::Memory(stream) => Pin::new(stream).poll_read(cx, buffer),
        })?;
        let read = buffer.filled().len().saturating_sub(before);
        match self.budget.checked_sub(read) {
            Some(left) => self.budget = left,
            None => return Poll::Ready(Err(io::Error::other("the server sends without end"))),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "fuzzing")]
            Stream::Memory(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "fuzzing")]
            Stream::Memory(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "fuzzing")]
            Stream::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
