//! The two messages of grpc.health.v1.Health/Check and their frames, by hand: a string and an enum.
//!
//! Pure: a code generator and its run time would be a hundred times as much.

/// Bytes of a reply: its frame of 5, and some more than any server has to say.
pub(super) const REPLY_LIMIT: usize = 4096;

/// HealthCheckResponse.ServingStatus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Unknown,
    Serving,
    NotServing,
    /// Of the Watch method only, but servers have been seen to say it.
    ServiceUnknown,
    /// A value that the protocol may get one day.
    Other(u64),
}

impl Health {
    pub(super) fn name(self) -> String {
        match self {
            Self::Unknown => "UNKNOWN".to_owned(),
            Self::Serving => "SERVING".to_owned(),
            Self::NotServing => "NOT_SERVING".to_owned(),
            Self::ServiceUnknown => "SERVICE_UNKNOWN".to_owned(),
            Self::Other(number) => format!("status {number}, which is not known"),
        }
    }
}

/// A framed HealthCheckRequest { string service = 1; }.
pub(super) fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(STRING_1);
        push_varint(&mut message, service.len() as u64);
        message.extend_from_slice(service.as_bytes());
    }
    // "Length-Prefixed-Message" of gRPC over HTTP/2: not compressed, then the length.
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

/// A framed HealthCheckResponse { ServingStatus status = 1; }, and nothing behind it.
pub(super) fn reply(framed: &[u8]) -> Result<Health, &'static str> {
    let ([compressed, length @ ..], message) =
        framed.split_first_chunk::<5>().ok_or("the message is cut short")?;
    if *compressed != 0 {
        return Err("the message is compressed, which was not agreed on");
    }
    let length = u32::from_be_bytes(*length) as usize;
    match message.len() {
        found if found < length => return Err("the message is cut short"),
        found if found > length => return Err("there is more than one message"),
        _ => {}
    }
    status(message).ok_or("the message is no HealthCheckResponse")
}

/// Tags: field number and wire type.
const STRING_1: u8 = 1 << 3 | 2;
const VARINT_1: u64 = 1 << 3;

fn status(mut message: &[u8]) -> Option<Health> {
    // Left out, it is 0; there twice, the last one counts.
    let mut status = 0;
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        match (tag, tag & 7) {
            (0..8, _) => return None,
            (VARINT_1, _) => status = varint(&mut message)?,
            // The same field as anything else is another message.
            (tag, _) if tag >> 3 == 1 => return None,
            (_, 0) => drop(varint(&mut message)?),
            (_, 1) => skip(&mut message, 8)?,
            (_, 2) => {
                let length = varint(&mut message)?;
                skip(&mut message, usize::try_from(length).ok()?)?;
            }
            (_, 5) => skip(&mut message, 4)?,
            _ => return None,
        }
    }
    Some(match status {
        0 => Health::Unknown,
        1 => Health::Serving,
        2 => Health::NotServing,
        3 => Health::ServiceUnknown,
        other => Health::Other(other),
    })
}

fn skip(message: &mut &[u8], bytes: usize) -> Option<()> {
    *message = message.get(bytes..)?;
    Some(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for at in 0..10_u32 {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if at == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0, 0, 0, 0, message.len() as u8], message].concat()
    }

    #[test]
    fn requests() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
        let long = request(&"x".repeat(300));
        assert_eq!(long[..8], [0, 0, 0, 0x01, 0x2f, 0x0a, 0xac, 0x02]);
        assert_eq!(long.len(), 5 + 3 + 300);
    }

    #[test]
    fn replies() {
        let cases: [(&[u8], Health); 8] = [
            (&[], Health::Unknown),
            (&[8, 0], Health::Unknown),
            (&[8, 1], Health::Serving),
            (&[8, 2], Health::NotServing),
            (&[8, 3], Health::ServiceUnknown),
            (&[8, 0x80, 0x01], Health::Other(128)),
            (&[8, 2, 8, 1], Health::Serving),
            // Fields of a later version: varint, 8 bytes, string, 4 bytes.
            (&[16, 5, 25, 1, 2, 3, 4, 5, 6, 7, 8, 34, 1, 9, 45, 1, 2, 3, 4, 8, 1], Health::Serving),
        ];
        for (message, wanted) in cases {
            assert_eq!(reply(&framed(message)), Ok(wanted), "{message:?}");
        }
    }

    #[test]
    fn what_is_no_reply() {
        const NONE: &str = "the message is no HealthCheckResponse";
        let messages: [&[u8]; 7] = [
            &[8],
            &[0, 1],
            &[8, 0x80],
            &[10, 1, 1],
            &[18, 9, 1],
            &[19],
            &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],
        ];
        for message in messages {
            assert_eq!(reply(&framed(message)), Err(NONE), "{message:?}");
        }
        assert_eq!(reply(&[]), Err("the message is cut short"));
        assert_eq!(reply(&[0, 0, 0, 0, 2, 8]), Err("the message is cut short"));
        assert_eq!(reply(&[1, 0, 0, 0, 0]), Err("the message is compressed, which was not agreed on"));
        assert_eq!(reply(&[0, 0, 0, 0, 0, 0]), Err("there is more than one message"));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _judged = reply(&bytes);
            let _judged = reply(&framed(&bytes));
        }

        #[test]
        fn numbers_come_back(value: u64) {
            let mut message = vec![8];
            push_varint(&mut message, value);
            let wanted = match value {
                0 => Health::Unknown,
                1 => Health::Serving,
                2 => Health::NotServing,
                3 => Health::ServiceUnknown,
                other => Health::Other(other),
            };
            prop_assert_eq!(reply(&framed(&message)), Ok(wanted));
        }
    }
}
