//! The reply of an HTTP/1 server, parsed without I/O.
//!
//! Bytes go in however they were split, events come out; the sequence of events does not
//! depend on the split, but for the borders of body parts. Holds the head at most, up to
//! [`HEAD_LIMIT`]; never the body. Judges nothing that RFC 9112 does not call broken.

use super::chunked::Chunked;
use super::head::{self, Framing, Head};

/// Bytes that all heads of one reply, interim ones included, may have.
pub(super) const HEAD_LIMIT: usize = 64 * 1024;

/// A sans-I/O parser for one reply.
///
/// Call [`Reply::advance`] with the same slice until it says [`Event::More`], then with the
/// next bytes; at the end of the stream call [`Reply::finish`].
#[derive(Debug)]
pub(super) struct Reply {
    state: State,
    asked: Asked,
    /// What has come of a head that is not complete.
    partial: Vec<u8>,
    /// Bytes of the heads that came before the present one.
    spent: usize,
    status: Option<u16>,
}

/// Whether the request allows a body in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// HEAD: whatever the head says about a length is not about this reply.
    Head,
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// All of the input is used up.
    More,
    /// The final head. It comes once, before any part of the body.
    Head(Head),
    /// A part of the body, never empty, without its framing.
    Body(&'a [u8]),
    /// The reply is complete. Repeated if asked again; what follows is ignored.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("the reply is not HTTP/1")]
    StatusLine,
    #[error("the reply's header is malformed")]
    Header,
    #[error("the reply's header is longer than {HEAD_LIMIT} bytes")]
    HeadTooLong,
    #[error("the reply's Content-Length is malformed or contradicts itself")]
    ContentLength,
    #[error("the reply's chunked encoding is malformed")]
    Chunk,
    #[error("the reply ends inside its header")]
    EndInHead,
    #[error("the reply's body is cut short")]
    EndInBody,
}

#[derive(Debug)]
enum State {
    Head,
    /// Bytes that are still to come.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    End,
}

impl Reply {
    pub(super) fn new(asked: Asked) -> Self {
        Self { state: State::Head, asked, partial: Vec::new(), spent: 0, status: None }
    }

    /// The code of the last status line that has come whole, be it interim or without the rest
    /// of its head.
    pub(super) fn status(&self) -> Option<u16> {
        self.status
    }

    /// The next event; `input` is moved past the bytes that it took.
    pub(super) fn advance<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Malformed> {
        match &mut self.state {
            State::Head => self.head(input),
            State::Length(0) => {
                self.state = State::End;
                Ok(Event::End)
            }
            State::Length(left) => {
                let part = take_front(input, usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= part.len() as u64;
                Ok(body(part))
            }
            State::Chunked(chunked) => {
                if let Some(part) = chunked.advance(input)? {
                    return Ok(body(part));
                }
                if chunked.is_complete() {
                    self.state = State::End;
                    return Ok(Event::End);
                }
                Ok(Event::More)
            }
            State::UntilClose => Ok(body(take_front(input, usize::MAX))),
            State::End => Ok(Event::End),
        }
    }

    /// The server closed: was the reply whole?
    pub(super) fn finish(&self) -> Result<(), Malformed> {
        match self.state {
            State::Head => Err(Malformed::EndInHead),
            State::Length(0) | State::UntilClose | State::End => Ok(()),
            State::Length(_) | State::Chunked(_) => Err(Malformed::EndInBody),
        }
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.partial.capacity()
    }

    fn head<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Malformed> {
        while !input.is_empty() {
            let before = self.partial.len();
            let room = HEAD_LIMIT.saturating_sub(self.spent + before);
            if room == 0 {
                return Err(Malformed::HeadTooLong);
            }
            let window = input.get(..room).unwrap_or(input);
            // Nearly always the whole head comes at once and is parsed where it is.
            let joined = (before > 0).then(|| {
                let mut joined = std::mem::take(&mut self.partial);
                joined.extend_from_slice(window);
                joined
            });
            let bytes = joined.as_deref().unwrap_or(window);
            if let Some(code) = head::status_line(bytes)? {
                self.status = Some(code);
            }
            let Some(end) = head::end(bytes, before) else {
                self.partial = joined.unwrap_or_else(|| window.to_vec());
                take_front(input, window.len());
                continue;
            };
            let (head, framing) = head::parse(bytes.get(..end).unwrap_or(bytes))?;
            self.spent += end;
            take_front(input, end.saturating_sub(before));
            if !is_interim(head.status) {
                self.state = self.framed(head.status, framing);
                return Ok(Event::Head(head));
            }
        }
        Ok(Event::More)
    }

    /// RFC 9112 section 6.3.
    fn framed(&self, status: u16, framing: Framing) -> State {
        if self.asked == Asked::Head || matches!(status, 100..=199 | 204 | 304) {
            return State::End;
        }
        match framing {
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::default()),
            Framing::UntilClose => State::UntilClose,
        }
    }
}

/// Replies that another one follows. 101 is the last word in HTTP on its connection.
fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

fn body(part: &[u8]) -> Event<'_> {
    if part.is_empty() { Event::More } else { Event::Body(part) }
}

/// Up to `most` bytes off the front of `input`.
pub(super) fn take_front<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (front, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    front
}
