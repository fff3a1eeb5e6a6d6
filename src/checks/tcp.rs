//! The `tcp` check: connect, shake hands if TLS is wanted, send, expect.

use memchr::memmem::Finder;
use regex::bytes::Regex;

use super::connection::{End, Exchange, Wire};
use super::deadline::Deadline;
use super::fault::{Trouble, quoted};
use super::prepare::{Input, PrepareError, compile, tls_name};
use super::socket::{self, Close, Connected, Nagle};
use super::tls;
use crate::engine::model::{Expect, Phase, Target, Tcp};

/// Bytes of a reply among which the expected ones must be.
const REPLY_LIMIT: usize = 64 * 1024;

/// Bytes that all searches in one reply may go through before the rest waits for its end: a
/// server that sends byte by byte cannot make each of them cost a search of everything.
const SEARCH_LIMIT: usize = 16 << 20;

/// What is made once for all runs of a `tcp` check.
#[derive(Debug)]
pub(super) struct Plan {
    send: Vec<u8>,
    expect: Option<Wanted>,
    tls: Option<(tls::Client, Option<tls::Name>)>,
}

#[derive(Debug)]
enum Wanted {
    Bytes(Box<Finder<'static>>),
    Pattern(Regex),
}

impl Plan {
    pub(super) fn new(tcp: &Tcp, input: &mut Input) -> Result<Self, PrepareError> {
        let expect = match &tcp.expect {
            None => None,
            Some(Expect::Bytes(bytes)) => Some(Wanted::Bytes(Box::new(Finder::new(bytes).into_owned()))),
            Some(Expect::Regex(pattern)) => Some(Wanted::Pattern(compile(pattern)?)),
        };
        let tls = match &tcp.tls {
            None => None,
            Some(setting) => Some((input.client(setting)?, tls_name(setting, None)?)),
        };
        Ok(Self { send: tcp.send.clone().unwrap_or_default(), expect, tls })
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    // Nobody waits for an answer: a reset could take the bytes away before they are read.
    let only_sends = plan.expect.is_none() && !plan.send.is_empty();
    let close = if only_sends { Close::Orderly } else { Close::Reset };
    let nagle = if plan.tls.is_some() { Nagle::Off } else { Nagle::On };
    let Connected { stream, reset } = socket::connect(target, close, nagle, deadline).await?;
    let mut detail = String::from("connected");
    let mut broken = None;
    let wire = match &plan.tls {
        Some((client, name)) => {
            if let Some(error) = reset {
                return Err(Trouble::io(Phase::TlsHandshake, "", &error));
            }
            let name = name.clone().unwrap_or_else(|| target.address.into());
            let secured = tls::handshake(stream, client, name, deadline).await?;
            detail = format!("connected, {}", secured.version);
            secured.wire
        }
        None => {
            match reset {
                // What the server sent before it closed may be what is expected.
                Some(error) if plan.expect.is_some() => broken = Some(error),
                Some(error) => return Err(Trouble::io(Phase::Connect, "", &error)),
                None => {}
            }
            Wire::Plain(stream)
        }
    };
    let mut exchange = Exchange::new(wire, &plan.send, broken);
    match &plan.expect {
        Some(wanted) => {
            expect(&mut exchange, wanted, deadline).await?;
            detail.push_str(", reply as expected");
        }
        None => exchange
            .send(deadline)
            .await
            .map_err(|end| end.into_trouble(Phase::Request, "connection closed", deadline))?,
    }
    Ok(detail)
}

async fn expect(
    exchange: &mut Exchange<'_>,
    wanted: &Wanted,
    deadline: &mut Deadline<'_>,
) -> Result<(), Trouble> {
    let mut search = Search { wanted, reply: Vec::new(), effort: 0 };
    loop {
        match exchange.receive(deadline, |bytes| search.take(bytes)).await {
            Ok(Progress::Found) => return Ok(()),
            Ok(Progress::Searching) => {}
            Ok(Progress::Full) => {
                return Err(Trouble::failure(
                    Phase::Reply,
                    format!("{}, and {REPLY_LIMIT} bytes were read", search.missing()),
                ));
            }
            Err(_) if search.found_at_last() => return Ok(()),
            Err(end) => return Err(search.ended(end, exchange.phase(), deadline)),
        }
    }
}

struct Search<'p> {
    wanted: &'p Wanted,
    reply: Vec<u8>,
    effort: usize,
}

enum Progress {
    Searching,
    Found,
    Full,
}

impl Search<'_> {
    fn take(&mut self, bytes: &[u8]) -> Progress {
        let known = self.reply.len();
        let room = REPLY_LIMIT - known;
        self.reply.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        let full = self.reply.len() == REPLY_LIMIT;
        let found = match self.wanted {
            Wanted::Bytes(finder) => {
                let from = known.saturating_sub(finder.needle().len().saturating_sub(1));
                self.reply.get(from..).is_some_and(|rest| finder.find(rest).is_some())
            }
            Wanted::Pattern(pattern) => {
                self.effort = self.effort.saturating_add(self.reply.len());
                (full || self.effort <= SEARCH_LIMIT) && pattern.is_match(&self.reply)
            }
        };
        match (found, full) {
            (true, _) => Progress::Found,
            (false, true) => Progress::Full,
            (false, false) => Progress::Searching,
        }
    }

    /// The search that a drip of bytes had put off.
    fn found_at_last(&self) -> bool {
        match self.wanted {
            Wanted::Bytes(_) => false,
            Wanted::Pattern(pattern) => self.effort > SEARCH_LIMIT && pattern.is_match(&self.reply),
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
        let read = format!("(read {} bytes: {})", self.reply.len(), quoted(&self.reply));
        match end {
            End::Closed => Trouble::failure(phase, format!("{missing} {read}")),
            End::Broken(_) | End::TimedOut => {
                end.into_trouble(phase, "", deadline).with(&format!("; {missing} {read}"))
            }
        }
    }
}
