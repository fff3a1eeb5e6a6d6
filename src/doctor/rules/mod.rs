//! What must be so on a director, for which configuration, and why. Pure: a rule sees a configuration and
//! facts, and says what it found. A rule that does not matter to the configuration says nothing.

mod files;
mod forwarding;
mod host;
mod ipvs;
mod modules;
mod virtual_addresses;

use super::facts::Facts;
use super::{Finding, Level};
use crate::engine::model::{Config, Forwarding, Protocol, RealServer, VirtualServer};
use crate::engine::table::ServiceId;

/// Faults first, each level in the order of the rules.
pub fn examine(config: &Config, facts: &Facts) -> Vec<Finding> {
    let case = Case { config, facts };
    let rules: [fn(&Case<'_>) -> Vec<Finding>; 6] = [
        modules::examine,
        host::examine,
        files::examine,
        virtual_addresses::examine,
        forwarding::examine,
        ipvs::examine,
    ];
    let mut findings: Vec<Finding> = rules.iter().flat_map(|rule| rule(&case)).collect();
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// What is wrong with what the configuration names of this host, for who only validates it.
pub fn examine_named(config: &Config, facts: &Facts) -> Vec<Finding> {
    files::examine_named(&Case { config, facts })
}

/// What a rule is asked about.
struct Case<'a> {
    config: &'a Config,
    facts: &'a Facts,
}

impl<'a> Case<'a> {
    fn pools(&self) -> impl Iterator<Item = &'a VirtualServer> {
        self.config.virtual_servers.iter().map(AsRef::as_ref)
    }

    /// The names of those that something matters to.
    fn names(&self, matters: impl Fn(&VirtualServer) -> bool) -> Vec<String> {
        self.pools().filter(|pool| matters(pool)).map(|pool| pool.name.clone()).collect()
    }

    /// A finding about one setting, whose path is relative to /proc/sys. `None` where the kernel does not have it.
    fn setting(&self, level: Level, rule: &'static str, path: &str) -> Option<Finding> {
        let value = self.facts.sysctls.get(path)?;
        let found = format!("{} = {value}", super::sysctl_name(path));
        Some(Finding::new(level, rule, found, format!("/proc/sys/{path}")))
    }
}

fn servers(pool: &VirtualServer) -> impl Iterator<Item = &RealServer> {
    pool.real_servers.iter().map(AsRef::as_ref)
}

/// How packets get to the real servers and the sorry server.
fn forwards(pool: &VirtualServer, which: impl Fn(Forwarding) -> bool) -> bool {
    servers(pool).map(|s| s.forwarding).chain(pool.sorry_server.as_ref().map(|s| s.forwarding)).any(which)
}

/// Replies do not come back through the director.
fn is_direct(forwarding: Forwarding) -> bool {
    match forwarding {
        Forwarding::Dr | Forwarding::Tun(_) => true,
        Forwarding::Nat | Forwarding::Local => false,
    }
}

fn speaks(pool: &VirtualServer, wanted: Protocol) -> bool {
    pool.services.iter().any(|service| match service {
        ServiceId::Address { protocol, .. } => *protocol == wanted,
        // Any protocol.
        ServiceId::Mark { .. } => true,
    })
}

/// `a, b, c and 7 more`
fn some(items: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = items.iter().take(SHOWN).cloned().collect::<Vec<String>>().join(", ");
    match items.len().checked_sub(SHOWN) {
        Some(rest) if rest > 0 => format!("{shown} and {rest} more"),
        Some(_) | None => shown,
    }
}
