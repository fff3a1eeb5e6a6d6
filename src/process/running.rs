//! One run of one program by the helper: started, watched, ended with all that it started.
//!
//! Dropping it kills the whole process group.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::group::Group;
use super::helper::{COMMAND, Capabilities, Fault};

/// Bytes of a reason that the helper gives.
const MAX_REASON: u64 = 1024;
/// Bytes of output that are kept: the last, where programs say why.
const MAX_OUTPUT: usize = 4096;
/// For the last output after the exit.
const LAST_OUTPUT: Duration = Duration::from_millis(50);

/// What to run.
#[derive(Clone, Debug)]
pub struct Order {
    /// An lvsd that understands [`COMMAND`].
    pub helper: PathBuf,
    /// Unset: the daemon's own.
    pub user: Option<String>,
    pub capabilities: Capabilities,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
}

/// What becomes of processes that a program leaves behind in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftovers {
    /// Killed, before the group's number is free.
    Kill,
    /// They go on, as those of keepalived's notification scripts do.
    Leave,
}

#[derive(Debug, Error)]
#[error("starting a process: {0}")]
pub struct SpawnError(#[from] io::Error);

/// The helper could not become the program.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    pub fault: Fault,
    pub reason: String,
}

#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// The end of what it wrote to stdout and stderr.
    pub output: Vec<u8>,
    /// The program never ran.
    pub refused: Option<Refused>,
}

/// The group is dropped before the child: once the child is reaped, the group's number may be
/// somebody else's.
#[derive(Debug)]
pub struct Running {
    group: Group,
    /// Readable from the child's end on, whether it was reaped or not.
    ended: pipe::Receiver,
    child: Child,
    output: pipe::Receiver,
    /// Somebody may write more.
    talks: bool,
    kept: VecDeque<u8>,
    report: pipe::Receiver,
}

impl Running {
    /// Starts the helper, in a process group of its own. The daemon's thread that calls this must live as
    /// long as the daemon: its end is what the program gets its signal for.
    pub fn start(order: &Order) -> Result<Self, SpawnError> {
        let (output, writer) = io::pipe()?;
        let (report, reporter) = io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(output))?;
        let report = pipe::Receiver::from_owned_fd(OwnedFd::from(report))?;
        let mut command = Command::new(&order.helper);
        // Without pre_exec, uid or gid, so that std takes posix_spawn.
        command
            .arg(COMMAND)
            .arg(std::process::id().to_string())
            .arg(order.capabilities.word())
            .arg(order.user.as_deref().unwrap_or_default())
            .arg(&order.program)
            .args(&order.arguments)
            .env_clear()
            .envs(order.environment.iter().map(|(name, value)| (name, OsString::from(value))))
            .current_dir("/")
            .stdin(reporter)
            .stdout(writer.try_clone()?)
            .stderr(Stdio::from(writer))
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn()?;
        let group = Group::led_by(child.id());
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        // Not a pipe, but like one it is readable at the end.
        let ended = pipe::Receiver::from_owned_fd_unchecked(ended)?;
        Ok(Self { group, ended, child, output, talks: true, kept: VecDeque::new(), report })
    }

    pub fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Until the program has ended. Can be dropped and called again.
    pub async fn wait(&mut self, leftovers: Leftovers) -> io::Result<Ended> {
        let Self { group, ended, child, output, talks, kept, report } = self;
        tokio::select! {
            biased;
            exit = ended.readable() => exit?,
            // A pipe that breaks loses the output, not the run.
            () = collect(output, kept) => ended.readable().await?,
        }
        match leftovers {
            Leftovers::Kill => group.signal(Signal::SIGKILL),
            Leftovers::Leave => {}
        }
        let status = child.wait().await?;
        group.disarm();
        // What has left the group may hold the pipe open for ever.
        *talks = timeout(LAST_OUTPUT, collect(output, kept)).await.is_err();
        let mut reason = Vec::new();
        let _late = timeout(LAST_OUTPUT, report.take(MAX_REASON).read_to_end(&mut reason)).await;
        let refused = reason.split_first().map(|(first, reason)| Refused {
            fault: if *first == Fault::Script.byte() { Fault::Script } else { Fault::Ours },
            reason: String::from_utf8_lossy(reason).into_owned(),
        });
        Ok(Ended { status, output: std::mem::take(kept).into(), refused })
    }

    /// After the end: reads, and forgets, what those that were left behind still write; the closed pipe
    /// would kill them at their next word. Nothing if nobody can write any more.
    pub fn read_on(self) -> Option<impl Future<Output = ()> + use<>> {
        let mut output = self.output;
        self.talks.then_some(async move {
            let mut buffer = [0; 1024];
            while let Ok(1..) = output.read(&mut buffer).await {}
        })
    }
}

/// Keeps reading after the limit, so that a talkative program does not stop at a full pipe.
async fn collect(output: &mut pipe::Receiver, kept: &mut VecDeque<u8>) {
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = output.read(&mut buffer).await {
        kept.extend(buffer.get(..length).unwrap_or_default());
        kept.drain(..kept.len().saturating_sub(MAX_OUTPUT));
    }
}
