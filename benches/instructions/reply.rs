//! The datagrams of a dump, as the kernel fills them: written here from `linux/ip_vs.h`, since lvsd only
//! reads them.

use std::net::Ipv4Addr;

const DATAGRAM: usize = 32 * 1024;
const AF_INET: u16 = 2;
const NESTED: u16 = 0x8000;

/// So many destinations with all their statistics, in as many datagrams as they take.
pub(crate) fn datagrams(destinations: u32) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut datagram = Vec::with_capacity(DATAGRAM);
    for n in 0..destinations {
        let message = message(n);
        if datagram.len() + message.len() > DATAGRAM {
            all.push(std::mem::replace(&mut datagram, Vec::with_capacity(DATAGRAM)));
        }
        datagram.extend_from_slice(&message);
    }
    all.push(datagram);
    all
}

/// `IPVS_CMD_NEW_DEST` with `IPVS_CMD_ATTR_DEST`, attributes in the kernel's order.
fn message(n: u32) -> Vec<u8> {
    let mut address = [0; 16];
    for (byte, octet) in address.iter_mut().zip(Ipv4Addr::from(0x0a00_0000 + n).octets()) {
        *byte = octet;
    }
    let mut dest = Vec::new();
    attribute(&mut dest, 1, &address);
    attribute(&mut dest, 2, &8080_u16.to_be_bytes());
    attribute(&mut dest, 11, &AF_INET.to_ne_bytes());
    for (kind, value) in [(3, 0_u32), (4, 1), (5, 0), (6, 0), (7, n % 90), (8, n % 11), (9, 0)] {
        attribute(&mut dest, kind, &value.to_ne_bytes());
    }
    attribute(&mut dest, 13, &[0]);
    attribute(&mut dest, 14, &[0, 0]);
    attribute(&mut dest, 15, &[0, 0]);
    attribute(
        &mut dest,
        10 | NESTED,
        &statistics(n, |value| (u64::from(value)).to_ne_bytes().get(..4).map(<[u8]>::to_vec)),
    );
    attribute(&mut dest, 12 | NESTED, &statistics(n, |value| Some(u64::from(value).to_ne_bytes().to_vec())));
    let mut message = vec![0; 16];
    message.extend_from_slice(&[5, 1, 0, 0]);
    attribute(&mut message, 2 | NESTED, &dest);
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let head = [length.to_ne_bytes(), [28, 0, 2, 0], 1_u32.to_ne_bytes(), [0; 4]].concat();
    message.splice(..16, head);
    message
}

/// `IPVS_STATS_ATTR_*`: five counters and five rates.
fn statistics(n: u32, bytes: impl Fn(u32) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut nested = Vec::new();
    for kind in 1..=10 {
        attribute(&mut nested, kind, &bytes(n + u32::from(kind)).unwrap_or_default());
    }
    nested
}

fn attribute(buffer: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let length = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
    buffer.extend_from_slice(&length.to_ne_bytes());
    buffer.extend_from_slice(&kind.to_ne_bytes());
    buffer.extend_from_slice(payload);
    buffer.resize(buffer.len().next_multiple_of(4), 0);
}
