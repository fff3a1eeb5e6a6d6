//! A generic netlink socket that answers or says that it did not: requests in batches, answers
//! matched by sequence number, a deadline on each exchange. Knows the family by name only, no
//! commands.
//!
//! The socket is nix's: neli's has neither a receive time-out nor `AsFd`, so a wait on it could
//! not end without unsafe code, and it does not tell of truncated datagrams. After any doubt
//! about what was answered the socket is closed, so that no late answer is taken for another's;
//! the next exchange opens a new one.

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use neli::consts::nl::{GenlId, NlmF};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send, setsockopt,
    socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::codec::wire::FAMILY;
use super::codec::{Attributes, Body, Header, Malformed, Messages, reply, request};
use super::error::{Loss, Reason};

/// How a socket behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// For each batch, each other request and each part of a dump: an answer must come within it.
    pub deadline: Duration,
    /// SO_RCVBUF in bytes; unset: the system's default, which is enough for what is sent here.
    pub receive_buffer: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(5), receive_buffer: None }
    }
}

/// Requests in one send. If all of them fail, the answers fill less than half of the default
/// receive buffer (277 answers).
pub(super) const BATCH: usize = 128;

/// The kernel fills the datagrams of a dump up to this size if it is offered.
const DATAGRAM: usize = 32 * 1024;

pub(super) struct Transport {
    options: Options,
    socket: Option<OwnedFd>,
    family: Option<u16>,
    sequence: u32,
    requests: Vec<u8>,
    datagram: Vec<u8>,
}

/// Without the buffers.
impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("options", &self.options)
            .field("socket", &self.socket)
            .field("family", &self.family)
            .finish_non_exhaustive()
    }
}

/// Does an exchange ask for one answer or for many?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    Dump,
}

impl Kind {
    const fn flags(self) -> NlmF {
        match self {
            Self::Single => NlmF::REQUEST.union(NlmF::ACK),
            Self::Dump => NlmF::REQUEST.union(NlmF::DUMP),
        }
    }
}

impl Transport {
    pub(super) fn open(options: Options) -> Result<Self, Errno> {
        let socket = Some(open_socket(options)?);
        Ok(Self {
            options,
            socket,
            family: None,
            sequence: 0,
            requests: Vec::new(),
            datagram: vec![0; DATAGRAM],
        })
    }

    /// The family's number, as far as it is known. The kernel gives a new one each time that the module
    /// is loaded.
    pub(super) const fn family(&self) -> Option<u16> {
        self.family
    }

    pub(super) const fn deadline(&self) -> Duration {
        self.options.deadline
    }

    /// Asks for the family's number, for which the kernel loads the module by itself where it
    /// can; `None` where it cannot. The number changes when the module is loaded anew.
    pub(super) fn resolve_family(&mut self) -> Result<Option<u16>, Reason> {
        let mut deadline = Deadline::start(self.options.deadline);
        let mut number = None;
        let found = self.exchange(
            GenlId::Ctrl.into(),
            Kind::Single,
            &mut deadline,
            |buffer, header| request::family(buffer, header, FAMILY),
            |attributes| {
                number = Some(reply::family(attributes)?);
                Ok(())
            },
        );
        self.family = match found {
            Ok(()) => number,
            Err(Reason::Refused(Errno::ENOENT)) => None,
            Err(other) => return Err(other),
        };
        Ok(self.family)
    }

    /// Is the number that we used still the family's? An unknown number is answered with ENOENT,
    /// as an unknown destination is.
    pub(super) fn family_is_current(&mut self) -> bool {
        let used = self.family;
        used.is_some() && self.resolve_family() == Ok(used)
    }

    /// One question; `visit` gets what the kernel answers before its acknowledgement.
    pub(super) fn ask(
        &mut self,
        kind: Kind,
        deadline: &mut Deadline,
        encode: impl FnOnce(&mut Vec<u8>, Header),
        visit: impl FnMut(Attributes<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Reason> {
        let family = self.known_family()?;
        self.exchange(family, kind, deadline, encode, visit)
    }

    /// At most [`BATCH`] requests in one send, one result each. The kernel reports errors without
    /// being asked, in order, and goes on, so none asks for an acknowledgement but an empty
    /// message at the end. It is not left to the last request because one that fails with EINTR
    /// gets no answer at all: such is the stop of a sync daemon that has not run yet, which
    /// nevertheless is stopped.
    pub(super) fn batch<T>(
        &mut self,
        items: &[T],
        encode: impl Fn(&mut Vec<u8>, Header, &T),
    ) -> Vec<Result<(), Reason>> {
        let mut results: Vec<Option<Result<(), Reason>>> = vec![None; items.len()];
        let loss = self.run_batch(items, encode, &mut results).err();
        results
            .into_iter()
            .map(|result| match (result, &loss) {
                (Some(result), _) => result,
                (None, None) => Ok(()),
                (None, Some(reason)) => Err(reason.clone()),
            })
            .collect()
    }

    fn run_batch<T>(
        &mut self,
        items: &[T],
        encode: impl Fn(&mut Vec<u8>, Header, &T),
        results: &mut [Option<Result<(), Reason>>],
    ) -> Result<(), Reason> {
        if items.is_empty() {
            return Ok(());
        }
        let family = self.known_family()?;
        let first = self.sequence.wrapping_add(1);
        self.requests.clear();
        for item in items {
            self.sequence = self.sequence.wrapping_add(1);
            let header = Header { family, flags: NlmF::REQUEST, sequence: self.sequence };
            encode(&mut self.requests, header, item);
        }
        self.sequence = self.sequence.wrapping_add(1);
        let end = self.sequence;
        request::nothing(&mut self.requests, NlmF::REQUEST | NlmF::ACK, end);
        let mut deadline = Deadline::start(self.options.deadline);
        self.guarded(|transport| {
            transport.send()?;
            let mut ended = false;
            while !ended {
                let length = transport.receive(&mut deadline)?;
                for message in Messages::new(transport.datagram.get(..length).unwrap_or_default()) {
                    let message = message.map_err(Loss::from)?;
                    match message.body {
                        Body::Ack(result) => {
                            ended |= message.sequence == end;
                            let index = message.sequence.wrapping_sub(first) as usize;
                            if let Some(slot) = results.get_mut(index) {
                                *slot = Some(result.map_err(Reason::Refused));
                            }
                        }
                        Body::Overrun => return Err(Loss::Overrun.into()),
                        Body::Done(_) | Body::Noop | Body::Family { .. } => {}
                    }
                }
            }
            Ok(())
        })
    }

    fn exchange(
        &mut self,
        family: u16,
        kind: Kind,
        deadline: &mut Deadline,
        encode: impl FnOnce(&mut Vec<u8>, Header),
        mut visit: impl FnMut(Attributes<'_>) -> Result<(), Malformed>,
    ) -> Result<(), Reason> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        self.requests.clear();
        encode(&mut self.requests, Header { family, flags: kind.flags(), sequence });
        self.guarded(|transport| {
            transport.send()?;
            let mut interrupted = false;
            loop {
                let length = transport.receive(deadline)?;
                for message in Messages::new(transport.datagram.get(..length).unwrap_or_default()) {
                    let message = message.map_err(Loss::from)?;
                    if message.sequence != sequence {
                        continue;
                    }
                    interrupted |= message.interrupted;
                    match message.body {
                        Body::Family { attributes } => visit(attributes).map_err(Loss::from)?,
                        Body::Ack(Err(errno)) | Body::Done(Err(errno)) => return Err(Reason::Refused(errno)),
                        Body::Ack(Ok(())) | Body::Done(Ok(())) if interrupted => {
                            return Err(Loss::Interrupted.into());
                        }
                        Body::Ack(Ok(())) | Body::Done(Ok(())) => return Ok(()),
                        Body::Overrun => return Err(Loss::Overrun.into()),
                        Body::Noop => {}
                    }
                }
            }
        })
    }

    /// Runs an exchange and gives the socket up if answers to it may still come.
    fn guarded(&mut self, exchange: impl FnOnce(&mut Self) -> Result<(), Reason>) -> Result<(), Reason> {
        if self.socket.is_none() {
            self.socket = Some(open_socket(self.options).map_err(Loss::Socket)?);
        }
        let result = exchange(self);
        if matches!(result, Err(Reason::Unknown(_))) {
            self.socket = None;
        }
        result
    }

    fn known_family(&mut self) -> Result<u16, Reason> {
        match self.family {
            Some(number) => Ok(number),
            None => self.resolve_family()?.ok_or(Reason::Unknown(Loss::ModuleGone)),
        }
    }

    fn send(&self) -> Result<(), Loss> {
        let socket = self.socket.as_ref().ok_or(Loss::Socket(Errno::EBADF))?.as_raw_fd();
        loop {
            match send(socket, &self.requests, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(Loss::Socket(errno)),
            }
        }
    }

    /// One datagram into the buffer. The kernel works within the send, so that as a rule the
    /// answer is there before the first look.
    fn receive(&mut self, deadline: &mut Deadline) -> Result<usize, Loss> {
        let socket = self.socket.as_ref().ok_or(Loss::Socket(Errno::EBADF))?.as_raw_fd();
        loop {
            if deadline.has_passed() {
                return Err(Loss::Deadline(self.options.deadline));
            }
            match recv(socket, &mut self.datagram, MsgFlags::MSG_TRUNC) {
                Ok(length) if length > self.datagram.len() => return Err(Malformed::Message.into()),
                Ok(length) => return Ok(length),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(Loss::Deadline(self.options.deadline)),
                Err(Errno::ENOBUFS) => return Err(Loss::Overrun),
                Err(errno) => return Err(Loss::Socket(errno)),
            }
        }
    }
}

/// Connected to the kernel: no other process can put answers into it.
fn open_socket(options: Options) -> Result<OwnedFd, Errno> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric)?;
    let seconds = i64::try_from(options.deadline.as_secs()).unwrap_or(i64::MAX);
    // A time-out of zero would mean none.
    let microseconds = i64::from(options.deadline.subsec_micros()).max(i64::from(seconds == 0));
    setsockopt(&netlink, sockopt::ReceiveTimeout, &TimeVal::new(seconds, microseconds))?;
    if let Some(bytes) = options.receive_buffer {
        setsockopt(&netlink, sockopt::RcvBuf, &bytes)?;
    }
    connect(netlink.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    Ok(netlink)
}

/// The end of an exchange that goes on receiving. Each receive has the socket's time-out besides.
#[derive(Debug)]
pub(super) struct Deadline {
    started: Instant,
    limit: Duration,
    looks: u32,
}

impl Deadline {
    pub(super) fn start(limit: Duration) -> Self {
        Self { started: Instant::now(), limit, looks: 0 }
    }

    /// Looks at the clock at every sixteenth call: it can cost as much as the receive itself.
    fn has_passed(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.looks.is_multiple_of(16) && self.started.elapsed() > self.limit
    }
}

#[cfg(test)]
mod tests;
