//! A route netlink socket: one that asks, or one that hears events. Bytes only.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, connect, recv, send,
    setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

/// The kernel fills the datagrams of a dump up to this size if it is offered.
pub(super) const DATAGRAM: usize = 32 * 1024;

#[derive(Debug)]
pub(super) struct Socket {
    netlink: OwnedFd,
}

impl Socket {
    /// For questions: each receive ends after `deadline`.
    pub(super) fn to_ask(deadline: Duration) -> Result<Self, Errno> {
        let netlink = open(SockFlag::SOCK_CLOEXEC)?;
        let seconds = i64::try_from(deadline.as_secs()).unwrap_or(i64::MAX);
        // A time-out of zero would mean none.
        let microseconds = i64::from(deadline.subsec_micros()).max(i64::from(seconds == 0));
        setsockopt(&netlink, sockopt::ReceiveTimeout, &TimeVal::new(seconds, microseconds))?;
        // Connected to the kernel: no other process can put answers into it.
        connect(netlink.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { netlink })
    }

    /// For events of addresses and links; receives never wait.
    pub(super) fn to_hear() -> Result<Self, Errno> {
        // RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR: bits of the address's group mask.
        const GROUPS: u32 = 0x1 | 0x10 | 0x100;
        let netlink = open(SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
        bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { netlink })
    }

    pub(super) fn send(&self, request: &[u8]) -> Result<(), Errno> {
        loop {
            match send(self.netlink.as_raw_fd(), request, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// One datagram into the buffer; its length, more than the buffer's if some of it is missing.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            match recv(self.netlink.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC) {
                Err(Errno::EINTR) => {}
                other => return other,
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

fn open(flags: SockFlag) -> Result<OwnedFd, Errno> {
    socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)
}
