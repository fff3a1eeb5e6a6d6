//! keepalived's words for events: the lines of the FIFO, and the arguments of the script for every event.
//!
//! `RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 UP`, `VS [192.0.2.10]:tcp:80 DOWN`, `VS FWM 5 UP`. Programs that
//! read keepalived's FIFO take them apart at blanks, so that no name has any but FWM's. keepalived
//! writes a NUL after each line, which here is left out.

use super::event::{Event, EventKind};
use crate::engine::model::{RealServerId, VirtualServer};
use crate::engine::table::ServiceId;

/// Whether a server is alive, or has quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Up,
    Down,
    /// Of the daemon alone: what its checks find does not count, or does again.
    Frozen,
    Thawed,
}

impl State {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Down => "DOWN",
            Self::Frozen => "FROZEN",
            Self::Thawed => "THAWED",
        }
    }
}

/// The words of an event, one argument each.
pub(super) fn words(event: &Event) -> Vec<String> {
    let state = event.kind.state();
    // Not `VS`, which is about the quorum; keepalived has no line for this.
    if let (EventKind::GuardBegan | EventKind::GuardEnded, Some(pool)) = (event.kind, &event.virtual_server) {
        return vec!["GUARD".to_owned(), virtual_server(pool), state.word().to_owned()];
    }
    match (&event.virtual_server, event.real_server) {
        (Some(pool), Some(server)) => of_real_server(pool, server, state),
        (Some(pool), None) => of_virtual_server(pool, state),
        // keepalived has no line for this.
        (None, _) => vec!["DAEMON".to_owned(), word(&event.daemon), state.word().to_owned()],
    }
}

pub(super) fn of_real_server(pool: &VirtualServer, server: RealServerId, state: State) -> Vec<String> {
    vec!["RS".to_owned(), real_server(pool, server), virtual_server(pool), state.word().to_owned()]
}

pub(super) fn of_virtual_server(pool: &VirtualServer, state: State) -> Vec<String> {
    vec!["VS".to_owned(), virtual_server(pool), state.word().to_owned()]
}

pub(super) fn line(words: &[String]) -> String {
    words.join(" ") + "\n"
}

/// A pool of several services is what keepalived calls a group: its name, and which of the group's
/// virtual servers, of which there is one.
fn virtual_server(pool: &VirtualServer) -> String {
    match pool.services.as_slice() {
        [ServiceId::Address { protocol, address, port }] => format!("[{address}]:{protocol}:{port}"),
        [ServiceId::Mark { mark, .. }] => format!("FWM {}", mark.get()),
        [] | [_, _, ..] => format!("[{}]:1", word(&pool.name)),
    }
}

/// With the protocol of the pool and, unless it has its own, the port of a lone service.
fn real_server(pool: &VirtualServer, server: RealServerId) -> String {
    let protocol = pool.services.iter().find_map(|service| match service {
        ServiceId::Address { protocol, .. } => Some(protocol.to_string()),
        ServiceId::Mark { .. } => None,
    });
    let port = match (server.port, pool.services.as_slice()) {
        (Some(port), _) => port,
        (None, [service]) => service.port(),
        (None, _) => 0,
    };
    format!("[{}]:{}:{port}", server.address, protocol.as_deref().unwrap_or("none"))
}

/// A name as one word that no reader takes for anything else.
fn word(name: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '[' | ']');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

impl EventKind {
    /// The new state.
    pub const fn state(self) -> State {
        match self {
            Self::RealServerUp | Self::QuorumGained | Self::GuardEnded | Self::Started => State::Up,
            Self::RealServerDown | Self::QuorumLost | Self::GuardBegan | Self::Stopping => State::Down,
            Self::VerdictsFrozen => State::Frozen,
            Self::VerdictsThawed => State::Thawed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::model::{Family, Mark};
    use crate::notify::testing;

    fn said(event: &Event) -> String {
        line(&words(event))
    }

    #[test]
    fn lines_are_those_of_keepalived() {
        let event = testing::down();
        assert_eq!(said(&event), "RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 DOWN\n");
        let up = Event { kind: EventKind::RealServerUp, ..event.clone() };
        assert_eq!(said(&up), "RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 UP\n");
        let six = Event {
            virtual_server: Some(testing::pool("six", &["[2001:db8::10]:443"])),
            real_server: Some(testing::server("[2001:db8::11]:8443")),
            ..event.clone()
        };
        assert_eq!(said(&six), "RS [2001:db8::11]:tcp:8443 [2001:db8::10]:tcp:443 DOWN\n");
        let guard = Event { kind: EventKind::GuardBegan, real_server: None, ..event.clone() };
        assert_eq!(said(&guard), "GUARD [192.0.2.10]:tcp:80 DOWN\n", "no word of the quorum");
        let quorum = Event { kind: EventKind::QuorumGained, real_server: None, ..event };
        assert_eq!(said(&quorum), "VS [192.0.2.10]:tcp:80 UP\n");
    }

    #[test]
    fn a_pool_of_several_services_is_a_group_in_one_word() {
        let portless = RealServerId { port: None, ..testing::server("198.51.100.11:1") };
        let event = |name, services: &[&str]| Event {
            virtual_server: Some(testing::pool(name, services)),
            real_server: Some(portless),
            ..testing::down()
        };
        let several = event("my [web]\tpool", &["192.0.2.10:80", "[2001:db8::10]:80"]);
        assert_eq!(said(&several), "RS [198.51.100.11]:tcp:0 [my__web__pool]:1 DOWN\n");
        let one = event("my web", &["192.0.2.10:80"]);
        assert_eq!(said(&one), "RS [198.51.100.11]:tcp:80 [192.0.2.10]:tcp:80 DOWN\n");
    }

    #[test]
    fn a_mark_is_two_words_in_a_line_and_one_argument() {
        let mark = ServiceId::Mark { family: Family::Ipv4, mark: Mark::new(5).unwrap() };
        let pool = VirtualServer { services: vec![mark], ..(*testing::pool("m", &[])).clone() };
        let event = Event { virtual_server: Some(Arc::new(pool)), ..testing::down() };
        assert_eq!(words(&event), ["RS", "[198.51.100.11]:none:80", "FWM 5", "DOWN"]);
        assert_eq!(said(&event), "RS [198.51.100.11]:none:80 FWM 5 DOWN\n");
    }

    #[test]
    fn start_and_stop_are_the_daemons() {
        let event = |kind| Event {
            kind,
            daemon: "lvs 1".to_owned(),
            virtual_server: None,
            real_server: None,
            ..testing::down()
        };
        assert_eq!(said(&event(EventKind::Started)), "DAEMON lvs_1 UP\n");
        assert_eq!(said(&event(EventKind::Stopping)), "DAEMON lvs_1 DOWN\n");
        assert_eq!(said(&event(EventKind::VerdictsFrozen)), "DAEMON lvs_1 FROZEN\n");
        assert_eq!(said(&event(EventKind::VerdictsThawed)), "DAEMON lvs_1 THAWED\n");
    }
}
