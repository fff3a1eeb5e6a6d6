//! One daemon per network name space.
//!
//! The lock is an abstract unix socket: it belongs to the name space, as the IPVS table does, and is
//! gone with the process however that ends. Nothing on disk can be left behind.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

const NAME: &str = "lvsd.lock";

/// Held as long as it lives.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, never used")] UnixListener);

#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("another lvsd manages this network name space already: process {0}")]
    Held(String),
    #[error("cannot tell whether another lvsd runs: {0}")]
    Unknown(#[from] std::io::Error),
}

impl Lock {
    pub(super) fn take() -> Result<Self, LockError> {
        let address = SocketAddr::from_abstract_name(NAME)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Self(listener)),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Err(LockError::Held(holder(&address))),
            Err(e) => Err(e.into()),
        }
    }
}

/// The process that bound the socket, as the kernel knows it.
fn holder(address: &SocketAddr) -> String {
    let connected = UnixStream::connect_addr(address).ok();
    let peer = connected.and_then(|stream| getsockopt(&stream, PeerCredentials).ok());
    peer.map_or_else(|| "unknown".to_owned(), |peer| peer.pid().to_string())
}
