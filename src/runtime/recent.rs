//! What happened last, for the status page: a small ring, fed where events are announced and where
//! configurations come and go.

use std::collections::VecDeque;

use super::announce::{given_name, guard, order_name, reason};
use crate::control::duration;
use crate::engine::model::RealServerId;
use crate::engine::snapshot::{Happened, HappenedKind};
use crate::engine::{Event, LostOrder, QuorumKind, Server, Time};

/// Of all servers together.
const KEPT: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The newest first.
    happened: VecDeque<Happened>,
    last_number: u64,
}

impl Recent {
    /// Keeps what changes something; failed tries are for the log.
    pub(super) fn note(&mut self, event: &Event, now: Time) {
        if let Some(told) = told(event) {
            self.push(told, now);
        }
    }

    /// Of the daemon itself.
    pub(super) fn note_daemon(&mut self, kind: HappenedKind, text: impl Into<String>, now: Time) {
        self.push((kind, "", None, text.into()), now);
    }

    fn push(&mut self, (kind, virtual_server, server, text): Told<'_>, now: Time) {
        self.last_number += 1;
        self.happened.truncate(KEPT - 1);
        self.happened.push_front(Happened {
            number: self.last_number,
            at: now,
            kind,
            virtual_server: virtual_server.to_owned(),
            real_server: server,
            text,
        });
    }

    /// The newest first, of one virtual server if it is named.
    pub(super) fn of(&self, name: Option<&str>) -> Vec<Happened> {
        let named = self.happened.iter().filter(|h| name.is_none_or(|name| h.virtual_server == name));
        named.cloned().collect()
    }
}

type Told<'a> = (HappenedKind, &'a str, Option<RealServerId>, String);

fn told(event: &Event) -> Option<Told<'_>> {
    Some(match event {
        Event::RealServer { of, alive, news: _, cause } => {
            let kind = if *alive { HappenedKind::Up } else { HappenedKind::Down };
            (kind, &of.virtual_server.name, id(of), reason(cause))
        }
        Event::Weight { of, from, to, cause } => {
            let text = format!("{from} → {to}, {}", reason(cause));
            (HappenedKind::Weight, &of.virtual_server.name, id(of), text)
        }
        Event::Quorum { virtual_server, quorum } => {
            let kind = match quorum.kind {
                QuorumKind::NoChange => return None,
                QuorumKind::Gained => HappenedKind::QuorumUp,
                QuorumKind::Lost => HappenedKind::QuorumDown,
            };
            let text = format!("weight {} of {}", quorum.weight, quorum.threshold);
            (kind, &virtual_server.name, None, text)
        }
        Event::Gate { virtual_server, active, services } => {
            let (first, reason) = services.first()?;
            let more = match services.len() {
                1 => String::new(),
                all => format!(" and {} more", all - 1),
            };
            let not = if *active { "" } else { "not " };
            let text = format!("{first}{more} {not}active: {reason}");
            (HappenedKind::Gate, &virtual_server.name, None, text)
        }
        Event::Guard { virtual_server, guard: rule, kept, min_alive, max_down_rate } => {
            let text = guard::text(virtual_server, *rule, kept, (*min_alive, *max_down_rate));
            let kind = if kept.is_empty() { HappenedKind::GuardEnded } else { HappenedKind::GuardBegan };
            (kind, &virtual_server.name, None, text)
        }
        Event::Order { of, change, note } => {
            let why = note.reason.as_deref().unwrap_or("no reason given");
            let text = format!("{} by {}: {why}", order_name(*change), note.by);
            (HappenedKind::Order, &of.virtual_server.name, id(of), text)
        }
        Event::OrderEnded { of, given: _, note } => {
            let text = format!("the order of {} is over", note.by);
            (HappenedKind::Order, &of.virtual_server.name, id(of), text)
        }
        Event::OrderLost(LostOrder { virtual_server, real_server, given, note }) => {
            let text = format!("the {} by {} is not taken over", given_name(*given), note.by);
            (HappenedKind::Order, virtual_server, Some(*real_server), text)
        }
        Event::OrderRestored { of, given, note } => {
            let text = format!("the {} by {} stands again", given_name(*given), note.by);
            (HappenedKind::Order, &of.virtual_server.name, id(of), text)
        }
        Event::Frozen { symptom: _, reason, first } => {
            let again = if *first { "" } else { "still: " };
            (HappenedKind::VerdictsFrozen, "", None, format!("{again}{reason}"))
        }
        Event::Thawed { lasted, set_aside } => {
            let lasted = duration::display(*lasted);
            let text = format!("after {lasted}, {set_aside} results were set aside");
            (HappenedKind::VerdictsThawed, "", None, text)
        }
        Event::Failure { .. } | Event::LocalError { .. } | Event::SetAside { .. } => return None,
    })
}

fn id(of: &Server) -> Option<RealServerId> {
    Some(of.real_server.id)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::snapshot::OrderNote;
    use crate::engine::{Cause, News, OrderChange};
    use crate::runtime::testing::pool;

    #[test]
    fn the_newest_are_kept_and_can_be_told_by_pool() {
        let mut recent = Recent::default();
        let pools = ["web", "mail"].map(|name| pool(name, "192.0.2.10:80", &["198.51.100.11:80"]));
        for number in 0..250_usize {
            let virtual_server = Arc::clone(&pools[number % 2]);
            let real_server = Arc::clone(&virtual_server.real_servers[0]);
            let of = Server { virtual_server, real_server };
            let cause = Cause::Reload;
            let event = Event::RealServer { of, alive: number % 4 == 0, news: News::Changed, cause };
            recent.note(&event, Time::from_nanos(7));
        }
        let all = recent.of(None);
        assert_eq!(all.len(), KEPT);
        assert_eq!(all.iter().map(|h| h.number).collect::<Vec<_>>(), (151..=250).rev().collect::<Vec<_>>());
        assert_eq!(all[0].text, "by the reload");
        assert_eq!((all[0].kind, all[0].virtual_server.as_str()), (HappenedKind::Down, "mail"));
        let web = recent.of(Some("web"));
        assert_eq!(web.len(), KEPT / 2);
        assert!(web.iter().all(|h| h.virtual_server == "web"));
        assert!(recent.of(Some("nobody")).is_empty());
    }

    #[test]
    fn an_order_that_nobody_takes_over_is_told_of_where_it_was() {
        let id = "198.51.100.11:80"
            .parse()
            .map(|at: std::net::SocketAddr| RealServerId { address: at.ip(), port: Some(at.port()) });
        let (real_server, by) = (id.unwrap(), "alice".to_owned());
        let note = OrderNote { by, reason: None, since: Time::ZERO, until: None };
        let (virtual_server, given) = ("web".to_owned(), OrderChange::Weight(7));
        let mut recent = Recent::default();
        recent.note(&Event::OrderLost(LostOrder { virtual_server, real_server, given, note }), Time::ZERO);
        let told = recent.of(Some("web"));
        let line = told.first().map(|h| (h.kind, h.real_server, h.text.as_str()));
        let text = "the weight 7 by alice is not taken over";
        assert_eq!(line, Some((HappenedKind::Order, Some(real_server), text)));
    }
}
