//! What somebody else did to the kernel's table, for the log, the counters and those who follow events: of each look
//! one event for each service, however much of it there is.

use std::collections::BTreeMap;

use super::failures;
use super::history::Object;
use super::kernel::Drifted;
use super::supervisor::Supervisor;
use crate::control::happening::What;
use crate::engine::model::{Drift, RealServerId};
use crate::engine::table::{DestinationId, ServiceId};
use crate::engine::{Engine, Time};
use crate::ipvs::OperationError;

/// Services with an event of their own, of one look. A flush of a large table is thousands.
const EVENTS: usize = 200;
/// Of one service, written out.
const WORDS: usize = 3;

/// One entry that is not as it was left.
struct Found<'a> {
    service: &'a ServiceId,
    destination: Option<&'a DestinationId>,
    /// What puts it right, or what went wrong because of it.
    what: String,
}

impl Supervisor {
    pub(super) fn handle_drifted(&mut self, drifted: &Drifted, now: Time) {
        self.progress.counters.drift += drifted.repairs.len() as u64;
        let does = if self.config.daemon.drift == Drift::Repair { "repairing" } else { "left as it is" };
        let found = drifted.repairs.iter().map(|repair| Found {
            service: repair.service(),
            destination: repair.destination(),
            what: repair.to_string(),
        });
        self.tell_drift(does, &found.collect::<Vec<_>>(), now);
    }

    /// Operations failed because of it, and are planned anew.
    pub(super) fn handle_surprise(&mut self, errors: Vec<OperationError>, now: Time) {
        let (by_hand, lost): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| error.errno().is_some());
        self.progress.counters.drift += by_hand.len() as u64;
        self.progress.counters.failures += lost.len() as u64;
        self.progress.told.tell_operations(&failures::lines(&lost), now);
        let found = by_hand.iter().map(|error| Found {
            service: error.service(),
            destination: error.destination(),
            what: error.to_string(),
        });
        self.tell_drift("trying again", &found.collect::<Vec<_>>(), now);
    }

    fn tell_drift(&mut self, does: &str, found: &[Found<'_>], now: Time) {
        let lines: Vec<_> = found.iter().map(|one| (one.service, one.what.clone())).collect();
        self.progress.told.tell_drift(does, &lines, now);
        for (object, text) in events(&self.engine, does, found) {
            let Some(unsaid) = self.progress.told.tells_drift_event(&text, now) else { continue };
            let text =
                if unsaid == 0 { text } else { format!("{text}; {unsaid} times more in the last hour") };
            self.announcer.note(object, What::Drift(text.into()), now);
        }
    }
}

/// For each service its words and whose they are: a real server's, if nothing else of the service has changed.
fn events(engine: &Engine, does: &str, found: &[Found<'_>]) -> Vec<(Object, String)> {
    let mut of_service: BTreeMap<&ServiceId, Vec<&Found<'_>>> = BTreeMap::new();
    for one in found {
        of_service.entry(one.service).or_default().push(one);
    }
    let mut pools = BTreeMap::new();
    for pool in engine.virtual_servers() {
        let services = pool.config().services.iter().filter(|service| of_service.contains_key(service));
        pools.extend(services.map(|service| (service, pool)));
    }
    let mut events = Vec::new();
    for (service, changes) in of_service.iter().take(EVENTS) {
        let pool = pools.get(service);
        let name = pool.map(|pool| pool.config().name.as_str()).unwrap_or_default();
        let only = changes.first().and_then(|first| first.destination);
        let only = only.filter(|only| changes.iter().all(|change| change.destination == Some(*only)));
        let is_it = |id: &RealServerId, only: &DestinationId| {
            id.address == only.address && id.port.is_none_or(|port| port == only.port)
        };
        let servers = pool.into_iter().flat_map(|pool| pool.real_servers());
        let server = only.and_then(|only| servers.map(|server| server.id()).find(|id| is_it(id, only)));
        let words: Vec<&str> = changes.iter().take(WORDS).map(|change| change.what.as_str()).collect();
        let more = match changes.len().saturating_sub(WORDS) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let entries = crate::control::counted(changes.len(), "change");
        let text = format!("{service}: {entries}, {does}: {}{more}", words.join("; "));
        events.push(((name.into(), server), text));
    }
    let more = of_service.len().saturating_sub(EVENTS);
    if more > 0 {
        let services = crate::control::counted(more, "service");
        events.push(((Box::default(), None), format!("{services} more, {does}")));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{self, destination, tcp};

    const NOW: Time = Time::from_nanos(1);
    const WEB: &str = "192.0.2.10:80";

    fn engine(pools: Vec<std::sync::Arc<crate::engine::model::VirtualServer>>) -> Engine {
        let config = testing::config(pools);
        Engine::start(&config, &Default::default(), &Default::default(), &Default::default(), NOW)
    }

    /// What the events say of changes of (service, destination).
    fn told(engine: &Engine, changes: &[(ServiceId, Option<&str>)]) -> Vec<(String, Option<String>, String)> {
        let destinations: Vec<_> = changes.iter().map(|(_, at)| at.map(destination)).collect();
        let found: Vec<_> = changes
            .iter()
            .zip(&destinations)
            .enumerate()
            .map(|(number, ((service, _), at))| Found {
                service,
                destination: at.as_ref(),
                what: format!("-{number}"),
            })
            .collect();
        let told = events(engine, "repairing", &found).into_iter();
        told.map(|((pool, server), text)| (pool.into(), server.map(|id| id.to_string()), text)).collect()
    }

    #[test]
    fn each_service_has_one_event_and_a_server_alone_its_own() {
        let servers = ["198.51.100.11:80", "198.51.100.12:80"];
        let engine = engine(vec![
            testing::pool("web", WEB, &servers),
            testing::pool("mail", "192.0.2.11:25", &["198.51.100.11"]),
        ]);
        let (web, mail, old) = (tcp(WEB), tcp("192.0.2.11:25"), tcp("192.0.2.12:80"));
        let event = |pool: &str, server: Option<&str>, text: &str| {
            (pool.to_owned(), server.map(str::to_owned), text.to_owned())
        };
        assert_eq!(
            told(&engine, &[(web, Some(servers[1])), (mail, Some("198.51.100.11:25"))]),
            [
                event("web", Some(servers[1]), "tcp 192.0.2.10:80: 1 change, repairing: -0"),
                event("mail", Some("198.51.100.11"), "tcp 192.0.2.11:25: 1 change, repairing: -1"),
            ]
        );
        let flushed = [(web, None), (web, Some(servers[0])), (web, Some(servers[1])), (web, Some(WEB))];
        let text = "tcp 192.0.2.10:80: 4 changes, repairing: -0; -1; -2; and 1 more";
        assert_eq!(told(&engine, &flushed), [event("web", None, text)]);
        let strange = [(web, Some("203.0.113.1:80"))];
        assert_eq!(
            told(&engine, &strange),
            [event("web", None, "tcp 192.0.2.10:80: 1 change, repairing: -0")],
            "no server of ours"
        );
        assert_eq!(
            told(&engine, &[(old, None)]),
            [event("", None, "tcp 192.0.2.12:80: 1 change, repairing: -0")],
            "owned, and of no virtual server any more"
        );
        assert_eq!(told(&engine, &[]), []);
    }

    #[test]
    fn a_flush_of_many_services_is_a_bounded_number_of_events() {
        let service = |n: u16| tcp(&format!("192.0.2.10:{n}"));
        let flushed: Vec<_> = (1..=1000).map(|n| (service(n), None)).collect();
        let events = told(&engine(vec![]), &flushed);
        assert_eq!(events.len(), EVENTS + 1);
        assert_eq!(events.last().map(|(_, _, text)| text.as_str()), Some("800 services more, repairing"));
    }
}
