//! The reply parser: bytes in, events out, however they are split.

use proptest::prelude::*;

use super::split;
use crate::checks::http::reply::{Asked, Event, HEAD_LIMIT, Malformed, Reply};
use crate::engine::model::StatusSet;

/// All that a reply says, without the borders of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    status: Option<u16>,
    /// The final head's code and Location.
    head: Option<(u16, Option<String>)>,
    body: Vec<u8>,
    end: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Complete by its own account.
    Complete,
    /// Complete, or not, because the server closed.
    Closed(Result<(), Malformed>),
    Broken(Malformed),
}

fn read<'a>(asked: Asked, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut reply = Reply::new(asked);
    let mut read = Read { status: None, head: None, body: Vec::new(), end: Ended::Complete };
    for mut piece in pieces {
        loop {
            match reply.advance(&mut piece) {
                Ok(Event::More) => break,
                Ok(Event::Head(head)) => {
                    assert_eq!(read.head, None, "one head");
                    let location = head.location.map(|it| String::from_utf8_lossy(&it).into_owned());
                    read.head = Some((head.status, location));
                }
                Ok(Event::Body(part)) => {
                    assert!(!part.is_empty());
                    read.body.extend_from_slice(part);
                }
                Ok(Event::End) => return Read { status: reply.status(), ..read },
                Err(error) => {
                    return Read { status: reply.status(), end: Ended::Broken(error), ..read };
                }
            }
        }
        assert!(reply.memory() <= 2 * HEAD_LIMIT, "{} bytes", reply.memory());
    }
    Read { status: reply.status(), end: Ended::Closed(reply.finish()), ..read }
}

/// Whole, byte by byte, and in each pair of halves: always the same.
fn read_all_ways(asked: Asked, bytes: &[u8]) -> Read {
    let whole = read(asked, [bytes]);
    assert_eq!(read(asked, bytes.chunks(1)), whole, "byte by byte: {}", bytes.escape_ascii());
    for middle in 0..=bytes.len().min(300) {
        let (left, right) = bytes.split_at(middle);
        assert_eq!(read(asked, [left, right]), whole, "split at {middle}: {}", bytes.escape_ascii());
    }
    whole
}

#[test]
fn replies_and_where_their_bodies_end() {
    use Ended::{Closed, Complete};
    let cut = Closed(Err(Malformed::EndInBody));
    let cases: &[(&str, u16, &str, Ended)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", Complete),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", 200, "ok", Complete),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", Complete),
        ("HTTP/1.1 200 OK\r\nCONTENT-LENGTH:3\r\n\r\nok", 200, "ok", cut),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\nContent-Length: 2\r\n\r\nok", 200, "ok", Complete),
        ("HTTP/1.0 404 Not Found\r\n\r\ngone", 404, "gone", Closed(Ok(()))),
        ("HTTP/1.0 404\r\n\r\n", 404, "", Closed(Ok(()))),
        ("HTTP/1.0 404 \r\n\r\n", 404, "", Closed(Ok(()))),
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok", Complete),
        ("HTTP/1.1 200 \u{fc}ber\r\nContent-Length: 0\r\n\r\n", 200, "", Complete),
        // No body, whatever the header says.
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", 204, "", Complete),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 304, "", Complete),
        ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbinary", 101, "", Complete),
        // Interim replies.
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 500 X\r\nContent-Length: 1\r\n\r\n!",
            500,
            "!",
            Complete,
        ),
        // Chunked: sizes, extensions, trailers, LF only; a transfer coding outweighs a length.
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n",
            200,
            "Wikipedia",
            Complete,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n00A;x=\"y\"\r\n0123456789\r\n0;z\r\nTrailer: 1\r\n\r\n",
            200,
            "0123456789",
            Complete,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1 \r\na\r\n0\r\n\r\n",
            200,
            "a",
            Complete,
        ),
        ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nab\n0\n\n", 200, "ab", Complete),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWi", 200, "Wi", cut),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nWi\r\n", 200, "Wi", cut),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nxyz",
            200,
            "xyz",
            Closed(Ok(())),
        ),
        // Header lines that others would refuse.
        (
            "HTTP/1.1 200 OK\r\nno colon here\r\nBad Name : x\r\nContent-Length : 2\r\n\r\nok",
            200,
            "ok",
            Complete,
        ),
    ];
    for (bytes, status, body, end) in cases {
        let wanted = Read {
            status: Some(*status),
            head: Some((*status, None)),
            body: body.as_bytes().to_vec(),
            end: *end,
        };
        assert_eq!(read_all_ways(Asked::Other, bytes.as_bytes()), wanted, "{bytes:?}");
    }
}

#[test]
fn a_reply_to_head_has_no_body() {
    let read = read_all_ways(Asked::Head, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
    assert_eq!((read.status, read.end), (Some(200), Ended::Complete));
}

#[test]
fn junk_is_no_reply() {
    use Malformed::{Chunk, ContentLength, Header, StatusLine};
    let cases: &[(&[u8], Malformed)] = &[
        (b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx HTTP/1.1 200 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 2000 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 -200 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 +20 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 20 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 099 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 600 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 000\r\n\r\n", StatusLine),
        (b"HTTP/1.1\r\n\r\n", StatusLine),
        (b"HTTP/1.1  200 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.1 200-OK\r\n\r\n", StatusLine),
        (b"HTTP/2.0 200 OK\r\n\r\n", StatusLine),
        (b"HTTP/1.2 200 OK\r\n\r\n", StatusLine),
        (b"http/1.1 200 OK\r\n\r\n", StatusLine),
        (b"\r\nHTTP/1.1 200 OK\r\n\r\n", StatusLine),
        (b"\0\0\0\0\r\n\r\n", StatusLine),
        (b"<html>", StatusLine),
        (b"HTTP/1.1 200 O\0K\r\n\r\n", Header),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", ContentLength),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", Chunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", Chunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", Chunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", Chunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", Chunk),
    ];
    for (bytes, error) in cases {
        let read = read_all_ways(Asked::Other, bytes);
        assert_eq!(read.end, Ended::Broken(*error), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_status_line_counts_once_its_line_is_whole() {
    let cases: &[(&[u8], Option<u16>)] = &[
        (b"HTTP/1.1 200", None),
        (b"HTTP/1.1 200 OK", None),
        (b"HTTP/1.1 200 OK\r", None),
        (b"HTTP/1.1 200 OK\r\n", Some(200)),
        (b"HTTP/1.1 503 X\nServer: y", Some(503)),
        (b"HTTP/1.1 100 Continue\r\n\r\n", Some(100)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n", Some(200)),
    ];
    for (bytes, status) in cases {
        let read = read_all_ways(Asked::Other, bytes);
        assert_eq!(read.status, *status, "{}", bytes.escape_ascii());
        assert_eq!(read.end, Ended::Closed(Err(Malformed::EndInHead)));
    }
}

#[test]
fn every_status_against_a_set() {
    let set = StatusSet::new([(200, 299), (302, 302), (404, 405)]);
    for status in 0..=999_u16 {
        let bytes = format!("HTTP/1.1 {status:03} X\r\nContent-Length: 0\r\n\r\n");
        let read = read(Asked::Other, [bytes.as_bytes()]);
        let valid = (100..=599).contains(&status);
        let interim = valid && status < 200 && status != 101;
        assert_eq!(read.status, valid.then_some(status), "{status}");
        assert_eq!(read.head.is_some(), valid && !interim, "{status}");
        let wanted = (200..300).contains(&status) || [302, 404, 405].contains(&status);
        assert_eq!(read.head.is_some_and(|(status, _)| set.contains(status)), wanted, "{status}");
    }
}

#[test]
fn the_header_is_bounded_and_may_have_many_fields() {
    let with =
        |filler: String| format!("HTTP/1.1 200 OK\r\n{filler}Content-Length: 2\r\n\r\nok").into_bytes();
    let many = with((0..2000).map(|i| format!("X-{i}: y\r\n")).collect());
    let wanted =
        Read { status: Some(200), head: Some((200, None)), body: b"ok".to_vec(), end: Ended::Complete };
    assert_eq!(read(Asked::Other, [many.as_slice()]), wanted);
    assert_eq!(read(Asked::Other, many.chunks(7)), wanted);

    let frame = with(String::new()).len() - 2 + "X: \r\n".len();
    let fits = with(format!("X: {}\r\n", "x".repeat(HEAD_LIMIT - frame)));
    assert_eq!(read(Asked::Other, [fits.as_slice()]), wanted);
    assert_eq!(read(Asked::Other, fits.chunks(4096)), wanted);
    let long = with(format!("X: {}\r\n", "x".repeat(HEAD_LIMIT - frame + 1)));
    for read in [read(Asked::Other, [long.as_slice()]), read(Asked::Other, long.chunks(1000))] {
        assert_eq!(read.end, Ended::Broken(Malformed::HeadTooLong));
    }
    let endless = [b"HTTP/1.1 200 ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    assert_eq!(read(Asked::Other, [endless.as_slice()]).end, Ended::Broken(Malformed::HeadTooLong));
    let interims = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
    assert_eq!(read(Asked::Other, interims.chunks(100)).end, Ended::Broken(Malformed::HeadTooLong));
}

#[test]
fn a_location_is_kept() {
    let bytes = b"HTTP/1.1 302 Found\r\nlocation:  /login \r\nLocation: /other\r\n\r\n";
    assert_eq!(read_all_ways(Asked::Other, bytes).head, Some((302, Some("/login".to_owned()))));
}

#[test]
fn chunk_lines_are_bounded() {
    let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;".to_vec();
    bytes.extend_from_slice(&[b'x'; 10_000]);
    assert_eq!(read(Asked::Other, bytes.chunks(512)).end, Ended::Broken(Malformed::Chunk));
    bytes.truncate(bytes.len() - 10_000);
    bytes.extend_from_slice(&vec![b'0'; 10_000]);
    assert_eq!(read(Asked::Other, bytes.chunks(512)).end, Ended::Broken(Malformed::Chunk));
}

/// Pieces from which replies, whole and broken, are made.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::sample::select(vec![
            "HTTP/1.1 200 OK\r\n", "HTTP/1.0 503 X\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 ",
            "Content-Length: 5\r\n", "content-length: 7, 7\r\n", "Transfer-Encoding: chunked\r\n",
            "Location: /x\r\n", " folded\r\n", "a: b\r\n", ": \r\n", "\r\n", "\n", "\r", "\r\n\r\n",
            "5\r\nhello\r\n", "0\r\n\r\n", "ffffffffffffffff\r\n", "a;b=c\r\n0123456789\r\n", "hello",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic_and_splits_never_matter(
        fragments in proptest::collection::vec(fragment(), 0..12),
        start in any::<bool>(),
        cuts in proptest::collection::vec(1..20_usize, 1..40),
    ) {
        let mut bytes = if start { b"HTTP/1.1 200 OK\r\n".to_vec() } else { Vec::new() };
        bytes.extend(fragments.concat());
        let whole = read(Asked::Other, [bytes.as_slice()]);
        prop_assert_eq!(read(Asked::Other, split(&bytes, &cuts)), whole);
    }
}
