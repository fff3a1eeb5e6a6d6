//! The kernel's own IPVS: [`Kernel`] and [`Dump`] over generic netlink, a socket each.
//!
//! Both belong to the network name space of the thread that opened them, and must be used from
//! threads of that name space: a lost socket is opened anew where it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nix::errno::Errno;

use super::codec::request::{self, DaemonRole};
use super::codec::{Attributes, Header, Malformed, reply};
use super::error::{Loss, OpenError, OperationError, Reason, RequestError};
use super::handle::{Dump, Info, Kernel, Observed};
use super::operation::Operation;
use super::transport::{BATCH, Deadline, Kind, Options, Transport};
use crate::engine::model::{Family, Sync, SyncRole, Timeouts};
use crate::engine::table::{Counters, Destination, DestinationId, Service, ServiceAttributes, ServiceId};

/// The socket that writes.
#[derive(Debug)]
pub struct Netlink {
    transport: Transport,
}

impl Netlink {
    /// Finds ip_vs and makes sure that we may use it.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let mut netlink = Self { transport: open(options)? };
        match netlink.info() {
            Ok(_) => Ok(netlink),
            Err(RequestError { reason: Reason::Refused(Errno::EPERM), .. }) => Err(OpenError::NotPermitted),
            Err(other) => Err(other.into()),
        }
    }

    fn ask(
        &mut self,
        what: &'static str,
        kind: Kind,
        encode: impl FnOnce(&mut Vec<u8>, Header),
        visit: impl FnMut(Attributes<'_>) -> Result<(), Malformed>,
    ) -> Result<(), RequestError> {
        let mut deadline = Deadline::start(self.transport.deadline());
        self.transport
            .ask(kind, &mut deadline, encode, visit)
            .map_err(|reason| RequestError { request: what, reason: self.explain(reason) })
    }

    fn change(
        &mut self,
        what: &'static str,
        encode: impl Fn(&mut Vec<u8>, Header),
    ) -> Result<(), RequestError> {
        let result = self.transport.batch(&[()], |buffer, header, ()| encode(buffer, header)).pop();
        result
            .unwrap_or(Ok(()))
            .map_err(|reason| RequestError { request: what, reason: self.explain(reason) })
    }

    /// ENOENT from the controller's side of the family number, not from IPVS.
    fn explain(&mut self, reason: Reason) -> Reason {
        if reason == Reason::Refused(Errno::ENOENT) && !self.transport.family_is_current() {
            return Loss::ModuleGone.into();
        }
        reason
    }

    fn apply_batch(&mut self, operations: &[Operation]) -> Vec<Result<(), Reason>> {
        let mut results = self.transport.batch(operations, request::operation);
        let is_absent = |result: &Result<(), Reason>| *result == Err(Reason::Refused(Errno::ENOENT));
        if results.iter().any(is_absent) && !self.transport.family_is_current() {
            for result in results.iter_mut().filter(|result| is_absent(result)) {
                *result = Err(Loss::ModuleGone.into());
            }
        }
        results
    }
}

impl Kernel for Netlink {
    /// After a loss nothing more is sent: what follows may rely on what may not have happened.
    fn apply(&mut self, operations: &[Operation]) -> Vec<Result<(), OperationError>> {
        let mut results = Vec::with_capacity(operations.len());
        let mut loss: Option<Reason> = None;
        for chunk in operations.chunks(BATCH) {
            let outcomes = match &loss {
                None => self.apply_batch(chunk),
                Some(reason) => vec![Err(reason.clone()); chunk.len()],
            };
            for (operation, outcome) in chunk.iter().zip(outcomes) {
                results.push(outcome.map_err(|reason| {
                    if matches!(reason, Reason::Unknown(_)) {
                        loss = Some(reason.clone());
                    }
                    OperationError { operation: operation.clone(), reason }
                }));
            }
        }
        results
    }

    fn timeouts(&mut self) -> Result<Timeouts, RequestError> {
        let mut timeouts = Timeouts::default();
        self.ask("read the ipvs timeouts", Kind::Single, request::timeouts, |attributes| {
            timeouts = reply::timeouts(attributes)?;
            Ok(())
        })?;
        Ok(timeouts)
    }

    fn set_timeouts(&mut self, timeouts: &Timeouts) -> Result<(), RequestError> {
        self.change("set the ipvs timeouts", |buffer, header| request::set_timeouts(buffer, header, timeouts))
    }

    fn sync_daemons(&mut self) -> Result<Vec<Sync>, RequestError> {
        let mut running = Vec::new();
        self.ask("list the ipvs sync daemons", Kind::Dump, request::daemons, |attributes| {
            running.extend(reply::daemon(attributes)?);
            Ok(())
        })?;
        Ok(running)
    }

    fn start_sync(&mut self, sync: &Sync) -> Result<(), RequestError> {
        for (role, what) in roles(sync.role, ["start the ipvs master daemon", "start the ipvs backup daemon"])
        {
            self.change(what, |buffer, header| request::start_daemon(buffer, header, role, sync))?;
        }
        Ok(())
    }

    fn stop_sync(&mut self, role: SyncRole) -> Result<(), RequestError> {
        for (role, what) in roles(role, ["stop the ipvs master daemon", "stop the ipvs backup daemon"]) {
            let stopped = self.change(what, |buffer, header| request::stop_daemon(buffer, header, role));
            match stopped {
                Err(RequestError { reason: Reason::Refused(Errno::ESRCH), .. }) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn info(&mut self) -> Result<Info, RequestError> {
        const WHAT: &str = "ask for the ipvs version";
        let mut info = None;
        self.ask(WHAT, Kind::Single, request::info, |attributes| {
            info = Some(reply::info(attributes)?);
            Ok(())
        })?;
        info.ok_or(RequestError {
            request: WHAT,
            reason: Loss::Malformed(Malformed::Missing("version")).into(),
        })
    }
}

/// The kernel's daemons of a role, with the name of what is done to each.
fn roles(
    role: SyncRole,
    [master, backup]: [&'static str; 2],
) -> impl Iterator<Item = (DaemonRole, &'static str)> {
    let (master, backup) = ((DaemonRole::Master, master), (DaemonRole::Backup, backup));
    match role {
        SyncRole::Master => [Some(master), None],
        SyncRole::Backup => [Some(backup), None],
        SyncRole::Both => [Some(master), Some(backup)],
    }
    .into_iter()
    .flatten()
}

/// The socket that looks.
#[derive(Debug)]
pub struct Dumper {
    transport: Transport,
    /// What the last dump has seen, and what was added since.
    known: BTreeSet<ServiceId>,
}

/// One dump is tried so often before its loss is reported.
const ATTEMPTS: usize = 3;

/// So many services are one answer, which the kernel makes under its lock: each takes some 400 bytes, and
/// an answer has room for a page less its overhead.
const SERVICES_IN_AN_ANSWER: usize = 8;

/// The services are listed so often at most until two lists are the same.
const LISTS: usize = 5;

/// Services that are asked for under one deadline. Not one: looking at the clock can cost as much.
const SERVICES_AT_ONCE: usize = 64;

impl Dumper {
    /// Finds ip_vs. The first dump tells whether we may use it.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        Ok(Self { transport: open(options)?, known: BTreeSet::new() })
    }

    fn attempt(&mut self) -> Result<Observed, Reason> {
        let result = self.read_table();
        if matches!(result, Err(Reason::Refused(Errno::ENOENT))) && !self.transport.family_is_current() {
            return Err(Loss::ModuleGone.into());
        }
        result
    }

    fn read_table(&mut self) -> Result<Observed, Reason> {
        let mut deadline = Deadline::start(self.transport.deadline());
        let mut totals = BTreeMap::new();
        let (services, unnamed) = self.services(&mut deadline, &mut totals)?;
        let mut observed = Observed { totals, unnamed, ..Observed::default() };
        let mut counters = Vec::new();
        let mut any_empty = false;
        for (index, (id, attributes)) in services.into_iter().enumerate() {
            // A large table takes its time; the kernel that answers nothing for so long is what ends it.
            if index % SERVICES_AT_ONCE == 0 {
                deadline = Deadline::start(self.transport.deadline());
            }
            let destinations = self.destinations(&mut deadline, &id, &mut counters, &mut observed.unnamed)?;
            any_empty |= destinations.is_empty();
            let service = Service { attributes, destinations: destinations.into_iter().collect() };
            observed.table.services.insert(id, Arc::new(service));
        }
        if any_empty {
            self.drop_vanished(&mut deadline, &mut observed)?;
        }
        observed.counters = counters.into_iter().collect();
        observed.incarnation = self.transport.family().unwrap_or_default();
        self.known = observed.table.services.keys().copied().collect();
        Ok(observed)
    }

    /// Between two answers the kernel remembers how many services it has passed, those of all name spaces
    /// counted (`ip_vs_genl_dump_services`). When one that it has passed goes, another is left out, without
    /// NLM_F_DUMP_INTR. So a list of several answers counts when a second one has the same services, and
    /// what was there before is asked for by its name. What only one list has was there, and its
    /// destinations show whether it still is.
    fn services(
        &mut self,
        deadline: &mut Deadline,
        totals: &mut BTreeMap<ServiceId, Counters>,
    ) -> Result<(BTreeMap<ServiceId, ServiceAttributes>, usize), Reason> {
        let (mut services, mut unnamed) = self.list(deadline, totals)?;
        let mut count = services.len();
        for _ in 1..LISTS {
            if services.len() + unnamed <= SERVICES_IN_AN_ANSWER {
                break;
            }
            let (again, unnamed_again) = self.list(deadline, totals)?;
            let is_same = again.len() == count && again.keys().all(|id| services.contains_key(id));
            count = again.len();
            services.extend(again);
            unnamed = unnamed_again;
            if is_same {
                break;
            }
        }
        let missing: Vec<ServiceId> =
            self.known.iter().filter(|id| !services.contains_key(id)).copied().collect();
        for id in missing {
            if let Some(attributes) = self.service(deadline, id, totals)? {
                services.insert(id, attributes);
            }
        }
        Ok((services, unnamed))
    }

    fn service(
        &mut self,
        deadline: &mut Deadline,
        id: ServiceId,
        totals: &mut BTreeMap<ServiceId, Counters>,
    ) -> Result<Option<ServiceAttributes>, Reason> {
        let mut found = None;
        let asked = self.transport.ask(
            Kind::Single,
            deadline,
            |buffer, header| request::service(buffer, header, &id),
            |attributes| {
                found = reply::service(attributes)?.map(|(_, service)| service);
                totals.insert(id, reply::service_counters(attributes)?);
                Ok(())
            },
        );
        match asked {
            Err(Reason::Refused(Errno::ESRCH)) => Ok(None),
            other => other.map(|()| found),
        }
    }

    fn list(
        &mut self,
        deadline: &mut Deadline,
        totals: &mut BTreeMap<ServiceId, Counters>,
    ) -> Result<(BTreeMap<ServiceId, ServiceAttributes>, usize), Reason> {
        let mut services = BTreeMap::new();
        let mut unnamed = 0;
        self.transport.ask(Kind::Dump, deadline, request::services, |attributes| {
            match reply::service(attributes)? {
                Some((id, service)) => {
                    services.insert(id, service);
                    totals.insert(id, reply::service_counters(attributes)?);
                }
                None => unnamed += 1,
            }
            Ok(())
        })?;
        Ok((services, unnamed))
    }

    fn destinations(
        &mut self,
        deadline: &mut Deadline,
        service: &ServiceId,
        counters: &mut Vec<((ServiceId, DestinationId), Counters)>,
        unnamed: &mut usize,
    ) -> Result<Vec<(DestinationId, Destination)>, Reason> {
        let family: Family = service.family();
        let mut destinations = Vec::new();
        self.transport.ask(
            Kind::Dump,
            deadline,
            |buffer, header| request::destinations(buffer, header, service),
            |attributes| {
                match reply::destination(attributes, family)? {
                    Some(entry) => {
                        destinations.push((entry.id, entry.record));
                        counters.push(((*service, entry.id), entry.counters));
                    }
                    None => *unnamed += 1,
                }
                Ok(())
            },
        )?;
        Ok(destinations)
    }

    /// The kernel answers for a service that has gone as for one that is empty.
    fn drop_vanished(&mut self, deadline: &mut Deadline, observed: &mut Observed) -> Result<(), Reason> {
        let (present, _) = self.list(deadline, &mut observed.totals)?;
        let is_doubtful = |(id, service): &(&ServiceId, &Arc<Service>)| {
            service.destinations.is_empty() && !present.contains_key(id)
        };
        let services = &observed.table.services;
        let doubtful: Vec<ServiceId> = services.iter().filter(is_doubtful).map(|(id, _)| *id).collect();
        for id in doubtful {
            if self.service(deadline, id, &mut observed.totals)?.is_none() {
                observed.table.services.remove(&id);
            }
        }
        Ok(())
    }
}

impl Dump for Dumper {
    fn dump(&mut self) -> Result<Observed, RequestError> {
        let mut result = self.attempt();
        for _ in 1..ATTEMPTS {
            match &result {
                // Another wait of the same length would help nobody.
                Ok(_) | Err(Reason::Refused(_) | Reason::Unknown(Loss::Deadline(_))) => break,
                Err(Reason::Unknown(_)) => result = self.attempt(),
            }
        }
        result.map_err(|reason| RequestError { request: "dump the ipvs table", reason })
    }

    fn expect(&mut self, added: BTreeSet<ServiceId>) {
        self.known.extend(added);
    }
}

fn open(options: Options) -> Result<Transport, OpenError> {
    let mut transport = Transport::open(options).map_err(OpenError::Socket)?;
    match transport.resolve_family() {
        Ok(Some(_)) => Ok(transport),
        Ok(None) => Err(OpenError::ModuleMissing),
        Err(reason) => Err(RequestError { request: "look for ip_vs", reason }.into()),
    }
}
