//! The client's side: one request, one reply, blocking, with a deadline; and what follows some replies.

mod follow;
mod idle;
#[cfg(test)]
mod testing;
mod wait;
mod watch;

pub use follow::{Out, events};
pub use idle::until_idle;
pub use wait::{Waited, wait};
pub use watch::{terminal, watch};

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;

use super::exit::ExitCode;
use super::protocol::{self, MAX_REPLY, Reply, Request};

#[derive(Debug, Error)]
pub enum ClientError {
    #[error("connecting to the daemon at {path}: {source}")]
    Unreachable { path: PathBuf, source: io::Error },
    #[error("connecting to the daemon at {path}: permission denied; only root and the socket's group may")]
    NotAllowed { path: PathBuf },
    #[error("the daemon at {path} did not answer within {limit:?}")]
    TimedOut { path: PathBuf, limit: Duration },
    #[error("the daemon at {path} closed the connection without an answer")]
    NoAnswer { path: PathBuf },
    #[error("the daemon at {path} has gone")]
    Gone { path: PathBuf },
    #[error("the daemon at {path} has not said anything for {limit:?}")]
    Silent { path: PathBuf, limit: Duration },
    #[error("talking to the daemon at {path}: {source}")]
    Broken { path: PathBuf, source: io::Error },
    #[error("the answer of the daemon at {path} is not understood: {source}")]
    Nonsense { path: PathBuf, source: serde_json::Error },
}

impl ClientError {
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::NotAllowed { .. } => ExitCode::NotAllowed,
            Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::NoAnswer { .. }
            | Self::Gone { .. }
            | Self::Silent { .. }
            | Self::Broken { .. } => ExitCode::Unreachable,
            Self::Nonsense { .. } => ExitCode::Failed,
        }
    }
}

/// Asks the daemon behind `socket`. `limit` bounds the whole exchange.
pub fn call(socket: &Path, request: &Request, limit: Duration) -> Result<Reply, ClientError> {
    let mut connection = Connection::open(socket, limit)?;
    // A server that refuses answers before it has read everything: its reason counts, not the
    // broken pipe.
    let sent = connection.send(request);
    match connection.receive() {
        Err(ClientError::NoAnswer { .. }) => Err(sent.err().unwrap_or_else(|| connection.no_answer())),
        received => received,
    }
}

/// One connection to a daemon.
#[derive(Debug)]
pub(super) struct Connection {
    reader: BufReader<Timed>,
    path: PathBuf,
    limit: Duration,
}

impl Connection {
    /// `limit` bounds all that is done with it, until [`Self::renew`].
    pub(super) fn open(socket: &Path, limit: Duration) -> Result<Self, ClientError> {
        let (path, deadline) = (socket.to_owned(), Instant::now() + limit);
        match connect(socket, limit) {
            Ok(stream) => Ok(Self { reader: BufReader::new(Timed { stream, deadline }), path, limit }),
            Err(source) => Err(match source.kind() {
                ErrorKind::PermissionDenied => ClientError::NotAllowed { path },
                ErrorKind::WouldBlock | ErrorKind::TimedOut => ClientError::TimedOut { path, limit },
                _ => ClientError::Unreachable { path, source },
            }),
        }
    }

    /// From now on the next line may take this long.
    pub(super) fn renew(&mut self, limit: Duration) {
        self.limit = limit;
        self.reader.get_mut().deadline = Instant::now() + limit;
    }

    pub(super) fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let line = protocol::encode_request(request).map_err(|source| self.nonsense(source))?;
        self.reader.get_mut().write_all(&line).map_err(|source| self.broken(source))
    }

    /// The next line, be it a reply or something that follows one.
    pub(super) fn receive<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, ClientError> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(MAX_REPLY).read_until(b'\n', &mut line);
        match read {
            Ok(_) if line.is_empty() => Err(self.no_answer()),
            Ok(_) => serde_json::from_slice(&line).map_err(|source| self.nonsense(source)),
            Err(source) => Err(self.broken(source)),
        }
    }

    fn broken(&self, source: io::Error) -> ClientError {
        let path = self.path.clone();
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => ClientError::TimedOut { path, limit: self.limit },
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => ClientError::NoAnswer { path },
            _ => ClientError::Broken { path, source },
        }
    }

    fn no_answer(&self) -> ClientError {
        ClientError::NoAnswer { path: self.path.clone() }
    }

    fn nonsense(&self, source: serde_json::Error) -> ClientError {
        ClientError::Nonsense { path: self.path.clone(), source }
    }
}

#[expect(clippy::disallowed_methods, reason = "a client has nothing else to do between two questions")]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// connect(2) to a socket whose backlog is full waits for as long as the send timeout says.
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(limit))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
}

/// A stream on which every call ends at one deadline.
#[derive(Debug)]
struct Timed {
    stream: UnixStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
