//! Rule 5: the table that follows from the state.

use std::collections::BTreeMap;
use std::sync::Arc;

use lvsd::engine::model::{self, Forwarding, RealServerId, SchedulerFlag};
use lvsd::engine::snapshot::Order;
use lvsd::engine::table::{
    Destination, DestinationId, Service, ServiceAttributes, ServiceFlags, ServiceId, Table,
};

use super::{Model, Pool};

impl Model {
    pub(crate) fn table(&self) -> Table {
        let services = self
            .pools
            .iter()
            .flat_map(|pool| pool.config.services.iter().map(|id| (*id, Arc::new(pool.service(id)))));
        Table { services: services.collect() }
    }
}

impl Pool {
    fn service(&self, service: &ServiceId) -> Service {
        let mut destinations = BTreeMap::new();
        for server in &self.servers {
            let weight = match (server.stands(), self.is_sorry()) {
                (true, false) => Some(server.effective_weight()),
                (true, true) if server.is(Order::Drain) => Some(0),
                (true, true) | (false, _) => server.config.inhibit_on_failure.then_some(0),
            };
            if let Some(weight) = weight {
                let id = destination_id(server.config.id, server.config.forwarding, service);
                destinations.insert(id, entry(&server.config, weight));
            }
        }
        if let Some(sorry) = &self.config.sorry_server {
            let id = RealServerId { address: sorry.address, port: sorry.port };
            let id = destination_id(id, sorry.forwarding, service);
            let own = |weight| Destination {
                forwarding: sorry.forwarding,
                weight,
                upper_threshold: 0,
                lower_threshold: 0,
            };
            let mut is_twin = self
                .servers
                .iter()
                .filter(|s| destination_id(s.config.id, s.config.forwarding, service) == id);
            if self.is_sorry() {
                let serving = match is_twin.next() {
                    None => own(1),
                    Some(twin) if !twin.stands() => entry(&twin.config, 1),
                    Some(twin) if twin.is(Order::Drain) => entry(&twin.config, 0),
                    Some(twin) => entry(&twin.config, twin.effective_weight().max(1)),
                };
                destinations.insert(id, serving);
            } else if sorry.inhibit {
                destinations.entry(id).or_insert(own(0));
            }
        }
        Service { attributes: attributes(&self.config, service), destinations }
    }
}

fn entry(server: &model::RealServer, weight: u32) -> Destination {
    Destination {
        forwarding: server.forwarding,
        weight,
        upper_threshold: server.upper_threshold.map_or(0, |t| t.get()),
        lower_threshold: server.lower_threshold.map_or(0, |t| t.get()),
    }
}

pub(super) fn destination_id(id: RealServerId, forwarding: Forwarding, service: &ServiceId) -> DestinationId {
    let own = matches!(forwarding, Forwarding::Nat | Forwarding::Local).then_some(id.port).flatten();
    DestinationId { address: id.address, port: own.unwrap_or(service.port()) }
}

fn attributes(pool: &model::VirtualServer, service: &ServiceId) -> ServiceAttributes {
    let mut flags = ServiceFlags::default();
    if pool.one_packet {
        flags = flags.with(ServiceFlags::ONE_PACKET);
    }
    for flag in &pool.scheduler_flags {
        flags = flags.with(match flag {
            SchedulerFlag::One => ServiceFlags::SCHEDULER_1,
            SchedulerFlag::Two => ServiceFlags::SCHEDULER_2,
            SchedulerFlag::Three => ServiceFlags::SCHEDULER_3,
        });
    }
    let persistence = pool.persistence.as_ref();
    ServiceAttributes {
        scheduler: pool.scheduler.clone(),
        flags,
        persistence: persistence.map(|p| p.timeout.get()),
        netmask: persistence.and_then(|p| p.netmask).unwrap_or(service.family().bits()),
        persistence_engine: persistence.and_then(|p| p.engine.clone()),
    }
}
