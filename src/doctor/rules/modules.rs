//! The modules that a configuration needs. The kernel loads schedulers and persistence engines by itself
//! when a service asks for one; others it does not.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::super::facts::ModuleState;
use super::{Case, Finding, Level, forwards};
use crate::engine::model::{Forwarding, Protocol};
use crate::engine::table::ServiceId;

const FTP: u16 = 21;
/// Where modules are listed.
const LOADED: &str = "/proc/modules";

pub(super) fn examine(case: &Case<'_>) -> Vec<Finding> {
    let mut found = vec![ip_vs(case)];
    found.extend(named(case));
    found.extend(ftp(case));
    found.extend(tunnels(case));
    found
}

fn ip_vs(case: &Case<'_>) -> Finding {
    let source = "/proc/net/ip_vs";
    if case.facts.table.is_some() {
        return Finding::new(Level::Ok, "ip_vs", "the kernel has IPVS", source);
    }
    let state = case.facts.modules.state("ip_vs");
    let (level, found, why) = match state {
        ModuleState::Missing => (
            Level::Fault,
            "this kernel has no IPVS and no module ip_vs",
            "nothing can be balanced: install a kernel with CONFIG_IP_VS (Debian's has it, its \"cloud\" kernels too; \
             in a container the host's kernel counts)",
        ),
        ModuleState::Present => (
            Level::Fault,
            "ip_vs is loaded, but not seen in this network name space",
            "/proc/net/ip_vs is missing or may not be read here",
        ),
        ModuleState::Loadable | ModuleState::Unknown => (
            Level::Advice,
            "ip_vs is not loaded",
            "the service loads it when it starts; its settings can only be looked at once it is there: load it and \
             run `lvsd doctor` again",
        ),
    };
    let finding = Finding::new(level, "ip_vs", found, source).because(why);
    if level == Level::Advice { finding.load("ip_vs") } else { finding }
}

/// Schedulers and persistence engines, once each.
fn named(case: &Case<'_>) -> Vec<Finding> {
    let mut wanted: BTreeMap<String, (&'static str, Vec<String>)> = BTreeMap::new();
    for pool in case.pools() {
        let scheduler = ("scheduler", format!("ip_vs_{}", pool.scheduler));
        let engine = pool.persistence.as_ref().and_then(|p| p.engine.as_ref());
        let engine = engine.map(|engine| ("persistence_engine", format!("ip_vs_pe_{engine}")));
        for (rule, module) in [Some(scheduler), engine].into_iter().flatten() {
            match wanted.entry(module) {
                Entry::Vacant(entry) => _ = entry.insert((rule, vec![pool.name.clone()])),
                Entry::Occupied(entry) => entry.into_mut().1.push(pool.name.clone()),
            }
        }
    }
    wanted.into_iter().map(|(module, (rule, names))| module_finding(case, rule, &module, names)).collect()
}

fn module_finding(case: &Case<'_>, rule: &'static str, module: &str, names: Vec<String>) -> Finding {
    let index = format!("/lib/modules/{}/modules.dep", case.facts.kernel_release);
    // See systemd/lvsd.modules-load: their loading by the kernel can hang all of IPVS.
    let must_be_there = matches!(module, "ip_vs_lblc" | "ip_vs_lblcr");
    match case.facts.modules.state(module) {
        ModuleState::Present => Finding::new(Level::Ok, rule, format!("{module} is there"), LOADED),
        ModuleState::Loadable if must_be_there => {
            Finding::new(Level::Advice, rule, format!("{module} is not loaded"), LOADED)
                .because(
                    "the kernel would load it with the locks of IPVS held, which can block all of IPVS while a \
                     network name space (a container) ends: it should be there before",
                )
                .concerns(names)
                .load(module)
        }
        ModuleState::Loadable => {
            Finding::new(Level::Ok, rule, format!("{module} can be loaded, which the kernel does itself"), index)
        }
        ModuleState::Missing => Finding::new(
            Level::Fault,
            rule,
            format!("this kernel has no module {module}"),
            index,
        )
        .because("the kernel refuses a service with it (ENOENT): write another one, or install a kernel that has it")
        .concerns(names),
        ModuleState::Unknown => {
            Finding::new(Level::Ok, rule, format!("{module}: no list of this kernel's modules here"), index)
        }
    }
}

/// FTP by NAT: addresses stand in what client and server say, and only this module rewrites them.
fn ftp(case: &Case<'_>) -> Option<Finding> {
    let has_ftp = |service: &ServiceId| {
        matches!(service, ServiceId::Address { protocol: Protocol::Tcp, port: FTP, .. })
    };
    let names =
        case.names(|pool| pool.services.iter().any(has_ftp) && forwards(pool, |f| f == Forwarding::Nat));
    if names.is_empty() {
        return None;
    }
    if case.facts.modules.state("ip_vs_ftp") == ModuleState::Present {
        return Some(Finding::new(Level::Ok, "ip_vs_ftp", "ip_vs_ftp is loaded", LOADED));
    }
    let why = "with NAT on port 21 a client can log in, but its data connections go to the real server's own address; \
               ip_vs_ftp follows them, and nothing loads it by itself";
    let finding = Finding::new(Level::Fault, "ip_vs_ftp", "ip_vs_ftp is not loaded", LOADED);
    Some(finding.because(why).concerns(names).load("ip_vs_ftp"))
}

/// IPVS wraps packets itself: the director needs nothing, the real servers do.
fn tunnels(case: &Case<'_>) -> Option<Finding> {
    let names = case.names(|pool| forwards(pool, |f| matches!(f, Forwarding::Tun(_))));
    let found = "tunnels need no module here; each real server must unwrap them (ipip, fou for gue, ip_gre)";
    let finding = Finding::new(Level::Ok, "tunnel", found, "ip -d link show (on a real server)");
    (!names.is_empty()).then(|| finding.concerns(names))
}
