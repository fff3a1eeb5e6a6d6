//! From what the files say to what it means: defaults, inheritance, and every rule that takes
//! more than one value. Reads nothing but the mirror; gives values that cannot be wrong.

mod active_when;
mod announce;
mod checks;
mod daemon;
mod forwarding;
mod pool;
mod quorum;
mod real_server;
mod scheduling;
mod services;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::context::{At, Context, Field};
use super::diagnostics::{Finding, Place};
use super::kept::{Again, Uses};
use super::raw::{Check, CheckRef, Defaults, Root, VirtualServer};
use super::text::{closest, quote};
use crate::engine::model::{CheckKind, Config, Daemon, Timing};
use crate::engine::table::ServiceId;

/// The configuration that the files mean. If anything was reported as an error, it must not be used.
pub(super) fn lower(cx: &mut Context<'_>, root: &Root<'_>) -> Config {
    let mut all = Lowering::new(cx, root);
    root.virtual_servers.iter().for_each(|vs| all.add(cx, vs));
    all.finish(cx)
}

/// What all virtual servers have in common.
pub(super) struct Lowering<'r> {
    daemon: Daemon,
    pools: Vec<pool::Pool>,
    defaults: &'r Defaults,
    checks: &'r BTreeMap<&'r str, At<Check>>,
    used_checks: HashSet<&'r str>,
    /// Of these, those that the virtual server added last names.
    named_last: HashSet<&'r str>,
    /// Every service so far, and where it is configured.
    services: HashMap<ServiceId, Place>,
    /// Entries in the kernel's table so far, if all servers are in it.
    destinations: u64,
    /// Pairs of places that were reported to overlap: two ranges do it once, not by address.
    overlaps: HashSet<(Place, Place)>,
    /// `[daemon.sync]`, which excludes pools of mixed families.
    sync: Option<Place>,
    /// Kinds with an inherited virtual host, by the address of the kind without one.
    with_host: HashMap<(usize, String), Arc<CheckKind>>,
    announced: announce::Announced,
    /// Kept once each: there are as many checks as servers, and few timings.
    timings: HashSet<Arc<Timing>>,
}

impl<'r> Lowering<'r> {
    /// All but the virtual servers.
    pub(super) fn new(cx: &mut Context<'_>, root: &'r Root<'_>) -> Self {
        let mut all = Self {
            daemon: daemon::lower(cx, &root.daemon),
            pools: Vec::new(),
            defaults: &root.defaults,
            checks: &root.checks,
            used_checks: HashSet::new(),
            named_last: HashSet::new(),
            services: HashMap::new(),
            timings: HashSet::new(),
            destinations: 0,
            overlaps: HashSet::new(),
            sync: root.daemon.sync.get().map(|sync| sync.value.place),
            with_host: HashMap::new(),
            announced: announce::Announced::default(),
        };
        // Named there is used, even if every virtual server says something else.
        all.resolve(cx, &root.defaults.pool.check);
        all.used_checks.extend(&all.named_last);
        all
    }

    pub(super) fn add(&mut self, cx: &mut Context<'_>, raw: &VirtualServer<'_>) {
        self.named_last.clear();
        let pool = pool::lower(cx, self, raw);
        self.used_checks.extend(&self.named_last);
        self.pools.push(pool);
    }

    /// Of the one added last, for a reading that need not make it again: is its name written, and what does it
    /// share with others?
    pub(super) fn last(&self) -> Option<(bool, Arc<Uses>)> {
        let pool = self.pools.last()?;
        let uses = Uses::new(&pool.server, self.named_last.iter().copied());
        Some((pool.name.is_written(), Arc::new(uses)))
    }

    /// Timings that are there already.
    pub(super) fn share(&mut self, timings: impl Iterator<Item = Arc<Timing>>) {
        self.timings.extend(timings);
    }

    /// One that need not be made again: all that making it would have done to the others.
    pub(super) fn add_again(&mut self, cx: &mut Context<'_>, again: &Again) {
        // Whoever adds to these has to say here what becomes of it.
        let Self {
            // Follow from what stands around the virtual servers, as that one does.
            daemon: _,
            defaults: _,
            checks,
            sync: _,
            used_checks,
            // Only more of what is equal would be made without them.
            timings: _,
            with_host: _,
            // Below.
            pools: _,
            services: _,
            destinations: _,
            overlaps: _,
            announced: _,
            named_last: _,
        } = self;
        used_checks.extend(again.uses.checks.iter().filter_map(|name| {
            let (name, _) = checks.get_key_value(&**name)?;
            Some(*name)
        }));
        let server = &again.server;
        services::claim_all(cx, self, &server.services);
        let (services, servers) = (server.services.len(), server.real_servers.len());
        pool::count_destinations(cx, self, Place::UNREAD, services, servers);
        if let Some(announce) = &server.announce {
            announce::claim(cx, self, &announce.interface, &server.services, Place::UNREAD);
        }
        let name = match again.is_named {
            true => Field::Set(At { value: server.name.clone(), place: Place::UNREAD }),
            false => Field::Unset,
        };
        self.pools.push(pool::Pool { server: Arc::clone(server), name, place: Place::UNREAD });
    }

    pub(super) fn finish(mut self, cx: &mut Context<'_>) -> Config {
        if self.pools.is_empty() && !cx.findings.has_errors() {
            let whole = Place { file: 0, start: 0, end: 0 };
            let finding = Finding::warning(whole, "there is no virtual server: nothing will be served");
            cx.push_missing(finding.remedy("write a [[virtual_server]], or include files that have them"));
        }
        name_pools(cx, &mut self.pools);
        self.warn_unused_checks(cx);
        // Not collected in place, which would keep the room of what was lowered.
        let mut virtual_servers = Vec::with_capacity(self.pools.len());
        virtual_servers.extend(self.pools.into_iter().map(|pool| pool.server));
        Config { daemon: self.daemon, virtual_servers }
    }

    /// The checks that a `check` key means.
    fn resolve<'x>(&mut self, cx: &mut Context<'_>, list: &'x Field<Vec<At<CheckRef>>>) -> Vec<At<&'x Check>>
    where
        'r: 'x,
    {
        let mut checks = Vec::new();
        let mut push = |check: &'x Check, place: Place| checks.push(At { value: check, place });
        for reference in list.get().map_or(&[][..], |list| &list.value) {
            match &reference.value {
                CheckRef::Inline(check) => push(check, reference.place),
                CheckRef::Named(name) => match self.checks.get_key_value(name.as_str()) {
                    Some((name, check)) => {
                        self.named_last.insert(name);
                        push(&check.value, reference.place);
                    }
                    None => self.unknown_check(cx, name, reference.place),
                },
            }
        }
        checks
    }

    fn unknown_check(&self, cx: &mut Context<'_>, name: &str, place: Place) {
        let finding = Finding::error(place, format!("there is no check named {}", quote(name)));
        cx.push(match closest(name, self.checks.keys().copied()) {
            Some(known) => finding.remedy(format!("did you mean {}?", quote(known))),
            None => finding.remedy(format!(
                "define it in [check.{name}], write {{ tcp = {{}} }} here, or name the file that has it: \
                 include = [\"conf.d/*.toml\"] at the top of lvsd.toml"
            )),
        });
    }

    /// Of the main file only: included ones may be a stock to choose from.
    fn warn_unused_checks(&self, cx: &mut Context<'_>) {
        for (name, check) in self.checks {
            if check.place.file == 0 && !self.used_checks.contains(name) {
                let finding = Finding::warning(check.place, format!("the check {} is not used", quote(name)));
                cx.push(
                    finding.remedy(format!("write check = {} where it belongs, or remove it", quote(name))),
                );
            }
        }
    }
}

/// Names are unique. One that was not written is the first address, with its protocol if
/// another pool has that address as well.
fn name_pools(cx: &mut Context<'_>, pools: &mut [pool::Pool]) {
    let mut taken: HashMap<String, Place> = HashMap::new();
    for pool in pools.iter() {
        let Some(name) = pool.name.get() else { continue };
        if let Some(first) = taken.get(&name.value) {
            let message = format!("there are two virtual servers named {}", quote(&name.value));
            let finding = Finding::error(name.place, message).label(*first, "first here");
            cx.push(finding.remedy("give one of them another name"));
            continue;
        }
        taken.insert(name.value.clone(), name.place);
    }
    for pool in pools.iter_mut() {
        let Some(first) = pool.server.services.first() else { continue };
        let name = match pool.name.value() {
            Some(name) => name,
            None if taken.contains_key(&services::short_name(first)) => first.to_string(),
            None => services::short_name(first),
        };
        if pool.name.is_unset() {
            if let Some(other) = taken.get(&name) {
                let message = format!("the name {} is taken", quote(&name));
                let finding = Finding::error(pool.place, message).label(*other, "by this virtual server");
                cx.push(finding.remedy("write a name for this one"));
            }
            taken.insert(name.clone(), pool.place);
        }
        if pool.server.name != name {
            // Another reading may have the same one, under the name that it had there.
            Arc::make_mut(&mut pool.server).name = name;
        }
    }
}
