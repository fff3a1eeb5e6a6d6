//! ICMP echo: the socket that this host permits, the request, and the reply that fits it.
//!
//! Never changes a sysctl: what is not permitted is said, with the remedy.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use super::datagram::{Datagram, unforeseeable};
use super::deadline::Deadline;
use super::fault::Trouble;
use super::socket;
use crate::engine::model::{Phase, Target};

/// What a reader of the log can do about it.
const NOT_PERMITTED: &str = "open an ICMP socket: neither the sysctl net.ipv4.ping_group_range (with a range \
     that has lvsd's group) nor CAP_NET_RAW (see /usr/share/doc/lvsd/examples/ping.conf) permits it";

#[derive(Debug)]
pub(super) enum PingTrouble {
    /// This host lets us have no ICMP socket.
    NotPermitted,
    Other(Trouble),
}

impl From<Trouble> for PingTrouble {
    fn from(trouble: Trouble) -> Self {
        Self::Other(trouble)
    }
}

impl From<PingTrouble> for Trouble {
    fn from(trouble: PingTrouble) -> Self {
        match trouble {
            PingTrouble::NotPermitted => {
                let error = io::Error::from_raw_os_error(Errno::EACCES as i32);
                Self::io(Phase::Socket, NOT_PERMITTED, &error)
            }
            PingTrouble::Other(trouble) => trouble,
        }
    }
}

/// Sends one echo request with `size` bytes of data and waits for its reply; how long that took.
pub(super) async fn echo(
    target: &Target,
    size: u16,
    deadline: &mut Deadline<'_>,
) -> Result<Duration, PingTrouble> {
    let (socket, form) = open(target)?;
    let started = Instant::now();
    let datagram = Datagram::connect(socket, SocketAddr::new(target.address, 0))?;
    let mut echo = Echo { form, id: unforeseeable(), sequence: unforeseeable(), size };
    datagram.send(&echo.request()).map_err(|error| Trouble::io(Phase::Request, "", &error))?;
    if !form.raw {
        // The kernel has put in the one by which it finds the socket.
        echo.id = datagram.port()?;
    }
    loop {
        let packet = match datagram.receive(deadline).await {
            Some(packet) => packet.map_err(|error| Trouble::io(Phase::Reply, "", &error))?,
            None => return Err(Trouble::timed_out(Phase::Reply, deadline).into()),
        };
        match echo.compare(&packet) {
            Heard::Reply => return Ok(started.elapsed()),
            // A raw socket hears the replies to everybody's requests.
            Heard::Other => {}
            Heard::Altered => {
                return Err(Trouble::failure(Phase::Reply, "the reply's data are not those sent").into());
            }
        }
    }
}

/// An ICMP datagram socket hears only its own replies, so it is tried first; the raw one is for
/// those who have the capability instead of the group.
fn open(target: &Target) -> Result<(Socket, Form), PingTrouble> {
    let (domain, protocol) = match target.address {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let form = |raw| Form { raw, v6: target.address.is_ipv6() };
    let (socket, form) = match Socket::new(domain, Type::DGRAM.nonblocking(), Some(protocol)) {
        Ok(socket) => (socket, form(false)),
        Err(error) if is_refusal(&error) => {
            match Socket::new(domain, Type::RAW.nonblocking(), Some(protocol)) {
                Ok(socket) => (socket, form(true)),
                Err(error) if is_refusal(&error) => return Err(PingTrouble::NotPermitted),
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(error) => return Err(failed(&error)),
    };
    // ICMP has no ports: what stands in their place is the identifier.
    socket::dress(&socket, target, None)?;
    Ok((socket, form))
}

fn failed(error: &io::Error) -> PingTrouble {
    Trouble::io(Phase::Socket, "open an ICMP socket", error).into()
}

/// `ping_group_range` refuses with EACCES, a missing CAP_NET_RAW with EPERM, a kernel without
/// ICMP datagram sockets with EPROTONOSUPPORT.
fn is_refusal(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EACCES | Errno::EPERM | Errno::EPROTONOSUPPORT))
}

/// How packets look on a socket.
#[derive(Clone, Copy, Debug)]
struct Form {
    raw: bool,
    v6: bool,
}

#[derive(Debug)]
struct Echo {
    form: Form,
    id: u16,
    sequence: u16,
    size: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Reply,
    Other,
    Altered,
}

impl Echo {
    /// RFC 792 and RFC 4443 section 4: type, code, checksum, identifier, sequence number, data.
    fn request(&self) -> Vec<u8> {
        let mut packet = vec![if self.form.v6 { 128 } else { 8 }, 0, 0, 0];
        packet.extend(self.id.to_be_bytes());
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(self.data());
        // The kernel makes the one of ICMPv6, which covers addresses, and that of datagram sockets.
        let sum = checksum(&packet).to_be_bytes();
        if let Some(place) = packet.get_mut(2..4).filter(|_| !self.form.v6) {
            place.copy_from_slice(&sum);
        }
        packet
    }

    fn data(&self) -> impl Iterator<Item = u8> {
        let [even, odd] = self.sequence.to_be_bytes();
        (0..self.size).map(move |at| {
            let [_, low] = at.to_be_bytes();
            low ^ if at % 2 == 0 { even } else { odd }
        })
    }

    fn compare(&self, packet: &[u8]) -> Heard {
        let Some(packet) = self.without_ip_header(packet) else { return Heard::Other };
        let Some((head, data)) = packet.split_at_checked(8) else { return Heard::Other };
        let reply = if self.form.v6 { 129 } else { 0 };
        let [id_high, id_low] = self.id.to_be_bytes();
        let [sequence_high, sequence_low] = self.sequence.to_be_bytes();
        match *head {
            [kind, 0, _, _, a, b, c, d]
                if kind == reply && [a, b, c, d] == [id_high, id_low, sequence_high, sequence_low] => {}
            _ => return Heard::Other,
        }
        if data.iter().copied().eq(self.data()) { Heard::Reply } else { Heard::Altered }
    }

    /// Raw sockets of IPv4 are the only ones that hand it over.
    fn without_ip_header<'p>(&self, packet: &'p [u8]) -> Option<&'p [u8]> {
        if !self.form.raw || self.form.v6 {
            return Some(packet);
        }
        let words = packet.first()? & 0x0f;
        packet.get(usize::from(words) * 4..)
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| match *pair {
        [high, low] => u16::from_be_bytes([high, low]),
        [high] => u16::from_be_bytes([high, 0]),
        _ => 0,
    });
    !words.fold(0_u16, |sum, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

#[cfg(test)]
mod tests;
