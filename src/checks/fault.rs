//! Why a run ended without success, and the words for it.
//!
//! The one place that tells the server's fault from ours.

use std::fmt::Write as _;
use std::io;

use nix::errno::Errno;

use super::deadline::Deadline;
use crate::engine::model::{Fault, Phase, Verdict};
pub(super) use crate::net::{explain, uncapitalised};

/// Bytes of a reply that a reason quotes.
pub(super) const EXCERPT: usize = 80;

#[derive(Debug)]
pub(super) enum Trouble {
    Failure(Fault),
    /// The check could not be run: says nothing about the server.
    Local(Fault),
}

impl Trouble {
    pub(super) fn failure(phase: Phase, reason: impl Into<String>) -> Self {
        Self::Failure(Fault { phase, reason: reason.into() })
    }

    /// `doing` is put in front of the error's own words unless it is empty.
    pub(super) fn io(phase: Phase, doing: &str, error: &io::Error) -> Self {
        let mut reason = explain(error);
        if !doing.is_empty() {
            reason = format!("{doing}: {reason}");
        }
        let fault = Fault { phase, reason };
        if is_local(phase, error) { Self::Local(fault) } else { Self::Failure(fault) }
    }

    pub(super) fn timed_out(phase: Phase, deadline: &Deadline<'_>) -> Self {
        Self::failure(phase, format!("timed out after {:?}", deadline.limit()))
    }

    /// The same, with the step that it came in.
    #[must_use]
    pub(super) fn within(mut self, step: &str) -> Self {
        let (Self::Failure(fault) | Self::Local(fault)) = &mut self;
        fault.reason.insert_str(0, ": ");
        fault.reason.insert_str(0, step);
        self
    }

    /// The same, with more words.
    #[must_use]
    pub(super) fn with(mut self, more: &str) -> Self {
        let (Self::Failure(fault) | Self::Local(fault)) = &mut self;
        fault.reason.push_str(more);
        self
    }
}

impl From<Trouble> for Verdict {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Failure(fault) => Self::Failure(fault),
            Trouble::Local(fault) => Self::LocalError(fault),
        }
    }
}

/// Everything before connect(2) is ours. From there on only a lack of our own resources is;
/// an errno that connect(2) returns at once, such as that of an unreachable or prohibited
/// route, is a failed try like any other.
fn is_local(phase: Phase, error: &io::Error) -> bool {
    if matches!(phase, Phase::Socket | Phase::Source) {
        return true;
    }
    let Some(code) = error.raw_os_error() else { return false };
    matches!(
        Errno::from_raw(code),
        // No free port, or the address has gone since it was bound.
        Errno::EADDRNOTAVAIL | Errno::EADDRINUSE
        | Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM
        | Errno::EAFNOSUPPORT | Errno::ENODEV
        // Of our own interface. A network that cannot be reached is a fact about who is in it.
        | Errno::ENETDOWN
        // A policy of our own host: a cgroup's socket filter.
        | Errno::EPERM
    )
}

/// `"the first bytes\r\n"…`: at most [`EXCERPT`] bytes, text as text, all else escaped.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let shown = bytes.get(..EXCERPT).unwrap_or(bytes);
    let mut out = String::with_capacity(shown.len() + 8);
    out.push('"');
    for chunk in shown.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => out.push(c),
                _ => out.extend(c.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            let _infallible = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    if shown.len() < bytes.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_fault_an_errno_is() {
        let cases = [
            (Phase::Socket, Errno::EINVAL, true),
            (Phase::Source, Errno::EADDRINUSE, true),
            (Phase::Request, Errno::ENETDOWN, true),
            (Phase::Connect, Errno::EADDRNOTAVAIL, true),
            (Phase::Connect, Errno::EMFILE, true),
            (Phase::Connect, Errno::ENOBUFS, true),
            (Phase::Connect, Errno::ECONNREFUSED, false),
            (Phase::Connect, Errno::ENETUNREACH, false),
            (Phase::Connect, Errno::EHOSTUNREACH, false),
            (Phase::Connect, Errno::ETIMEDOUT, false),
            // Routes of the kinds prohibit and blackhole.
            (Phase::Connect, Errno::EACCES, false),
            (Phase::Connect, Errno::EINVAL, false),
            (Phase::Reply, Errno::ECONNRESET, false),
            (Phase::Request, Errno::EPIPE, false),
        ];
        for (phase, errno, local) in cases {
            let trouble = Trouble::io(phase, "", &io::Error::from_raw_os_error(errno as i32));
            assert_eq!(matches!(trouble, Trouble::Local(_)), local, "{phase:?} {errno:?}");
        }
    }

    #[test]
    fn quotes_are_bounded_and_escaped() {
        assert_eq!(quoted(b"a \"b\"\r\n'\xff\0 \xc3\xbc"), "\"a \\\"b\\\"\\r\\n'\\xff\\0 \u{fc}\"");
        let long = quoted(&[b'x'; 1000]);
        assert_eq!(long, format!("\"{}\"…", "x".repeat(80)));
        assert!(quoted(&[0xff; 1000]).len() < 400);
    }
}
