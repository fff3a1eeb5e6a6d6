//! One value of one statement: what keepalived would store, with a note for what it would complain about.

use std::net::IpAddr;
use std::time::Duration;

use super::tree::Statement;
use super::words::{self, Garbage, Read, shown};
use crate::config::import::notes::{At, Notes};

/// Microseconds: keepalived keeps some times in 32 bits, others in 64.
pub(super) const SHORT: u64 = 4_294_967_295;
pub(super) const LONG: u64 = u64::MAX - 1;

/// What lvsd takes for a duration.
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_secs(366 * 86_400);

/// Everything that reading needs besides the statements.
pub(super) struct Reading<'n> {
    pub(super) notes: &'n mut Notes,
}

impl Reading<'_> {
    /// Says why something is left out, and keeps the comment for the TOML.
    pub(super) fn lose(&mut self, lost: &mut Vec<String>, at: At, what: &str, why: impl Into<String>) {
        lost.push(self.notes.not_carried(at, what, why));
    }

    fn take<T>(&mut self, statement: &Statement, read: Read<T>) -> Option<T> {
        match read {
            Read::Good(value) => Some(value),
            Read::Odd(value, why) => {
                self.notes.remark(statement.at, statement.keyword(), why);
                Some(value)
            }
            Read::Bad(why) => {
                self.notes.remark(
                    statement.at,
                    statement.keyword(),
                    format!("{why}; keepalived ignores the line"),
                );
                None
            }
        }
    }

    /// The only word behind the keyword.
    pub(super) fn word(&mut self, statement: &Statement) -> Option<String> {
        self.rest(statement);
        self.first(statement)
    }

    /// The first of the words behind the keyword; the others are for the caller to look at.
    pub(super) fn first(&mut self, statement: &Statement) -> Option<String> {
        let value = statement.value();
        if value.is_none() {
            self.notes.remark(
                statement.at,
                statement.keyword(),
                "it has no value; keepalived ignores the line",
            );
        }
        value
    }

    pub(super) fn number(
        &mut self,
        statement: &Statement,
        low: i64,
        high: i64,
        garbage: Garbage,
    ) -> Option<i64> {
        let word = self.first(statement)?;
        self.take(statement, words::number(&word, low, high, garbage))
    }

    /// What stands behind a value is lost in keepalived, and most likely meant something.
    fn rest(&mut self, statement: &Statement) {
        self.beyond(statement, 1);
    }

    /// The same behind so many words after the keyword.
    pub(super) fn beyond(&mut self, statement: &Statement, known: usize) {
        if let Some(word) = statement.words().get(known.saturating_add(1)) {
            let why = format!("keepalived does not look at {} and what is behind it", shown(word));
            self.notes.remark(statement.at, statement.keyword(), why);
        }
    }

    pub(super) fn count(
        &mut self,
        statement: &Statement,
        low: u32,
        high: u32,
        garbage: Garbage,
    ) -> Option<u32> {
        self.rest(statement);
        let number = self.number(statement, i64::from(low), i64::from(high), garbage)?;
        u32::try_from(number).ok()
    }

    pub(super) fn port(&mut self, statement: &Statement) -> Option<u16> {
        self.count(statement, 1, 65_535, Garbage::Tolerated).and_then(|port| u16::try_from(port).ok())
    }

    /// At least 1 ms, and no more than lvsd takes.
    pub(super) fn period(&mut self, statement: &Statement, most: u64) -> Option<Duration> {
        let word = self.word(statement)?;
        let period = self.take(statement, words::timer(&word, 1, most))?;
        Some(self.within(statement, period, LEAST))
    }

    /// Also 0.
    pub(super) fn pause(&mut self, statement: &Statement) -> Option<Duration> {
        let word = self.word(statement)?;
        let pause = self.take(statement, words::timer(&word, 0, LONG))?;
        Some(self.within(statement, pause, Duration::ZERO))
    }

    fn within(&mut self, statement: &Statement, duration: Duration, least: Duration) -> Duration {
        let fits = duration.clamp(least, MOST);
        if fits != duration {
            let why = format!("{duration:?} is out of lvsd's range and becomes {fits:?}");
            self.notes.remark(statement.at, statement.keyword(), why);
        }
        fits
    }

    pub(super) fn switch(&mut self, statement: &Statement) -> Option<bool> {
        self.rest(statement);
        let word = statement.value();
        self.take(statement, words::switch(word.as_deref()))
    }

    /// An argument that keepalived does not look at says the opposite of what happens.
    pub(super) fn flag(&mut self, statement: &Statement) -> bool {
        if let Some(word) = statement.value() {
            let why = format!("keepalived does not look at {}: the word alone turns it on", shown(&word));
            self.notes.remark(statement.at, statement.keyword(), why);
        }
        true
    }

    pub(super) fn ip(&mut self, statement: &Statement, word: &str) -> Option<IpAddr> {
        let ip = address(word);
        if ip.is_none() {
            let why = format!("{} is not an address; keepalived ignores the line", shown(word));
            self.notes.remark(statement.at, statement.keyword(), why);
        }
        ip
    }

    /// Only zeros, or nothing, is no port. `None`: it is none at all.
    pub(super) fn optional_port(&mut self, statement: &Statement, word: Option<&str>) -> Option<Option<u16>> {
        let Some(word) = word.filter(|word| word.bytes().any(|b| b != b'0')) else { return Some(None) };
        let read = words::number(word, 1, 65_535, Garbage::Tolerated);
        self.take(statement, read).and_then(|port| u16::try_from(port).ok()).map(Some)
    }
}

/// As keepalived reads it: what is behind a `-` or `/` is cut off.
pub(super) fn address(word: &str) -> Option<IpAddr> {
    let end = word.find('-').or_else(|| word.find('/')).unwrap_or(word.len());
    word.get(..end)?.parse().ok()
}

/// What lvsd takes for the address of a service or a server, and why not.
pub(super) fn unusable(ip: IpAddr) -> Option<&'static str> {
    match ip {
        _ if ip.is_unspecified() => Some("the unspecified address serves nobody"),
        _ if ip.is_multicast() => Some("a multicast address cannot be served"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address cannot be served"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("write it as the IPv4 address that it is"),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// The same for a server: the kernel refuses link-local ones.
pub(super) fn unusable_server(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("the kernel refuses link-local addresses"),
        IpAddr::V4(_) | IpAddr::V6(_) => unusable(ip),
    }
}
