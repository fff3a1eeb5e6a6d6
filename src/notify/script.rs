//! One run of one script: its own process group, a time limit, no input, bounded output.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::event::Event;
use crate::process::{Group, Trusted, trust};

/// Between TERM and KILL, as keepalived has it.
const GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// For a killed process to be gone; one in the middle of a hanging system call may never be.
const REAP: Duration = Duration::from_secs(2);
/// For the last output after the exit.
const LAST_OUTPUT: Duration = Duration::from_millis(50);
/// Bytes of output that are kept for the log.
const MAX_OUTPUT: usize = 4096;
/// Bytes of the reason in a script's environment.
const MAX_REASON: usize = 1024;
/// The daemon's own search path may be anything; a script's is not.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What to start.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) how: How,
    /// The beginning of what it wrote to stdout and stderr.
    pub(super) output: String,
    /// Still reading for a background process of the script's; closing the pipe would kill that
    /// process at its next word.
    pub(super) reader: Option<AbortHandle>,
}

#[derive(Debug)]
pub(super) enum How {
    Exited(ExitStatus),
    TimedOut,
    NotStarted(StartError),
}

#[derive(Debug, Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Refused(#[from] trust::Refusal),
    #[error("starting the program: {0}")]
    Spawn(#[from] io::Error),
    #[error("starting the program took longer than its time limit")]
    TooSlow,
    #[error("starting the program broke")]
    Broken,
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
            Self::NotStarted(error) => write!(f, "not started: {error}"),
        }
    }
}

/// Runs `script` to its end, or to `limit`. `place` is its place among all processes; it stays
/// taken as long as something of the start can still be going on. Dropping the future kills the
/// whole process group.
pub(super) async fn run(script: Script, limit: Duration, place: OwnedSemaphorePermit) -> Ended {
    let deadline = Instant::now() + limit;
    // Walking the path and exec(2) wait for the file system, which may hang.
    let starting = tokio::task::spawn_blocking(move || start(&script, place));
    let started = match timeout_at(deadline, starting).await {
        Ok(Ok(Ok(started))) => started,
        Ok(Ok(Err(error))) => return Ended::not_started(error),
        Ok(Err(_panicked)) => return Ended::not_started(StartError::Broken),
        Err(_elapsed) => return Ended::not_started(StartError::TooSlow),
    };
    // Locals are dropped last to first.
    let Started { mut child, mut group, output, place: _place } = started;
    let kept = Arc::new(Mutex::new(Vec::new()));
    let mut reader = output.map(|output| tokio::spawn(read(output, Arc::clone(&kept))));
    let how = match timeout_at(deadline, child.wait()).await {
        Ok(status) => {
            // What it left in the background goes on; keepalived does the same.
            group.disarm();
            status.map_or_else(|error| How::NotStarted(error.into()), How::Exited)
        }
        Err(_elapsed) => {
            end(&mut child, &mut group).await;
            How::TimedOut
        }
    };
    if let Some(task) = &mut reader
        && timeout(LAST_OUTPUT, task).await.is_ok()
    {
        reader = None;
    }
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let output = String::from_utf8_lossy(&kept).trim_end().to_owned();
    Ended { how, output, reader: reader.map(|task| task.abort_handle()) }
}

impl Ended {
    fn not_started(error: StartError) -> Self {
        Self { how: How::NotStarted(error), output: String::new(), reader: None }
    }
}

/// The group is dropped before the child: once the child is reaped, the group's number may be
/// somebody else's.
struct Started {
    group: Group,
    child: Child,
    /// `None` if the runtime could not take it: then the output is lost, not the run.
    output: Option<pipe::Receiver>,
    place: OwnedSemaphorePermit,
}

/// Without pre_exec, uid or gid, so that std takes posix_spawn: fork would copy the page tables
/// of a large daemon, tens of milliseconds.
fn start(script: &Script, place: OwnedSemaphorePermit) -> Result<Started, StartError> {
    let program = trust::resolve(&script.program, Trusted::daemon())?;
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(&program);
    command
        .args(&script.arguments)
        .env_clear()
        .envs(script.environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .kill_on_drop(true);
    let child = command.spawn()?;
    // The command holds our copies of the pipe's writing end.
    drop(command);
    let group = Group::led_by(child.id());
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).ok();
    Ok(Started { group, child, output, place })
}

/// TERM, two seconds, KILL. The leader is not reaped before the last signal is sent: until then
/// its number cannot belong to another group.
async fn end(child: &mut Child, group: &mut Group) {
    group.signal(Signal::SIGTERM);
    let deadline = Instant::now() + GRACE;
    while !group.leader_has_ended() && Instant::now() < deadline {
        sleep(POLL).await;
    }
    group.signal(Signal::SIGKILL);
    if timeout(REAP, child.wait()).await.is_ok() {
        group.disarm();
    }
}

/// Keeps reading after the limit, so that a talkative script does not stop at a full pipe.
async fn read(mut output: pipe::Receiver, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = output.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_OUTPUT.saturating_sub(kept.len()).min(length);
        kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }
}

/// The whole environment of the script.
pub(super) fn environment(event: &Event) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("PATH", PATH.to_owned()),
        ("LVSD_EVENT", event.kind.name().to_owned()),
        ("LVSD_STATE", event.kind.state().to_owned()),
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
