//! A connected TCP socket for one run, made as the check's options say.
//!
//! Spends few system calls: socket, linger, connect and what the options ask for; whether the
//! connection came about is read from the readiness that epoll reports anyway, or at a glance.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::deadline::Deadline;
use super::fault::Trouble;
use crate::engine::model::{Phase, Target};

/// How the socket of a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// With a RST, which leaves no port in TIME_WAIT behind: frequent checks of one server from
    /// one source address would use all ports up.
    Reset,
    /// With a FIN, so that what was written still arrives.
    Orderly,
}

/// Whether small writes may wait for the acknowledgement of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nagle {
    On,
    Off,
}

#[derive(Debug)]
pub(super) struct Connected {
    pub(super) stream: TcpStream,
    /// The connection came about and was reset before we looked. What the server sent before
    /// can still be read.
    pub(super) reset: Option<io::Error>,
}

pub(super) async fn connect(
    target: &Target,
    close: Close,
    nagle: Nagle,
    deadline: &mut Deadline<'_>,
) -> Result<Connected, Trouble> {
    let socket = open(target, close, nagle)?;
    begin(&socket, target)?;
    connected(socket, deadline).await
}

/// Connects and resets, for a check that asks no more. A server so near that it has answered before connect(2)
/// returned, as one on this machine has, costs no registration with epoll and no second turn of the loop.
pub(super) async fn reach(target: &Target, deadline: &mut Deadline<'_>) -> Result<(), Trouble> {
    let socket = open(target, Close::Reset, Nagle::On)?;
    begin(&socket, target)?;
    let ended = match glance(&socket) {
        None => connected(socket, deadline).await?.reset,
        Some(PollFlags::POLLOUT) => None,
        Some(_) => socket.take_error().unwrap_or_else(Some),
    };
    ended.map_or(Ok(()), |error| Err(Trouble::io(Phase::Connect, "", &error)))
}

/// What has come of the connection, if anything has.
fn glance(socket: &Socket) -> Option<PollFlags> {
    let mut asked = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    poll(&mut asked, PollTimeout::ZERO).ok().filter(|ready| *ready > 0)?;
    asked.iter().find_map(PollFd::revents)
}

/// Waits until the connection has come about.
async fn connected(socket: Socket, deadline: &mut Deadline<'_>) -> Result<Connected, Trouble> {
    let failed = |doing: &str, error: io::Error| Trouble::io(Phase::Connect, doing, &error);
    // After connect(2): a socket that is polled before reports a hang-up.
    let stream = TcpStream::from_std(socket.into()).map_err(|error| failed("", error))?;
    let Some(ready) = deadline.race(stream.ready(Interest::WRITABLE | Interest::ERROR)).await else {
        return Err(Trouble::timed_out(Phase::Connect, deadline));
    };
    let ready = ready.map_err(|error| failed("waiting for the socket", error))?;
    let mut reset = None;
    if ready.is_error() || ready.is_write_closed() {
        match stream.take_error() {
            Ok(None) => {}
            // The answer to a SYN is never this one: the kernel calls that a refusal.
            Ok(Some(error)) | Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                reset = Some(error);
            }
            Ok(Some(error)) | Err(error) => return Err(failed("", error)),
        }
    }
    Ok(Connected { stream, reset })
}

/// The socket with all its options, bound if it has to be.
fn open(target: &Target, close: Close, nagle: Nagle) -> Result<Socket, Trouble> {
    let failed = |doing: &str, error: io::Error| Trouble::io(Phase::Socket, doing, &error);
    let domain = Domain::for_address(address(target));
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))
        .map_err(|error| failed("open a socket", error))?;
    if close == Close::Reset {
        socket.set_linger(Some(std::time::Duration::ZERO)).map_err(|error| failed("set SO_LINGER", error))?;
    }
    if nagle == Nagle::Off {
        socket.set_tcp_nodelay(true).map_err(|error| failed("set TCP_NODELAY", error))?;
    }
    dress(&socket, target, target.source().port)?;
    Ok(socket)
}

/// Mark, device, source address and `port` of a socket that is not connected yet.
pub(super) fn dress(socket: &Socket, target: &Target, port: Option<u16>) -> Result<(), Trouble> {
    let failed = |doing: &str, error: io::Error| Trouble::io(Phase::Source, doing, &error);
    let source = target.source();
    if let Some(mark) = source.fwmark {
        socket.set_mark(mark).map_err(|error| failed(&format!("set SO_MARK to {mark}"), error))?;
    }
    if let Some(device) = &source.interface {
        socket
            .bind_device(Some(device.as_bytes()))
            .map_err(|error| failed(&format!("bind to interface {device}"), error))?;
    }
    if source.ip.is_some() || port.is_some() {
        bind(socket, target, port)?;
    }
    Ok(())
}

fn bind(socket: &Socket, target: &Target, port: Option<u16>) -> Result<(), Trouble> {
    let any = match target.address {
        IpAddr::V4(_) => IpAddr::from([0_u8; 4]),
        IpAddr::V6(_) => IpAddr::from([0_u8; 16]),
    };
    let source = SocketAddr::new(target.source().ip.unwrap_or(any), port.unwrap_or(0));
    let bound = match port {
        Some(_) => socket.set_reuse_address(true),
        // Leaves the choice of the port to connect(2), which knows the peer: a port is then
        // taken per peer, not for the whole source address.
        None => setsockopt(socket, sockopt::IpBindAddressNoPort, &true).map_err(io::Error::from),
    }
    .and_then(|()| socket.bind(&source.into()));
    bound.map_err(|error| {
        let doing = match port {
            Some(_) => format!("bind to {source}"),
            None => format!("bind to {}", source.ip()),
        };
        Trouble::io(Phase::Source, &doing, &error)
    })
}

fn begin(socket: &Socket, target: &Target) -> Result<(), Trouble> {
    match socket.connect(&address(target).into()) {
        Err(error) if error.raw_os_error() != Some(nix::errno::Errno::EINPROGRESS as i32) => {
            Err(Trouble::io(Phase::Connect, "", &error))
        }
        _ => Ok(()),
    }
}

pub(super) fn address(target: &Target) -> SocketAddr {
    SocketAddr::new(target.address, target.port)
}
