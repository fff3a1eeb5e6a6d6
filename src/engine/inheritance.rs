//! Who takes over the operator's orders when another configuration comes into force. An order follows its real
//! server as a verdict does: through the services of its virtual server, and where none of these is left, through
//! the virtual server's name. What nobody takes over ends, and that is told.

use std::collections::{BTreeMap, BTreeSet};

use super::event::OrderChange;
use super::memory::Memory;
use super::model::{self, Config, RealServerId};
use super::past::predecessors;
use super::reload::ServerKey;
use super::snapshot::{OperatorWeight, OrderNote, Override};
use super::time::Time;
use super::virtual_server::VirtualServer;

/// What an operator has ordered of one real server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) order: Option<Box<Override>>,
    pub(super) operator_weight: Option<Box<OperatorWeight>>,
}

/// An order that ends with its real server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostOrder {
    /// As it was called before; empty in what an early state file says.
    pub virtual_server: String,
    pub real_server: RealServerId,
    pub given: OrderChange,
    pub note: OrderNote,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inheritance {
    /// By real server of the new configuration.
    pub(super) heirs: BTreeMap<ServerKey, Orders>,
    pub(super) lost: Vec<LostOrder>,
}

/// A virtual server of before, whose orders are to be taken over.
struct Former<'a> {
    name: &'a str,
    servers: BTreeMap<RealServerId, Given<'a>>,
}

#[derive(Clone, Copy, Default)]
struct Given<'a> {
    order: Option<&'a Override>,
    weight: Option<&'a OperatorWeight>,
}

/// A virtual server of the new configuration: where it stands in it, and which of before have its services.
pub(super) type Heir<'a> = (usize, &'a model::VirtualServer, Vec<usize>);

impl Inheritance {
    /// Of the running `pools`, but for those that stay just the same and keep what they have.
    pub(super) fn of_running(pools: &[VirtualServer], stay: &BTreeSet<usize>, heirs: &[Heir<'_>]) -> Self {
        let formers = pools.iter().enumerate().map(|(index, pool)| {
            let leaves = !stay.contains(&index);
            let servers = pool.real_servers.iter().filter(move |_| leaves).map(|server| {
                let (order, weight) = (server.order.as_deref(), server.operator_weight.as_deref());
                (server.id(), Given { order, weight })
            });
            (pool.config.name.as_str(), servers)
        });
        Self::settle(formers, heirs)
    }

    /// Of the state file. An order that is over by now is no loss.
    pub(super) fn of_start(config: &Config, memory: &Memory, now: Time) -> Self {
        let index = memory.index();
        let heirs: Vec<Heir<'_>> = (0..)
            .zip(&config.virtual_servers)
            .map(|(at, pool)| {
                let among = predecessors(&pool.services, |service| index.get(service).copied());
                (at, pool.as_ref(), among)
            })
            .collect();
        let formers = memory.virtual_servers.iter().map(|pool| {
            let servers = pool.real_servers.iter().map(|server| {
                let (order, weight) = (server.order.as_deref(), server.operator_weight.as_deref());
                (server.id, Given { order, weight })
            });
            (pool.name.as_str(), servers)
        });
        let mut inheritance = Self::settle(formers, &heirs);
        inheritance.lost.retain(|lost| lost.note.until.is_none_or(|until| until > now));
        inheritance
    }

    fn settle<'a, S>(formers: impl Iterator<Item = (&'a str, S)> + Clone, heirs: &'a [Heir<'a>]) -> Self
    where
        S: Iterator<Item = (RealServerId, Given<'a>)>,
    {
        // Orders are rare: whoever has none is not looked at any further.
        let servers = formers.clone().flat_map(|(_, servers)| servers);
        let ordered: BTreeSet<RealServerId> =
            servers.filter(|(_, given)| given.is_any()).map(|(id, _)| id).collect();
        if ordered.is_empty() {
            return Self::default();
        }
        let formers: Vec<Former<'_>> = formers
            .map(|(name, servers)| {
                let servers = servers.filter(|(id, _)| ordered.contains(id)).collect();
                Former { name, servers }
            })
            .collect();
        let mut inheritance = Self::default();
        let mut taken = BTreeSet::new();
        let servers = |(_, pool, _): &Heir<'a>| pool.real_servers.iter().map(|server| server.id);
        let continued: BTreeSet<(usize, RealServerId)> = heirs
            .iter()
            .flat_map(|heir| heir.2.iter().flat_map(move |at| servers(heir).map(|id| (*at, id))))
            .filter(|(_, id)| ordered.contains(id))
            .collect();
        for (index, pool, among) in heirs {
            for server in pool.real_servers.iter().filter(|server| ordered.contains(&server.id)) {
                let from = sources(&formers, (pool, among), &continued, server.id);
                let order = from.iter().find_map(|(at, given)| Some((*at, given.order?)));
                let weight = from.iter().find_map(|(at, given)| Some((*at, given.weight?)));
                taken.extend(order.map(|(at, _)| (at, server.id, Part::Order)));
                taken.extend(weight.map(|(at, _)| (at, server.id, Part::Weight)));
                if order.is_some() || weight.is_some() {
                    let orders = Orders {
                        order: order.map(|(_, order)| Box::new(order.clone())),
                        operator_weight: weight.map(|(_, weight)| Box::new(weight.clone())),
                    };
                    inheritance.heirs.insert((*index, server.id), orders);
                }
            }
        }
        for (at, former) in formers.iter().enumerate() {
            for (id, given) in &former.servers {
                let lost = given.parts().filter(|(part, _, _)| !taken.contains(&(at, *id, *part)));
                inheritance.lost.extend(lost.map(|(_, given, note)| LostOrder {
                    virtual_server: former.name.to_owned(),
                    real_server: *id,
                    given,
                    note: note.clone(),
                }));
            }
        }
        inheritance
    }
}

/// Of whom real server `id` of `pool` may take over orders, the first first: of those whose services the pool
/// has; if none of them has the server, of the one with its name, unless the server there is `continued` by services.
fn sources<'a>(
    formers: &[Former<'a>],
    (pool, among): (&model::VirtualServer, &[usize]),
    continued: &BTreeSet<(usize, RealServerId)>,
    id: RealServerId,
) -> Vec<(usize, Given<'a>)> {
    let given = |at: usize| Some((at, *formers.get(at)?.servers.get(&id)?));
    let by_services: Vec<_> = among.iter().filter_map(|at| given(*at)).collect();
    if !by_services.is_empty() {
        return by_services;
    }
    let namesake = formers.iter().position(|former| former.name == pool.name);
    namesake.filter(|at| !continued.contains(&(*at, id))).and_then(given).into_iter().collect()
}

/// The two kinds of orders, which live side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Order,
    Weight,
}

impl<'a> Given<'a> {
    const fn is_any(&self) -> bool {
        self.order.is_some() || self.weight.is_some()
    }

    fn parts(self) -> impl Iterator<Item = (Part, OrderChange, &'a OrderNote)> {
        let order = self.order.map(|given| (Part::Order, given.order.into(), &given.note));
        let weight = self.weight.map(|given| (Part::Weight, OrderChange::Weight(given.weight), &given.note));
        order.into_iter().chain(weight)
    }
}

#[cfg(test)]
mod tests;
