//! Where formatted records go. Used by the writer thread alone, which may wait here.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::thread::park_timeout;
use std::time::Duration;

pub(super) enum Sink {
    Stream(Box<dyn Write + Send>),
    /// journald's native socket. It is named anew for each entry: after a restart of journald
    /// another socket has the same name.
    Journal {
        path: PathBuf,
    },
}

impl Sink {
    pub(super) fn stderr() -> Self {
        Self::Stream(Box::new(io::stderr()))
    }

    pub(super) fn open(self) -> io::Result<Output> {
        Ok(match self {
            Self::Stream(stream) => Output::Stream(stream),
            Self::Journal { path } => {
                Output::Journal { socket: UnixDatagram::unbound()?, path, patience: TRIES }
            }
        })
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(_) => f.write_str("Stream"),
            Self::Journal { path } => f.debug_tuple("Journal").field(path).finish(),
        }
    }
}

/// A restart of journald takes a moment: two seconds of it are waited for, once.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) enum Output {
    Stream(Box<dyn Write + Send>),
    Journal {
        socket: UnixDatagram,
        path: PathBuf,
        /// Tries that the next entry has; one while journald is known to be gone.
        patience: u32,
    },
}

impl Output {
    /// Waits for the reader as long as it takes.
    pub(super) fn write(&mut self, record: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(stream) => {
                stream.write_all(record)?;
                stream.flush()
            }
            Self::Journal { socket, path, patience } => {
                let mut tries = *patience;
                loop {
                    tries -= 1;
                    match socket.send_to(record, &*path) {
                        Ok(_) => {
                            *patience = TRIES;
                            return Ok(());
                        }
                        Err(error) if error.kind() == ErrorKind::Interrupted => tries += 1,
                        Err(error) if !is_absence(&error) => return Err(error),
                        Err(error) if tries == 0 => {
                            *patience = 1;
                            return Err(error);
                        }
                        Err(_) => park_timeout(PAUSE),
                    }
                }
            }
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
    )
}
