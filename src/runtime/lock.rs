//! One daemon per network name space.
//!
//! The lock is an abstract unix socket: it belongs to the name space, as the IPVS table does, and is
//! gone with the process however that ends. Nothing on disk can be left behind.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::task::JoinHandle;

const NAME: &str = "lvsd.lock";
/// After an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Held as long as it lives, whatever becomes of the task that takes who comes to ask out of the queue: the one that
/// finds it full would not learn who we are.
#[derive(Debug)]
pub(super) struct Lock {
    _listener: UnixListener,
    task: JoinHandle<()>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("another lvsd manages this network name space already: process {0}")]
    Held(String),
    #[error("cannot tell whether another lvsd runs: {0}")]
    Unknown(#[from] std::io::Error),
}

impl Lock {
    /// Needs a tokio runtime.
    pub(super) fn take() -> Result<Self, LockError> {
        Self::take_as(NAME)
    }

    fn take_as(name: &str) -> Result<Self, LockError> {
        let address = SocketAddr::from_abstract_name(name)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                let asked = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
                Ok(Self { _listener: listener, task: tokio::spawn(turn_away(asked)) })
            }
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Err(LockError::Held(holder(name))),
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn turn_away(listener: tokio::net::UnixListener) {
    loop {
        if listener.accept().await.is_err() {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// The process that bound the socket, as the kernel knows it. Never waits for it.
fn holder(name: &str) -> String {
    let connect = || -> std::io::Result<Socket> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&SockAddr::unix(format!("\0{name}"))?)?;
        Ok(socket)
    };
    let peer = connect().ok().and_then(|socket| getsockopt(&socket, PeerCredentials).ok());
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.pid().to_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn it_is_held_also_when_its_task_has_broken_off() {
        let name = format!("lvsd.lock.broken.{}", std::process::id());
        let mut lock = Lock::take_as(&name).unwrap();
        lock.task.abort();
        assert!((&mut lock.task).await.is_err());
        assert!(matches!(Lock::take_as(&name), Err(LockError::Held(_))));
    }

    #[tokio::test]
    async fn it_is_held_once_and_names_its_holder_however_many_ask() {
        let name = format!("lvsd.lock.test.{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let lock = Lock::take_as(&name).unwrap();
        for _ in 0..3 {
            // More than any queue takes.
            let socket = || Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).unwrap();
            let there = SockAddr::unix(format!("\0{name}")).unwrap();
            let asked = (0..10_000).take_while(|_| socket().connect(&there).is_ok()).count();
            assert!(asked > 0 && asked < 10_000, "{asked}");
            assert!(matches!(Lock::take_as(&name), Err(LockError::Held(who)) if who == "unknown"));
            // The task's turn comes with ours.
            while Socket::connect(&socket(), &there).is_err() {
                tokio::task::yield_now().await;
            }
            let us = std::process::id().to_string();
            assert!(matches!(Lock::take_as(&name), Err(LockError::Held(who)) if who == us));
        }
        drop(lock);
        while UnixStream::connect_addr(&address).is_ok() {
            tokio::task::yield_now().await;
        }
        Lock::take_as(&name).unwrap();
    }
}
