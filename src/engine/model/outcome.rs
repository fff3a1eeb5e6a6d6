//! What one run of a check found.

use std::fmt;
use std::time::Duration;

/// What one run of a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    /// How long it took, name to reply.
    pub latency: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `detail` is for people: `connected`, `HTTP 200`. `weight`: what a script or file adds to
    /// its server's weight now.
    Success {
        detail: String,
        weight: WeightChange,
    },
    Failure(Fault),
    /// Our own side could not run the check: the server is neither good nor bad.
    LocalError(Fault),
}

/// How a result moves the weight of its server. Only kinds that can move weights say more than `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightChange {
    #[default]
    None,
    /// The server's weight is to be this: exit status − 2 of a dynamic script.
    Absolute(u32),
    /// Added to the server's weight: the number in a file times its factor.
    Delta(i64),
}

/// Why a check failed, with the step it failed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub phase: Phase,
    /// Lower case, no full stop: `connection refused (ECONNREFUSED)`, `status 503, wanted 200-299`.
    pub reason: String,
}

/// `connect: connection refused (ECONNREFUSED)`
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.phase.name(), self.reason)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making the socket, before anything is sent.
    Socket,
    /// Giving it the mark, device and address that the check's options ask for.
    Source,
    Connect,
    TlsHandshake,
    Request,
    Reply,
    Status,
    Body,
    /// Running a script, reading a file.
    Run,
    /// The check itself broke: a panic.
    Internal,
}

impl Phase {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket | Self::Source => "socket",
            Self::Connect => "connect",
            Self::TlsHandshake => "tls handshake",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Status => "status",
            Self::Body => "body",
            Self::Run => "run",
            Self::Internal => "internal",
        }
    }
}
