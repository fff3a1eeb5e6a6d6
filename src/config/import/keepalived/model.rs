//! keepalived's view of the services: what its parser would have in memory after the file. Values only.

use std::net::IpAddr;
use std::time::Duration;

use super::mail::Alert;
use super::scripts::Command;
use crate::config::import::document::Table;
use crate::config::import::notes::At;
use crate::engine::model::Family;

/// Comments for what is left out here.
pub(super) type Lost = Vec<String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nat,
    Dr,
    Tun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) kind: Kind,
    pub(super) tunnel: Tunnel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tunnel {
    Ipip,
    Gue { port: u16, checksum: &'static str },
    Gre { checksum: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Address { ip: IpAddr, port: Option<u16> },
    Mark(u32),
    Group(String),
}

/// One line of a virtual_server_group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Range { first: IpAddr, last: IpAddr, port: Option<u16>, at: At },
    Mark { mark: u32, family: Option<Family>, at: At },
}

impl Entry {
    pub(super) fn at(&self) -> At {
        match self {
            Self::Range { at, .. } | Self::Mark { at, .. } => *at,
        }
    }
}

/// Timing as far as it was said, of a virtual server, a real server or a checker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) delay_loop: Option<Duration>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) retry: Option<u32>,
    pub(super) delay_before_retry: Option<Duration>,
    pub(super) warmup: Option<Duration>,
    pub(super) alpha: Option<bool>,
}

#[derive(Clone, Debug)]
pub(super) struct VirtualServer {
    pub(super) at: At,
    pub(super) head: Head,
    pub(super) family: Option<Family>,
    pub(super) protocol: Option<Protocol>,
    pub(super) scheduler: Option<String>,
    /// Names, as written, that were legal when they were read.
    pub(super) flags: Vec<&'static str>,
    pub(super) one_packet: bool,
    pub(super) method: Option<Method>,
    pub(super) persistence: Option<u32>,
    pub(super) granularity: Option<Granularity>,
    pub(super) engine: Option<String>,
    pub(super) virtualhost: Option<String>,
    pub(super) omega: bool,
    pub(super) inhibit: bool,
    pub(super) ha_suspend: Option<At>,
    pub(super) smtp_alert: Alert,
    pub(super) quorum: u32,
    pub(super) hysteresis: u32,
    pub(super) quorum_up: Option<Command>,
    pub(super) quorum_down: Option<Command>,
    pub(super) weight: u32,
    pub(super) timing: Timing,
    pub(super) sorry: Option<Sorry>,
    pub(super) servers: Vec<RealServer>,
    pub(super) lost: Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granularity {
    /// Of IPv4, one bits first.
    Mask(u8),
    Prefix(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sorry {
    pub(super) at: At,
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
    pub(super) method: Option<Method>,
    pub(super) inhibit: bool,
}

#[derive(Clone, Debug)]
pub(super) struct RealServer {
    pub(super) at: At,
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
    pub(super) weight: Option<u32>,
    pub(super) method: Option<Method>,
    pub(super) upper: u32,
    pub(super) lower: u32,
    pub(super) inhibit: Option<bool>,
    pub(super) virtualhost: Option<String>,
    pub(super) smtp_alert: Alert,
    pub(super) notify_up: Option<Command>,
    pub(super) notify_down: Option<Command>,
    pub(super) timing: Timing,
    pub(super) checkers: Vec<Checker>,
    pub(super) lost: Lost,
}

#[derive(Clone, Debug)]
pub(super) struct Checker {
    pub(super) at: At,
    pub(super) kind: CheckerKind,
    pub(super) timing: Timing,
    pub(super) connection: Connection,
    pub(super) lost: Lost,
}

/// Options of checkers that open sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) ip: Option<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) bind_ip: Option<IpAddr>,
    pub(super) bind_port: Option<u16>,
    pub(super) bind_if: Option<String>,
    pub(super) fwmark: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckerKind {
    Tcp,
    Ping,
    Http(Http),
    /// Options as lvsd has them.
    Smtp(Table),
    Dns(Table),
    Udp(Table),
    File(Table),
    Misc {
        options: Table,
        timeout: Option<Duration>,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Http {
    pub(super) tls: bool,
    pub(super) version: &'static str,
    pub(super) virtualhost: Option<String>,
    pub(super) sni: bool,
    pub(super) sni_name: Option<String>,
    pub(super) urls: Vec<Url>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) virtualhost: Option<String>,
    /// `path`, `status`, `body` and `digest`.
    pub(super) options: Table,
}

impl CheckerKind {
    /// `retry` and `delay_before_retry` where nobody says anything; `None` is the delay_loop.
    pub(super) fn default_tries(&self) -> (u32, Option<Duration>) {
        match self {
            Self::Tcp | Self::Ping | Self::Smtp(_) | Self::Udp(_) => (1, Some(Duration::from_secs(1))),
            Self::Http(_) => (1, Some(Duration::from_secs(3))),
            Self::Dns(_) => (3, None),
            Self::Misc { .. } | Self::File(_) => (0, Some(Duration::from_secs(1))),
        }
    }
}

impl Default for Method {
    fn default() -> Self {
        Self { kind: Kind::Nat, tunnel: Tunnel::Ipip }
    }
}
