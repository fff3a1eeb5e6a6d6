//! The server of the control socket: reads requests, hands them to the supervisor, writes replies.
//!
//! Owns no state of the daemon. A client costs a bounded amount of memory for a bounded time,
//! whatever it sends and however slowly.

use std::io;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::exit::ExitCode;
use super::peer::{Names, Peer};
use super::protocol::{self, MAX_REQUEST, Reply, Request};
use super::stream::{self, ALIVE, Feed, Following};

/// One request on its way to the supervisor.
#[derive(Debug)]
pub struct Call {
    pub request: Request,
    pub peer: Peer,
    /// Dropping it tells the client that the supervisor did not answer.
    pub reply: oneshot::Sender<Reply>,
    /// Where what happens from then on goes, for a client that wants it.
    pub feed: Option<Feed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: usize,
    /// For one whole request to arrive, counted from the end of the one before.
    pub request: Duration,
    /// For the supervisor to answer; a reload of a large configuration takes a while.
    pub answer: Duration,
    /// For the client to take a reply.
    pub reply: Duration,
    /// For calls that run to be answered once the server stops.
    pub stop: Duration,
    /// Clients that follow what happens; they keep their connections for good.
    pub followers: usize,
    /// Between two signs of life to them.
    pub alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            request: Duration::from_secs(10),
            answer: Duration::from_secs(120),
            reply: Duration::from_secs(10),
            stop: Duration::from_secs(1),
            followers: 16,
            alive: ALIVE,
        }
    }
}

/// Clients that found all places taken, since the start. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct Refused(Arc<AtomicU64>);

impl Refused {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Beyond this a request waits for the one place for large ones, so that all clients together
/// cannot hold more than one configuration's worth of memory.
const SMALL_REQUEST: usize = 256 * 1024;
const CHUNK: usize = 16 * 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is ready. `listener` comes from [`super::socket::bind`]. Fails only at the
/// start, if the listener cannot be registered with the runtime.
pub async fn serve(
    listener: UnixListener,
    calls: mpsc::Sender<Call>,
    limits: Limits,
    refused: Refused,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let shared = Arc::new(Shared {
        calls,
        limits,
        names: Names::new(),
        large: Arc::new(Semaphore::new(1)),
        places: Arc::new(Semaphore::new(limits.connections)),
        follow: Arc::new(Semaphore::new(limits.followers)),
    });
    let mut clients = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _address)) => match Arc::clone(&shared.places).try_acquire_owned() {
                    Ok(place) => drop(clients.spawn(serve_client(Arc::clone(&shared), stream, place))),
                    Err(_all_taken) => {
                        refused.0.fetch_add(1, Ordering::Relaxed);
                        refuse(&stream);
                    }
                },
                Err(error) => {
                    tracing::debug!(%error, "accepting a control connection failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_ended) = clients.join_next() => {}
        }
    }
    drop(listener);
    let _ = timeout(limits.stop, async { while clients.join_next().await.is_some() {} }).await;
    Ok(())
}

struct Shared {
    calls: mpsc::Sender<Call>,
    limits: Limits,
    names: Names,
    large: Arc<Semaphore>,
    places: Arc<Semaphore>,
    follow: Arc<Semaphore>,
}

/// Without waiting: a fresh connection's buffer takes a line at once.
fn refuse(stream: &UnixStream) {
    let reply = Reply::failed("too many connections to the control socket");
    if let Ok(line) = protocol::encode_reply(&reply) {
        let _ = stream.try_write(&line);
    }
}

#[derive(Debug, Error)]
enum ReadError {
    #[error("the request did not arrive in time")]
    TooSlow,
    #[error("the request is longer than {MAX_REQUEST} bytes")]
    TooLong,
    #[error("the request ends in the middle of a line")]
    CutOff,
    #[error(transparent)]
    Io(#[from] io::Error),
}

async fn serve_client(shared: Arc<Shared>, mut stream: UnixStream, _place: OwnedSemaphorePermit) {
    let Ok(peer) = shared.names.peer(&stream).await else { return };
    let mut lines = Lines::default();
    loop {
        let deadline = Instant::now() + shared.limits.request;
        let ((reply, following), last) = match lines.next(&mut stream, deadline, &shared.large).await {
            Ok(None) | Err(ReadError::Io(_)) => return,
            Ok(Some(line)) => (shared.call(line, peer.clone()).await, false),
            Err(error) => ((Reply::new(ExitCode::Usage, error.to_string()), None), true),
        };
        lines.release();
        let Ok(line) = protocol::encode_reply(&reply) else { return };
        match timeout(shared.limits.reply, stream.write_all(&line)).await {
            Ok(Ok(())) if !last => {}
            _ => return,
        }
        if let Some(following) = following.filter(|_| reply.ok) {
            return stream::serve(stream, following, shared.limits.alive, shared.limits.reply).await;
        }
    }
}

impl Shared {
    async fn call(&self, line: &[u8], peer: Peer) -> (Reply, Option<Following>) {
        let request = match protocol::decode_request(line) {
            Ok(request) => request,
            Err(error) => return (Reply::new(ExitCode::Usage, error.to_string()), None),
        };
        let (mut feed, mut following) = (None, None);
        if matches!(request, Request::Events) {
            let Ok(place) = Arc::clone(&self.follow).try_acquire_owned() else {
                return (Reply::failed("too many clients follow the events"), None);
            };
            let (ours, theirs) = stream::channel(place);
            (feed, following) = (Some(ours), Some(theirs));
        }
        let (reply, answer) = oneshot::channel();
        let exchange = async {
            self.calls.send(Call { request, peer, reply, feed }).await.map_err(drop)?;
            answer.await.map_err(drop)
        };
        let reply = match timeout(self.limits.answer, exchange).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(())) => Reply::failed("the daemon is stopping"),
            Err(_elapsed) => {
                Reply::failed(format!("no answer from the supervisor within {:?}", self.limits.answer))
            }
        };
        (reply, following)
    }
}

/// Splits what arrives into lines. Keeps what came after the last line's end.
#[derive(Default)]
struct Lines {
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out.
    used: usize,
    /// Bytes of `buffer` that hold no line break.
    searched: usize,
    large: Option<OwnedSemaphorePermit>,
}

impl Lines {
    /// `None` at the end of the stream.
    async fn next(
        &mut self,
        stream: &mut UnixStream,
        deadline: Instant,
        large: &Arc<Semaphore>,
    ) -> Result<Option<&[u8]>, ReadError> {
        self.buffer.drain(..self.used);
        (self.used, self.searched) = (0, 0);
        loop {
            let unseen = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = unseen.iter().position(|b| *b == b'\n').map(|at| at + self.searched) {
                self.used = end + 1;
                return Ok(self.buffer.get(..end));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_REQUEST {
                return Err(ReadError::TooLong);
            }
            if self.buffer.len() > SMALL_REQUEST && self.large.is_none() {
                let permit = timeout_at(deadline, Arc::clone(large).acquire_owned());
                self.large = permit.await.map_err(|_| ReadError::TooSlow)?.ok();
            }
            self.buffer.reserve(CHUNK);
            let read = timeout_at(deadline, stream.read_buf(&mut self.buffer));
            if read.await.map_err(|_| ReadError::TooSlow)?? == 0 {
                return if self.buffer.is_empty() { Ok(None) } else { Err(ReadError::CutOff) };
            }
        }
    }

    /// The line is dealt with: gives back the memory and the place of a large one.
    fn release(&mut self) {
        if self.large.take().is_some() {
            self.buffer.drain(..self.used);
            self.used = 0;
            self.buffer.shrink_to(CHUNK);
        }
    }
}

#[cfg(test)]
mod tests;
