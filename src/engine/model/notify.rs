//! Who is told of events.

use std::path::PathBuf;
use std::time::Duration;

use super::{Argv, Mail, Webhook};

/// `[daemon.notify]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// A named pipe that gets a line for each event.
    pub fifo: Option<PathBuf>,
    /// Runs for each event.
    pub script: Option<Argv>,
    /// All scripts of notifications run as this user, with its groups; unset: as the daemon.
    pub script_user: Option<String>,
    /// Of one run of any of them, before TERM.
    pub script_timeout: Duration,
    /// Runs once the first table has been written.
    pub start: Option<Argv>,
    /// Runs when the daemon stops.
    pub stop: Option<Argv>,
    pub mail: Option<Mail>,
    pub webhooks: Vec<Webhook>,
}
