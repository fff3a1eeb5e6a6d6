//! Loading ip_vs. Decides neither whether nor when.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Why modprobe did not load the module.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("load ip_vs: no modprobe in {}", PATHS.join(", "))]
    NoModprobe,
    #[error("load ip_vs: run {path}: {source}")]
    Run { path: &'static str, source: io::Error },
    #[error("load ip_vs: {path} did not end within {deadline:?}")]
    Deadline { path: &'static str, deadline: Duration },
    #[error("load ip_vs: {path} failed: no such module for this kernel, or not permitted")]
    Failed { path: &'static str },
}

const PATHS: [&str; 4] = ["/usr/sbin/modprobe", "/sbin/modprobe", "/usr/bin/modprobe", "/bin/modprobe"];

/// Runs `modprobe -q ip_vs`. Success says that modprobe is content, not that ip_vs answers.
pub fn load_module(deadline: Duration) -> Result<(), LoadError> {
    for path in PATHS {
        let mut command = Command::new(path);
        command.args(["-q", "ip_vs"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => return wait(child, path, deadline),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(LoadError::Run { path, source }),
        }
    }
    Err(LoadError::NoModprobe)
}

/// The child's end of its output closes when it ends, which is something to wait for with a deadline.
fn wait(mut child: Child, path: &'static str, deadline: Duration) -> Result<(), LoadError> {
    let failed = |source| LoadError::Run { path, source };
    let ended = match child.stdout.take() {
        Some(output) => until_closed(output, deadline).map_err(failed)?,
        None => true,
    };
    if !ended {
        child.kill().map_err(failed)?;
        // A modprobe that hangs in the kernel cannot be reaped until the kernel lets go of it.
        thread::spawn(move || child.wait());
        return Err(LoadError::Deadline { path, deadline });
    }
    let status = child.wait().map_err(failed)?;
    if status.success() { Ok(()) } else { Err(LoadError::Failed { path }) }
}

fn until_closed(mut output: ChildStdout, limit: Duration) -> io::Result<bool> {
    let started = Instant::now();
    let mut ignored = [0; 512];
    loop {
        let left = limit.saturating_sub(started.elapsed());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(output.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) => return Ok(false),
            Ok(_) if output.read(&mut ignored)? == 0 => return Ok(true),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn the_exit_status_decides() {
        let deadline = Duration::from_secs(60);
        assert!(wait(shell("echo noise; exit 0"), "sh", deadline).is_ok());
        let error = wait(shell("exit 1"), "sh", deadline).unwrap_err();
        assert_eq!(
            error.to_string(),
            "load ip_vs: sh failed: no such module for this kernel, or not permitted"
        );
    }

    #[test]
    fn a_hanging_program_is_left_behind() {
        let error = wait(shell("exec sleep 600"), "sh", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, LoadError::Deadline { path: "sh", .. }), "{error}");
    }
}
