//! Questions about single real servers: why one is as it is.

use std::sync::Arc;

use tracing::info;

use super::kernel::View;
use super::requests::{VIEW, fill_in, miss, refused};
use super::supervisor::{Answer, Supervisor};
use crate::control::happening::Happening;
use crate::control::protocol::{Load, Place};
use crate::control::why::{self, Case};
use crate::control::{Peer, Reply};
use crate::engine::inquiry::Inquiry;
use crate::engine::model::{Protocol, RealServerId};
use crate::engine::snapshot::Order;
use crate::engine::table::ServiceId;
use crate::engine::{OrderRefusal, Selector, Time};

pub(super) fn selector(on: &Place) -> Selector<'_> {
    Selector {
        address: on.address.address,
        port: on.address.port,
        virtual_server: on.virtual_server.as_deref(),
    }
}

impl Supervisor {
    pub(super) fn answer_why(&self, on: &Place, reply: Answer, now: Time) {
        let inquiries = match self.engine.inquire(selector(on)) {
            Ok(inquiries) => inquiries,
            Err(refusal) => {
                // A client that went away wants no answer, here and below.
                let _ = reply.send(Reply::failed(self.nobody(on, &refusal, now)));
                return;
            }
        };
        let elsewhere = inquiries.first().map(|one| self.orders_lost_elsewhere(one.status.address));
        let elsewhere = elsewhere.unwrap_or_default();
        let case = |inquiry: Inquiry| {
            let mut history = self.announcer.history.of(&inquiry.virtual_server.name, inquiry.status.address);
            history.extend_from_slice(&elsewhere);
            history.sort_unstable_by_key(|happening| std::cmp::Reverse(happening.number));
            Case { inquiry, history }
        };
        let mut cases: Vec<Case> = inquiries.into_iter().map(case).collect();
        let (wanted, _refusals) = self.wanted();
        let view = self.writer.view();
        tokio::spawn(async move {
            if let Ok(Ok(view)) = tokio::time::timeout(VIEW, view).await {
                fill_in(cases.iter_mut().map(|case| &mut case.inquiry.status), &view);
                cases.iter_mut().for_each(|case| miss(&mut case.inquiry.status, &view, &wanted));
            }
            let _ = reply.send(why::reply(&cases, now));
        });
    }

    /// Whoever asks for a server that serves again without its drain looks where it is now: an order that ended
    /// with its place in another virtual server is told there as well.
    fn orders_lost_elsewhere(&self, server: RealServerId) -> Vec<Arc<Happening>> {
        let pools = self.engine.virtual_servers();
        let has = |name: &str| {
            let named = pools.iter().find(|pool| pool.config().name == name);
            named.is_some_and(|pool| pool.config().real_servers.iter().any(|one| one.id == server))
        };
        self.announcer.history.orders_lost_elsewhere(server, has)
    }

    /// What still uses a server, as of the last look at the kernel; the next look begins now.
    pub(super) fn answer_load(&self, on: &Place, reply: Answer) {
        let inquiries = match self.engine.inquire(selector(on)) {
            Ok(inquiries) => inquiries,
            Err(refusal) => {
                let _ = reply.send(Reply::failed(refused(on, &refusal)));
                return;
            }
        };
        let view = self.writer.view();
        self.writer.look();
        tokio::spawn(async move {
            let answer = match tokio::time::timeout(VIEW, view).await {
                Ok(Ok(view)) => answer_with(&load(&inquiries, &view)),
                Ok(Err(_)) | Err(_) => {
                    Reply::failed("the kernel's table is not known: its writer does not answer")
                }
            };
            let _ = reply.send(answer);
        });
    }

    /// A filter given here lasts until the next reload: what is configured is in force after it.
    pub(super) fn answer_log_level(&mut self, filter: Option<String>, peer: &Peer) -> Reply {
        let configured = self.config.daemon.log.clone();
        let Some(filter) = filter else {
            let in_force = self.log_filter.as_ref().unwrap_or(&configured);
            return Reply::done(match &self.log_filter {
                Some(_) => format!("{in_force}\nuntil the next reload; configured: {configured}"),
                None => in_force.clone(),
            });
        };
        if let Err(problem) = crate::config::check_log_filter(&filter) {
            return Reply::failed(problem);
        }
        if let Err(error) = self.log.set_filter(&filter) {
            return Reply::failed(error.to_string());
        }
        info!(by = %peer, "log filter {filter:?} until the next reload: set by {peer}");
        self.log_filter = (filter != configured).then(|| filter.clone());
        Reply::done(format!("log filter {filter} until the next reload"))
    }

    /// Of a server that a reload took away there may still be something to tell.
    fn nobody(&self, on: &Place, refusal: &OrderRefusal, now: Time) -> String {
        let text = refused(on, refusal);
        // Port 0 is the spelling of none.
        let gone = RealServerId { port: on.address.port.filter(|port| *port != 0), ..on.address };
        let mut history = self.announcer.history.of_server(gone);
        history.retain(|h| on.virtual_server.as_ref().is_none_or(|name| **name == *h.virtual_server));
        match refusal {
            OrderRefusal::Nobody { .. } if !history.is_empty() => {
                text + &why::farewell(on.address, &history, now)
            }
            OrderRefusal::Nobody { .. } | OrderRefusal::Ambiguous(_) => text,
        }
    }
}

fn answer_with(load: &Load) -> Reply {
    let reply = Reply::done(String::new()).with_data(load);
    reply.unwrap_or_else(|error| Reply::failed(format!("writing the load as JSON: {error}")))
}

/// UDP has no end of a connection that IPVS could see: its entries count apart, with their packets.
fn load(inquiries: &[Inquiry], view: &View) -> Load {
    let is_drained = |i: &Inquiry| i.status.order.as_ref().is_some_and(|o| o.order == Order::Drain);
    let mut load = Load {
        drained: inquiries.iter().all(is_drained),
        weightless: true,
        absent: true,
        down: inquiries.iter().all(|inquiry| !inquiry.status.alive),
        looks: view.looks,
        ..Load::default()
    };
    for key in inquiries.iter().flat_map(|inquiry| &inquiry.status.destinations) {
        let (service, destination) = key;
        let entry = view.table.services.get(service).and_then(|s| s.destinations.get(destination));
        load.absent &= entry.is_none();
        load.weightless &= entry.is_none_or(|entry| entry.weight == 0);
        let Some(counters) = view.counters.get(key) else { continue };
        let (active, inactive) = (u64::from(counters.active), u64::from(counters.inactive));
        load.persistent += u64::from(counters.persistent);
        if matches!(service, ServiceId::Address { protocol: Protocol::Udp, .. }) {
            load.udp_flows += active + inactive;
            load.udp_packets += counters.packets_in;
        } else {
            load.active += active;
            load.inactive += inactive;
        }
    }
    load
}
