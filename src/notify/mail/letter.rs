//! What a mail says: short enough for a telephone at night.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::engine::model::EventKind;
use crate::net::utc;
use crate::notify::event::Event;

/// Events told one by one; of older ones the number.
const MAX_TOLD: usize = 100;
/// Bytes of a subject.
const MAX_SUBJECT: usize = 200;
/// Bytes of a reason, which may hold what a server sent.
const MAX_REASON: usize = 500;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) subject: String,
    pub(super) body: String,
}

impl Letter {
    /// `dropped`: events before these that nobody was told of.
    pub(super) fn new(events: &[Arc<Event>], dropped: u64) -> Self {
        let daemon = events.first().map_or("lvsd", |event| event.daemon.as_str());
        let subject = format!("[{daemon}] {}", headline(events));
        Self { subject: bounded(&subject, MAX_SUBJECT), body: body(events, dropped) }
    }
}

/// In keepalived's words, which filters of mail may know.
fn headline(events: &[Arc<Event>]) -> String {
    match events {
        [one] => title(one),
        [one, two] => format!("{}; {}", title(one), title(two)),
        many => {
            let mut counts: BTreeMap<EventKind, usize> = BTreeMap::new();
            for event in many {
                *counts.entry(event.kind).or_default() += 1;
            }
            let parts: Vec<String> = counts.into_iter().map(|(kind, count)| counted(kind, count)).collect();
            format!("{} changes: {}", many.len(), parts.join(", "))
        }
    }
}

fn title(event: &Event) -> String {
    let pool = event.virtual_server.as_ref().map_or("", |pool| pool.name.as_str());
    let state = event.kind.state().word();
    match (event.kind, event.real_server) {
        (EventKind::Started, _) => "lvsd started".to_owned(),
        (EventKind::Stopping, _) => "lvsd stops".to_owned(),
        (EventKind::GuardBegan, _) => format!("Virtualserver {pool} - failed servers are kept"),
        (EventKind::GuardEnded, _) => format!("Virtualserver {pool} - no failed server is kept"),
        (EventKind::VerdictsFrozen, _) => "lvsd takes its own host for sick".to_owned(),
        (EventKind::VerdictsThawed, _) => "lvsd takes its own host for well again".to_owned(),
        (_, Some(server)) => format!("Realserver {server} of virtual server {pool} - {state}"),
        (_, None) => format!("Virtualserver {pool} - {state}"),
    }
}

fn counted(kind: EventKind, count: usize) -> String {
    let state = kind.state().word();
    match kind {
        EventKind::RealServerUp | EventKind::RealServerDown => format!("{count} real servers {state}"),
        EventKind::QuorumGained | EventKind::QuorumLost => format!("{count} virtual servers {state}"),
        EventKind::GuardBegan => format!("failed servers are kept in {count} virtual servers"),
        EventKind::GuardEnded => format!("no failed servers are kept any more in {count} virtual servers"),
        EventKind::Started => format!("lvsd started {count} times"),
        EventKind::Stopping => format!("lvsd stops {count} times"),
        EventKind::VerdictsFrozen => format!("verdicts frozen {count} times"),
        EventKind::VerdictsThawed => format!("verdicts thawed {count} times"),
    }
}

fn body(events: &[Arc<Event>], dropped: u64) -> String {
    let mut text = String::new();
    let left_out = events.len().saturating_sub(MAX_TOLD);
    let untold = dropped.saturating_add(u64::try_from(left_out).unwrap_or(u64::MAX));
    if untold > 0 {
        let _infallible = writeln!(
            text,
            "{untold} older changes of state are not told here one by one; they are in the log.\n"
        );
    }
    for event in events.iter().skip(left_out) {
        let _infallible = writeln!(text, "{}\n{}", utc(event.at), sentence(event));
        if let Some(why) = why(event) {
            let _infallible = writeln!(text, "  {}", bounded(&why, MAX_REASON));
        }
        text.push('\n');
    }
    let daemon = events.first().map_or("", |event| event.daemon.as_str());
    let _infallible =
        writeln!(text, "-- \nlvsd on {}. What holds now: lvsd status", bounded(daemon, MAX_SUBJECT));
    text
}

fn sentence(event: &Event) -> String {
    let pool = event.virtual_server.as_ref();
    let name = pool.map_or("", |pool| pool.name.as_str());
    let services = pool.map_or(String::new(), |pool| {
        let mut services: Vec<String> = pool.services.iter().take(3).map(ToString::to_string).collect();
        if let more @ 1.. = pool.services.len().saturating_sub(services.len()) {
            services.push(format!("and {more} more"));
        }
        services.join(", ")
    });
    let server = event.real_server.map_or(String::new(), |server| server.to_string());
    match event.kind {
        EventKind::RealServerUp => format!("real server {server} of {name} is UP"),
        EventKind::RealServerDown => format!("real server {server} of {name} is DOWN"),
        EventKind::QuorumGained => format!("virtual server {name} ({services}) is UP: quorum gained"),
        EventKind::QuorumLost => format!("virtual server {name} ({services}) is DOWN: quorum lost"),
        EventKind::GuardBegan => format!("failed servers of {name} ({services}) are KEPT in the table"),
        EventKind::GuardEnded => format!("no failed server of {name} ({services}) is kept any more"),
        EventKind::Started => "lvsd has started".to_owned(),
        EventKind::Stopping => "lvsd stops".to_owned(),
        EventKind::VerdictsFrozen => "lvsd takes its own host for sick: verdicts are frozen".to_owned(),
        EventKind::VerdictsThawed => "lvsd takes its own host for well again".to_owned(),
    }
}

fn why(event: &Event) -> Option<String> {
    let quorum = event.quorum.map(|quorum| {
        format!("weight of the servers that are up: {} of {}", quorum.weight, quorum.threshold)
    });
    event.reason.clone().or(quorum)
}

/// One line, and not without end.
fn bounded(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let cut = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
    let mut line: String = cut.chars().map(plain).collect();
    if cut.len() < text.len() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::notify::event::Quorum;
    use crate::notify::testing;

    fn at(second: u64, change: impl FnOnce(&mut Event)) -> Arc<Event> {
        let mut event = testing::down();
        event.at = UNIX_EPOCH + Duration::from_secs(1_709_251_147 + second);
        event.sequence = second + 1;
        event.reason = Some("tcp check: connect: connection refused (ECONNREFUSED)".to_owned());
        change(&mut event);
        Arc::new(event)
    }

    fn lost(event: &mut Event) {
        event.kind = EventKind::QuorumLost;
        (event.real_server, event.reason) = (None, None);
        event.quorum = Some(Quorum { weight: 0, threshold: 1 });
    }

    #[test]
    fn one_change_is_told_with_what_why_and_when() {
        let letter = Letter::new(&[at(0, |_| {})], 0);
        assert_eq!(letter.subject, "[lvs1] Realserver 198.51.100.11:80 of virtual server web - DOWN");
        assert_eq!(
            letter.body,
            "2024-02-29 23:59:07 UTC\n\
             real server 198.51.100.11:80 of web is DOWN\n  \
             tcp check: connect: connection refused (ECONNREFUSED)\n\n\
             -- \nlvsd on lvs1. What holds now: lvsd status\n"
        );
    }

    #[test]
    fn what_happens_together_is_told_together() {
        let letter = Letter::new(&[at(0, |_| {}), at(1, lost)], 0);
        assert_eq!(
            letter.subject,
            "[lvs1] Realserver 198.51.100.11:80 of virtual server web - DOWN; Virtualserver web - DOWN"
        );
        assert_eq!(
            letter.body,
            "2024-02-29 23:59:07 UTC\n\
             real server 198.51.100.11:80 of web is DOWN\n  \
             tcp check: connect: connection refused (ECONNREFUSED)\n\n\
             2024-02-29 23:59:08 UTC\n\
             virtual server web (tcp 192.0.2.10:80) is DOWN: quorum lost\n  \
             weight of the servers that are up: 0 of 1\n\n\
             -- \nlvsd on lvs1. What holds now: lvsd status\n"
        );
    }

    #[test]
    fn a_storm_is_counted_and_its_end_told() {
        let up = |event: &mut Event| event.kind = EventKind::RealServerUp;
        let events: Vec<_> = (0..250)
            .map(|i| if i % 2 == 0 { at(i, |_| {}) } else { at(i, up) })
            .chain([at(250, lost)])
            .collect();
        let letter = Letter::new(&events, 7);
        assert_eq!(
            letter.subject,
            "[lvs1] 251 changes: 125 real servers UP, 125 real servers DOWN, 1 virtual servers DOWN"
        );
        let first = letter.body.lines().next().unwrap();
        assert_eq!(first, "158 older changes of state are not told here one by one; they are in the log.");
        assert_eq!(letter.body.matches(" UTC\n").count(), MAX_TOLD);
        assert!(letter.body.contains("quorum lost"), "the newest is told");
    }

    #[test]
    fn what_servers_send_cannot_make_lines_or_fill_a_mailbox() {
        let hostile = |event: &mut Event| {
            event.reason =
                Some(format!("the server said \"x\r\nBcc: all@example.org\r\n.\r\n{}\"", "y".repeat(9999)));
            event.daemon = "lvs1\r\nBcc: all@example.org".to_owned();
        };
        let letter = Letter::new(&[at(0, hostile)], 0);
        assert!(!letter.subject.contains(['\r', '\n']), "{letter:?}");
        assert!(!letter.body.contains("\nBcc") && !letter.body.contains("\n."), "{letter:?}");
        assert!(letter.body.len() < 1000);
    }
}
