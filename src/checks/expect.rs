//! What a reply must contain, and the search for it while the reply comes in.
//!
//! Knows no protocol. Bounded in memory and in effort, whatever a server sends.

use memchr::memmem::Finder;
use regex::bytes::Regex;

use super::connection::{End, Exchange};
use super::deadline::Deadline;
use super::fault::{Trouble, quoted};
use super::prepare::{PrepareError, compile};
use crate::engine::model::{Expect, Phase};

/// Bytes of a reply among which the expected ones must be.
const REPLY_LIMIT: usize = 64 * 1024;

/// Bytes that all searches in one reply may go through before the rest waits for its end: a
/// server that sends byte by byte cannot make each of them cost a search of everything.
const SEARCH_LIMIT: usize = 16 << 20;

/// An expectation made ready.
#[derive(Debug)]
pub(super) enum Wanted {
    Bytes(Box<Finder<'static>>),
    Pattern(Regex),
}

impl Wanted {
    pub(super) fn new(expect: &Expect) -> Result<Self, PrepareError> {
        Ok(match expect {
            Expect::Bytes(bytes) => Self::Bytes(Box::new(Finder::new(bytes).into_owned())),
            Expect::Regex(pattern) => Self::Pattern(compile(pattern)?),
        })
    }

    /// Reads until it has come. `reply` has what came before and is not used up yet, and is left
    /// with what came behind: where a server's bytes are cut into pieces changes nothing.
    pub(super) async fn find(
        &self,
        reply: &mut Vec<u8>,
        exchange: &mut Exchange<'_>,
        deadline: &mut Deadline<'_>,
    ) -> Result<(), Trouble> {
        let mut search = Search { wanted: self, reply, effort: 0 };
        let mut progress = search.look(0);
        loop {
            match progress {
                Progress::Found(end) => {
                    search.reply.drain(..end);
                    return Ok(());
                }
                Progress::Full => {
                    let reason = format!("{}, and {REPLY_LIMIT} bytes were read", search.missing());
                    return Err(Trouble::failure(Phase::Reply, reason));
                }
                Progress::Searching => {}
            }
            progress = match exchange.receive(deadline, |bytes| search.take(bytes)).await {
                Ok(progress) => progress,
                Err(end) => match search.end_at_last() {
                    Some(end) => Progress::Found(end),
                    None => return Err(search.ended(end, exchange.phase(), deadline)),
                },
            };
        }
    }
}

struct Search<'p> {
    wanted: &'p Wanted,
    reply: &'p mut Vec<u8>,
    effort: usize,
}

#[derive(Clone, Copy)]
enum Progress {
    Searching,
    /// It ends at this byte of the reply.
    Found(usize),
    Full,
}

impl Search<'_> {
    fn take(&mut self, bytes: &[u8]) -> Progress {
        let known = self.reply.len();
        // All of them, though the last may be beyond the limit: they are the next step's.
        self.reply.extend_from_slice(bytes);
        self.look(known)
    }

    /// Where what is wanted must be. However the bytes were cut, the limit is at the same one.
    fn window(&self) -> &[u8] {
        self.reply.get(..REPLY_LIMIT).unwrap_or(self.reply)
    }

    /// `known`: how many bytes have been searched before.
    fn look(&mut self, known: usize) -> Progress {
        let full = self.reply.len() >= REPLY_LIMIT;
        let found = match self.wanted {
            Wanted::Bytes(finder) => {
                let needle = finder.needle().len();
                let from = known.saturating_sub(needle.saturating_sub(1));
                let rest = self.window().get(from..).unwrap_or_default();
                finder.find(rest).map(|at| from + at + needle)
            }
            Wanted::Pattern(pattern) => {
                self.effort = self.effort.saturating_add(self.window().len());
                match full || self.effort <= SEARCH_LIMIT {
                    true => pattern.find(self.window()).map(|found| found.end()),
                    false => None,
                }
            }
        };
        match (found, full) {
            (Some(end), _) => Progress::Found(end),
            (None, true) => Progress::Full,
            (None, false) => Progress::Searching,
        }
    }

    /// The search that a drip of bytes had put off.
    fn end_at_last(&self) -> Option<usize> {
        match self.wanted {
            Wanted::Bytes(_) => None,
            Wanted::Pattern(_) if self.effort <= SEARCH_LIMIT => None,
            Wanted::Pattern(pattern) => pattern.find(self.window()).map(|found| found.end()),
        }
    }

    fn missing(&self) -> String {
        match self.wanted {
            Wanted::Bytes(finder) => format!("the reply does not contain {}", quoted(finder.needle())),
            Wanted::Pattern(pattern) => {
                format!("the reply does not match {}", quoted(pattern.as_str().as_bytes()))
            }
        }
    }

    fn ended(&self, end: End, phase: Phase, deadline: &Deadline<'_>) -> Trouble {
        if self.reply.is_empty() {
            return end.into_trouble(phase, "connection closed without a reply", deadline);
        }
        let missing = self.missing();
        let read = format!("(read {} bytes: {})", self.reply.len(), quoted(self.reply));
        match end {
            End::Closed => Trouble::failure(phase, format!("{missing} {read}")),
            End::Broken(_) | End::TimedOut => {
                end.into_trouble(phase, "", deadline).with(&format!("; {missing} {read}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these pieces, and what they leave behind.
    fn searched(wanted: &Wanted, pieces: &[&[u8]]) -> (bool, Vec<u8>) {
        let mut reply = Vec::new();
        let mut search = Search { wanted, reply: &mut reply, effort: 0 };
        for (at, piece) in pieces.iter().enumerate() {
            match search.take(piece) {
                Progress::Searching => {}
                Progress::Full => return (false, Vec::new()),
                Progress::Found(end) => {
                    let rest =
                        [search.reply.get(end..).unwrap_or_default(), &pieces[at + 1..].concat()].concat();
                    return (true, rest);
                }
            }
        }
        (false, reply)
    }

    /// Where a server's bytes are cut decides neither what is found nor what is left of them.
    #[test]
    fn the_limit_is_at_the_same_byte_however_they_are_cut() {
        let wanted = Wanted::new(&Expect::Bytes(b"XX".to_vec())).unwrap();
        for (before, found) in [(REPLY_LIMIT - 2, true), (REPLY_LIMIT - 1, false), (REPLY_LIMIT, false)] {
            let filler = vec![b'a'; before];
            let sent = [&filler[..], b"XXbcdY"].concat();
            let left: &[u8] = if found { b"bcdY" } else { b"" };
            for cut in [before - 3, before, before + 1, before + 4] {
                let (head, tail) = sent.split_at(cut);
                assert_eq!(searched(&wanted, &[head, tail]), (found, left.to_vec()), "{before} {cut}");
            }
            let bytes: Vec<&[u8]> = sent.chunks(1).collect();
            assert_eq!(searched(&wanted, &bytes), (found, left.to_vec()), "{before}");
        }
    }
}
