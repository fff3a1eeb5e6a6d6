//! What a notification is about, and how a script is told.

use crate::engine::model::{Argv, RealServerId};

/// One program to run because of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Notifications with the same key run one after the other, in the order of their dispatch.
    pub object: String,
    pub argv: Argv,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// The daemon's name.
    pub daemon: String,
    pub virtual_server: String,
    /// For events of a real server.
    pub real_server: Option<RealServerId>,
    /// For people: `connect: connection refused (ECONNREFUSED)`.
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    RealServerUp,
    RealServerDown,
    QuorumGained,
    QuorumLost,
}

/// Bytes of the reason in a script's environment.
const MAX_REASON: usize = 1024;
/// The daemon's own search path may be anything; a script's is not.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl EventKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealServerUp => "real_server_up",
            Self::RealServerDown => "real_server_down",
            Self::QuorumGained => "quorum_gained",
            Self::QuorumLost => "quorum_lost",
        }
    }

    /// keepalived's word for the new state.
    pub const fn state(self) -> &'static str {
        match self {
            Self::RealServerUp | Self::QuorumGained => "UP",
            Self::RealServerDown | Self::QuorumLost => "DOWN",
        }
    }
}

impl Event {
    /// The whole environment of the script. `sequence` counts all notifications of this daemon's
    /// life, so that a script can tell an old event from a newer one.
    pub(super) fn environment(&self, sequence: u64) -> Vec<(&'static str, String)> {
        let mut environment = vec![
            ("PATH", PATH.to_owned()),
            ("LVSD_EVENT", self.kind.name().to_owned()),
            ("LVSD_STATE", self.kind.state().to_owned()),
            ("LVSD_SEQUENCE", sequence.to_string()),
            ("LVSD_NAME", self.daemon.clone()),
            ("LVSD_VIRTUAL_SERVER", self.virtual_server.clone()),
        ];
        if let Some(address) = &self.real_server {
            environment.push(("LVSD_REAL_SERVER", address.to_string()));
        }
        if let Some(reason) = &self.reason {
            let cut = reason.get(..reason.floor_char_boundary(MAX_REASON)).unwrap_or_default();
            environment.push(("LVSD_REASON", cut.to_owned()));
        }
        for (_, value) in &mut environment {
            // A reason can hold what a server sent; a NUL would make the whole start fail.
            value.retain(|c| c != '\0');
        }
        environment
    }
}
