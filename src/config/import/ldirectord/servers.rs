//! `real` and `fallback` lines.

use std::net::IpAddr;

use super::address;
use super::lines::Directive;

/// How packets get to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forward {
    Gate,
    Masq,
    Ipip,
}

impl Forward {
    fn read(word: &str) -> Option<Self> {
        match word {
            "gate" => Some(Self::Gate),
            "masq" => Some(Self::Masq),
            "ipip" => Some(Self::Ipip),
            _ => None,
        }
    }

    pub(super) fn lb_kind(self) -> &'static str {
        match self {
            Self::Gate => "dr",
            Self::Masq => "nat",
            Self::Ipip => "tun",
        }
    }
}

/// One `real` line; a range is several servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Real {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) forward: Forward,
    pub(super) weight: u64,
    /// Request and what is wanted of the reply.
    pub(super) asked: Option<(String, String)>,
    pub(super) lower: Option<u64>,
    pub(super) upper: Option<u64>,
    /// What nobody understands.
    pub(super) rest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fallback {
    pub(super) address: IpAddr,
    pub(super) port: Option<u16>,
    pub(super) forward: Forward,
}

impl Real {
    pub(super) fn read(directive: &Directive, is_v6: bool) -> Result<Self, String> {
        let (server, rest) = directive
            .value
            .split_once(char::is_whitespace)
            .ok_or_else(|| "it wants an address and gate, masq or ipip".to_owned())?;
        let (first, last) = server.split_once("->").unwrap_or((server, server));
        let (last, port) = address::split(last);
        // Without a range there is one address, and its port is that of the first.
        let (first, _) = address::split(first);
        let first = address::host(first, is_v6)?;
        let last = address::host(last, is_v6)?;
        let addresses = if first == last { vec![first] } else { address::range(first, last)? };
        let port = port.map_or(Ok(None), address::port)?;
        let (word, rest) = word(rest);
        let forward =
            Forward::read(word).ok_or_else(|| "the forwarding method is gate, masq or ipip".to_owned())?;
        let (weight, rest) = match word_number(rest) {
            Some((weight, rest)) => (weight, rest),
            None => (1, rest),
        };
        let (asked, rest) = asked(rest);
        let (lower, rest) = threshold(rest, "l:");
        let (upper, rest) = threshold(rest, "u:");
        let rest = rest.trim().to_owned();
        Ok(Self { addresses, port, forward, weight, asked, lower, upper, rest })
    }
}

impl Fallback {
    /// `own_port`: of the virtual server, where none is written.
    pub(super) fn read(directive: &Directive, is_v6: bool, own_port: Option<u16>) -> Result<Self, String> {
        let mut words = directive.value.split_whitespace();
        let (host, port) = address::split(words.next().unwrap_or_default());
        let address = address::host(host, is_v6)?;
        let port = port.map_or(Ok(own_port), address::port)?;
        let forward = match words.next() {
            None => Forward::Gate,
            Some(word) => {
                Forward::read(word).ok_or_else(|| "the forwarding method is gate, masq or ipip".to_owned())?
            }
        };
        Ok(Self { address, port, forward })
    }
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

fn word_number(text: &str) -> Option<(u64, &str)> {
    let (word, rest) = word(text);
    let all_digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| (word.parse().unwrap_or(u64::MAX), rest))
}

/// `"request", "receive"`
fn asked(text: &str) -> (Option<(String, String)>, &str) {
    let pair = || {
        let (request, rest) = text.trim_start().strip_prefix('"')?.split_once('"')?;
        let rest = rest.trim_start_matches([',', ' ', '\t']).strip_prefix('"')?;
        // A pattern may have quotes in it: the last one ends it.
        let (receive, rest) = rest.rsplit_once('"')?;
        Some((Some((request.to_owned(), receive.to_owned())), rest))
    };
    pair().unwrap_or((None, text))
}

fn threshold<'a>(text: &'a str, name: &str) -> (Option<u64>, &'a str) {
    let (word, rest) = word(text);
    match word.strip_prefix(name).and_then(|digits| digits.parse().ok()) {
        Some(number) => (Some(number), rest),
        None => (None, text),
    }
}
