//! A connected datagram socket for one run: UDP, or ICMP by way of [`super::icmp`].
//!
//! Owns sending and receiving within the deadline; knows nothing of what is in the datagrams.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::net::SocketAddr;

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::deadline::Deadline;
use super::fault::Trouble;
use super::socket;
use crate::engine::model::{Phase, Target};

/// The largest payload that UDP has.
const LARGEST: usize = 65_535;

#[derive(Debug)]
pub(super) struct Datagram {
    /// tokio's for any datagram socket: it only ever polls and receives.
    socket: UdpSocket,
}

impl Datagram {
    /// A UDP socket with the target's options, connected: the kernel drops what others send.
    pub(super) fn udp(target: &Target) -> Result<Self, Trouble> {
        let domain = Domain::for_address(socket::address(target));
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
            .map_err(|error| Trouble::io(Phase::Socket, "open a socket", &error))?;
        socket::dress(&socket, target, target.source().port)?;
        Self::connect(socket, socket::address(target))
    }

    pub(super) fn connect(socket: Socket, peer: SocketAddr) -> Result<Self, Trouble> {
        let failed = |doing: &str, error: io::Error| Trouble::io(Phase::Socket, doing, &error);
        // Without it the kernel tells of closed ports only, not of hosts and networks out of reach.
        match peer {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true),
            SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true),
        }
        .map_err(|error| failed("set IP_RECVERR", error.into()))?;
        socket.connect(&peer.into()).map_err(|error| Trouble::io(Phase::Connect, "", &error))?;
        let socket = UdpSocket::from_std(socket.into());
        socket.map(|socket| Self { socket }).map_err(|error| failed("wait for a socket", error))
    }

    /// Our own port, or the identifier that the kernel gave to an ICMP socket.
    pub(super) fn port(&self) -> Result<u16, Trouble> {
        let local = self.socket.local_addr();
        let local = local.map_err(|error| Trouble::io(Phase::Socket, "read the socket's name", &error))?;
        Ok(local.port())
    }

    /// Never waits: one datagram always fits into the buffer of a new socket.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        SockRef::from(&self.socket).send(bytes).map(|_all| ())
    }

    /// One datagram, or the ICMP error that came instead; `None` at the deadline.
    pub(super) async fn receive(&self, deadline: &mut Deadline<'_>) -> Option<io::Result<Vec<u8>>> {
        deadline.race(self.next()).await
    }

    async fn next(&self) -> io::Result<Vec<u8>> {
        // An ICMP error makes a socket not readable, only wrong.
        loop {
            let ready = self.socket.ready(Interest::READABLE | Interest::ERROR).await?;
            // tokio's try_io takes one interest at a time.
            let interest = if ready.is_error() { Interest::ERROR } else { Interest::READABLE };
            match self.socket.try_io(interest, || read(&SockRef::from(&self.socket))) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

/// The buffer is made when there is something to read: thousands may wait.
fn read(mut socket: &Socket) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; LARGEST];
    let length = socket.read(&mut buffer)?;
    buffer.truncate(length);
    buffer.shrink_to_fit();
    Ok(buffer)
}

/// Nobody outside can foresee it: the keys of std's hash maps come from the kernel.
pub(super) fn unforeseeable() -> u16 {
    let [.., high, low] = RandomState::new().build_hasher().finish().to_be_bytes();
    u16::from_be_bytes([high, low])
}
