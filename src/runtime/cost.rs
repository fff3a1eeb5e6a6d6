//! What the actions of a plan would cost: connections and persistence templates of the entries that they take
//! out of the kernel's table. Edits cost nothing: the kernel edits in place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::kernel::View;
use crate::control::counted;
use crate::engine::destination_id;
use crate::engine::model::{Config, RealServerId, VirtualServer};
use crate::engine::reload::{Action, ActionKind};
use crate::engine::table::{Counters, DestinationId, ServiceId};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) active: u64,
    pub(super) templates: u64,
}

impl Cost {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { active: self.active + other.active, templates: self.templates + other.templates }
    }

    fn of<'a>(counters: impl Iterator<Item = &'a Counters>) -> Self {
        let one = |c: &Counters| Self { active: u64::from(c.active), templates: u64::from(c.persistent) };
        counters.map(one).fold(Self::default(), Self::plus)
    }

    /// `12 active connections and 3 persistence templates`, `no connection`
    pub(super) fn text(self) -> String {
        let some = |count: u64, noun| counted(usize::try_from(count).unwrap_or(usize::MAX), noun);
        let (active, templates) =
            (some(self.active, "active connection"), some(self.templates, "persistence template"));
        match (self.active, self.templates) {
            (0, 0) => "no connection".to_owned(),
            (_, 0) => active,
            (0, _) => templates,
            (_, _) => format!("{active} and {templates}"),
        }
    }
}

/// Everything that a plan's costs follow from.
pub(super) struct Costs<'a> {
    /// Where the running real servers stand in the table.
    running: BTreeMap<(ServiceId, RealServerId), DestinationId>,
    services: BTreeMap<String, ServiceId>,
    /// By name, in the new configuration.
    new: BTreeMap<&'a str, &'a [ServiceId]>,
    view: &'a View,
}

impl<'a> Costs<'a> {
    pub(super) fn new(running: &[Arc<VirtualServer>], new: &'a Config, view: &'a View) -> Self {
        let mut places = BTreeMap::new();
        for pool in running {
            for (service, server) in
                pool.services.iter().flat_map(|s| pool.real_servers.iter().map(move |server| (*s, server)))
            {
                let place = destination_id(server.id, server.forwarding, &service);
                places.insert((service, server.id), place);
            }
        }
        let services = running.iter().flat_map(|pool| &pool.services).map(|s| (s.to_string(), *s)).collect();
        let new =
            new.virtual_servers.iter().map(|pool| (pool.name.as_str(), pool.services.as_slice())).collect();
        Self { running: places, services, new, view }
    }

    /// `None` for what takes nothing away.
    pub(super) fn of(&self, action: &Action) -> Option<Cost> {
        let counters = &self.view.counters;
        match action.kind {
            ActionKind::RemoveVirtualServer => {
                let service = self.services.get(&action.virtual_server)?;
                Some(Cost::of(counters.of_service(service)))
            }
            ActionKind::RemoveRealServer => {
                let id = action.real_server?;
                // A service that goes away as a whole is an action of its own.
                let services = self.new.get(action.virtual_server.as_str()).copied().unwrap_or_default();
                let entries = services.iter().filter_map(|s| Some((*s, *self.running.get(&(*s, id))?)));
                let entries: BTreeSet<(ServiceId, DestinationId)> = entries.collect();
                Some(Cost::of(entries.iter().filter_map(|entry| counters.get(entry))))
            }
            ActionKind::RemoveSorryServer
            | ActionKind::EditVirtualServer
            | ActionKind::EditRealServer
            | ActionKind::SetSorryServer
            | ActionKind::AddVirtualServer
            | ActionKind::AddRealServer => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, Presence, Time};
    use crate::runtime::testing::{config, destination, pool, tcp};

    #[test]
    fn removals_cost_what_their_entries_hold() {
        let before = config(vec![
            pool("web", "192.0.2.10:80", &["198.51.100.11:80", "198.51.100.12:80"]),
            pool("old", "192.0.2.11:80", &["198.51.100.11:80", "198.51.100.13:80"]),
        ]);
        let after = config(vec![pool("shop", "192.0.2.10:80", &["198.51.100.12:80"])]);
        let nothing = (Default::default(), Default::default(), Default::default());
        let engine = Engine::start(&before, &nothing.0, &nothing.1, &nothing.2, Time::ZERO);
        let counters =
            |active, persistent| Counters { active, inactive: 9, persistent, ..Counters::default() };
        let entries = [
            (("192.0.2.10:80", "198.51.100.11:80"), counters(12, 3)),
            (("192.0.2.10:80", "198.51.100.12:80"), counters(100, 100)),
            (("192.0.2.11:80", "198.51.100.11:80"), counters(1, 0)),
            (("192.0.2.11:80", "198.51.100.13:80"), counters(0, 2)),
        ];
        let counters = entries.map(|((s, d), counters)| ((tcp(s), destination(d)), counters));
        let view = View { counters: Arc::new(counters.into_iter().collect()), ..View::default() };
        let plan = engine.plan_reload(&after, &Presence::default());
        let costs = Costs::new(&before.virtual_servers, &after, &view);
        let told: Vec<(String, Option<String>)> = plan
            .actions
            .iter()
            .map(|action| {
                (
                    format!("{} {}", action.kind.name(), action.virtual_server),
                    costs.of(action).map(Cost::text),
                )
            })
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            told,
            [
                (
                    "remove virtual server tcp 192.0.2.11:80".to_owned(),
                    some("1 active connection and 2 persistence templates")
                ),
                (
                    "remove real server shop".to_owned(),
                    some("12 active connections and 3 persistence templates")
                ),
                ("edit virtual server tcp 192.0.2.10:80".to_owned(), None),
            ]
        );
        assert_eq!(Cost::default().text(), "no connection");
        assert_eq!(
            plan.removed,
            crate::engine::reload::Removed { servers: 3, of_servers: 4, services: 1, of_services: 2 }
        );
    }
}
