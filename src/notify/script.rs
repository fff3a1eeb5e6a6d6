//! One run of one script: what it is told, its time limit, and its end.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::dispatcher::Notification;
use super::event::Event;
use crate::process::helper::{Capabilities, Fault};
use crate::process::{Leftovers, Order, Refused, Running};

/// Between TERM and KILL, as keepalived has it.
const GRACE: Duration = Duration::from_secs(2);
/// For a killed process to be gone; one in the middle of a hanging system call may never be.
const REAP: Duration = Duration::from_secs(2);
/// Bytes of the reason in a script's environment.
const MAX_REASON: usize = 1024;
/// The daemon's own search path may be anything; a script's is not.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) how: How,
    /// The end of what it wrote to stdout and stderr.
    pub(super) output: String,
    /// Still reading for a background process of the script's.
    pub(super) reader: Option<AbortHandle>,
}

#[derive(Debug)]
pub(super) enum How {
    Exited(ExitStatus),
    TimedOut,
    NotStarted(Refused),
}

/// `exited with status 3`, `killed by signal 9`
impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::os::unix::process::ExitStatusExt;
        match self {
            Self::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "exited with status {code}"),
                (None, Some(signal)) => write!(f, "killed by signal {signal}"),
                (None, None) => write!(f, "ended"),
            },
            Self::TimedOut => f.write_str("timed out and was killed"),
            Self::NotStarted(refused) => write!(f, "not started: {}", refused.reason),
        }
    }
}

/// Runs a script to its end, or to its time limit. What it leaves in the background then goes on.
/// Dropping the future kills the whole process group.
pub(super) async fn run(notification: &Notification, helper: PathBuf) -> Ended {
    let order = Order {
        helper,
        user: notification.user.clone(),
        // What runs as somebody else never has them.
        capabilities: Capabilities::Keep,
        program: notification.argv.program.clone(),
        arguments: notification.argv.arguments.clone(),
        environment: environment(&notification.event),
    };
    let mut running = match Running::start(&order) {
        Ok(running) => running,
        Err(problem) => {
            return Ended::not_started(Refused { fault: Fault::Ours, reason: problem.to_string() });
        }
    };
    match timeout(notification.limit, running.wait(Leftovers::Leave)).await {
        Ok(Ok(ended)) => {
            let how = ended.refused.map_or(How::Exited(ended.status), How::NotStarted);
            let reader = running.read_on().map(|reading| tokio::spawn(reading).abort_handle());
            Ended { how, output: text(&ended.output), reader }
        }
        Ok(Err(problem)) => {
            let reason = format!("waiting for the program: {problem}");
            Ended::not_started(Refused { fault: Fault::Ours, reason })
        }
        Err(_elapsed) => Ended { how: How::TimedOut, output: end(running).await, reader: None },
    }
}

impl Ended {
    const fn not_started(refused: Refused) -> Self {
        Self { how: How::NotStarted(refused), output: String::new(), reader: None }
    }
}

/// TERM, two seconds, KILL. Gives the last output.
async fn end(mut running: Running) -> String {
    for (signal, patience) in [(Signal::SIGTERM, GRACE), (Signal::SIGKILL, REAP)] {
        running.signal(signal);
        if let Ok(Ok(ended)) = timeout(patience, running.wait(Leftovers::Kill)).await {
            return text(&ended.output);
        }
    }
    String::new()
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end().to_owned()
}

/// The whole environment of the script.
fn environment(event: &Event) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("PATH", PATH.to_owned()),
        ("LVSD_EVENT", event.kind.name().to_owned()),
        ("LVSD_STATE", event.kind.state().word().to_owned()),
        ("LVSD_SEQUENCE", event.sequence.to_string()),
        ("LVSD_NAME", event.daemon.clone()),
    ];
    if let Some(pool) = &event.virtual_server {
        environment.push(("LVSD_VIRTUAL_SERVER", pool.name.clone()));
    }
    if let Some(address) = &event.real_server {
        environment.push(("LVSD_REAL_SERVER", address.to_string()));
    }
    if let Some(reason) = &event.reason {
        let cut = reason.get(..reason.floor_char_boundary(MAX_REASON)).unwrap_or_default();
        environment.push(("LVSD_REASON", cut.to_owned()));
    }
    for (_, value) in &mut environment {
        // A reason can hold what a server sent; a NUL would make the whole start fail.
        value.retain(|c| c != '\0');
    }
    environment
}
