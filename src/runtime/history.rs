//! What happened last to each server and pool, for `lvsd why`. Fed where events are announced; decides
//! nothing. Bounded as a whole and for each object: the oldest give way, and an object to which
//! nothing happens costs nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use super::announce::{Announcer, gate, given_name, guard, order_name};
use super::clock;
use crate::control::happening::{Because, Given, Happening, Seen, What};
use crate::engine::model::{self, RealServerId};
use crate::engine::reload::{Action, Plan};
use crate::engine::snapshot::OrderNote;
use crate::engine::table::ServiceId;
use crate::engine::{
    Cause, Event, LostOrder, QuorumEvent, QuorumKind, Server, SorryAction, Time, VirtualServer,
};

/// Of one server or pool.
const PER_OBJECT: usize = 32;
/// Of all together. What that takes with the longest words that checks have, a test counts: docs/src/reference/events.md
/// says it.
const IN_ALL: usize = 32_768;

/// Of services that came or left at once, with one reason each.
const GATE_LINES: usize = 3;

/// A virtual server by name, and one of its real servers.
pub(super) type Object = (Box<str>, Option<RealServerId>);

#[derive(Debug)]
pub(super) struct History {
    /// By number, so the first is the oldest.
    all: BTreeMap<u64, Arc<Happening>>,
    /// The numbers of each object's, oldest first.
    of_object: BTreeMap<Object, VecDeque<u64>>,
    last_number: u64,
    in_all: usize,
    /// The wall clock at the moment of the last one: of thousands at one moment it is read once.
    wall: Option<(Time, SystemTime)>,
}

impl Default for History {
    fn default() -> Self {
        Self { all: BTreeMap::new(), of_object: BTreeMap::new(), last_number: 0, in_all: IN_ALL, wall: None }
    }
}

impl History {
    /// How many there have been.
    pub(super) const fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Keeps what an event tells. Failed tries that change nothing are no history.
    pub(super) fn note(&mut self, event: &Event, now: Time) -> Option<Arc<Happening>> {
        let (object, what, because) = told_by(event)?;
        Some(self.record(object, what, because, now))
    }

    /// Keeps what a reload did to the objects that there are now, and their new names.
    pub(super) fn note_reload(
        &mut self,
        plan: &Plan,
        (before, after): (&[Arc<model::VirtualServer>], &[VirtualServer]),
        now: Time,
    ) -> Vec<Arc<Happening>> {
        self.rename(before, after);
        let names: BTreeMap<String, &str> = after
            .iter()
            .flat_map(|pool| {
                pool.config().services.iter().map(|s| (s.to_string(), pool.config().name.as_str()))
            })
            .collect();
        let noted = plan.actions.iter().take(self.in_all / 2).map(|action| {
            let pool = names.get(&action.virtual_server).copied().unwrap_or(&action.virtual_server);
            let Action { kind, virtual_server: _, real_server, reason } = action;
            let what = What::Reload(format!("{}: {reason}", kind.name()).into());
            self.record((pool.into(), *real_server), what, Because::Nothing, now)
        });
        noted.collect()
    }

    /// What is known of a real server in one virtual server, and of that as a whole, newest first.
    pub(super) fn of(&self, virtual_server: &str, server: RealServerId) -> Vec<Arc<Happening>> {
        let numbers = |server: Option<RealServerId>| {
            let ring = self.of_object.get(&(virtual_server.into(), server));
            ring.into_iter().flatten().copied()
        };
        let mut numbers: Vec<u64> = numbers(Some(server)).chain(numbers(None)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.iter().filter_map(|number| self.all.get(number).cloned()).collect()
    }

    /// The same of a real server wherever it was.
    pub(super) fn of_server(&self, server: RealServerId) -> Vec<Arc<Happening>> {
        let of_it = |h: &&Arc<Happening>| h.real_server == Some(server);
        self.all.values().rev().filter(of_it).take(PER_OBJECT).cloned().collect()
    }

    /// Orders of a real server that ended with it, in virtual servers where it is not now: `has` it is asked of
    /// their names. Newest first.
    pub(super) fn orders_lost_elsewhere(
        &self,
        server: RealServerId,
        has: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Happening>> {
        let is_it = |h: &&Arc<Happening>| {
            let is_lost = matches!(h.what, What::OrderLost(_));
            is_lost && h.real_server == Some(server) && !has(&h.virtual_server)
        };
        self.all.values().rev().filter(is_it).take(PER_OBJECT).cloned().collect()
    }

    fn record(&mut self, object: Object, what: What, because: Because, now: Time) -> Arc<Happening> {
        self.last_number += 1;
        let (virtual_server, real_server) = object.clone();
        let number = self.last_number;
        let (_, at) = *self.wall.insert(match self.wall {
            Some((time, at)) if time == now => (time, at),
            Some(_) | None => (now, SystemTime::now()),
        });
        let happening = Happening { number, at, time: now, virtual_server, real_server, what, because };
        let happening = Arc::new(happening);
        self.all.insert(number, Arc::clone(&happening));
        let ring = self.of_object.entry(object).or_default();
        ring.push_back(number);
        if ring.len() > PER_OBJECT
            && let Some(oldest) = ring.pop_front()
        {
            self.all.remove(&oldest);
        }
        if self.all.len() > self.in_all {
            self.forget_oldest();
        }
        happening
    }

    fn forget_oldest(&mut self) {
        let Some((number, oldest)) = self.all.pop_first() else { return };
        let object = (oldest.virtual_server.clone(), oldest.real_server);
        if let Some(ring) = self.of_object.get_mut(&object) {
            // Numbers grow: of all that there are the oldest is the oldest of its own as well.
            ring.retain(|kept| *kept != number);
            if ring.is_empty() {
                self.of_object.remove(&object);
            }
        }
    }

    /// A virtual server goes on under its new name: the one that has any of its services.
    fn rename(&mut self, before: &[Arc<model::VirtualServer>], after: &[VirtualServer]) {
        let new: BTreeMap<ServiceId, &str> = after
            .iter()
            .flat_map(|pool| pool.config().services.iter().map(|s| (*s, pool.config().name.as_str())))
            .collect();
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for pool in before {
            if let Some(name) = pool.services.iter().find_map(|service| new.get(service))
                && *name != pool.name
            {
                names.insert(&pool.name, name);
            }
        }
        if names.is_empty() {
            return;
        }
        for (object, numbers) in std::mem::take(&mut self.of_object) {
            let name: Box<str> = names.get(&*object.0).map_or(object.0, |name| (*name).into());
            for number in &numbers {
                if let Some(happening) = self.all.get_mut(number).filter(|h| h.virtual_server != name) {
                    Arc::make_mut(happening).virtual_server = name.clone();
                }
            }
            let ring = self.of_object.entry((name, object.1)).or_default();
            ring.extend(numbers);
            ring.make_contiguous().sort_unstable();
        }
    }
}

impl Announcer {
    /// What a reload did goes to the history and to those who follow it.
    pub(super) fn note_reload(
        &mut self,
        plan: &Plan,
        pools: (&[Arc<model::VirtualServer>], &[VirtualServer]),
        now: Time,
    ) {
        for happening in self.history.note_reload(plan, pools, now) {
            self.feeds.tell(&happening);
        }
    }

    /// The same of something that the daemon itself does.
    pub(super) fn note_daemon(&mut self, what: What) {
        self.note((Box::default(), None), what, clock::now());
    }

    /// The same of something that no rule of the engine brought about.
    pub(super) fn note(&mut self, object: Object, what: What, now: Time) {
        let happening = self.history.record(object, what, Because::Nothing, now);
        self.feeds.tell(&happening);
    }
}

fn told_by(event: &Event) -> Option<(Object, What, Because)> {
    match event {
        Event::RealServer { of, alive, news: _, cause } => {
            let what = if *alive { What::Up } else { What::Down };
            Some((object(of), what, because(cause)))
        }
        Event::Weight { of, from, to, cause } => {
            Some((object(of), What::Weight { from: *from, to: *to }, because(cause)))
        }
        Event::Quorum { virtual_server, quorum } => {
            Some(((virtual_server.name.as_str().into(), None), of_quorum(quorum)?, Because::Nothing))
        }
        Event::Gate { virtual_server, active, services } => {
            let mut lines = gate::lines(*active, services);
            let more = lines.len().saturating_sub(GATE_LINES);
            lines.truncate(GATE_LINES);
            let mut text = lines.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("; ");
            if more > 0 {
                text.push_str("; and more");
            }
            let what = if *active { What::Active(text.into()) } else { What::Inactive(text.into()) };
            Some(((virtual_server.name.as_str().into(), None), what, Because::Nothing))
        }
        Event::Guard { virtual_server, guard: rule, kept, min_alive, max_down_rate } => {
            let text = guard::text(virtual_server, *rule, kept, (*min_alive, *max_down_rate)).into();
            let what = if kept.is_empty() { What::GuardEnded(text) } else { What::GuardBegan(text) };
            Some(((virtual_server.name.as_str().into(), None), what, Because::Nothing))
        }
        Event::Failure { .. } | Event::LocalError { .. } | Event::SetAside { .. } => None,
        Event::Frozen { reason, first, .. } => {
            let what = What::Frozen { reason: reason.as_str().into(), first: *first };
            Some(((Box::default(), None), what, Because::Nothing))
        }
        Event::Thawed { lasted, set_aside } => {
            let what = What::Thawed { lasted: *lasted, set_aside: *set_aside };
            Some(((Box::default(), None), what, Because::Nothing))
        }
        Event::Order { of, change, note } => {
            Some((object(of), What::Order(order_name(*change).into()), given(note)))
        }
        Event::OrderEnded { of, given: change, note } => {
            Some((object(of), What::OrderEnded(given_name(*change).into()), given(note)))
        }
        Event::OrderLost(LostOrder { virtual_server, real_server, given: change, note }) => {
            let object = (virtual_server.as_str().into(), Some(*real_server));
            Some((object, What::OrderLost(given_name(*change).into()), given(note)))
        }
        Event::OrderRestored { of, given: change, note } => {
            Some((object(of), What::OrderRestored(given_name(*change).into()), given(note)))
        }
    }
}

fn object(of: &Server) -> Object {
    (of.virtual_server.name.as_str().into(), Some(of.real_server.id))
}

const fn of_quorum(quorum: &QuorumEvent) -> Option<What> {
    let QuorumEvent { kind, weight, threshold, sorry_action } = *quorum;
    let sorry = !matches!(sorry_action, SorryAction::None);
    match kind {
        QuorumKind::NoChange => None,
        QuorumKind::Gained => Some(What::QuorumGained { weight, threshold, sorry }),
        QuorumKind::Lost => Some(What::QuorumLost { weight, threshold, sorry }),
    }
}

fn because(cause: &Cause) -> Because {
    match cause {
        Cause::Check { kind: _, detail, evidence } => Because::Check(Box::new(Seen::new(evidence, detail))),
        Cause::Operator => Because::Rule("by the operator's order"),
        Cause::OrderEnded => Because::Rule("the time of the operator's order is over"),
        Cause::Reload => Because::Rule("by the reload"),
    }
}

fn given(note: &OrderNote) -> Because {
    let OrderNote { by, reason, since, until } = note;
    let lasts = until.map(|until| until.since(*since));
    Because::Order(Box::new(Given { by: by.clone(), reason: reason.clone(), lasts }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing;

    const NOW: Time = Time::from_nanos(1_000_000_000_000);

    fn weight(server: u8, to: u32) -> Event {
        let address = format!("198.51.100.{server}:80");
        let of = Server {
            virtual_server: testing::pool("web", "192.0.2.10:80", &[&address]),
            real_server: testing::real_server(&address),
        };
        Event::Weight { of, from: 0, to, cause: Cause::Operator }
    }

    fn id(server: u8) -> RealServerId {
        RealServerId { address: [198, 51, 100, server].into(), port: Some(80) }
    }

    fn weights(history: &History, server: u8) -> Vec<u32> {
        let weight = |h: &Arc<Happening>| if let What::Weight { to, .. } = h.what { to } else { 0 };
        history.of("web", id(server)).iter().map(weight).collect()
    }

    #[test]
    fn each_object_keeps_its_newest_and_all_together_too() {
        let mut history = History { in_all: 50, ..History::default() };
        (0..100).for_each(|n| drop(history.note(&weight(1, n), NOW)));
        assert_eq!(weights(&history, 1), (68..100).rev().collect::<Vec<_>>());
        (0..30).for_each(|n| drop(history.note(&weight(2, n), NOW)));
        assert_eq!(weights(&history, 1), (80..100).rev().collect::<Vec<_>>(), "its oldest gave way");
        assert_eq!(weights(&history, 2), (0..30).rev().collect::<Vec<_>>());
        (0..50).for_each(|n| drop(history.note(&weight(n + 3, 7), NOW)));
        assert_eq!(
            (history.all.len(), history.of_object.len()),
            (50, 50),
            "nothing is left of the first two"
        );
        assert_eq!(history.last_number(), 180);
    }

    /// Bytes asked for, by the sizes of what is held; a node of a tree may be half empty.
    fn held(history: &History) -> usize {
        let words = |because: &Because| match because {
            Because::Check(seen) => {
                size_of::<Seen>() + seen.rule.capacity() + seen.target.capacity() + seen.detail.capacity()
            }
            Because::Nothing | Because::Rule(_) | Because::Order(_) => 0,
        };
        let of_one = |happening: &Arc<Happening>| {
            let counts = 2 * size_of::<usize>();
            let entry = 2 * (size_of::<u64>() + size_of::<Arc<Happening>>());
            let own = size_of::<Happening>() + happening.virtual_server.len() + words(&happening.because);
            counts + entry + own
        };
        let of_ring = |((name, _), ring): (&Object, &VecDeque<u64>)| {
            let entry = 2 * (size_of::<Object>() + size_of::<VecDeque<u64>>());
            entry + name.len() + ring.capacity() * size_of::<u64>()
        };
        let happenings: usize = history.all.values().map(of_one).sum();
        happenings + history.of_object.iter().map(of_ring).sum::<usize>()
    }

    /// A hundred thousand servers that fail again and again, each time with as many words as there can be.
    #[test]
    fn what_is_held_is_bounded_in_bytes() {
        let mut history = History::default();
        for round in 0..3 {
            for server in 0_u32..100_000 {
                let pool = format!("virtual server {} of a large site", server / 100);
                let address = std::net::Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | u128::from(server));
                let seen = Seen {
                    rule: format!("{} in a row, retry = 4294967295", "4294967295th failure"),
                    kind: "script",
                    target: format!("[{address}]:443 https GET /{}", "health".repeat(10)),
                    detail: "x".repeat(515),
                    latency: std::time::Duration::ZERO,
                };
                let id = RealServerId { address: address.into(), port: Some(443) };
                let because = Because::Check(Box::new(seen));
                history.record((pool.as_str().into(), Some(id)), What::Down, because, NOW);
            }
            let bytes = held(&history);
            assert_eq!(history.all.len(), IN_ALL, "round {round}");
            assert!((20_000_000..40_000_000).contains(&bytes), "round {round}: {bytes} bytes");
        }
    }

    #[test]
    fn a_virtual_server_keeps_its_history_under_another_name() {
        let mut history = History::default();
        history.note(&weight(1, 5), NOW);
        let before = testing::pool("web", "192.0.2.10:80", &["198.51.100.1:80"]);
        let after = testing::config(vec![testing::pool("shop", "192.0.2.10:80", &["198.51.100.1:80"])]);
        let engine = crate::engine::Engine::start(
            &after,
            &Default::default(),
            &Default::default(),
            &Default::default(),
            NOW,
        );
        let action = Action {
            kind: crate::engine::reload::ActionKind::EditVirtualServer,
            virtual_server: "tcp 192.0.2.10:80".to_owned(),
            real_server: None,
            reason: "moved or renamed web → shop".to_owned(),
        };
        let mut plan = Plan::default();
        plan.actions.push(action);
        let noted = history.note_reload(&plan, (&[before], engine.virtual_servers()), NOW);
        assert_eq!(noted[0].object(), "shop");
        let texts: Vec<String> = history.of("shop", id(1)).iter().map(|h| h.text()).collect();
        let edited = "reload: edit virtual server: moved or renamed web → shop";
        assert_eq!(texts, [edited, "weight 0 → 5: by the operator's order"]);
        assert!(history.of("web", id(1)).is_empty());
    }
}
