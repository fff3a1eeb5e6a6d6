//! What a new configuration changes, and what it leaves alone: the plan of a reload, for the log
//! and for `lvsd plan`. The point is what is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::gate::{Presence, Standing};
use super::inheritance::{Heir, Inheritance, LostOrder, Orders};
use super::model::{self, Config, RealServerId};
use super::past::predecessors;
use super::table::ServiceId;
use super::virtual_server::VirtualServer;

mod reasons;

use reasons::{server_changes, service_changes};

/// The difference between the running configuration and a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Removals, then edits, then additions.
    pub actions: Vec<Action>,
    /// The state of everything that exists before and after.
    pub carried: State,
    /// Real servers that no predecessor of their pool had.
    pub new_servers: BTreeSet<ServerKey>,
    pub removed: Removed,
    /// Orders that end because no real server takes them over.
    pub lost_orders: Vec<LostOrder>,
    /// Those that live on.
    pub(super) heirs: BTreeMap<ServerKey, Orders>,
    /// For each virtual server of the new configuration the running pool that is just the same.
    pub(super) same: Vec<Option<usize>>,
    /// Nothing ran before: all is new.
    starts: bool,
}

/// How much of what there is goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub servers: usize,
    pub of_servers: usize,
    pub services: usize,
    pub of_services: usize,
}

/// What survives, for each virtual server of the new configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The verdicts of its real servers, in their order; none of those that are new.
    pub alive: Vec<Box<[Option<bool>]>>,
    pub quorum_up: Vec<Option<bool>>,
}

impl State {
    /// How many real servers survive.
    pub fn real_servers(&self) -> usize {
        self.alive.iter().flatten().flatten().count()
    }
}

/// A real server of the new configuration: index of its virtual server, and its identity there.
pub type ServerKey = (usize, RealServerId);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    pub kind: ActionKind,
    /// The service, or the name of the virtual server where the pool is meant.
    pub virtual_server: String,
    pub real_server: Option<RealServerId>,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionKind {
    RemoveVirtualServer,
    RemoveRealServer,
    RemoveSorryServer,
    EditVirtualServer,
    EditRealServer,
    SetSorryServer,
    AddVirtualServer,
    AddRealServer,
}

impl ActionKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::RemoveVirtualServer => "remove virtual server",
            Self::RemoveRealServer => "remove real server",
            Self::RemoveSorryServer => "remove sorry server",
            Self::EditVirtualServer => "edit virtual server",
            Self::EditRealServer => "edit real server",
            Self::SetSorryServer => "set sorry server",
            Self::AddVirtualServer => "add virtual server",
            Self::AddRealServer => "add real server",
        }
    }
}

impl Action {
    /// Does it take something away that serves?
    pub const fn removes(&self) -> bool {
        matches!(self.kind, ActionKind::RemoveVirtualServer | ActionKind::RemoveRealServer)
    }
}

/// `edit real server 198.51.100.11:80 in web: weight 2 → 5`
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, virtual_server, real_server, reason } = self;
        match real_server {
            Some(server) => write!(f, "{} {server} in {virtual_server}: {reason}", kind.name()),
            None => write!(f, "{} {virtual_server}: {reason}", kind.name()),
        }
    }
}

impl Plan {
    /// Compares the running pools with a new configuration. Linear but for the maps' logarithms.
    pub(super) fn new(old: &[VirtualServer], new: &Config, presence: &Presence) -> Self {
        if is_same(old, new) {
            return Self::of_nothing_new(old);
        }
        let mut plan = Self::default();
        let old_pools: BTreeMap<ServiceId, usize> = (0..)
            .zip(old)
            .flat_map(|(index, pool)| pool.config.services.iter().map(move |s| (*s, index)))
            .collect();
        let new_services: BTreeSet<&ServiceId> =
            new.virtual_servers.iter().flat_map(|v| &v.services).collect();
        for service in old_pools.keys().filter(|s| !new_services.contains(s)) {
            plan.act(ActionKind::RemoveVirtualServer, service.to_string(), None, "not in the file any more");
        }
        let mut heirs: Vec<Heir<'_>> = Vec::new();
        for (index, pool) in new.virtual_servers.iter().enumerate() {
            let among = predecessors(&pool.services, |service| old_pools.get(service).copied());
            let before: Vec<&VirtualServer> = among.iter().filter_map(|i| old.get(*i)).collect();
            plan.carried.quorum_up.push(before.first().map(|first| first.quorum_up));
            if let ([at], [before]) = (among.as_slice(), before.as_slice())
                && before.config == *pool
            {
                plan.carry(*at, before);
                continue;
            }
            plan.same.push(None);
            plan.compare_services(pool, &before, &old_pools, presence);
            plan.compare_pool(index, pool, &before);
            heirs.push((index, pool, among));
        }
        let stay = plan.same.iter().flatten().copied().collect();
        let Inheritance { heirs, lost } = Inheritance::of_running(old, &stay, &heirs);
        (plan.heirs, plan.lost_orders) = (heirs, lost);
        plan.removed = removed(old, new, &plan.same);
        plan.actions.sort_by_key(|action| action.kind);
        plan
    }

    /// Of the first configuration. Names no actions: nobody asks what a start adds.
    pub(super) fn of_start(config: &Config, heirs: BTreeMap<ServerKey, Orders>) -> Self {
        Self { same: vec![None; config.virtual_servers.len()], starts: true, heirs, ..Self::default() }
    }

    /// Of a configuration that is the one in force.
    fn of_nothing_new(pools: &[VirtualServer]) -> Self {
        let of_servers = pools.iter().map(|pool| pool.real_servers.len()).sum();
        let of_services = pools.iter().map(|pool| pool.config.services.len()).sum();
        let mut plan =
            Self { removed: Removed { of_servers, of_services, ..Removed::default() }, ..Self::default() };
        for (index, pool) in pools.iter().enumerate() {
            plan.carried.quorum_up.push(Some(pool.quorum_up));
            plan.carry(index, pool);
        }
        plan
    }

    /// The virtual servers of the new configuration that are not just the same as a running pool.
    pub(super) fn changed(&self) -> impl Iterator<Item = usize> {
        self.same.iter().enumerate().filter(|(_, same)| same.is_none()).map(|(index, _)| index)
    }

    /// A pool that is as it was, and where it stood.
    fn carry(&mut self, at: usize, before: &VirtualServer) {
        self.same.push(Some(at));
        self.carried.alive.push(before.real_servers.iter().map(|s| Some(s.passes_checks())).collect());
    }

    /// Does a real server begin the reload down? Only a new one whose check is alpha: a survivor
    /// keeps whatever it was, and nobody has looked at a new one yet.
    pub(super) fn starts_down(&self, server: ServerKey, alpha: bool) -> bool {
        alpha && (self.starts || self.new_servers.contains(&server))
    }

    fn act(
        &mut self,
        kind: ActionKind,
        of: impl Into<String>,
        server: Option<RealServerId>,
        why: impl Into<String>,
    ) {
        let action = Action { kind, virtual_server: of.into(), real_server: server, reason: why.into() };
        self.actions.push(action);
    }

    fn compare_services(
        &mut self,
        pool: &model::VirtualServer,
        before: &[&VirtualServer],
        old_pools: &BTreeMap<ServiceId, usize>,
        presence: &Presence,
    ) {
        let standing = |service: &ServiceId| match presence.standing(pool, service) {
            Standing::Ungated => String::new(),
            Standing::Active(reason) => format!(", active: {reason}"),
            Standing::Inactive(reason) => format!(", not active: {reason}"),
        };
        for service in pool.services.iter().filter(|s| !old_pools.contains_key(s)) {
            let reason = format!("new in the file{}", standing(service));
            self.act(ActionKind::AddVirtualServer, service.to_string(), None, reason);
        }
        for old in before {
            let reasons = service_changes(&old.config, pool);
            if reasons.is_empty() {
                continue;
            }
            for service in old.config.services.iter().filter(|s| pool.services.contains(s)) {
                let told = old.config.active_when != pool.active_when
                    || !presence.standing(pool, service).is_active();
                let reason = reasons.join(", ") + &if told { standing(service) } else { String::new() };
                self.act(ActionKind::EditVirtualServer, service.to_string(), None, reason);
            }
        }
    }

    fn compare_pool(&mut self, index: usize, pool: &model::VirtualServer, before: &[&VirtualServer]) {
        let old_servers: BTreeMap<RealServerId, _> =
            before.iter().rev().flat_map(|p| &p.real_servers).map(|s| (s.id(), s)).collect();
        let alive = pool.real_servers.iter().map(|s| old_servers.get(&s.id).map(|old| old.passes_checks()));
        self.carried.alive.push(alive.collect());
        for server in &pool.real_servers {
            match old_servers.get(&server.id) {
                Some(old) => {
                    let reasons = server_changes(&old.config, server);
                    if !reasons.is_empty() {
                        self.act(ActionKind::EditRealServer, &pool.name, Some(server.id), reasons.join(", "));
                    }
                }
                None => {
                    self.new_servers.insert((index, server.id));
                    self.act(ActionKind::AddRealServer, &pool.name, Some(server.id), "new in the file");
                }
            }
        }
        let kept: BTreeSet<RealServerId> = pool.real_servers.iter().map(|s| s.id).collect();
        for id in old_servers.keys().filter(|id| !kept.contains(id)) {
            self.act(ActionKind::RemoveRealServer, &pool.name, Some(*id), "not in the file any more");
        }
        self.compare_sorry_servers(pool, before);
    }

    fn compare_sorry_servers(&mut self, pool: &model::VirtualServer, before: &[&VirtualServer]) {
        let id = |s: &model::SorryServer| RealServerId { address: s.address, port: s.port };
        let old = before.first().and_then(|p| p.config.sorry_server.as_ref());
        match (old, &pool.sorry_server) {
            (None, None) => {}
            (Some(old), None) => {
                self.act(
                    ActionKind::RemoveSorryServer,
                    &pool.name,
                    Some(id(old)),
                    "not in the file any more",
                );
            }
            (None, Some(new)) => {
                self.act(ActionKind::SetSorryServer, &pool.name, Some(id(new)), "new in the file");
            }
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) if id(old) == id(new) => {
                self.act(
                    ActionKind::SetSorryServer,
                    &pool.name,
                    Some(id(new)),
                    "its method or inhibit changed",
                );
            }
            (Some(old), Some(new)) => {
                let reason = format!("in place of {}", id(old));
                self.act(ActionKind::SetSorryServer, &pool.name, Some(id(new)), reason);
            }
        }
    }
}

/// Is it what is in force, from the first virtual server to the last?
pub(super) fn is_same(pools: &[VirtualServer], config: &Config) -> bool {
    pools.len() == config.virtual_servers.len()
        && pools.iter().zip(&config.virtual_servers).all(|(pool, new)| pool.config == *new)
}

/// Equal values change places, so that one configuration is held and not two.
pub(super) fn adopt(pools: &mut [VirtualServer], config: &Config) {
    for (pool, new) in pools.iter_mut().zip(&config.virtual_servers) {
        if Arc::ptr_eq(&pool.config, new) {
            continue;
        }
        pool.config = Arc::clone(new);
        for (server, new) in pool.real_servers.iter_mut().zip(&new.real_servers) {
            server.config = Arc::clone(new);
            for (checker, new) in server.checkers.iter_mut().zip(&new.checks) {
                checker.config = Arc::clone(new);
            }
        }
    }
}

/// A real server stays if a pool that has any of its pool's services has it.
fn removed(old: &[VirtualServer], new: &Config, same: &[Option<usize>]) -> Removed {
    let stays: BTreeSet<usize> = same.iter().flatten().copied().collect();
    let pools: BTreeMap<ServiceId, usize> = (0..)
        .zip(&new.virtual_servers)
        .flat_map(|(i, pool)| pool.services.iter().map(move |s| (*s, i)))
        .collect();
    let servers: BTreeSet<ServerKey> = (0..)
        .zip(&new.virtual_servers)
        .zip(same)
        .filter(|(_, same)| same.is_none())
        .flat_map(|((i, pool), _)| pool.real_servers.iter().map(move |server| (i, server.id)))
        .collect();
    let mut removed = Removed::default();
    for (at, pool) in old.iter().enumerate() {
        let services = &pool.config.services;
        removed.of_services += services.len();
        removed.of_servers += pool.real_servers.len();
        if stays.contains(&at) {
            continue;
        }
        let among: BTreeSet<usize> =
            services.iter().filter_map(|service| pools.get(service).copied()).collect();
        removed.services += services.iter().filter(|service| !pools.contains_key(service)).count();
        let is_gone = |id| !among.iter().any(|i| servers.contains(&(*i, id)));
        removed.servers += pool.real_servers.iter().filter(|server| is_gone(server.id())).count();
    }
    removed
}
