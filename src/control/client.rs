//! The client's side: one request, one reply, blocking, with a deadline.

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
            | Self::Broken { .. } => ExitCode::Unreachable,
            Self::Nonsense { .. } => ExitCode::Failed,
        }
    }
}

/// Asks the daemon behind `socket`. `limit` bounds the whole exchange.
pub fn call(socket: &Path, request: &Request, limit: Duration) -> Result<Reply, ClientError> {
    let path = || socket.to_owned();
    let deadline = Instant::now() + limit;
    let broken = |source: io::Error| match source.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ClientError::TimedOut { path: path(), limit },
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => ClientError::NoAnswer { path: path() },
        _ => ClientError::Broken { path: path(), source },
    };
    let stream = connect(socket, limit).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => ClientError::NotAllowed { path: path() },
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ClientError::TimedOut { path: path(), limit },
        _ => ClientError::Unreachable { path: path(), source },
    })?;
    let line =
        protocol::encode_request(request).map_err(|source| ClientError::Nonsense { path: path(), source })?;
    let mut stream = Timed { stream, deadline };
    // A server that refuses answers before it has read everything: its reason counts, not the
    // broken pipe.
    let sent = stream.write_all(&line);
    let mut reply = Vec::new();
    let received = BufReader::new(stream.take(MAX_REPLY)).read_until(b'\n', &mut reply);
    if reply.is_empty() {
        sent.map_err(broken)?;
        received.map_err(broken)?;
        return Err(ClientError::NoAnswer { path: path() });
    }
    received.map_err(broken)?;
    serde_json::from_slice(&reply).map_err(|source| ClientError::Nonsense { path: path(), source })
}

/// connect(2) to a socket whose backlog is full waits for as long as the send timeout says.
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(limit))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
}

/// A stream on which every call ends at one deadline.
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
