//! The replies of an SMTP server, RFC 5321 section 4.2, put together from pieces as they come.
//!
//! Pure: bytes in, replies out. Bounded, whatever the bytes are.

use std::collections::VecDeque;

/// RFC 5321 section 4.5.3.1.5 has 512 bytes in a line; servers go beyond.
const LINE_LIMIT: usize = 2048;
/// Lines of one reply; EHLO's is the longest, with a line per extension.
const LINES_LIMIT: usize = 128;
/// Bytes that may wait behind the reply that is being read.
const AHEAD_LIMIT: usize = 64 * 1024;

/// One whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// 200 to 599.
    pub(super) code: u16,
    /// What stands behind the code, line by line; at least one.
    pub(super) lines: Vec<Vec<u8>>,
}

impl Reply {
    /// Does a line behind the first, which greets, begin with this word? RFC 5321 section 4.1.1.1.
    pub(super) fn offers(&self, keyword: &str) -> bool {
        let word = |line: &[u8]| line.split(|byte| *byte == b' ').next().unwrap_or_default().to_vec();
        self.lines.iter().skip(1).any(|line| word(line).eq_ignore_ascii_case(keyword.as_bytes()))
    }

    /// For people: `250 first line`.
    pub(super) fn shown(&self) -> Vec<u8> {
        let mut shown = self.code.to_string().into_bytes();
        if let Some(text) = self.lines.first().filter(|text| !text.is_empty()) {
            shown.push(b' ');
            shown.extend_from_slice(text);
        }
        shown
    }
}

/// Bytes that are no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A line that does not begin with a code.
    Line(Vec<u8>),
    /// The lines of one reply have one code, RFC 5321 section 4.2.1.
    Codes(u16, u16),
    LongLine,
    ManyLines,
    /// Bytes and bytes that nobody asked for.
    Ahead,
}

/// What has come and is not read yet.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: VecDeque<u8>,
    /// How many of them are known to have no end of a line.
    searched: usize,
    open: Option<Reply>,
}

impl Replies {
    /// Bytes as they come, cut anywhere.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if self.bytes.len().saturating_add(bytes.len()) > AHEAD_LIMIT {
            return Err(Malformed::Ahead);
        }
        self.bytes.extend(bytes);
        Ok(())
    }

    /// The next whole reply; `None` until more bytes have come.
    pub(super) fn poll_reply(&mut self) -> Result<Option<Reply>, Malformed> {
        while let Some(line) = self.next_line()? {
            let (code, more, text) = parse(&line).ok_or_else(|| Malformed::Line(line.clone()))?;
            let mut reply = self.open.take().unwrap_or(Reply { code, lines: Vec::new() });
            if reply.code != code {
                return Err(Malformed::Codes(reply.code, code));
            }
            if reply.lines.len() >= LINES_LIMIT {
                return Err(Malformed::ManyLines);
            }
            reply.lines.push(text.to_vec());
            match more {
                More::Follows => self.open = Some(reply),
                More::Ends => return Ok(Some(reply)),
            }
        }
        Ok(None)
    }

    /// Nothing has come beyond the replies that were taken.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.open.is_none()
    }

    /// What came of a reply that never ended.
    pub(super) fn unfinished(&self) -> Vec<u8> {
        let open = self.open.as_ref().map(Reply::shown).unwrap_or_default();
        if open.is_empty() { self.bytes.iter().copied().take(LINE_LIMIT).collect() } else { open }
    }

    /// Without its end, which is CRLF; a bare LF is taken for one, as by most clients.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(end) = self.bytes.iter().skip(self.searched).position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            // One more may be the CR of a line that is as long as a line may be.
            return if self.searched > LINE_LIMIT + 1 { Err(Malformed::LongLine) } else { Ok(None) };
        };
        let end = self.searched + end;
        self.searched = 0;
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.len() > LINE_LIMIT { Err(Malformed::LongLine) } else { Ok(Some(line)) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Follows,
    Ends,
}

/// `250-text`, `250 text` or `250` alone, which RFC 5321 section 4.2 wants clients to take.
fn parse(line: &[u8]) -> Option<(u16, More, &[u8])> {
    let (code, rest) = line.split_at_checked(3)?;
    if !code.iter().all(u8::is_ascii_digit) || !matches!(code.first(), Some(b'2'..=b'5')) {
        return None;
    }
    let code = code.iter().fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    match rest {
        [] => Some((code, More::Ends, rest)),
        [b' ', text @ ..] => Some((code, More::Ends, text)),
        [b'-', text @ ..] => Some((code, More::Follows, text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All replies in these bytes, given in pieces of this size, and how it ended.
    fn read(bytes: &[u8], piece: usize) -> (Vec<Reply>, Result<(), Malformed>) {
        let (mut replies, mut found) = (Replies::default(), Vec::new());
        for piece in bytes.chunks(piece.max(1)) {
            if let Err(error) = replies.push(piece) {
                return (found, Err(error));
            }
            loop {
                match replies.poll_reply() {
                    Ok(Some(reply)) => found.push(reply),
                    Ok(None) => break,
                    Err(error) => return (found, Err(error)),
                }
            }
        }
        (found, Ok(()))
    }

    fn reply(code: u16, lines: &[&str]) -> Reply {
        Reply { code, lines: lines.iter().map(|line| line.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn replies_of_one_line_and_of_many() {
        let cases: [(&str, Vec<Reply>); 7] = [
            ("220 mx.example.org ESMTP\r\n", vec![reply(220, &["mx.example.org ESMTP"])]),
            ("220\r\n", vec![reply(220, &[""])]),
            ("220 \r\n", vec![reply(220, &[""])]),
            ("220-a\r\n220-b\r\n220 c\r\n", vec![reply(220, &["a", "b", "c"])]),
            ("250-a\r\n250\r\n", vec![reply(250, &["a", ""])]),
            ("250 lf\n221 bye\r\n", vec![reply(250, &["lf"]), reply(221, &["bye"])]),
            ("220-a\r\n220 never en", vec![]),
        ];
        for (text, wanted) in cases {
            for piece in [1, 2, 7, 1000] {
                assert_eq!(read(text.as_bytes(), piece), (wanted.clone(), Ok(())), "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn what_is_no_reply() {
        let line = |text: &str| Malformed::Line(text.as_bytes().to_vec());
        let many = "250-x\r\n".repeat(LINES_LIMIT + 1);
        let long = format!("220 {}\r\n", "x".repeat(LINE_LIMIT));
        let cases = [
            ("HTTP/1.1 400 Bad Request\r\n", line("HTTP/1.1 400 Bad Request")),
            ("\r\n", line("")),
            ("22\r\n", line("22")),
            ("2200 x\r\n", line("2200 x")),
            ("199 x\r\n", line("199 x")),
            ("600 x\r\n", line("600 x")),
            ("220-a\r\nb\r\n", line("b")),
            ("250-a\r\n550 b\r\n", Malformed::Codes(250, 550)),
            (&many, Malformed::ManyLines),
            (&long, Malformed::LongLine),
        ];
        for (text, wanted) in cases {
            for piece in [1, 5, 100_000] {
                assert_eq!(
                    read(text.as_bytes(), piece),
                    (vec![], Err(wanted.clone())),
                    "{text:?} by {piece}"
                );
            }
        }
    }

    #[test]
    fn keywords_stand_behind_the_greeting() {
        let hello = reply(250, &["STARTTLS greets you", "SIZE 1000", "starttls", "AUTH PLAIN LOGIN"]);
        assert!(hello.offers("STARTTLS") && hello.offers("SIZE") && hello.offers("AUTH"));
        assert!(!hello.offers("PLAIN"));
        assert!(!reply(250, &["STARTTLS"]).offers("STARTTLS"));
        assert_eq!(hello.shown(), b"250 STARTTLS greets you");
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_bounded_and_their_cuts_do_not_matter(
            lines in proptest::collection::vec(prop_oneof![
                "[0-9]{3}[- ][ -~]{0,20}\r\n", "[0-9]{0,4}[- ]?\r?\n?", "250-x\r\n", "\\PC{0,8}",
            ], 0..200),
            noise in proptest::collection::vec(any::<u8>(), 0..40),
            piece in 1_usize..50,
        ) {
            let bytes = [lines.concat().into_bytes(), noise].concat();
            let (whole, how) = read(&bytes, bytes.len());
            let (pieces, how_in_pieces) = read(&bytes, piece);
            prop_assert_eq!(&whole, &pieces);
            prop_assert_eq!(how, how_in_pieces);
            for reply in whole {
                prop_assert!((200..600).contains(&reply.code));
                prop_assert!((1..=LINES_LIMIT).contains(&reply.lines.len()));
                prop_assert!(reply.lines.iter().all(|line| line.len() <= LINE_LIMIT));
            }
        }

        #[test]
        fn any_bytes_keep_memory_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..400), times in 1_usize..400) {
            let mut replies = Replies::default();
            for _ in 0..times {
                if replies.push(&bytes).is_err() {
                    break;
                }
                prop_assert!(replies.bytes.len() <= AHEAD_LIMIT);
                while let Ok(Some(_)) = replies.poll_reply() {}
            }
        }
    }
}
