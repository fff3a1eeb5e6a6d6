//! The bytes of rtnetlink: requests for dumps, and what answers them. Pure; any bytes may come in.

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use neli::consts::nl::{NlmF, Nlmsg};
use neli::consts::rtnl::{Ifa, Iff, Ifla, RtAddrFamily, Rtm};
use neli::rtnl::{Ifaddrmsg, Ifinfomsg};
use neli::{FromBytesWithInput, attr::Attribute};
use nix::errno::Errno;

use super::{AddressFlags, Interface};

/// The kernel, or something that claims to be, sent bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("malformed message")]
    Message,
    #[error("malformed address")]
    Address,
    #[error("malformed interface")]
    Interface,
}

/// What can be asked for as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Addresses,
    Interfaces,
}

/// One message of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) sequence: u32,
    /// Something changed while the dump was under way.
    pub(super) interrupted: bool,
    pub(super) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Address(Found),
    Interface(Interface),
    /// The end of a dump or the answer to another request.
    End(Result<(), Errno>),
    /// The kernel says that it dropped something.
    Overrun,
    /// Nothing that is asked for here.
    Other,
}

/// An address whose interface has no name yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) address: IpAddr,
    pub(super) index: u32,
    pub(super) prefix: u8,
    pub(super) flags: AddressFlags,
}

const HEADER: usize = 16;

/// A request for everything of one subject, in all address families.
pub(super) fn dump_request(subject: Subject, sequence: u32) -> Vec<u8> {
    // Both families' headers, `ifaddrmsg` and `ifinfomsg`, are all zeros here: AF_UNSPEC.
    let (kind, header): (u16, &[u8]) = match subject {
        Subject::Addresses => (Rtm::Getaddr.into(), &[0; 8]),
        Subject::Interfaces => (Rtm::Getlink.into(), &[0; 16]),
    };
    let length = u32::try_from(HEADER + header.len()).unwrap_or_default();
    let mut request = Vec::with_capacity(HEADER + header.len());
    request.extend(length.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NlmF::REQUEST | NlmF::DUMP).bits().to_ne_bytes());
    request.extend(sequence.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(header);
    request
}

/// The messages of a datagram; after one that is malformed there is no telling where the next begins.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message, Malformed>> {
    let mut rest = Some(datagram);
    std::iter::from_fn(move || {
        let bytes = rest.filter(|bytes| !bytes.is_empty())?;
        match message(bytes) {
            Ok((message, after)) => {
                rest = Some(after);
                Some(Ok(message))
            }
            Err(malformed) => {
                rest = None;
                Some(Err(malformed))
            }
        }
    })
}

fn message(bytes: &[u8]) -> Result<(Message, &[u8]), Malformed> {
    let (header, _) = bytes.split_first_chunk::<HEADER>().ok_or(Malformed::Message)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
    let length = usize::try_from(u32::from_ne_bytes([a, b, c, d])).map_err(|_| Malformed::Message)?;
    let payload = bytes.get(HEADER..length).ok_or(Malformed::Message)?;
    let message = Message {
        sequence: u32::from_ne_bytes([i, j, k, l]),
        interrupted: NlmF::from_bits_retain(u16::from_ne_bytes([g, h])).contains(NlmF::DUMP_INTR),
        body: body(u16::from_ne_bytes([e, f]), payload)?,
    };
    Ok((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

fn body(kind: u16, payload: &[u8]) -> Result<Body, Malformed> {
    match Nlmsg::from(kind) {
        Nlmsg::Noop => return Ok(Body::Other),
        Nlmsg::Overrun => return Ok(Body::Overrun),
        Nlmsg::Error | Nlmsg::Done => return end(payload).map(Body::End),
        Nlmsg::UnrecognizedConst(_) => {}
    }
    if kind == u16::from(Rtm::Newaddr) {
        Ok(address(payload)?.map_or(Body::Other, Body::Address))
    } else if kind == u16::from(Rtm::Newlink) {
        Ok(interface(payload)?.map_or(Body::Other, Body::Interface))
    } else {
        Ok(Body::Other)
    }
}

/// The kernel's codes are negative errno values.
fn end(payload: &[u8]) -> Result<Result<(), Errno>, Malformed> {
    let (code, _) = payload.split_first_chunk().ok_or(Malformed::Message)?;
    let code = i32::from_ne_bytes(*code);
    Ok(if code < 0 { Err(Errno::from_raw(code.saturating_neg())) } else { Ok(()) })
}

/// `None` for families without IP addresses.
fn address(payload: &[u8]) -> Result<Option<Found>, Malformed> {
    let parsed = Ifaddrmsg::from_bytes_with_input(&mut Cursor::new(payload), payload.len())
        .map_err(|_| Malformed::Address)?;
    let (mut local, mut peer) = (None, None);
    let mut flags = u32::from(parsed.ifa_flags().bits());
    for attribute in parsed.rtattrs().iter() {
        let bytes = attribute.payload().as_ref();
        match attribute.rta_type() {
            Ifa::Local => local = Some(bytes),
            Ifa::Address => peer = Some(bytes),
            // The header has room for the lower eight bits only.
            Ifa::Flags => flags = u32::from_ne_bytes(bytes.try_into().map_err(|_| Malformed::Address)?),
            _others => {}
        }
    }
    // The other end of a point-to-point link is in IFA_ADDRESS, our own then in IFA_LOCAL.
    let bytes = local.or(peer).ok_or(Malformed::Address)?;
    let address = match parsed.ifa_family() {
        RtAddrFamily::Inet => {
            Ipv4Addr::from(<[u8; 4]>::try_from(bytes).map_err(|_| Malformed::Address)?).into()
        }
        RtAddrFamily::Inet6 => {
            Ipv6Addr::from(<[u8; 16]>::try_from(bytes).map_err(|_| Malformed::Address)?).into()
        }
        _others => return Ok(None),
    };
    Ok(Some(Found {
        address,
        index: *parsed.ifa_index(),
        prefix: *parsed.ifa_prefixlen(),
        flags: AddressFlags::from_bits(flags),
    }))
}

/// `None` for what is no interface of its own, such as a bridge's view of its ports.
fn interface(payload: &[u8]) -> Result<Option<Interface>, Malformed> {
    let parsed = Ifinfomsg::from_bytes_with_input(&mut Cursor::new(payload), payload.len())
        .map_err(|_| Malformed::Interface)?;
    if !matches!(parsed.ifi_family(), RtAddrFamily::Unspecified) {
        return Ok(None);
    }
    let name = parsed.rtattrs().iter().find(|attribute| matches!(attribute.rta_type(), Ifla::Ifname));
    let name = name.ok_or(Malformed::Interface)?.payload().as_ref();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let index = u32::try_from(*parsed.ifi_index()).map_err(|_| Malformed::Interface)?;
    Ok(Some(Interface {
        index,
        name: String::from_utf8_lossy(name).into_owned(),
        up: parsed.ifi_flags().contains(Iff::UP),
        loopback: parsed.ifi_flags().contains(Iff::LOOPBACK),
    }))
}

#[cfg(test)]
mod tests;
