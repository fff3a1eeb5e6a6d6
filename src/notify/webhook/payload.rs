//! The body of a POST. Its fields are a contract: new ones may come, none goes or changes its meaning without another `version`.

use serde::Serialize;

use crate::net::rfc3339;
use crate::notify::event::Event;

const VERSION: u32 = 1;
/// Bytes of a reason, which may hold what a server sent.
const MAX_REASON: usize = 1024;

#[derive(Debug, Serialize)]
struct Payload<'a> {
    version: u32,
    /// Counts all events of this daemon's life; a receiver that sees one twice knows it.
    sequence: u64,
    daemon: &'a str,
    event: &'static str,
    /// `UP` or `DOWN`.
    state: &'static str,
    virtual_server: Option<&'a str>,
    services: Vec<String>,
    real_server: Option<String>,
    reason: Option<&'a str>,
    quorum: Option<Quorum>,
    time: String,
    /// Older events that this receiver was never told of.
    dropped: u64,
}

#[derive(Debug, Serialize)]
struct Quorum {
    weight: u64,
    threshold: u64,
}

pub(super) fn json(event: &Event, dropped: u64) -> Vec<u8> {
    let pool = event.virtual_server.as_deref();
    let cut = |text: &'_ str| text.floor_char_boundary(MAX_REASON);
    let payload = Payload {
        version: VERSION,
        sequence: event.sequence,
        daemon: &event.daemon,
        event: event.kind.name(),
        state: event.kind.state().word(),
        virtual_server: pool.map(|pool| pool.name.as_str()),
        services: pool.map_or(Vec::new(), |pool| pool.services.iter().map(ToString::to_string).collect()),
        real_server: event.real_server.map(|server| server.to_string()),
        reason: event.reason.as_deref().and_then(|reason| reason.get(..cut(reason))),
        quorum: event.quorum.map(|quorum| Quorum { weight: quorum.weight, threshold: quorum.threshold }),
        time: rfc3339(event.at),
        dropped,
    };
    // Strings, numbers and lists of them always have a JSON form.
    serde_json::to_vec(&payload).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::EventKind;
    use crate::notify::event::Quorum;
    use crate::notify::testing;

    fn text(event: &Event, dropped: u64) -> String {
        String::from_utf8(json(event, dropped)).unwrap()
    }

    #[test]
    fn every_field_is_there_in_its_order() {
        let down = testing::down();
        assert_eq!(
            text(&down, 3),
            r#"{"version":1,"sequence":1,"daemon":"lvs1","event":"real_server_down","state":"DOWN","virtual_server":"web","services":["tcp 192.0.2.10:80"],"real_server":"198.51.100.11:80","reason":"status: 503\u0000, wanted 200-299","quorum":null,"time":"1970-01-01T00:00:00.000Z","dropped":3}"#
        );
        let mut gained =
            Event { kind: EventKind::QuorumGained, real_server: None, reason: None, ..testing::down() };
        gained.quorum = Some(Quorum { weight: 3, threshold: 2 });
        assert_eq!(
            text(&gained, 0),
            r#"{"version":1,"sequence":1,"daemon":"lvs1","event":"quorum_gained","state":"UP","virtual_server":"web","services":["tcp 192.0.2.10:80"],"real_server":null,"reason":null,"quorum":{"weight":3,"threshold":2},"time":"1970-01-01T00:00:00.000Z","dropped":0}"#
        );
        let started = Event { kind: EventKind::Started, virtual_server: None, quorum: None, ..gained };
        assert_eq!(
            text(&started, 0),
            r#"{"version":1,"sequence":1,"daemon":"lvs1","event":"started","state":"UP","virtual_server":null,"services":[],"real_server":null,"reason":null,"quorum":null,"time":"1970-01-01T00:00:00.000Z","dropped":0}"#
        );
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let event = Event { reason: Some("ü".repeat(5000)), ..testing::down() };
        let value: serde_json::Value = serde_json::from_slice(&json(&event, 0)).unwrap();
        assert_eq!(value["reason"].as_str().unwrap().len(), MAX_REASON);
    }
}
