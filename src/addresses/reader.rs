//! One whole picture of the host's addresses, by two dumps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::codec::{self, Body, Found, Malformed, Subject};
use super::socket::{DATAGRAM, Socket};
use super::{Address, Interface, Picture};

/// For each dump.
const DEADLINE: Duration = Duration::from_secs(2);
/// A dump during which something changed may lack an entry and is made anew, so many times. After that
/// the next event asks for another one anyway.
const TRIES: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("no route netlink socket: {0}")]
    Socket(#[source] Errno),
    #[error("the kernel refused: {0}")]
    Refused(#[source] Errno),
    #[error("the kernel did not answer within {0:?}")]
    Deadline(Duration),
    #[error("the kernel dropped a part of its answer")]
    Overrun,
    #[error("the addresses changed all the time")]
    Interrupted,
    #[error("the kernel's answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
}

/// Asks the kernel. Waits for its answer, so it belongs on a thread of its own.
#[derive(Debug, Default)]
pub struct Reader {
    /// Given up after any doubt about what is still to come from it.
    socket: Option<Socket>,
    sequence: u32,
}

impl Reader {
    pub fn new() -> Self {
        Self::default()
    }

    /// All addresses and interfaces as they are now.
    pub fn read(&mut self) -> Result<Picture, ReadError> {
        let mut result = self.read_once();
        for _ in 1..TRIES {
            if !matches!(result, Err(ReadError::Interrupted)) {
                break;
            }
            result = self.read_once();
        }
        result
    }

    /// Interfaces after addresses: an interface that is not among them has gone, and its addresses with it.
    fn read_once(&mut self) -> Result<Picture, ReadError> {
        let mut found = Vec::new();
        self.dump(Subject::Addresses, |body| {
            if let Body::Address(address) = body {
                found.push(address);
            }
        })?;
        let mut interfaces = BTreeMap::new();
        self.dump(Subject::Interfaces, |body| {
            if let Body::Interface(interface) = body {
                interfaces.insert(interface.index, interface);
            }
        })?;
        Ok(join(&found, interfaces))
    }

    fn dump(&mut self, subject: Subject, visit: impl FnMut(Body)) -> Result<(), ReadError> {
        self.sequence = self.sequence.wrapping_add(1);
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => Socket::to_ask(DEADLINE).map_err(ReadError::Socket)?,
        };
        let result = dump(&socket, subject, self.sequence, visit);
        if matches!(result, Ok(()) | Err(ReadError::Refused(_) | ReadError::Interrupted)) {
            self.socket = Some(socket);
        }
        result
    }
}

fn dump(
    socket: &Socket,
    subject: Subject,
    sequence: u32,
    mut visit: impl FnMut(Body),
) -> Result<(), ReadError> {
    let started = Instant::now();
    socket.send(&codec::dump_request(subject, sequence)).map_err(ReadError::Socket)?;
    let mut buffer = vec![0; DATAGRAM];
    let mut interrupted = false;
    while started.elapsed() < DEADLINE {
        let length = match socket.receive(&mut buffer) {
            Ok(length) => length,
            Err(Errno::EAGAIN) => break,
            Err(Errno::ENOBUFS) => return Err(ReadError::Overrun),
            Err(errno) => return Err(ReadError::Socket(errno)),
        };
        let datagram = buffer.get(..length).ok_or(Malformed::Message)?;
        for message in codec::messages(datagram) {
            let message = message?;
            if message.sequence != sequence {
                continue;
            }
            interrupted |= message.interrupted;
            match message.body {
                Body::End(Err(errno)) => return Err(ReadError::Refused(errno)),
                Body::End(Ok(())) if interrupted => return Err(ReadError::Interrupted),
                Body::End(Ok(())) => return Ok(()),
                Body::Overrun => return Err(ReadError::Overrun),
                body @ (Body::Address(_) | Body::Interface(_) | Body::Other) => visit(body),
            }
        }
    }
    Err(ReadError::Deadline(DEADLINE))
}

fn join(found: &[Found], interfaces: BTreeMap<u32, Interface>) -> Picture {
    let named = found.iter().filter_map(|found| {
        let interface = interfaces.get(&found.index)?.name.clone();
        let Found { address, index, prefix, flags } = *found;
        Some(Address { address, index, interface, prefix, flags })
    });
    let addresses: BTreeSet<Address> = named.collect();
    Picture { addresses, interfaces }
}
