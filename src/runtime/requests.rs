//! What clients of the control socket ask, turned into calls of the engine.

use std::time::Duration;

use super::kernel::View;
use super::supervisor::Supervisor;
use crate::control::protocol::{OperatorWeight, Order, Request, Subject};
use crate::control::server::Call;
use crate::control::{Peer, Reply, status};
use crate::engine::snapshot::{OrderNote, Snapshot};
use crate::engine::{Engine, OrderChange, Selector, Time};

/// For the kernel's part of a status; without it the counters read 0.
const VIEW: Duration = Duration::from_secs(1);

pub(super) type Ask = Call;

impl Supervisor {
    pub(super) fn handle_ask(&mut self, ask: Ask, now: Time) {
        let Call { request, peer, reply } = ask;
        match request {
            Request::Reload => self.begin_reload(Some(reply)),
            Request::Status { name } => self.answer_status(name, reply, now),
            Request::Order { order, on } => {
                let change = match order {
                    Order::Drain => OrderChange::Drain,
                    Order::Disable => OrderChange::Disable,
                    Order::Enable => OrderChange::Enable,
                };
                // A client that went away wants no answer, here and below.
                let _ = reply.send(self.order(change, &on, &peer, now));
            }
            Request::Weight { weight, on } => {
                let change = match weight {
                    OperatorWeight::Set(weight) => OrderChange::Weight(weight),
                    OperatorWeight::Auto => OrderChange::WeightAuto,
                };
                let _ = reply.send(self.order(change, &on, &peer, now));
            }
            Request::Plan { sources } => {
                if let Err(reply) = self.planning.try_begin(sources, reply) {
                    let _ = reply.send(Reply::failed("another plan is being made, try again"));
                }
            }
        }
    }

    fn order(&mut self, change: OrderChange, on: &Subject, peer: &Peer, now: Time) -> Reply {
        let selector = Selector {
            address: on.address.address,
            port: on.address.port,
            virtual_server: on.virtual_server.as_deref(),
        };
        let note = OrderNote {
            by: peer.to_string(),
            reason: on.reason.clone(),
            since: now,
            until: on.duration.map(|duration| now + duration),
        };
        match self.engine.handle_order(selector, change, &note) {
            0 => {
                let place = on.virtual_server.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
                Reply::failed(format!("there is no real server {}{place}", on.address))
            }
            1 => Reply::done(format!("{}: done", on.address)),
            count => Reply::done(format!("{}: done in {count} virtual servers", on.address)),
        }
    }

    /// The kernel's part comes from the writer, and rendering a large status takes a while: both away
    /// from the loop.
    fn answer_status(&self, name: Option<String>, reply: super::supervisor::Answer, now: Time) {
        let mut snapshot = self.engine.snapshot(name.as_deref());
        snapshot.kernel = self.progress.counters;
        snapshot.broken_checks = self.announcer.broken_checks;
        let daemon = super::start::daemon_name(&self.config);
        let view = self.writer.view();
        tokio::spawn(async move {
            let view = tokio::time::timeout(VIEW, view).await.ok().and_then(Result::ok).unwrap_or_default();
            let render = move || {
                fill_in(&mut snapshot, &view);
                status::reply(&snapshot, &daemon, name.as_deref(), now)
            };
            let rendered = tokio::task::spawn_blocking(render).await;
            let _ =
                reply.send(rendered.unwrap_or_else(|e| Reply::failed(format!("rendering the status: {e}"))));
        });
    }
}

/// What the engine cannot know: which entries the kernel holds, and their connections.
fn fill_in(snapshot: &mut Snapshot, view: &View) {
    for server in snapshot.virtual_servers.iter_mut().flat_map(|v| &mut v.real_servers) {
        server.installed = server.destinations.iter().any(|(service, destination)| {
            view.table.services.get(service).is_some_and(|s| s.destinations.contains_key(destination))
        });
        let counters = server.destinations.iter().filter_map(|key| view.counters.get(key));
        for counter in counters {
            server.active_connections += u64::from(counter.active);
            server.inactive_connections += u64::from(counter.inactive);
        }
    }
}

/// `3 virtual servers, 2 with quorum; 12 real servers, 11 alive; 12 checks`
pub(super) fn summary(engine: &Engine) -> String {
    let pools = engine.virtual_servers();
    let up = pools.iter().filter(|p| p.is_quorum_up()).count();
    let servers = pools.iter().flat_map(crate::engine::VirtualServer::real_servers);
    let (count, alive) = servers.fold((0u64, 0u64), |(n, alive), s| (n + 1, alive + u64::from(s.is_alive())));
    format!(
        "{} virtual servers, {up} with quorum; {count} real servers, {alive} alive; {} checks",
        pools.len(),
        engine.probe_count(),
    )
}

#[cfg(test)]
mod tests;
