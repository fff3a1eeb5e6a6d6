//! What has been counted since the start, for `/metrics`. Fed by the supervisor with what passes it
//! anyway; decides nothing, and nothing depends on it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::kernel::Ticket;
use super::probes::Ended;
use crate::engine::model::{Config, Verdict, VirtualServer};
use crate::engine::{Engine, Event, News, Time};
use crate::telemetry::metrics::{CheckTotals, LastReload, PoolTotals, Totals};

/// Requests of the writer that wait for its word. With more than that the last one stands for those
/// after it: its time is the longest.
const WAITING: usize = 1024;

#[derive(Debug)]
pub(super) struct Counters {
    totals: Totals,
    /// Where a virtual server's counters are.
    places: BTreeMap<String, usize>,
    /// When the writer was asked for what it has not answered yet.
    asked: VecDeque<(Ticket, Time)>,
    last_asked: Ticket,
}

/// How a reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reloaded {
    Done,
    /// In force, but the kernel refused some of it.
    Incomplete,
    Refused,
}

impl Counters {
    pub(super) fn new(config: &Config, digest: String) -> Self {
        let totals = Totals::new(digest, SystemTime::now());
        let (places, asked) = (BTreeMap::new(), VecDeque::new());
        let mut counters = Self { totals, places, asked, last_asked: Ticket::default() };
        counters.fit(config);
        counters
    }

    /// A copy, of which most is shared.
    pub(super) fn totals(&self) -> Totals {
        self.totals.clone()
    }

    /// Another configuration is in force. Virtual servers go on counting under their names.
    pub(super) fn handle_reload(&mut self, config: &Config, digest: String) {
        self.totals.reloads.digest = digest;
        self.totals.reloads.loaded = SystemTime::now();
        self.fit(config);
    }

    pub(super) fn note_reloaded(&mut self, how: Reloaded) {
        let reloads = &mut self.totals.reloads;
        let (count, last_ok) = match how {
            Reloaded::Done => (&mut reloads.done, LastReload::Successful),
            Reloaded::Incomplete => (&mut reloads.incomplete, LastReload::Failed),
            Reloaded::Refused => (&mut reloads.refused, LastReload::Failed),
        };
        *count += 1;
        reloads.last_ok = last_ok;
    }

    /// Before the engine takes it: afterwards another run may have been started. What nobody waits for
    /// any more does not count.
    pub(super) fn note_outcome(&mut self, engine: &Engine, ended: &Ended) {
        let Some(check) = engine.check_of(ended.id) else { return };
        let kind = check.probe.kind.name();
        self.totals.lateness.observe(ended.late);
        for place in engine.pools_of(ended.id) {
            let Some(pool) = self.totals.pools.get_mut(place) else { continue };
            let counted = Arc::make_mut(pool).checks.entry(kind).or_default();
            let result = match ended.outcome.verdict {
                Verdict::Success { .. } => &mut counted.successes,
                Verdict::Failure(_) => &mut counted.failures,
                Verdict::LocalError(_) => &mut counted.local_errors,
            };
            *result += 1;
            counted.duration.observe(ended.outcome.latency);
        }
    }

    pub(super) fn note_event(&mut self, event: &Event) {
        match event {
            Event::RealServer { of, news: News::Changed, .. } => {
                if let Some(pool) = self.pool(&of.virtual_server) {
                    *pool.server_transitions.entry(of.real_server.id).or_default() += 1;
                }
            }
            Event::Quorum { virtual_server, .. } => {
                if let Some(pool) = self.pool(virtual_server) {
                    pool.quorum_transitions += 1;
                }
            }
            Event::RealServer { news: News::First, .. }
            | Event::Weight { .. }
            | Event::Failure { .. }
            | Event::LocalError { .. }
            | Event::SetAside { .. }
            | Event::Frozen { .. }
            | Event::Thawed { .. }
            | Event::Order { .. }
            | Event::OrderEnded { .. }
            | Event::OrderLost(_)
            | Event::OrderRestored { .. }
            | Event::Gate { .. }
            | Event::Guard { .. } => {}
        }
    }

    /// The writer has been asked for everything up to `ticket`; spurious calls are harmless.
    pub(super) fn note_asked(&mut self, ticket: Ticket, now: Time) {
        if ticket <= self.last_asked {
            return;
        }
        self.last_asked = ticket;
        let full = self.asked.len() >= WAITING;
        match self.asked.back_mut() {
            Some((last, _)) if full => *last = ticket,
            Some(_) | None => self.asked.push_back((ticket, now)),
        }
    }

    /// The writer has tried everything up to `ticket`. What failed of it is counted elsewhere, and how
    /// long that took says nothing.
    pub(super) fn note_written(&mut self, ticket: Ticket, failed: usize, now: Time) {
        while let Some((_, at)) = self.asked.pop_front_if(|(asked, _)| *asked <= ticket) {
            if failed == 0 {
                self.totals.writes.observe(now.since(at));
            }
        }
    }

    pub(super) fn note_request_error(&mut self) {
        self.totals.request_errors += 1;
    }

    pub(super) fn note_saved(&mut self, result: &std::io::Result<()>) {
        match result {
            Ok(()) => self.totals.state_file.written += 1,
            Err(_) => self.totals.state_file.failed += 1,
        }
    }

    pub(super) fn note_turn(&mut self, took: Duration) {
        self.totals.turns.observe(took);
    }

    fn pool(&mut self, of: &VirtualServer) -> Option<&mut PoolTotals> {
        let place = *self.places.get(&of.name)?;
        self.totals.pools.get_mut(place).map(Arc::make_mut)
    }

    /// Counters for exactly what is configured: what is gone is forgotten, what is new begins at 0.
    fn fit(&mut self, config: &Config) {
        let before: BTreeMap<&String, &Arc<PoolTotals>> =
            self.totals.pools.iter().map(|pool| (&pool.name, pool)).collect();
        let pools = config.virtual_servers.iter().map(|pool| {
            let old = before.get(&pool.name).map(|pool| PoolTotals::clone(pool));
            let mut old =
                old.unwrap_or_else(|| PoolTotals { name: pool.name.clone(), ..PoolTotals::default() });
            let mut checks: BTreeMap<&'static str, CheckTotals> = BTreeMap::new();
            for check in pool.real_servers.iter().flat_map(|server| &server.checks) {
                let kind = check.probe.kind.name();
                checks.entry(kind).or_insert_with(|| old.checks.remove(kind).unwrap_or_default());
            }
            let ids: BTreeSet<_> = pool.real_servers.iter().map(|server| server.id).collect();
            let mut transitions = std::mem::take(&mut old.server_transitions);
            transitions.retain(|id, _| ids.contains(id));
            Arc::new(PoolTotals { checks, server_transitions: transitions, ..old })
        });
        self.totals.pools = pools.collect();
        let names = config.virtual_servers.iter().map(|pool| pool.name.clone());
        self.places = names.zip(0..).collect();
    }
}

#[cfg(test)]
mod tests;
