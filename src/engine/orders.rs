//! The operator's orders: drain, disable, enable, weight. They live beside the verdicts.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::Engine;
use super::event::{Cause, Event, OrderChange, Server};
use super::inheritance::LostOrder;
use super::model::{self, RealServerId};
use super::real_server::RealServer;
use super::snapshot::{OperatorWeight, Order, OrderNote, Override};
use super::time::Time;
use super::virtual_server::{QuorumEvent, VirtualServer};

/// Which real servers an order is about: what the operator wrote.
#[derive(Clone, Copy, Debug)]
pub struct Selector<'a> {
    pub address: IpAddr,
    /// 0 for one that is configured without.
    pub port: Option<u16>,
    /// The name of a virtual server; unset: wherever it is.
    pub virtual_server: Option<&'a str>,
}

/// What an order came to.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// One real server, once for each virtual server that it is in. At least one.
    pub servers: Vec<Server>,
    /// The quorums that it gained or lost.
    pub quorums: Vec<(Arc<model::VirtualServer>, QuorumEvent)>,
}

/// Why nothing was done.
#[derive(Clone, Debug)]
pub enum OrderRefusal {
    /// No such server; these have at least the address.
    Nobody { near: Vec<Server> },
    /// Without a port it could be any of these.
    Ambiguous(Vec<Server>),
}

/// A pool's index, and a server's in it.
pub(super) type Spot = (usize, usize);

impl Engine {
    /// Gives an order to the one real server that `selector` means, in each virtual server that has it.
    pub fn handle_order(
        &mut self,
        selector: Selector<'_>,
        change: OrderChange,
        note: &OrderNote,
    ) -> Result<Ordered, OrderRefusal> {
        self.give(selector, change, note, |_| Some(note.clone()))
    }

    /// The same by somebody who waits for what the order brings about: the reason and the end of one that stands
    /// are kept where `note` has none, and one to which it adds nothing stays as it is.
    pub fn handle_order_again(
        &mut self,
        selector: Selector<'_>,
        change: OrderChange,
        note: &OrderNote,
    ) -> Result<Ordered, OrderRefusal> {
        self.give(selector, change, note, |standing| renewed(standing, change, note))
    }

    /// `noted`: the note for a server with this order; `None` if that is to stay.
    fn give(
        &mut self,
        selector: Selector<'_>,
        change: OrderChange,
        note: &OrderNote,
        noted: impl Fn(Option<&Override>) -> Option<OrderNote>,
    ) -> Result<Ordered, OrderRefusal> {
        let spots = self.select(selector)?;
        let servers = self.servers_at(&spots);
        self.now = note.since;
        let before = self.events.len();
        for (pool_at, server_at) in spots {
            let server = self.pools.get(pool_at).and_then(|pool| pool.real_servers.get(server_at));
            let Some(note) = noted(server.and_then(|server| server.order.as_deref())) else { continue };
            if let Some(of) = self.servers_at(&[(pool_at, server_at)]).pop() {
                self.events.push_back(Event::Order { of, change, note: note.clone() });
            }
            self.order(pool_at, server_at, change, &note, &Cause::Operator);
        }
        self.find_order_end();
        self.settle_quorums();
        let quorums = self.events.iter().skip(before).filter_map(|event| match event {
            Event::Quorum { virtual_server, quorum } => Some((Arc::clone(virtual_server), *quorum)),
            Event::RealServer { .. }
            | Event::Weight { .. }
            | Event::Failure { .. }
            | Event::LocalError { .. }
            | Event::SetAside { .. }
            | Event::Frozen { .. }
            | Event::Thawed { .. }
            | Event::Gate { .. }
            | Event::Guard { .. }
            | Event::Order { .. }
            | Event::OrderEnded { .. }
            | Event::OrderLost(_)
            | Event::OrderRestored { .. } => None,
        });
        Ok(Ordered { servers, quorums: quorums.collect() })
    }

    /// An address means the server that is configured so; only if there is none does a port of the service mean the
    /// server without its own. Without a port it means the one server with that address: it may be a host that is
    /// meant, and of several nobody knows which. Port 0 is for the one that is configured without.
    pub(super) fn select(&self, selector: Selector<'_>) -> Result<Vec<Spot>, OrderRefusal> {
        let Selector { address, port, virtual_server } = selector;
        let mut exact = Vec::new();
        let mut by_service = Vec::new();
        let mut near = Vec::new();
        let named = |pool: &VirtualServer| virtual_server.is_none_or(|name| name == pool.config.name);
        for (pool_at, pool) in self.pools.iter().enumerate().filter(|(_, pool)| named(pool)) {
            for (server_at, server) in pool.real_servers.iter().enumerate() {
                let (id, spot) = (server.id(), (pool_at, server_at));
                if id.address != address {
                    continue;
                }
                near.push(spot);
                if port.is_some() && id.port == port.filter(|port| *port != 0) {
                    exact.push(spot);
                }
                let has_port = |wanted| pool.config.services.iter().any(|s| s.port() == wanted);
                if id.port.is_none() && port.is_some_and(has_port) {
                    by_service.push(spot);
                }
            }
        }
        if !exact.is_empty() {
            return Ok(exact);
        }
        if port.is_some() {
            return if by_service.is_empty() {
                Err(OrderRefusal::Nobody { near: self.servers_at(&near) })
            } else {
                Ok(by_service)
            };
        }
        let servers = self.servers_at(&near);
        let ids: BTreeSet<RealServerId> = servers.iter().map(|s| s.real_server.id).collect();
        match ids.len() {
            0 => Err(OrderRefusal::Nobody { near: vec![] }),
            1 => Ok(near),
            _ => Err(OrderRefusal::Ambiguous(servers)),
        }
    }

    pub(super) fn servers_at(&self, spots: &[Spot]) -> Vec<Server> {
        let at = |(pool_at, server_at): &Spot| {
            let pool = self.pools.get(*pool_at)?;
            let server = pool.real_servers.get(*server_at)?;
            Some(Server { virtual_server: Arc::clone(&pool.config), real_server: Arc::clone(&server.config) })
        };
        spots.iter().filter_map(at).collect()
    }

    /// Gives orders again that a reload took away, now that what they were about is back. Those over by now, and
    /// servers with another order since, are left alone.
    pub fn give_back(&mut self, lost: &[LostOrder], now: Time) {
        self.now = now;
        for LostOrder { virtual_server, real_server, given, note } in lost {
            let named = |(_, pool): &(usize, &VirtualServer)| pool.config.name == *virtual_server;
            let Some((pool_at, pool)) = self.pools.iter().enumerate().find(named) else { continue };
            let wanted = |(_, server): &(usize, &RealServer)| server.id() == *real_server;
            let Some((server_at, server)) = pool.real_servers.iter().enumerate().find(wanted) else {
                continue;
            };
            let has_one = match given {
                OrderChange::Weight(_) => server.operator_weight.is_some(),
                OrderChange::Drain | OrderChange::Disable => server.order.is_some(),
                OrderChange::Enable | OrderChange::WeightAuto => true,
            };
            if !has_one && note.until.is_none_or(|until| until > now) {
                if let Some(of) = self.servers_at(&[(pool_at, server_at)]).pop() {
                    self.events.push_back(Event::OrderRestored { of, given: *given, note: note.clone() });
                }
                self.order(pool_at, server_at, *given, note, &Cause::Reload);
            }
        }
        self.find_order_end();
        self.settle_quorums();
    }

    /// Ends orders whose time is over.
    pub(super) fn expire_orders(&mut self, now: Time) {
        if self.order_end.is_none_or(|end| end > now) {
            return;
        }
        self.now = now;
        let mut ended = Vec::new();
        let over = |note: &OrderNote| note.until.is_some_and(|until| until <= now);
        for (pool_at, pool) in self.pools.iter().enumerate() {
            for (server_at, server) in pool.real_servers.iter().enumerate() {
                if let Some(order) = server.order.as_ref().filter(|o| over(&o.note)) {
                    let (given, note) = (order.order.into(), order.note.clone());
                    ended.push(((pool_at, server_at), given, OrderChange::Enable, note));
                }
                if let Some(weight) = server.operator_weight.as_ref().filter(|w| over(&w.note)) {
                    let given = OrderChange::Weight(weight.weight);
                    ended.push(((pool_at, server_at), given, OrderChange::WeightAuto, weight.note.clone()));
                }
            }
        }
        for (spot, given, change, note) in ended {
            if let Some(of) = self.servers_at(&[spot]).pop() {
                self.events.push_back(Event::OrderEnded { of, given, note: note.clone() });
            }
            self.order(spot.0, spot.1, change, &note, &Cause::OrderEnded);
        }
        self.find_order_end();
    }

    fn order(
        &mut self,
        pool_at: usize,
        server_at: usize,
        change: OrderChange,
        note: &OrderNote,
        cause: &Cause,
    ) {
        let Some(pool) = self.pools.get_mut(pool_at) else { return };
        let Some(server) = pool.real_servers.get_mut(server_at) else { return };
        let given = note.clone();
        match change {
            OrderChange::Drain => {
                server.order = Some(Box::new(Override { order: Order::Drain, note: given }))
            }
            OrderChange::Disable => {
                server.order = Some(Box::new(Override { order: Order::Disable, note: given }))
            }
            OrderChange::Enable => server.order = None,
            OrderChange::Weight(weight) => {
                server.operator_weight = Some(Box::new(OperatorWeight { weight, note: given }));
            }
            OrderChange::WeightAuto => server.operator_weight = None,
        }
        self.memory_changed = true;
        self.announce_change(pool_at, server_at, cause);
        self.dirty.insert(pool_at);
        self.unsettled.insert(pool_at);
    }

    pub(super) fn find_order_end(&mut self) {
        let servers = self.pools.iter().flat_map(|p| &p.real_servers);
        let notes = servers.flat_map(|s| {
            let order = s.order.as_ref().map(|o| &o.note);
            [order, s.operator_weight.as_ref().map(|w| &w.note)]
        });
        self.order_end = notes.flatten().filter_map(|note| note.until).min();
    }
}

/// What is noted of an order that is given again over `standing`.
fn renewed(standing: Option<&Override>, change: OrderChange, note: &OrderNote) -> Option<OrderNote> {
    let Some(Override { order, note: before }) = standing else { return Some(note.clone()) };
    if change == OrderChange::from(*order) && note.reason.is_none() && note.until.is_none() {
        return None;
    }
    let reason = note.reason.clone().or_else(|| before.reason.clone());
    Some(OrderNote { reason, until: note.until.or(before.until), ..note.clone() })
}
