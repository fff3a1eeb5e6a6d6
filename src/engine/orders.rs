//! The operator's orders: drain, disable, enable, weight. They live beside the verdicts.

use std::net::IpAddr;
use std::sync::Arc;

use super::Engine;
use super::event::{Cause, Event, Occasion, OrderChange, Server};
use super::model;
use super::real_server::RealServer;
use super::snapshot::{OperatorWeight, Order, OrderNote, Override};
use super::time::Time;

/// Which real servers an order is about.
#[derive(Clone, Copy, Debug)]
pub struct Selector<'a> {
    pub address: IpAddr,
    /// Unset: whatever the port.
    pub port: Option<u16>,
    /// The name of a virtual server; unset: wherever it is.
    pub virtual_server: Option<&'a str>,
}

impl Selector<'_> {
    fn selects(&self, pool: &model::VirtualServer, server: &RealServer) -> bool {
        let id = server.id();
        let port = match (self.port, id.port) {
            (None, _) => true,
            (Some(wanted), Some(port)) => wanted == port,
            // A server without a port of its own is in the table under its services' ports.
            (Some(wanted), None) => pool.services.iter().any(|s| s.port() == wanted),
        };
        port && id.address == self.address && self.virtual_server.is_none_or(|name| name == pool.name)
    }
}

impl Engine {
    /// Gives an order about every server that `selector` selects; returns how many there were.
    pub fn handle_order(&mut self, selector: Selector<'_>, change: OrderChange, note: &OrderNote) -> usize {
        let mut places = Vec::new();
        for (pool_at, pool) in self.pools.iter().enumerate() {
            for (server_at, server) in pool.real_servers.iter().enumerate() {
                if selector.selects(&pool.config, server) {
                    places.push((pool_at, server_at));
                }
            }
        }
        for (pool_at, server_at) in &places {
            self.order((*pool_at, *server_at), change, Occasion::Operator, note);
        }
        self.find_order_end();
        self.settle_quorums();
        places.len()
    }

    /// Ends orders whose time is over.
    pub(super) fn expire_orders(&mut self, now: Time) {
        if self.order_end.is_none_or(|end| end > now) {
            return;
        }
        let mut ended = Vec::new();
        let over = |note: &OrderNote| note.until.is_some_and(|until| until <= now);
        for (pool_at, pool) in self.pools.iter().enumerate() {
            for (server_at, server) in pool.real_servers.iter().enumerate() {
                if let Some(order) = server.order.as_ref().filter(|o| over(&o.note)) {
                    ended.push((pool_at, server_at, OrderChange::Enable, order.note.clone()));
                }
                if let Some(weight) = server.operator_weight.as_ref().filter(|w| over(&w.note)) {
                    ended.push((pool_at, server_at, OrderChange::WeightAuto, weight.note.clone()));
                }
            }
        }
        for (pool_at, server_at, change, note) in ended {
            self.order((pool_at, server_at), change, Occasion::Time, &note);
        }
        self.find_order_end();
    }

    fn order(
        &mut self,
        (pool_at, server_at): (usize, usize),
        change: OrderChange,
        occasion: Occasion,
        note: &OrderNote,
    ) {
        let Some(pool) = self.pools.get_mut(pool_at) else { return };
        let virtual_server = Arc::clone(&pool.config);
        let Some(server) = pool.real_servers.get_mut(server_at) else { return };
        let given = note.clone();
        match change {
            OrderChange::Drain => server.order = Some(Override { order: Order::Drain, note: given }),
            OrderChange::Disable => server.order = Some(Override { order: Order::Disable, note: given }),
            OrderChange::Enable => server.order = None,
            OrderChange::Weight(weight) => {
                server.operator_weight = Some(OperatorWeight { weight, note: given });
            }
            OrderChange::WeightAuto => server.operator_weight = None,
        }
        let of = Server { virtual_server, real_server: Arc::clone(&server.config) };
        self.events.push_back(Event::Order { of, change, occasion, note: note.clone() });
        self.memory_changed = true;
        self.announce_change(pool_at, server_at, &Cause::Operator);
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
