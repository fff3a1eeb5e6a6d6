//! One thing that happened, for whoever is told of it.

use std::sync::Arc;
use std::time::SystemTime;

pub use crate::engine::model::EventKind;
use crate::engine::model::{RealServerId, VirtualServer};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Counts all events of this daemon's life from 1, so that an old one can be told from a newer one.
    pub sequence: u64,
    /// By the wall clock.
    pub at: SystemTime,
    pub kind: EventKind,
    /// The daemon's name.
    pub daemon: String,
    /// Unset for events of the daemon itself.
    pub virtual_server: Option<Arc<VirtualServer>>,
    /// For events of a real server.
    pub real_server: Option<RealServerId>,
    /// For people: `tcp check: connect: connection refused (ECONNREFUSED)`.
    pub reason: Option<String>,
    /// Why a quorum was gained or lost; unset where a stop is the reason.
    pub quorum: Option<Quorum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    pub weight: u64,
    pub threshold: u64,
}

impl Event {
    /// What it is about. What happens to one object is told in order.
    pub fn object(&self) -> String {
        match (&self.virtual_server, self.real_server) {
            (Some(pool), Some(server)) => format!("{} {server}", pool.name),
            (Some(pool), None) => pool.name.clone(),
            // No virtual server has an empty name.
            (None, _) => String::new(),
        }
    }
}
