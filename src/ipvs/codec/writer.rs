//! Messages and attributes into one flat buffer, lengths filled in afterwards. Knows nothing of IPVS.

use neli::consts::nl::{NlmF, Nlmsg};

/// What a netlink header says besides its length.
#[derive(Clone, Copy, Debug)]
pub(in crate::ipvs) struct Header {
    /// The number of the generic netlink family.
    pub(in crate::ipvs) family: u16,
    pub(in crate::ipvs) flags: NlmF,
    pub(in crate::ipvs) sequence: u32,
}

/// Appends attributes to the message it was made for.
pub(super) struct Writer<'a> {
    buffer: &'a mut Vec<u8>,
}

/// Appends one message with both headers.
pub(super) fn message(
    buffer: &mut Vec<u8>,
    header: Header,
    (command, version): (u8, u8),
    body: impl FnOnce(&mut Writer<'_>),
) {
    let start = buffer.len();
    netlink_header(buffer, header);
    buffer.extend_from_slice(&[command, version, 0, 0]);
    body(&mut Writer { buffer });
    let length = u32::try_from(buffer.len() - start).unwrap_or(u32::MAX);
    patch(buffer, start, &length.to_ne_bytes());
}

/// Appends an empty message of no family.
pub(super) fn noop(buffer: &mut Vec<u8>, flags: NlmF, sequence: u32) {
    const LENGTH: u32 = 16;
    let start = buffer.len();
    netlink_header(buffer, Header { family: Nlmsg::Noop.into(), flags, sequence });
    patch(buffer, start, &LENGTH.to_ne_bytes());
}

/// With a length of 0 so far.
fn netlink_header(buffer: &mut Vec<u8>, header: Header) {
    let [[a, b], [c, d]] = [header.family.to_ne_bytes(), header.flags.bits().to_ne_bytes()];
    let [e, f, g, h] = header.sequence.to_ne_bytes();
    // The port, last: the kernel fills in ours, and looks at none that is not 0.
    buffer.extend_from_slice(&[0, 0, 0, 0, a, b, c, d, e, f, g, h, 0, 0, 0, 0]);
}

impl Writer<'_> {
    pub(super) fn bytes(&mut self, kind: impl Into<u16>, payload: &[u8]) {
        let [length, kind] = [u16::try_from(payload.len() + 4).unwrap_or(u16::MAX), kind.into()];
        let [[a, b], [c, d]] = [length.to_ne_bytes(), kind.to_ne_bytes()];
        self.buffer.extend_from_slice(&[a, b, c, d]);
        self.buffer.extend_from_slice(payload);
        pad(self.buffer);
    }

    /// With the zero byte that the kernel's policy asks for.
    pub(super) fn string(&mut self, kind: impl Into<u16>, text: &str) {
        self.attribute(kind.into(), |writer| {
            writer.buffer.extend_from_slice(text.as_bytes());
            writer.buffer.push(0);
        });
    }

    pub(super) fn u8(&mut self, kind: impl Into<u16>, value: u8) {
        self.word(kind.into(), 1, [value, 0, 0, 0]);
    }

    pub(super) fn u16(&mut self, kind: impl Into<u16>, value: u16) {
        let [a, b] = value.to_ne_bytes();
        self.word(kind.into(), 2, [a, b, 0, 0]);
    }

    /// In network order.
    pub(super) fn be16(&mut self, kind: impl Into<u16>, value: u16) {
        let [a, b] = value.to_be_bytes();
        self.word(kind.into(), 2, [a, b, 0, 0]);
    }

    pub(super) fn u32(&mut self, kind: impl Into<u16>, value: u32) {
        self.word(kind.into(), 4, value.to_ne_bytes());
    }

    /// Most attributes: so many bytes and what fills them up, in one piece whose size the compiler knows.
    fn word(&mut self, kind: u16, length: u16, [e, f, g, h]: [u8; 4]) {
        let [[a, b], [c, d]] = [(length + 4).to_ne_bytes(), kind.to_ne_bytes()];
        self.buffer.extend_from_slice(&[a, b, c, d, e, f, g, h]);
    }

    /// An attribute that holds what `body` appends.
    pub(super) fn nested(&mut self, kind: impl Into<u16>, body: impl FnOnce(&mut Self)) {
        const NLA_F_NESTED: u16 = 0x8000;
        self.attribute(kind.into() | NLA_F_NESTED, body);
    }

    fn attribute(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 2]);
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        body(self);
        let length = u16::try_from(self.buffer.len() - start).unwrap_or(u16::MAX);
        patch(self.buffer, start, &length.to_ne_bytes());
        pad(self.buffer);
    }
}

fn pad(buffer: &mut Vec<u8>) {
    let missing = buffer.len().next_multiple_of(4) - buffer.len();
    if missing > 0 {
        buffer.extend_from_slice([0; 3].get(..missing).unwrap_or_default());
    }
}

fn patch(buffer: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = buffer.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}
