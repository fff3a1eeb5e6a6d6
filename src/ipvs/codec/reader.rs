//! Messages and attributes out of a datagram, borrowed. Any bytes may come in: what does not fit
//! ends the iteration with an error. Knows nothing of IPVS.

use neli::consts::nl::{NlmF, Nlmsg};
use nix::errno::Errno;

use super::Malformed;

/// The messages of one datagram.
#[derive(Clone, Debug)]
pub(in crate::ipvs) struct Messages<'a> {
    rest: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipvs) struct Message<'a> {
    pub(in crate::ipvs) sequence: u32,
    /// Something changed while a dump was under way.
    pub(in crate::ipvs) interrupted: bool,
    pub(in crate::ipvs) body: Body<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipvs) enum Body<'a> {
    /// The answer to a request, good or bad.
    Ack(Result<(), Errno>),
    /// The end of a dump, which can fail half way.
    Done(Result<(), Errno>),
    /// The kernel says that it dropped something.
    Overrun,
    Noop,
    /// A message of the family, with the attributes after its header.
    Family {
        attributes: Attributes<'a>,
    },
}

const HEADER: usize = 16;
const FAMILY_HEADER: usize = 4;

impl<'a> Messages<'a> {
    pub(in crate::ipvs) const fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    fn take(&mut self) -> Result<Message<'a>, Malformed> {
        let mut header = Fields(self.rest);
        let (Some(length), Some(kind), Some(flags), Some(sequence)) =
            (header.u32(), header.u16(), header.u16(), header.u32())
        else {
            return Err(Malformed::Message);
        };
        let length = usize::try_from(length).map_err(|_| Malformed::Message)?;
        let payload = self.rest.get(HEADER..length).ok_or(Malformed::Message)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok(Message {
            sequence,
            interrupted: NlmF::from_bits_retain(flags).contains(NlmF::DUMP_INTR),
            body: body(Nlmsg::from(kind), payload)?,
        })
    }
}

fn body(kind: Nlmsg, payload: &[u8]) -> Result<Body<'_>, Malformed> {
    let code = Fields(payload).i32();
    match kind {
        Nlmsg::Noop => Ok(Body::Noop),
        Nlmsg::Overrun => Ok(Body::Overrun),
        Nlmsg::Error => code.map(|code| Body::Ack(outcome(code))).ok_or(Malformed::Message),
        // Kernels before 2.6.30 or so end a dump without a code.
        Nlmsg::Done => Ok(Body::Done(outcome(code.unwrap_or(0)))),
        Nlmsg::UnrecognizedConst(_) => {
            let rest = payload.get(FAMILY_HEADER..).ok_or(Malformed::Message)?;
            Ok(Body::Family { attributes: Attributes { rest } })
        }
    }
}

/// The kernel's codes are negative errno values; a DONE may carry a length instead, which is fine.
fn outcome(code: i32) -> Result<(), Errno> {
    if code < 0 { Err(Errno::from_raw(code.saturating_neg())) } else { Ok(()) }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.take();
        if message.is_err() {
            self.rest = &[];
        }
        Some(message)
    }
}

/// The attributes of a message or within a nested attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipvs) struct Attributes<'a> {
    rest: &'a [u8],
}

/// One attribute: its number without the flag bits, and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipvs) struct Attribute<'a> {
    pub(super) kind: u16,
    pub(super) payload: &'a [u8],
}

const ATTRIBUTE_HEADER: usize = 4;

impl<'a> Attributes<'a> {
    fn take(&mut self) -> Result<Attribute<'a>, Malformed> {
        const NLA_TYPE_MASK: u16 = 0x3fff;
        let mut header = Fields(self.rest);
        let (Some(length), Some(kind)) = (header.u16(), header.u16()) else {
            return Err(Malformed::Attribute);
        };
        let length = usize::from(length);
        let payload = self.rest.get(ATTRIBUTE_HEADER..length).ok_or(Malformed::Attribute)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok(Attribute { kind: kind & NLA_TYPE_MASK, payload })
    }

    /// The first attribute of this number.
    pub(super) fn find(self, kind: impl Into<u16>) -> Result<Option<Attribute<'a>>, Malformed> {
        let kind = kind.into();
        for attribute in self {
            let attribute = attribute?;
            if attribute.kind == kind {
                return Ok(Some(attribute));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let attribute = self.take();
        if attribute.is_err() {
            self.rest = &[];
        }
        Some(attribute)
    }
}

impl<'a> Attribute<'a> {
    pub(super) const fn nested(self) -> Attributes<'a> {
        Attributes { rest: self.payload }
    }

    pub(super) fn u8(self, name: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(name).map(|[byte]| byte)
    }

    pub(super) fn u16(self, name: &'static str) -> Result<u16, Malformed> {
        self.array(name).map(u16::from_ne_bytes)
    }

    pub(super) fn be16(self, name: &'static str) -> Result<u16, Malformed> {
        self.array(name).map(u16::from_be_bytes)
    }

    pub(super) fn u32(self, name: &'static str) -> Result<u32, Malformed> {
        self.array(name).map(u32::from_ne_bytes)
    }

    /// A counter of either width: the kernel has both.
    pub(super) fn counter(self, name: &'static str) -> Result<u64, Malformed> {
        match self.payload.len() {
            4 => self.u32(name).map(u64::from),
            _ => self.array(name).map(u64::from_ne_bytes),
        }
    }

    pub(super) fn array<const N: usize>(self, name: &'static str) -> Result<[u8; N], Malformed> {
        self.payload.try_into().map_err(|_| Malformed::Size(name))
    }

    /// Up to the first zero byte; bytes that are not UTF-8 become replacement characters.
    pub(super) fn string(self) -> String {
        let text = self.payload.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Numbers in host order off the front of a slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_ne_bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }
}
