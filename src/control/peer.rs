//! Who is at the other end of the control socket: the kernel's word, not the client's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Uid, User};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A name service that is slower is done without.
const NAME_TIMEOUT: Duration = Duration::from_millis(500);

/// For the `by` of an override: shows as `alice`, or `uid 1000` where there is no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
    /// `None` in rare cases, such as a client in another pid name space.
    pub pid: Option<i32>,
    pub name: Option<String>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "uid {}", self.uid),
        }
    }
}

impl Peer {
    /// A process of our own user that process 1 has started. Where process 1 is the service manager, that is how it
    /// runs the commands of our unit.
    pub fn is_started_by_init(&self) -> bool {
        let is_ours = self.uid == Uid::effective().as_raw();
        let stat =
            self.pid.filter(|_| is_ours).map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")));
        stat.and_then(Result::ok).and_then(|stat| parent(&stat)) == Some(1)
    }
}

/// Of `/proc/PID/stat`. The name in it may hold anything, parentheses as well.
fn parent(stat: &str) -> Option<i32> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(1)?.parse().ok()
}

/// Looks names up on a thread of tokio's pool, one at a time: a directory server that hangs can
/// occupy one thread and no more.
#[derive(Clone, Debug)]
pub(super) struct Names(Arc<Semaphore>);

impl Names {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    pub(super) async fn peer(&self, stream: &UnixStream) -> std::io::Result<Peer> {
        let credentials = stream.peer_cred()?;
        let (uid, pid) = (credentials.uid(), credentials.pid());
        let name = timeout(NAME_TIMEOUT, self.name_of(uid)).await.unwrap_or(None);
        Ok(Peer { uid, pid, name })
    }

    async fn name_of(&self, uid: u32) -> Option<String> {
        let permit = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let lookup = tokio::task::spawn_blocking(move || {
            let user = User::from_uid(Uid::from_raw(uid));
            drop(permit);
            user
        });
        lookup.await.ok()?.ok()?.map(|user| user.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_whatever_the_name() {
        for (stat, wanted) in [
            ("42 (lvsd) S 1 42 42 0 -1", Some(1)),
            ("42 (a) R 7 (b)) S 977 42", Some(977)),
            ("42 (lvsd) S", None),
            ("", None),
        ] {
            assert_eq!(parent(stat), wanted, "{stat:?}");
        }
    }

    #[test]
    fn only_a_child_of_process_1_and_of_our_user_is_taken_for_the_service_managers() {
        let (pid, uid) = (std::process::id().cast_signed(), Uid::effective().as_raw());
        let is_it = |uid, pid| Peer { uid, pid, name: None }.is_started_by_init();
        let parent = nix::unistd::getppid().as_raw();
        assert_eq!(is_it(uid, Some(pid)), parent == 1);
        assert!(!is_it(uid.wrapping_add(1), Some(pid)));
        assert!(!is_it(uid, None));
        assert!(!is_it(uid, Some(i32::MAX)), "gone already");
    }
}
