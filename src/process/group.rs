//! A process group, which is what a script and all that it starts are in.

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// A process group that is killed when this is dropped, unless its leader was reaped: from then on
/// its number may be somebody else's.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// `leader`: a child that is the leader of its group and not reaped yet.
    pub fn led_by(leader: Option<u32>) -> Self {
        Self(leader.and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            let _gone = killpg(leader, signal);
        }
    }

    /// Without reaping it.
    pub fn leader_has_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match self.0.map(|leader| waitid(Id::Pid(leader), flags)) {
            None | Some(Ok(WaitStatus::StillAlive)) => false,
            Some(Ok(_) | Err(_)) => true,
        }
    }

    pub fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}
