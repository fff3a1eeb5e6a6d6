//! The status line and header fields of a reply.
//!
//! The status line is stricter than httparse's, which skips empty lines before it; the header
//! fields are read as leniently as it allows, for a check does not depend on most of them.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response};
use memchr::{memchr, memchr_iter};

use super::reply::Malformed;

/// Header fields for which the stack has room. Beyond it the heap serves.
const FEW_FIELDS: usize = 48;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// 100 to 599.
    pub(super) status: u16,
    pub(super) location: Option<Vec<u8>>,
}

/// How the end of a body is found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The code once the first line is whole: `HTTP/1.0` or `HTTP/1.1`, a blank, exactly three digits,
/// then a blank or the end of the line. An error as soon as it cannot become one.
pub(super) fn status_line(bytes: &[u8]) -> Result<Option<u16>, Malformed> {
    let mut code = 0;
    for (place, byte) in bytes.iter().enumerate().take(13) {
        let fits = match place {
            0..=6 => b"HTTP/1.".get(place) == Some(byte),
            7 => matches!(byte, b'0' | b'1'),
            8 => *byte == b' ',
            9..=11 => {
                code = code * 10 + u16::from(byte.wrapping_sub(b'0'));
                byte.is_ascii_digit()
            }
            _ => matches!(byte, b' ' | b'\r' | b'\n'),
        };
        if !fits {
            return Err(Malformed::StatusLine);
        }
    }
    if bytes.len() >= 12 && !(100..=599).contains(&code) {
        return Err(Malformed::StatusLine);
    }
    Ok(memchr(b'\n', bytes).map(|_| code))
}

/// Where the body begins: after the first empty line. The first `before` bytes are known not to
/// contain all of it.
pub(super) fn end(bytes: &[u8], before: usize) -> Option<usize> {
    let from = before.saturating_sub(2);
    let rest = bytes.get(from..).unwrap_or_default();
    memchr_iter(b'\n', rest).find_map(|place| {
        let line = from + place + 1;
        match bytes.get(line..).unwrap_or_default() {
            [b'\n', ..] => Some(line + 1),
            [b'\r', b'\n', ..] => Some(line + 2),
            _ => None,
        }
    })
}

/// A whole head, up to and including its empty line.
pub(super) fn parse(bytes: &[u8]) -> Result<(Head, Framing), Malformed> {
    let mut few = [MaybeUninit::uninit(); FEW_FIELDS];
    match parse_into(bytes, &mut few) {
        Err(httparse::Error::TooManyHeaders) => {}
        Err(_) => return Err(Malformed::Header),
        Ok(parsed) => return parsed,
    }
    // A field takes a line, so there are no more fields than lines, and HEAD_LIMIT bounds those.
    let mut many = vec![MaybeUninit::uninit(); memchr_iter(b'\n', bytes).count()];
    parse_into(bytes, &mut many).map_err(|_| Malformed::Header)?
}

type Parsed = Result<(Head, Framing), Malformed>;

fn parse_into<'b>(
    bytes: &'b [u8],
    fields: &mut [MaybeUninit<Header<'b>>],
) -> Result<Parsed, httparse::Error> {
    let mut response = Response::new(&mut []);
    let status = ParserConfig::default()
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_space_before_first_header_name(true)
        .ignore_invalid_headers_in_responses(true)
        .parse_response_with_uninit_headers(&mut response, bytes, fields)?;
    if status.is_partial() {
        return Ok(Err(Malformed::Header));
    }
    let location = response
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("location"))
        .map(|field| field.value.to_vec());
    let status = response.code.unwrap_or_default();
    Ok(framing(response.headers).map(|framing| (Head { status, location }, framing)))
}

/// RFC 9112 section 6.3: a transfer coding outweighs any length; lengths must agree.
fn framing(fields: &[Header<'_>]) -> Result<Framing, Malformed> {
    let of = |name: &'static str| fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
    if let Some(coding) = of("transfer-encoding").next_back() {
        let last = coding.value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
        let chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return Ok(if chunked { Framing::Chunked } else { Framing::UntilClose });
    }
    let mut length = None;
    for value in of("content-length").flat_map(|field| field.value.split(|byte| *byte == b',')) {
        let this = number(value.trim_ascii()).ok_or(Malformed::ContentLength)?;
        if length.is_some_and(|other| other != this) {
            return Err(Malformed::ContentLength);
        }
        length = Some(this);
    }
    Ok(length.map_or(Framing::UntilClose, Framing::Length))
}

/// Digits only: `str::parse` would take a sign.
fn number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}
