//! Bytes as ipvsadm 1.31 (through libnl) and Linux 6.1 put them on the wire, recorded with
//! strace; neli's reading of ours; and answers of any bytes at all.

use neli::consts::nl::NlmF;
use nix::errno::Errno;
use proptest::prelude::*;

use super::reader::{Body, Messages};
use super::{Header, Malformed, reply, request};
use crate::engine::model::{
    Family, Forwarding, Protocol, Scheduler, Sync, SyncRole, Timeouts, Tunnel, TunnelChecksum,
};
use crate::engine::table::{Counters, Destination, ServiceAttributes, ServiceFlags, ServiceId};
use crate::ipvs::operation::Operation;
use crate::ipvs::testing::{attributes, destination, fwmark, nat, tcp};

mod answers;
mod hostile;
mod requests;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks_exact(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

const HEADER: Header = Header { family: 0x1c, flags: NlmF::REQUEST, sequence: 7 };

/// A family message around `payload`, which begins with the generic netlink header.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let mut datagram = u32::try_from(payload.len() + 16).unwrap().to_ne_bytes().to_vec();
    datagram.extend(bytes("1c00 0000 07000000 00000000"));
    datagram.extend(payload);
    datagram
}
