//! What the engine tells, as lines of a scenario file: `web A down`, `web quorum lost 1/2`.

use lvsd::engine::{Event, News, QuorumKind, Server};

use crate::names;

pub(crate) fn write(event: &Event) -> Option<String> {
    let name = |of: &Server| {
        let id = of.real_server.id;
        format!("{} {}", of.virtual_server.name, names::write(id.address, id.port))
    };
    match event {
        Event::RealServer { of, alive, news, .. } => {
            let state = if *alive { "up" } else { "down" };
            Some(format!("{} {state}{}", name(of), if *news == News::First { " already" } else { "" }))
        }
        Event::Quorum { virtual_server, quorum } => {
            let what = if quorum.kind == QuorumKind::Gained { "gained" } else { "lost" };
            Some(format!("{} quorum {what} {}/{}", virtual_server.name, quorum.weight, quorum.threshold))
        }
        Event::Weight { of, from, to, .. } => Some(format!("{} weight {from} to {to}", name(of))),
        Event::LocalError { of, .. } => Some(format!("{} local error", name(of))),
        Event::Guard { virtual_server, guard, kept, .. } => {
            let names: Vec<String> = kept.iter().map(|id| names::write(id.address, id.port)).collect();
            let who = if names.is_empty() { "nobody".to_owned() } else { names.join(" ") };
            Some(format!("{} {} keeps {who}", virtual_server.name, guard.name()))
        }
        Event::Failure { .. }
        | Event::SetAside { .. }
        | Event::Frozen { .. }
        | Event::Thawed { .. }
        | Event::Gate { .. }
        | Event::Order { .. }
        | Event::OrderEnded { .. }
        | Event::OrderLost(_)
        | Event::OrderRestored { .. } => None,
    }
}
