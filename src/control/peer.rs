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
