//! Signals as inputs of the supervisor.

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGTERM, SIGINT
    Stop,
    /// SIGHUP
    Reload,
    /// SIGUSR1
    Status,
}

/// From its making on these signals no longer end the process.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hangup: Stream,
    user1: Stream,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Several of one kind that came together are one.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            Some(()) = self.terminate.recv() => Signal::Stop,
            Some(()) = self.interrupt.recv() => Signal::Stop,
            Some(()) = self.hangup.recv() => Signal::Reload,
            Some(()) = self.user1.recv() => Signal::Status,
            else => std::future::pending().await,
        }
    }

    /// SIGTERM or SIGINT; what else comes meanwhile stays for [`Signals::next`].
    pub(super) async fn stop(&mut self) {
        tokio::select! {
            Some(()) = self.terminate.recv() => {}
            Some(()) = self.interrupt.recv() => {}
            else => std::future::pending().await,
        }
    }
}
