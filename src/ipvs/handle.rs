//! What the rest of lvsd sees of an IPVS, be it the kernel's or one in memory.
//!
//! Everything blocks, with deadlines: callers run it on threads of their own. Writes and dumps
//! are two traits because they are two sockets: a dump never delays a write.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use super::error::{OperationError, RequestError};
use super::operation::Operation;
use crate::engine::model::{Sync, SyncRole, Timeouts};
use crate::engine::table::{Counters, CountersByDestination, ServiceId, Table};

/// The side that changes things.
pub trait Kernel: Send {
    /// Carries out the operations in order; an operation that fails does not stop those after it.
    /// One result for each, in their order.
    fn apply(&mut self, operations: &[Operation]) -> Vec<Result<(), OperationError>>;

    /// All three are set in the answer.
    fn timeouts(&mut self) -> Result<Timeouts, RequestError>;

    /// Unset ones stay as they are.
    fn set_timeouts(&mut self, timeouts: &Timeouts) -> Result<(), RequestError>;

    /// The sync daemons that run: none, or one or two with the role master or backup.
    fn sync_daemons(&mut self) -> Result<Vec<Sync>, RequestError>;

    /// Starts one daemon, or both of [`SyncRole::Both`]; stops at the first that the kernel refuses.
    fn start_sync(&mut self, sync: &Sync) -> Result<(), RequestError>;

    /// Stopping one that does not run is no error.
    fn stop_sync(&mut self, role: SyncRole) -> Result<(), RequestError>;

    fn info(&mut self) -> Result<Info, RequestError>;
}

/// The side that looks.
pub trait Dump: Send {
    /// The whole table, ours and foreign. Not a snapshot: what changes during the dump may be
    /// seen before or after its change, and a neighbour of a removed entry may be missed.
    fn dump(&mut self) -> Result<Observed, RequestError>;

    /// Services that were added since the last dump: the next one is not to miss them. Whoever cannot miss
    /// any has nothing to do.
    fn expect(&mut self, _added: BTreeSet<ServiceId>) {}
}

/// What a dump saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    pub table: Table,
    pub counters: CountersByDestination,
    /// What each service has carried; its connections of now are its destinations'.
    pub totals: BTreeMap<ServiceId, Counters>,
    /// Entries that no [`ServiceId`] can name, such as services of other protocols: never ours.
    pub unnamed: usize,
    /// Another number: the module has been loaded anew, with time-outs of its own and no sync daemons.
    pub incarnation: u16,
}

/// The kernel's IPVS itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Major, minor, patch; 1.2.1 for any kernel of the last fifteen years.
    pub version: (u8, u8, u8),
    pub connection_table_size: u32,
}

/// Do the daemons that run do what is wanted? Unset options stand for the kernel's defaults.
pub fn sync_is_running(wanted: &Sync, running: &[Sync]) -> bool {
    let roles: &[SyncRole] = match wanted.role {
        SyncRole::Master => &[SyncRole::Master],
        SyncRole::Backup => &[SyncRole::Backup],
        SyncRole::Both => &[SyncRole::Master, SyncRole::Backup],
    };
    running.len() == roles.len()
        && roles
            .iter()
            .all(|role| running.iter().any(|daemon| daemon.role == *role && is_like(wanted, daemon)))
}

/// The kernel's defaults: `IP_VS_SYNC_PORT`, `IP_VS_SYNC_GROUP`, one hop. The default length
/// follows the interface's MTU, so an unset one fits any.
fn is_like(wanted: &Sync, daemon: &Sync) -> bool {
    const PORT: u16 = 8848;
    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(224, 0, 0, 81));
    const TTL: u8 = 1;
    let group = wanted.group.unwrap_or(GROUP);
    wanted.interface == daemon.interface
        && wanted.id == daemon.id
        && wanted.max_length.is_none_or(|length| Some(clamp(length, group, daemon.role)) == daemon.max_length)
        && group == daemon.group.unwrap_or(GROUP)
        && wanted.port.unwrap_or(PORT) == daemon.port.unwrap_or(PORT)
        && wanted.ttl.unwrap_or(TTL) == daemon.ttl.unwrap_or(TTL)
}

/// What the kernel makes of a length: a backup takes 1024 at least, and the headers of IP and UDP
/// must fit as well.
pub(super) fn clamp(length: u16, group: IpAddr, role: SyncRole) -> u16 {
    let least = match role {
        SyncRole::Backup => 1024,
        SyncRole::Master | SyncRole::Both => 1,
    };
    let most = match group {
        IpAddr::V4(_) => u16::MAX - 28,
        IpAddr::V6(_) => u16::MAX - 48,
    };
    length.clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(role: SyncRole) -> Sync {
        Sync {
            role,
            interface: "eth0".to_owned(),
            id: 1,
            max_length: None,
            group: None,
            port: None,
            ttl: None,
        }
    }

    fn running(role: SyncRole) -> Sync {
        Sync {
            max_length: Some(1464),
            group: Some("224.0.0.81".parse().unwrap()),
            port: Some(8848),
            ttl: Some(1),
            ..sync(role)
        }
    }

    #[test]
    fn unset_options_stand_for_the_kernels_defaults() {
        let (master, backup) = (running(SyncRole::Master), running(SyncRole::Backup));
        let both = [master.clone(), backup.clone()];
        assert!(sync_is_running(&sync(SyncRole::Master), std::slice::from_ref(&master)));
        assert!(sync_is_running(&sync(SyncRole::Both), &both));
        assert!(!sync_is_running(&sync(SyncRole::Both), std::slice::from_ref(&master)));
        assert!(!sync_is_running(&sync(SyncRole::Master), &both));
        assert!(!sync_is_running(&sync(SyncRole::Backup), std::slice::from_ref(&master)));
        let other_port = Sync { port: Some(9000), ..master.clone() };
        assert!(!sync_is_running(&sync(SyncRole::Master), &[other_port]));
        let shorter = Sync { max_length: Some(1000), ..sync(SyncRole::Master) };
        assert!(!sync_is_running(&shorter, &[master]));
    }

    #[test]
    fn a_length_is_compared_as_the_kernel_clamps_it() {
        let wanted = Sync { max_length: Some(500), ..sync(SyncRole::Both) };
        let master = Sync { max_length: Some(500), ..running(SyncRole::Master) };
        let backup = Sync { max_length: Some(1024), ..running(SyncRole::Backup) };
        assert!(sync_is_running(&wanted, &[master.clone(), backup]));
        let backup = Sync { max_length: Some(500), ..running(SyncRole::Backup) };
        assert!(!sync_is_running(&wanted, &[master, backup]));
    }
}
