//! The HTTP listener: a route table in front of handlers that others make.
//!
//! Holds no state of the daemon and decides nothing. Whatever a client does, what it can occupy
//! is bounded: connections, header bytes, and time to send a request and to take the answer.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

mod line;
pub(super) use line::Places;
pub use line::{Line, Streaming};

/// Answers one route. The request's body is gone: no route of ours takes one.
pub type Handler<B> =
    Arc<dyn Fn(Request<()>) -> Pin<Box<dyn Future<Output = Response<B>> + Send>> + Send + Sync>;

/// What is sent: whole, or in parts that are made while it is being taken.
type Answer = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Paths and what answers GET and HEAD on them.
#[derive(Clone, Default)]
pub struct Routes(BTreeMap<&'static str, Handler<Answer>>);

/// Connections that were closed to make room, or because their answer was not taken, since the start. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct Closed(Arc<AtomicU64>);

impl Closed {
    fn count_more(&self, connections: u64) {
        self.0.fetch_add(connections, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    /// `path` is matched whole. A second handler for a path replaces the first. A body that fails ends
    /// the connection.
    #[must_use]
    pub fn with<B>(mut self, path: &'static str, handler: Handler<B>) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let boxed: Handler<Answer> = Arc::new(move |request| {
            let answer = handler(request);
            Box::pin(async move { answer.await.map(|body| body.map_err(Into::into).boxed_unsync()) })
        });
        self.0.insert(path, boxed);
        self
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What clients may occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// When one more comes the oldest is closed: a probe gets through while somebody else sits
    /// on connections. Streams are not among them, and are not closed for it.
    pub connections: usize,
    /// Answers without an end; one more is refused by its handler.
    pub streams: usize,
    /// To send a whole request head, counted also while a kept connection is idle.
    pub head: Duration,
    /// For a handler to answer.
    pub answer: Duration,
    /// Of a connection, however busy: the bound on clients that do not read.
    pub lifetime: Duration,
    /// Instead, of a connection with a stream; its client comes again.
    pub stream: Duration,
    /// To finish answers once the listener stops.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            streams: 64,
            head: Duration::from_secs(10),
            answer: Duration::from_secs(10),
            lifetime: Duration::from_secs(300),
            stream: Duration::from_secs(3600),
            stop: Duration::from_secs(2),
        }
    }
}

/// Bytes of a request head, and of what hyper buffers per connection.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
/// After an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Error)]
#[error("listening for HTTP on {address}")]
pub struct BindError {
    pub address: SocketAddr,
    #[source]
    pub source: io::Error,
}

/// Listens at once; connections wait in the backlog until [`serve`] runs. Returns the address
/// too, because port 0 lets the kernel choose.
pub fn bind(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), BindError> {
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        Ok((listener, local))
    };
    listen().map_err(|source| BindError { address, source })
}

/// Serves until `shutdown` is ready, then lets answers finish within [`Limits::stop`]. Fails only
/// at the start, if the listener cannot be registered with the runtime.
pub async fn serve(
    listener: std::net::TcpListener,
    routes: Routes,
    limits: Limits,
    closed: Closed,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let routes = Arc::new(routes);
    let (stop, stopping) = watch::channel(());
    let mut connections = Connections::default();
    let places = Places::new(limits.streams);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => {
                    let gone = connections.make_room(limits.connections);
                    closed.count_more(gone);
                    let line = Line::new(Arc::clone(&places), closed.clone());
                    let (routes, stopping) = (Arc::clone(&routes), stopping.clone());
                    connections.spawn(line.clone(), serve_connection(stream, line, routes, limits, stopping));
                }
                Err(error) => {
                    // Out of descriptors, or the peer gave up in the backlog: the listener lives on.
                    tracing::debug!(%error, "accepting an HTTP connection failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_ended) = connections.tasks.join_next() => {}
        }
    }
    drop(listener);
    stop.send_replace(());
    // Connections end themselves within the same limit; this one is for those that cannot.
    let _ =
        timeout(limits.stop + ACCEPT_PAUSE, async { while connections.tasks.join_next().await.is_some() {} })
            .await;
    Ok(())
}

/// The connection tasks, oldest first. Dropping it ends them.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    by_age: VecDeque<(AbortHandle, Line)>,
}

impl Connections {
    /// Returns how many were closed for it.
    fn make_room(&mut self, limit: usize) -> u64 {
        self.by_age.retain(|(task, _)| !task.is_finished());
        let others = self.by_age.iter().filter(|(_, line)| !line.is_streaming()).count();
        let too_many = (others + 1).saturating_sub(limit.max(1));
        let mut closed = 0;
        self.by_age.retain(|(task, line)| {
            let stays = line.is_streaming() || closed == too_many;
            if !stays {
                task.abort();
                closed += 1;
            }
            stays
        });
        closed as u64
    }

    fn spawn(&mut self, line: Line, connection: impl Future<Output = ()> + Send + 'static) {
        self.by_age.push_back((self.tasks.spawn(connection), line));
    }
}

async fn serve_connection(
    stream: TcpStream,
    line: Line,
    routes: Arc<Routes>,
    limits: Limits,
    mut stopping: watch::Receiver<()>,
) {
    let of_requests = line.clone();
    let service = service_fn(move |mut request: Request<_>| {
        let routes = Arc::clone(&routes);
        request.extensions_mut().insert(of_requests.clone());
        async move { Ok::<_, Infallible>(answer(&routes, limits.answer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // What goes wrong on a connection is the client's: it is not worth a line.
    tokio::select! {
        _ended = connection.as_mut() => return,
        () = line.is_cut() => return,
        () = end_of(&line, limits) => {}
        _ = stopping.changed() => {}
    }
    // It would not finish by itself.
    if line.is_streaming() {
        return;
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(limits.stop, connection).await;
}

async fn end_of(line: &Line, limits: Limits) {
    sleep(limits.lifetime).await;
    if line.is_streaming() {
        sleep(limits.stream.saturating_sub(limits.lifetime)).await;
    }
}

async fn answer(routes: &Routes, limit: Duration, request: Request<impl Body>) -> Response<Answer> {
    let (head, body) = request.into_parts();
    // Reading on behind a body that nobody wants would let its sender hold the connection.
    let unwanted_body = body.size_hint().exact() != Some(0);
    drop(body);
    let mut response = match routes.0.get(head.uri.path()) {
        None => text(StatusCode::NOT_FOUND, "not found\n"),
        Some(_) if !matches!(head.method, Method::GET | Method::HEAD) => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            response
        }
        Some(_) if unwanted_body => text(StatusCode::PAYLOAD_TOO_LARGE, "no request body, please\n"),
        Some(handler) => match timeout(limit, handler(Request::from_parts(head, ()))).await {
            Ok(response) => response,
            Err(_elapsed) => text(StatusCode::SERVICE_UNAVAILABLE, "no answer in time\n"),
        },
    };
    if unwanted_body {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn text(status: StatusCode, body: &'static str) -> Response<Answer> {
    let body = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests;
