//! What stands between the daemon and a script: lvsd itself, started anew as `lvsd exec-helper`.
//!
//! Another user, limits and the signal at the daemon's death have to be set in the child. With std
//! that takes a fork, which copies the page tables of a large daemon while every check waits. The
//! daemon starts this helper by posix_spawn instead; the helper looks up the user, walks the
//! program's path, becomes the user and then the program. Since all of it waits in a process that the daemon can
//! kill, a name service or a file system that hangs holds up this one script.
//!
//! Its standard input is a pipe for saying why it could not; the pipe closes when the program runs.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{User, dup2_stdin, geteuid, getppid, getuid, initgroups, setresgid, setresuid};

use super::trust::{self, Trusted};

/// The hidden command.
pub const COMMAND: &str = "exec-helper";
/// Programs that use select(2) break above it, and so it is what they expect.
const DESCRIPTORS: u64 = 1024;
/// What shells say of a program that they cannot run.
const NOT_RUN: u8 = 126;

/// Whose fault it is that the program does not run. The first byte of what goes through the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The script's: not there, not executable, not to be trusted.
    Script,
    /// This machine's, or the daemon's: no such user, no right to become it, no memory.
    Ours,
}

/// What becomes of the daemon's capabilities, which it has in the ambient set if it is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capabilities {
    /// A check has no business with the kernel's table, nor has what runs as somebody else.
    Drop,
    /// `ip address add` in a script that announces works.
    Keep,
}

impl Capabilities {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Keep => "keep",
        }
    }
}

impl Fault {
    pub(super) const fn byte(self) -> u8 {
        match self {
            Self::Script => b's',
            Self::Ours => b'o',
        }
    }
}

/// Where the daemon finds itself.
pub fn path() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// `parent capabilities user program argument…`; an empty user is the daemon's own. Returns if it failed.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    // Closed by the program's start.
    let Ok(report) = io::stdin().as_fd().try_clone_to_owned() else { return NOT_RUN.into() };
    let (fault, reason) = become_program(arguments);
    // The daemon has given up if it does not read.
    let _ = File::from(report).write_all(&[&[fault.byte()], reason.as_bytes()].concat());
    NOT_RUN.into()
}

fn become_program(mut arguments: impl Iterator<Item = OsString>) -> (Fault, String) {
    let words = (arguments.next(), arguments.next(), arguments.next(), arguments.next());
    let (Some(parent), Some(capabilities), Some(user), Some(program)) = words else {
        return (Fault::Ours, format!("{COMMAND} is for lvsd itself"));
    };
    if let Err(problem) = File::open("/dev/null").and_then(|null| Ok(dup2_stdin(null)?)) {
        return (Fault::Ours, format!("opening /dev/null: {problem}"));
    }
    be_like_others_when_memory_ends();
    let program = Path::new(&program);
    let mut command;
    match user.to_str() {
        Some("") => match trust::resolve(program, Trusted::daemon()) {
            Ok(path) => command = Command::new(path),
            Err(refusal) => return (Fault::Script, refusal.to_string()),
        },
        Some(name) => {
            let user = match find(name) {
                Ok(user) => user,
                Err(problem) => return (Fault::Ours, problem),
            };
            match trust::resolve(program, Trusted::daemon().and(user.uid, user.gid)) {
                Ok(path) => command = Command::new(path),
                Err(refusal) => return (Fault::Script, refusal.to_string()),
            }
            if let Err(problem) = switch(&user) {
                return (Fault::Ours, problem);
            }
            command.env("HOME", &user.dir).env("USER", &user.name).env("LOGNAME", &user.name);
        }
        None => return (Fault::Ours, format!("no user named {}", user.display())),
    }
    // All but this one word drop them.
    let keep = capabilities == Capabilities::Keep.word() && user.is_empty();
    let capabilities = if keep { Capabilities::Keep } else { Capabilities::Drop };
    if let Err(problem) = settle(&parent, capabilities) {
        return (Fault::Ours, problem);
    }
    // Programs of many names look at the one that they were called by.
    let error = command.arg0(program).args(arguments).exec();
    let ours = matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EAGAIN | Errno::ENOMEM));
    (if ours { Fault::Ours } else { Fault::Script }, format!("{}: {error}", program.display()))
}

/// The unit lets the daemon be killed late. Its scripts must go before it, above all under a limit that they share.
/// Before the change of user, after which nobody may; where nobody may anyway, they are as late as the daemon.
fn be_like_others_when_memory_ends() {
    const SCORE: &str = "/proc/self/oom_score_adj";
    let score = fs::read_to_string(SCORE).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if score.is_some_and(|score| score < 0) {
        let _forbidden = fs::write(SCORE, "0");
    }
}

fn find(name: &str) -> Result<User, String> {
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(format!("no user named \"{name}\"")),
        Err(errno) => Err(format!("looking up user \"{name}\": {errno}")),
    }
}

/// Becomes `user` with its groups for good.
fn switch(user: &User) -> Result<(), String> {
    let (uid, gid) = (user.uid, user.gid);
    if getuid() == uid && geteuid() == uid {
        return Ok(());
    }
    let name = CString::new(user.name.as_str()).unwrap_or_default();
    let switched = initgroups(&name, gid)
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid));
    switched.map_err(|errno| match errno {
        Errno::EPERM => format!(
            "running as \"{}\" is not permitted: it takes root, or CAP_SETUID and CAP_SETGID",
            user.name
        ),
        errno => format!("becoming user \"{}\": {errno}", user.name),
    })
}

/// The last before the program, since a change of user undoes some of it.
fn settle(parent: &OsString, capabilities: Capabilities) -> Result<(), String> {
    match capabilities {
        Capabilities::Keep => {}
        // Programs inherit the ambient set. Kernels without it have none to clear.
        Capabilities::Drop => drop(rustix::thread::clear_ambient_capability_set()),
    }
    umask(Mode::from_bits_truncate(0o022));
    // A sandbox may forbid it; then the daemon's own limit stays.
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _forbidden = setrlimit(Resource::RLIMIT_NOFILE, soft.min(DESCRIPTORS), hard);
    }
    // KILL, not TERM: nobody will be there to follow it up.
    set_pdeathsig(Signal::SIGKILL).map_err(|errno| format!("asking for a signal: {errno}"))?;
    // It may have died before that.
    if parent.to_str() == Some(getppid().to_string().as_str()) {
        Ok(())
    } else {
        Err("lvsd has gone".to_owned())
    }
}
