//! An IPVS in memory that answers as the kernel does, for dry runs and for tests.
//!
//! Refuses what the kernel refuses, with the same errno, in the same order of checks, so that a
//! plan that works here works there. Forwards no packets, counts none.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;

use super::error::{OperationError, Reason, RequestError};
use super::handle::{Dump, Info, Kernel, Observed, clamp};
use super::operation::Operation;
use crate::engine::model::{Family, Forwarding, Sync, SyncRole, Timeouts, Tunnel};
use crate::engine::table::{
    Counters, Destination, DestinationId, Service, ServiceAttributes, ServiceId, Table,
};

/// A handle; its clones share one table, as sockets share the kernel's.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    // A lock and not a message: like a system call, each use is over before it returns.
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    table: Table,
    timeouts: Timeouts,
    daemons: Vec<Sync>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            table: Table::default(),
            timeouts: Timeouts {
                tcp: NonZeroU32::new(900),
                tcp_fin: NonZeroU32::new(120),
                udp: NonZeroU32::new(300),
            },
            daemons: Vec::new(),
        }
    }
}

impl Memory {
    /// One that already holds `table`.
    pub fn with_table(table: Table) -> Self {
        Self { state: Arc::new(Mutex::new(State { table, ..State::default() })) }
    }

    pub fn table(&self) -> Table {
        self.lock().table.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel for Memory {
    fn apply(&mut self, operations: &[Operation]) -> Vec<Result<(), OperationError>> {
        let mut state = self.lock();
        operations
            .iter()
            .map(|operation| {
                state.apply(operation).map_err(|errno| OperationError {
                    operation: operation.clone(),
                    reason: Reason::Refused(errno),
                })
            })
            .collect()
    }

    fn timeouts(&mut self) -> Result<Timeouts, RequestError> {
        Ok(self.lock().timeouts)
    }

    fn set_timeouts(&mut self, timeouts: &Timeouts) -> Result<(), RequestError> {
        let mut state = self.lock();
        let old = state.timeouts;
        state.timeouts = Timeouts {
            tcp: timeouts.tcp.or(old.tcp),
            tcp_fin: timeouts.tcp_fin.or(old.tcp_fin),
            udp: timeouts.udp.or(old.udp),
        };
        Ok(())
    }

    fn sync_daemons(&mut self) -> Result<Vec<Sync>, RequestError> {
        Ok(self.lock().daemons.clone())
    }

    fn start_sync(&mut self, sync: &Sync) -> Result<(), RequestError> {
        let mut state = self.lock();
        for role in roles(sync.role) {
            state.start_daemon(*role, sync).map_err(|errno| RequestError {
                request: "start an ipvs sync daemon",
                reason: Reason::Refused(errno),
            })?;
        }
        Ok(())
    }

    fn stop_sync(&mut self, role: SyncRole) -> Result<(), RequestError> {
        self.lock().daemons.retain(|daemon| !roles(role).contains(&daemon.role));
        Ok(())
    }

    fn info(&mut self) -> Result<Info, RequestError> {
        Ok(Info { version: (1, 2, 1), connection_table_size: 4096 })
    }
}

impl Dump for Memory {
    fn dump(&mut self) -> Result<Observed, RequestError> {
        let table = self.table();
        let counters = table
            .services
            .iter()
            .flat_map(|(id, service)| {
                service.destinations.keys().map(|destination| ((*id, *destination), Counters::default()))
            })
            .collect();
        Ok(Observed { table, counters, ..Observed::default() })
    }
}

const fn roles(role: SyncRole) -> &'static [SyncRole] {
    match role {
        SyncRole::Master => &[SyncRole::Master],
        SyncRole::Backup => &[SyncRole::Backup],
        SyncRole::Both => &[SyncRole::Master, SyncRole::Backup],
    }
}

type Services = BTreeMap<ServiceId, Arc<Service>>;

impl State {
    fn apply(&mut self, operation: &Operation) -> Result<(), Errno> {
        let sync_runs = !self.daemons.is_empty();
        let services = &mut self.table.services;
        match operation {
            Operation::AddService { service, attributes } => add_service(services, *service, attributes),
            Operation::EditService { service, attributes } => edit_service(services, service, attributes),
            Operation::RemoveService { service } => services.remove(service).map(drop).ok_or(Errno::ESRCH),
            Operation::AddDestination { service, destination, record } => {
                let entry = find(services, service)?;
                check_family(service, destination, record, sync_runs)?;
                check_record(record)?;
                if entry.destinations.contains_key(destination) {
                    return Err(Errno::EEXIST);
                }
                check_address(destination)?;
                entry.destinations.insert(*destination, *record);
                Ok(())
            }
            Operation::EditDestination { service, destination, record } => {
                let entry = find(services, service)?;
                check_family(service, destination, record, sync_runs)?;
                check_record(record)?;
                let place = entry.destinations.get_mut(destination).ok_or(Errno::ENOENT)?;
                *place = *record;
                Ok(())
            }
            Operation::RemoveDestination { service, destination } => {
                let entry = find(services, service)?;
                entry.destinations.remove(destination).map(drop).ok_or(Errno::ENOENT)
            }
        }
    }

    fn start_daemon(&mut self, role: SyncRole, sync: &Sync) -> Result<(), Errno> {
        if self.daemons.iter().any(|daemon| daemon.role == role) {
            return Err(Errno::EEXIST);
        }
        let is_mixed = |(id, service): (&ServiceId, &Arc<Service>)| {
            service.destinations.keys().any(|destination| Family::of(destination.address) != id.family())
        };
        if self.table.services.iter().any(is_mixed) {
            return Err(Errno::EINVAL);
        }
        let group = sync.group.unwrap_or(IpAddr::from([224, 0, 0, 81]));
        self.daemons.push(Sync {
            role,
            // Unset: what an Ethernet frame holds.
            max_length: Some(clamp(sync.max_length.unwrap_or(1472), group, role)),
            group: Some(group),
            port: sync.port.or(Some(8848)),
            ttl: sync.ttl.or(Some(1)),
            ..sync.clone()
        });
        Ok(())
    }
}

/// A copy of the service that others do not see, if they hold the old one.
fn find<'a>(services: &'a mut Services, id: &ServiceId) -> Result<&'a mut Service, Errno> {
    services.get_mut(id).map(Arc::make_mut).ok_or(Errno::ESRCH)
}

fn add_service(services: &mut Services, id: ServiceId, attributes: &ServiceAttributes) -> Result<(), Errno> {
    if services.contains_key(&id) {
        return Err(Errno::EEXIST);
    }
    check_attributes(&id, attributes)?;
    let service = Service { attributes: attributes.clone(), destinations: BTreeMap::new() };
    services.insert(id, Arc::new(service));
    Ok(())
}

fn edit_service(
    services: &mut Services,
    id: &ServiceId,
    attributes: &ServiceAttributes,
) -> Result<(), Errno> {
    let service = find(services, id)?;
    check_attributes(id, attributes)?;
    let changes = service.attributes.scheduler != attributes.scheduler;
    if changes && attributes.scheduler.as_str() == "mh" && service.destinations.len() > MAGLEV_LIMIT {
        return Err(Errno::EINVAL);
    }
    service.attributes = attributes.clone();
    Ok(())
}

/// Slots of maglev's table (`IP_VS_MH_TAB_SIZE` as distributions build it).
const MAGLEV_LIMIT: usize = 4093;

fn check_attributes(id: &ServiceId, attributes: &ServiceAttributes) -> Result<(), Errno> {
    const SCHEDULERS: [&str; 15] = [
        "none", "rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "twos",
    ];
    if !SCHEDULERS.contains(&attributes.scheduler.as_str()) {
        return Err(Errno::ENOENT);
    }
    if attributes.persistence_engine.as_deref().is_some_and(|name| name != "sip") {
        return Err(Errno::ENOENT);
    }
    match id.family() {
        Family::Ipv6 if !(1..=128).contains(&attributes.netmask) => Err(Errno::EINVAL),
        Family::Ipv4 | Family::Ipv6 => Ok(()),
    }
}

/// Only a tunnel can end in the other address family, and the sync protocol cannot tell of it.
fn check_family(
    service: &ServiceId,
    destination: &DestinationId,
    record: &Destination,
    sync_runs: bool,
) -> Result<(), Errno> {
    let is_tunnel = matches!(record.forwarding, Forwarding::Tun(_));
    let is_mixed = Family::of(destination.address) != service.family();
    if is_mixed && (sync_runs || !is_tunnel) { Err(Errno::EINVAL) } else { Ok(()) }
}

fn check_record(record: &Destination) -> Result<(), Errno> {
    if i32::try_from(record.weight).is_err() || record.lower_threshold > record.upper_threshold {
        return Err(Errno::ERANGE);
    }
    match record.forwarding {
        Forwarding::Tun(Tunnel::Gue { port: 0, .. }) => Err(Errno::EINVAL),
        Forwarding::Tun(_) | Forwarding::Nat | Forwarding::Dr | Forwarding::Local => Ok(()),
    }
}

fn check_address(destination: &DestinationId) -> Result<(), Errno> {
    let takes = match destination.address {
        IpAddr::V4(address) => {
            !(address.is_unspecified() || address.is_multicast() || address.is_broadcast())
        }
        IpAddr::V6(address) => {
            !(address.is_unspecified() || address.is_multicast() || address.is_unicast_link_local())
        }
    };
    if takes { Ok(()) } else { Err(Errno::EINVAL) }
}

#[cfg(test)]
mod tests;
