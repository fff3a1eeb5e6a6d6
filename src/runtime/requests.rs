//! What clients of the control socket ask, turned into calls of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tracing::info;

use super::announce::order_name;
use super::failures;
use super::kernel::{Ticket, View};
use super::reloading::{Force, Wish};
use super::supervisor::Supervisor;
use crate::control::protocol::{OperatorWeight, Order, Place, Request, Subject};
use crate::control::server::Call;
use crate::control::{Peer, Reply, clean, counted, status, stream};
use crate::engine::inquiry::{CheckInquiry, Inquiry};
use crate::engine::model::{Mode, RealServerId};
use crate::engine::snapshot::{OrderNote, RealServerStatus, Snapshot};
use crate::engine::table::{ServiceId, Table};
use crate::engine::{Engine, OrderChange, OrderRefusal, Ordered, QuorumKind, Selector, Server, Time};
use crate::ipvs::OperationError;

/// For the kernel's part of a status; without it the counters read 0.
pub(super) const VIEW: Duration = Duration::from_secs(1);

pub(super) type Ask = Call;

/// How the engine takes an order.
type Give = fn(&mut Engine, Selector<'_>, OrderChange, &OrderNote) -> Result<Ordered, OrderRefusal>;

/// What a status says of the changes of the kernel's table.
#[derive(Default)]
pub(super) struct Writing {
    /// How far the writer has got.
    written: Ticket,
    /// The last refusal for each service that is held.
    refusals: BTreeMap<ServiceId, OperationError>,
    /// Services that may not be in the table as they should be, when it was last written.
    open: BTreeSet<ServiceId>,
    /// Those of them that are not.
    held: BTreeSet<ServiceId>,
    rounds: u64,
}

impl Writing {
    pub(super) fn written(&self) -> Ticket {
        self.written
    }

    /// How often it was told how far the writer is.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    pub(super) fn open(&self) -> &BTreeSet<ServiceId> {
        &self.open
    }

    /// What the kernel refuses, whoever asked for it.
    pub(super) fn held(&self) -> &BTreeSet<ServiceId> {
        &self.held
    }

    pub(super) fn note(
        &mut self,
        ticket: Ticket,
        failed: &[OperationError],
        open: BTreeSet<ServiceId>,
        held: BTreeSet<ServiceId>,
    ) {
        self.written = ticket;
        (self.open, self.held) = (open, held);
        self.rounds += 1;
        // Of one round the first: what is refused after it says nothing more.
        let refused = failed.iter().rev().map(|failure| (*failure.service(), failure.clone()));
        self.refusals.extend(refused);
        self.refusals.retain(|service, _| self.held.contains(service));
    }

    /// The same in few lines, with the reasons.
    pub(super) fn shortfalls(&self) -> Vec<String> {
        let refused: Vec<OperationError> = self.refusals.values().cloned().collect();
        let unexplained = self.held.iter().filter(|service| !self.refusals.contains_key(service));
        let waiting = unexplained.map(|service| format!("{service} is not as it should be, trying again"));
        failures::lines(&refused).into_iter().chain(waiting).collect()
    }
}

impl Supervisor {
    pub(super) fn handle_ask(&mut self, ask: Ask, now: Time) {
        let Call { request, peer, reply, feed } = ask;
        match request {
            Request::Reload => {
                let by = self.asked_by(&peer);
                info!(by, "reload asked for by {by}");
                self.begin_reload(Wish { answers: vec![reply], ..Wish::default() });
            }
            Request::ReloadWith { confirm, force } => {
                let by = self.asked_by(&peer);
                info!(by, "reload asked for by {by}");
                let force = if force { Force::Yes } else { Force::No };
                self.begin_reload(Wish { answers: vec![reply], confirm, force });
            }
            Request::Confirm => {
                let _ = reply.send(self.confirm(&peer));
            }
            Request::Status { name } => self.answer_status(name, reply, now, |reply| reply),
            Request::Events => {
                // From here on nothing is missed, and nothing is told twice.
                self.announcer.feeds.extend(feed);
                let number = self.announcer.history.last_number();
                self.answer_status(None, reply, now, move |reply| stream::opening(reply, number));
            }
            Request::Order { order, on, again } => {
                let change = match order {
                    Order::Drain => OrderChange::Drain,
                    Order::Disable => OrderChange::Disable,
                    Order::Enable => OrderChange::Enable,
                };
                // A client that went away wants no answer, here and below.
                let give: Give = if again { Engine::handle_order_again } else { Engine::handle_order };
                let _ = reply.send(self.order(give, change, &on, &peer, now));
            }
            Request::Weight { weight, on } => {
                let change = match weight {
                    OperatorWeight::Set(weight) => OrderChange::Weight(weight),
                    OperatorWeight::Auto => OrderChange::WeightAuto,
                };
                let _ = reply.send(self.order(Engine::handle_order, change, &on, &peer, now));
            }
            Request::CheckNow { on } => self.begin_check(on, &peer, reply, now),
            Request::LogLevel { filter } => {
                let _ = reply.send(self.answer_log_level(filter, &peer));
            }
            Request::Load { on } => self.answer_load(&on, reply),
            Request::Why { on } => self.answer_why(&on, reply, now),
            Request::OnStop { what } => {
                let _ = reply.send(self.set_next_stop(what, &peer));
            }
            Request::Plan { sources } => {
                if let Err(reply) = self.planning.try_begin(sources, reply) {
                    let _ = reply.send(Reply::failed("another plan is being made, try again"));
                }
            }
        }
    }

    /// `systemctl reload` runs `lvsd reload` as our own user, which says nothing of who wanted it.
    fn asked_by(&self, peer: &Peer) -> String {
        if self.manager.is_present() && peer.is_started_by_init() {
            "systemd".to_owned()
        } else {
            peer.to_string()
        }
    }

    fn order(&mut self, give: Give, change: OrderChange, on: &Subject, peer: &Peer, now: Time) -> Reply {
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
        if change == OrderChange::Enable {
            return enable(&mut self.engine, give, selector, on, &note);
        }
        answer(change, on, give(&mut self.engine, selector, change, &note))
    }

    /// How everything stands, in a line: what the service manager shows, and the log on a signal.
    pub(super) fn summary(&self) -> String {
        let barred =
            if self.health.vitals.is_barred() { "; NOTHING IS SERVED: refused by the kernel" } else { "" };
        format!("{}{barred}{}", summary(&self.engine), self.in_force())
    }

    /// What the kernel should hold by now, and the last refusal for each service that it holds not so.
    pub(super) fn wanted(&self) -> (Table, BTreeMap<ServiceId, String>) {
        let refusals = self.progress.writing.refusals.iter();
        let refusals: BTreeMap<_, _> = refusals.map(|(id, error)| (*id, error.to_string())).collect();
        let mut wanted = self.engine.table();
        if self.progress.writing.written < self.progress.asked || self.recorder.is_holding() {
            // What is on its way is not missing; what was refused already is.
            wanted.services.retain(|id, _| refusals.contains_key(id));
        }
        (wanted, refusals)
    }

    /// The kernel's part comes from the writer, and rendering a large status takes a while: both away
    /// from the loop.
    fn answer_status(
        &self,
        name: Option<String>,
        reply: super::supervisor::Answer,
        now: Time,
        answer: impl FnOnce(Reply) -> Reply + Send + 'static,
    ) {
        let part = self.depict(name.as_deref(), now);
        tokio::spawn(async move {
            let finish = part.view().await;
            let render = move || {
                let seen = finish();
                answer(status::reply(&seen.snapshot, &seen.daemon, name.as_deref(), now))
            };
            let rendered = tokio::task::spawn_blocking(render).await;
            let _ =
                reply.send(rendered.unwrap_or_else(|e| Reply::failed(format!("rendering the status: {e}"))));
        });
    }
}

fn answer(change: OrderChange, on: &Subject, result: Result<Ordered, OrderRefusal>) -> Reply {
    match result {
        Ok(ordered) => Reply::done(carried_out(change, &ordered)),
        Err(refusal) => {
            let place = Place { address: on.address, virtual_server: on.virtual_server.clone() };
            Reply::failed(refused(&place, &refusal))
        }
    }
}

/// What an end of orders comes to depends on what there was to end, and on what else holds the server back.
fn enable(engine: &mut Engine, give: Give, selector: Selector<'_>, on: &Subject, note: &OrderNote) -> Reply {
    let inquire = |engine: &Engine| engine.inquire(selector).unwrap_or_default();
    let had_order: Vec<bool> = inquire(engine).iter().map(|before| before.status.order.is_some()).collect();
    let reply = give(engine, selector, OrderChange::Enable, note);
    let Ok(ordered) = reply else { return answer(OrderChange::Enable, on, reply) };
    let mut pools: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (after, had_order) in inquire(engine).iter().zip(had_order) {
        let words = enabled(after, if had_order { "enabled" } else { "nothing to end" });
        pools.entry(words).or_default().push(after.virtual_server.name.clone());
    }
    let address = ordered.servers.first().map(|s| s.real_server.id.to_string()).unwrap_or_default();
    let lines = pools.iter().map(|(words, names)| format!("{address} in {}: {words}", names.join(", ")));
    Reply::done(lines.collect::<Vec<_>>().join("\n") + &quorums(&ordered))
}

/// `enabled; still weight 0 by root; still DOWN: connect: connection refused (ECONNREFUSED)`
fn enabled(after: &Inquiry, done: &str) -> String {
    let mut words = done.to_owned();
    if let Some(set) = &after.status.operator_weight {
        words.push_str(&format!("; still weight {} by {}", set.weight, clean(&set.note.by)));
    }
    let is_down = |check: &&CheckInquiry| check.check.mode == Mode::Enforce && !check.state.up;
    if let Some(check) = after.checks.iter().find(is_down) {
        let kind = check.check.probe.kind.name();
        match check.state.last.as_ref().filter(|_| check.state.has_run) {
            Some(last) => words.push_str(&format!("; still DOWN: {kind} check: {}", clean(&last.detail))),
            None => words.push_str(&format!("; still DOWN: its {kind} check has not succeeded yet")),
        }
    }
    words
}

/// `198.51.100.11:80 in web, api: drained`, and a line for each quorum that it moved.
fn carried_out(change: OrderChange, ordered: &Ordered) -> String {
    let address = ordered.servers.first().map(|s| s.real_server.id.to_string()).unwrap_or_default();
    let pools: Vec<&str> = ordered.servers.iter().map(|s| s.virtual_server.name.as_str()).collect();
    format!("{address} in {}: {}{}", pools.join(", "), order_name(change), quorums(ordered))
}

/// A line for each quorum that an order moved, each behind a line break.
fn quorums(ordered: &Ordered) -> String {
    let mut text = String::new();
    for (pool, quorum) in &ordered.quorums {
        let name = &pool.name;
        let line = match (quorum.kind, &pool.sorry_server) {
            (QuorumKind::NoChange, _) => continue,
            (QuorumKind::Gained, _) => format!("{name} has its quorum again"),
            (QuorumKind::Lost, Some(sorry)) => {
                let sorry = RealServerId { address: sorry.address, port: sorry.port };
                format!("{name} has lost its quorum: its sorry server {sorry} serves now")
            }
            (QuorumKind::Lost, None) if quorum.weight == 0 => {
                format!("{name} has lost its quorum: nothing serves new connections now")
            }
            (QuorumKind::Lost, None) => format!("{name} has lost its quorum: what is left of it serves"),
        };
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Why an order found nobody, or too many, and what it could have meant.
pub(super) fn refused(on: &Place, refusal: &OrderRefusal) -> String {
    let address = on.address;
    match refusal {
        OrderRefusal::Nobody { near } => {
            let place = on.virtual_server.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
            format!("there is no real server {address}{place}{}", candidates("; there is", near))
        }
        OrderRefusal::Ambiguous(servers) => {
            format!("{address} is more than one real server, name the port{}", candidates(":", servers))
        }
    }
}

/// One line for each real server, behind `intro`; nothing at all for nobody.
fn candidates(intro: &str, servers: &[Server]) -> String {
    let mut pools: BTreeMap<RealServerId, Vec<&str>> = BTreeMap::new();
    for server in servers {
        pools.entry(server.real_server.id).or_default().push(&server.virtual_server.name);
    }
    let several = pools.len() > 1;
    let lines = pools.iter().map(|(id, names)| {
        // Its address alone is that of the others too.
        let named = match id.port {
            None if several => format!(" (named {})", std::net::SocketAddr::new(id.address, 0)),
            Some(_) | None => String::new(),
        };
        format!("\n  {id} in {}{named}", names.join(", "))
    });
    let list: String = lines.collect();
    if list.is_empty() { list } else { format!("{intro}{list}") }
}

/// What the engine cannot know: which entries the kernel holds, and their connections.
pub(super) fn fill_in<'a>(servers: impl Iterator<Item = &'a mut RealServerStatus>, view: &View) {
    for server in servers {
        server.installed = server.destinations.iter().any(|(service, destination)| {
            view.table.services.get(service).is_some_and(|s| s.destinations.contains_key(destination))
        });
        let counters = server.destinations.iter().filter_map(|key| view.counters.get(key));
        for counter in counters {
            server.active_connections += u64::from(counter.active);
            server.inactive_connections += u64::from(counter.inactive);
            let traffic = &mut server.traffic;
            traffic.connections = traffic.connections.saturating_add(counter.connections);
            traffic.packets_in = traffic.packets_in.saturating_add(counter.packets_in);
            traffic.packets_out = traffic.packets_out.saturating_add(counter.packets_out);
            traffic.bytes_in = traffic.bytes_in.saturating_add(counter.bytes_in);
            traffic.bytes_out = traffic.bytes_out.saturating_add(counter.bytes_out);
        }
    }
}

pub(super) fn miss(server: &mut RealServerStatus, view: &View, wanted: &Table) {
    server.missing = server.destinations.iter().any(|(service, destination)| {
        let has = |table: &Table| {
            table.services.get(service).is_some_and(|s| s.destinations.contains_key(destination))
        };
        has(wanted) && !has(&view.table)
    });
}

/// What is wanted and not there: the kernel has refused it, or was not yet asked.
pub(super) fn find_missing(
    snapshot: &mut Snapshot,
    view: &View,
    wanted: &Table,
    refusals: &BTreeMap<ServiceId, String>,
) {
    for virtual_server in &mut snapshot.virtual_servers {
        virtual_server.real_servers.iter_mut().for_each(|server| miss(server, view, wanted));
        let lacks = |id: &ServiceId| match (wanted.services.get(id), view.table.services.get(id)) {
            (Some(wanted), Some(found)) => wanted != found,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let missing = virtual_server.services.iter().filter(|id| lacks(id));
        virtual_server.missing = missing.map(|id| (*id, refusals.get(id).cloned())).collect();
    }
}

/// `3 virtual servers, 2 with quorum; 12 real servers, 11 alive; 12 checks`
fn summary(engine: &Engine) -> String {
    let pools = engine.virtual_servers();
    let up = pools.iter().filter(|p| p.is_quorum_up()).count();
    let servers = pools.iter().flat_map(crate::engine::VirtualServer::real_servers);
    let (count, alive) = servers.fold((0, 0_u64), |(n, alive), s| (n + 1, alive + u64::from(s.is_alive())));
    let inactive = match pools.iter().map(crate::engine::VirtualServer::inactive_count).sum() {
        0 => String::new(),
        count => format!("; {} not active", counted(count, "service")),
    };
    let frozen = if engine.is_frozen() { "; VERDICTS FROZEN" } else { "" };
    format!(
        "{}, {up} with quorum; {}, {alive} alive; {}{inactive}{frozen}",
        counted(pools.len(), "virtual server"),
        counted(count, "real server"),
        counted(engine.probe_count(), "check"),
    )
}

#[cfg(test)]
mod tests;
