//! What the rules are told of a host: plain values, no way to look for more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::engine::table::ServiceId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// By path below /proc/sys, `net/ipv4/vs/conntrack`; those that this kernel does not have are missing.
    pub sysctls: BTreeMap<String, String>,
    /// `6.1.0-28-amd64`
    pub kernel_release: String,
    pub modules: Modules,
    /// `None`: this kernel has no IPVS at the moment.
    pub table: Option<IpvsTable>,
    /// Services that an lvsd has on record as its own, as the state file spells them; `None`: it
    /// cannot be read, or is not there.
    pub owned: Option<BTreeSet<String>>,
    pub addresses: Vec<InterfaceAddress>,
    /// Network devices by name.
    pub interfaces: BTreeSet<String>,
    pub routes: Vec<Route>,
    pub privileges: Privileges,
    /// Other programs that write the table.
    pub others: Vec<Other>,
    /// Programs that take addresses from one director to another.
    pub address_movers: Vec<String>,
    /// Debian's ipvsadm.service restores a table at boot, and empties the table when it stops.
    pub ipvsadm_restores: bool,
    /// What of the configuration, and of the programs that it names, the daemon could not use.
    pub barred: Vec<Barred>,
    /// `control_group`, if this host has none of that name.
    pub missing_group: Option<String>,
}

/// Names with `_`, as the kernel has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modules {
    /// At the moment, built in ones that show themselves included.
    pub loaded: BTreeSet<String>,
    /// That could be loaded, or are built in; `None`: there is no index of them here, as in most containers.
    pub index: Option<BTreeSet<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleState {
    Present,
    Loadable,
    Missing,
    Unknown,
}

impl Modules {
    pub fn state(&self, name: &str) -> ModuleState {
        match &self.index {
            _ if self.loaded.contains(name) => ModuleState::Present,
            Some(index) if index.contains(name) => ModuleState::Loadable,
            Some(_) => ModuleState::Missing,
            None => ModuleState::Unknown,
        }
    }
}

/// What /proc/net/ip_vs says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpvsTable {
    /// Buckets of the table of connections.
    pub size: u64,
    pub services: BTreeSet<ServiceId>,
    /// Active and inactive ones of all destinations.
    pub connections: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    pub interface: String,
    pub address: IpAddr,
    pub prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub network: IpAddr,
    pub prefix: u8,
    pub interface: String,
    pub metric: u32,
    pub kind: RouteKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// Packets to these addresses are this host's.
    Local,
    Link,
    Gateway,
    /// Learnt from a router's advertisement, which stops with forwarding unless accept_ra is 2.
    Advertised,
}

/// What the daemon may do, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    pub holder: Holder,
    /// `None` where nothing says who it is.
    pub user: Option<u32>,
    /// Its name or, without one, its number; empty where nothing says.
    pub user_name: String,
    /// Effective capabilities, as in /proc/PID/status.
    pub capabilities: u64,
    /// Open files; `None`: no limit is known.
    pub descriptors: Option<u64>,
    /// The effective group's name or, without one, its number; empty where nothing says.
    pub group_name: String,
    /// Group and supplementary groups.
    pub groups: BTreeSet<u32>,
}

/// Whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// A daemon that runs in this network name space.
    Daemon(u32),
    /// What systemd's unit would give to it.
    Unit,
    /// No daemon and no unit here: who asks.
    #[default]
    Caller,
}

/// A file, or a program, that is not to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barred {
    pub path: PathBuf,
    /// Who would use it: the daemon's user or, of a script, another.
    pub user: String,
    pub bar: Bar,
    pub purpose: Purpose,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bar {
    Missing,
    NotAFile,
    /// By the mode of this: the file's, or that of a folder before it.
    Closed {
        at: PathBuf,
    },
}

/// What it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To be read, by each start and reload.
    Configuration,
    Check,
    Notification,
}

/// Another program that keeps an IPVS table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    pub name: String,
    pub pid: u32,
    /// As far as its configuration says.
    pub claims: BTreeSet<SocketAddr>,
}

pub(super) const CAP_DAC_OVERRIDE: u32 = 1;
pub(super) const CAP_DAC_READ_SEARCH: u32 = 2;
pub(super) const CAP_SETGID: u32 = 6;
pub(super) const CAP_SETUID: u32 = 7;
pub(super) const CAP_NET_ADMIN: u32 = 12;
pub(super) const CAP_NET_RAW: u32 = 13;

impl Privileges {
    pub(super) const fn has(&self, capability: u32) -> bool {
        self.capabilities & (1 << capability) != 0
    }
}

impl Facts {
    /// A setting that is one number.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.sysctls.get(path)?.trim().parse().ok()
    }

    /// Where rp_filter, arp_ignore and their like are the larger of two settings.
    pub(super) fn larger(&self, interface: &str, name: &str) -> Option<i64> {
        let of = |which: &str| self.number(&format!("net/ipv4/conf/{which}/{name}"));
        of("all").into_iter().chain(of(interface)).max()
    }

    /// Does this host take packets to this address as its own?
    pub(super) fn is_local(&self, address: IpAddr) -> bool {
        let routed = |r: &Route| r.kind == RouteKind::Local && covers(r.network, r.prefix, address);
        self.addresses.iter().any(|a| a.address == address) || self.routes.iter().any(routed)
    }

    /// The route that a packet to this address takes, as far as the main table decides it.
    pub(super) fn route_to(&self, address: IpAddr) -> Option<&Route> {
        let fits = |r: &&Route| r.kind != RouteKind::Local && covers(r.network, r.prefix, address);
        self.routes.iter().filter(fits).max_by(|a, b| a.prefix.cmp(&b.prefix).then(b.metric.cmp(&a.metric)))
    }

    /// The device whose network this address is in, without a router between. A default route by a
    /// device alone is no network.
    pub(super) fn link_of(&self, address: IpAddr) -> Option<&str> {
        let route = self.route_to(address).filter(|r| r.kind == RouteKind::Link && r.prefix > 0);
        route.map(|r| r.interface.as_str())
    }
}

/// Do the first `prefix` bits agree?
pub(super) fn covers(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, bits: u8| {
        let ignored = u32::from(bits.saturating_sub(prefix));
        a.checked_shr(ignored).unwrap_or(0) == b.checked_shr(ignored).unwrap_or(0)
    };
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}
