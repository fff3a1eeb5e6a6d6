//! Puts single addresses on an interface and takes them away, one acknowledged request each.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use neli::consts::nl::NlmF;
use neli::consts::rtnl::{Ifa, RtScope, Rtm};
use nix::errno::Errno;
use nix::libc::{AF_INET, AF_INET6, IFA_F_NODAD, IFA_F_NOPREFIXROUTE};

use super::codec::{self, Body, Malformed};
use super::socket::{DATAGRAM, Socket};

/// For each answer. The kernel gives it within the send, unless another process holds its lock of links.
const DEADLINE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("no route netlink socket: {0}")]
    Socket(#[source] Errno),
    #[error("{}", words(*.0))]
    Refused(Errno),
    /// It may have been carried out or not.
    #[error("the kernel did not answer within {0:?}")]
    Deadline(Duration),
    #[error("the kernel's answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
}

/// What the kernel's bare numbers mean for an address.
fn words(errno: Errno) -> String {
    let text = match errno {
        Errno::EPERM => "not permitted, CAP_NET_ADMIN is missing",
        Errno::ENODEV => "the interface has gone",
        Errno::EEXIST => "the interface has it already, with another prefix length",
        Errno::EADDRNOTAVAIL => "the interface does not have it",
        Errno::EACCES | Errno::EOPNOTSUPP => "the family is disabled on the interface",
        other => return other.to_string(),
    };
    format!("{text} ({errno:?})")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Remove,
}

/// Waits for the kernel's answers, so it belongs on a thread of its own.
#[derive(Debug, Default)]
pub struct Writer {
    /// Given up after any doubt about what is still to come from it.
    socket: Option<Socket>,
    sequence: u32,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    /// As /32 or /128 with global scope, usable at once, and without a route of its own.
    pub fn add(&mut self, index: u32, address: IpAddr) -> Result<(), WriteError> {
        self.change(Change::Add, index, address)
    }

    /// Only the /32 or /128.
    pub fn remove(&mut self, index: u32, address: IpAddr) -> Result<(), WriteError> {
        self.change(Change::Remove, index, address)
    }

    fn change(&mut self, change: Change, index: u32, address: IpAddr) -> Result<(), WriteError> {
        self.sequence = self.sequence.wrapping_add(1);
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => Socket::to_ask(DEADLINE).map_err(WriteError::Socket)?,
        };
        let result = ask(&socket, &request(change, self.sequence, index, address), self.sequence);
        if matches!(result, Ok(()) | Err(WriteError::Refused(_))) {
            self.socket = Some(socket);
        }
        result
    }
}

fn ask(socket: &Socket, request: &[u8], sequence: u32) -> Result<(), WriteError> {
    let started = Instant::now();
    socket.send(request).map_err(WriteError::Socket)?;
    let mut buffer = vec![0; DATAGRAM];
    while started.elapsed() < DEADLINE {
        let length = match socket.receive(&mut buffer) {
            Ok(length) => length,
            Err(Errno::EAGAIN) => break,
            Err(errno) => return Err(WriteError::Socket(errno)),
        };
        let datagram = buffer.get(..length).ok_or(Malformed::Message)?;
        for message in codec::messages(datagram) {
            let message = message?;
            match message.body {
                Body::End(result) if message.sequence == sequence => {
                    return result.map_err(WriteError::Refused);
                }
                Body::End(_) | Body::Address(_) | Body::Interface(_) | Body::Overrun | Body::Other => {}
            }
        }
    }
    Err(WriteError::Deadline(DEADLINE))
}

/// A header, `ifaddrmsg` (rtnetlink(7)), and the address as both ends.
fn request(change: Change, sequence: u32, index: u32, address: IpAddr) -> Vec<u8> {
    let (kind, action) = match change {
        Change::Add => (Rtm::Newaddr, NlmF::CREATE | NlmF::EXCL),
        Change::Remove => (Rtm::Deladdr, NlmF::empty()),
    };
    let (family, bytes, flags) = match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec(), IFA_F_NOPREFIXROUTE),
        // Without duplicate address detection it would be tentative for a second, although nobody else
        // is on this interface.
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec(), IFA_F_NOPREFIXROUTE | IFA_F_NODAD),
    };
    let prefix = u8::try_from(bytes.len() * 8).unwrap_or(u8::MAX);
    // The flags do not fit here; they have an attribute.
    let mut body = vec![u8::try_from(family).unwrap_or_default(), prefix, 0, u8::from(RtScope::Universe)];
    body.extend(index.to_ne_bytes());
    attribute(&mut body, Ifa::Local, &bytes);
    attribute(&mut body, Ifa::Address, &bytes);
    if change == Change::Add {
        attribute(&mut body, Ifa::Flags, &flags.to_ne_bytes());
    }
    let length = u32::try_from(16 + body.len()).unwrap_or_default();
    let mut request = Vec::with_capacity(16 + body.len());
    request.extend(length.to_ne_bytes());
    request.extend(u16::from(kind).to_ne_bytes());
    request.extend((NlmF::REQUEST | NlmF::ACK | action).bits().to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(body);
    request
}

/// All of those above are multiples of four bytes long: no padding.
fn attribute(body: &mut Vec<u8>, kind: Ifa, payload: &[u8]) {
    body.extend(u16::try_from(4 + payload.len()).unwrap_or_default().to_ne_bytes());
    body.extend(u16::from(kind).to_ne_bytes());
    body.extend(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As `ip address add 192.0.2.10/32 dev … noprefixroute` and so on send them, on a machine with the
    /// least byte first.
    #[test]
    fn golden() {
        let (v4, v6): (IpAddr, IpAddr) = ("192.0.2.10".parse().unwrap(), "2001:db8::10".parse().unwrap());
        let table = [
            (
                request(Change::Add, 7, 5, v4),
                "30000000 1400 0506 07000000 00000000 02 20 00 00 05000000
                 0800 0200 c000020a 0800 0100 c000020a 0800 0800 00020000",
            ),
            (
                request(Change::Remove, 8, 5, v4),
                "28000000 1500 0500 08000000 00000000 02 20 00 00 05000000
                 0800 0200 c000020a 0800 0100 c000020a",
            ),
            (
                request(Change::Add, 9, 5, v6),
                "48000000 1400 0506 09000000 00000000 0a 80 00 00 05000000
                 1400 0200 20010db8 00000000 00000000 00000010
                 1400 0100 20010db8 00000000 00000000 00000010 0800 0800 02020000",
            ),
        ];
        for (found, wanted) in table {
            assert_eq!(hex(&found), wanted.split_whitespace().collect::<String>());
        }
    }

    /// The kernel of the machine that runs the tests: no interface has this number.
    #[test]
    fn an_interface_that_is_not_there_is_refused_in_words() {
        let address = "192.0.2.10".parse().unwrap();
        let mut writer = Writer::new();
        for result in [writer.add(0x7fff_fff0, address), writer.remove(0x7fff_fff0, address)] {
            let Err(error @ WriteError::Refused(Errno::ENODEV | Errno::EPERM)) = result else {
                panic!("{result:?}");
            };
            assert!(error.to_string().ends_with(')'), "{error}");
        }
    }
}
