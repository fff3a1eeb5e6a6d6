//! Scheduler, its flags, one-packet scheduling and persistence.

use super::services::Services;
use crate::config::context::{At, Context, Field};
use crate::config::defaults;
use crate::config::diagnostics::Finding;
use crate::config::raw::{Netmask, PoolOptions};
use crate::config::text::{closest, quote};
use crate::engine::model::{Persistence, Protocol, Scheduler, SchedulerFlag};

/// Those of the kernel itself; others can be loaded.
const SCHEDULERS: [&str; 14] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh", "twos"];

/// Each with its bit and the scheduler it is for.
const FLAGS: [(&str, SchedulerFlag, Option<&str>); 7] = [
    ("sh-port", SchedulerFlag::Two, Some("sh")),
    ("sh-fallback", SchedulerFlag::One, Some("sh")),
    ("mh-port", SchedulerFlag::Two, Some("mh")),
    ("mh-fallback", SchedulerFlag::One, Some("mh")),
    ("flag-1", SchedulerFlag::One, None),
    ("flag-2", SchedulerFlag::Two, None),
    ("flag-3", SchedulerFlag::Three, None),
];

/// The only engine of the kernel.
const ENGINE: &str = "sip";

pub(super) fn scheduler(cx: &mut Context<'_>, pool: &PoolOptions) -> Option<Scheduler> {
    if let Some(written) = pool.scheduler.get()
        && !SCHEDULERS.contains(&written.value.as_str())
    {
        let message = format!("{} is not a scheduler of the kernel as it comes", quote(&written.value));
        let finding = Finding::warning(written.place, message);
        cx.push(match closest(&written.value, SCHEDULERS) {
            Some(known) => finding.remedy(format!("did you mean \"{known}\"?")),
            None => finding.remedy(format!("the module ip_vs_{} must be there", written.value)),
        });
    }
    Scheduler::new(&pool.scheduler.value_or(defaults::SCHEDULER.to_owned()))
}

pub(super) fn flags(cx: &mut Context<'_>, pool: &PoolOptions) -> Vec<SchedulerFlag> {
    let mut flags = Vec::new();
    for written in pool.scheduler_flags.get().map_or(&[][..], |list| &list.value) {
        let Some((name, flag, of)) = FLAGS.iter().find(|(name, ..)| *name == written.value) else {
            let message = format!("{} is not a scheduler flag", quote(&written.value));
            let names = FLAGS.map(|(name, ..)| name);
            let remedy = match closest(&written.value, names) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("known are {}", names.join(", ")),
            };
            cx.push(Finding::error(written.place, message).remedy(remedy));
            continue;
        };
        let scheduler = pool.scheduler.value_or(defaults::SCHEDULER.to_owned());
        if let Some(of) = of.filter(|of| *of != scheduler)
            && !pool.scheduler.is_broken()
        {
            let message = format!("\"{name}\" is a flag of {of}, but the scheduler is {scheduler}");
            let finding = Finding::error(written.place, message);
            let finding = match pool.scheduler.place() {
                Some(place) => finding.label(place, "the scheduler is set here"),
                None => finding,
            };
            cx.push(finding.remedy(format!("write scheduler = \"{of}\", or scheduler_flags = []")));
        }
        if !flags.contains(flag) {
            flags.push(*flag);
        }
    }
    flags
}

/// Each packet of a flow to another server: only datagrams can bear that.
pub(super) fn one_packet(cx: &mut Context<'_>, pool: &PoolOptions, services: &Services) -> bool {
    let Some(one_packet) = pool.one_packet.get().filter(|one_packet| one_packet.value) else { return false };
    if services.by_address && !is_udp(&pool.protocol) {
        let finding = Finding::error(one_packet.place, "one-packet scheduling is for udp");
        cx.push(finding.remedy("write protocol = \"udp\", or remove `one_packet`"));
    }
    true
}

/// `own` is what the virtual server says itself; what it inherits without using it is no mistake.
pub(super) fn persistence(
    cx: &mut Context<'_>,
    own: &PoolOptions,
    pool: &PoolOptions,
    services: &Services,
) -> Option<Persistence> {
    let Some(timeout) = pool.persistence_timeout.get() else {
        if pool.persistence_timeout.is_unset() {
            let netmask = own.persistence_netmask.place().map(|place| (place, "persistence_netmask"));
            let engine = own.persistence_engine.place().map(|place| (place, "persistence_engine"));
            for (place, key) in netmask.into_iter().chain(engine) {
                let finding = Finding::error(place, format!("`{key}` needs `persistence_timeout`"));
                cx.push(finding.remedy("write persistence_timeout = \"5m\", or remove it"));
            }
        }
        return None;
    };
    let netmask = pool.persistence_netmask.get().map(|netmask| lower_netmask(cx, netmask, services));
    let engine = pool.persistence_engine.get().map(|engine| {
        judge_engine(cx, engine, pool, services);
        engine.value.clone()
    });
    Some(Persistence { timeout: timeout.value, netmask, engine })
}

/// One number for the services of both families.
fn lower_netmask(cx: &mut Context<'_>, netmask: &At<Netmask>, services: &Services) -> u8 {
    let (bits, dotted) = match netmask.value {
        Netmask::Prefix(bits) => (bits, false),
        Netmask::Dotted(bits) => (bits, true),
    };
    if let Some(id) = services.ipv4.filter(|_| bits > 32) {
        let finding = Finding::error(netmask.place, format!("a netmask of {bits} bits does not fit {id}"));
        cx.push(finding.remedy(match services.ipv6 {
            None => "write a prefix length from 0 to 32",
            Some(_) => "put the IPv6 addresses into a virtual server of their own",
        }));
    }
    // The kernel takes 0 for IPv4, all clients alike, but refuses it for IPv6.
    if let Some(id) = services.ipv6.filter(|_| dotted || bits == 0) {
        let finding = Finding::error(netmask.place, format!("this netmask does not fit {id}"));
        cx.push(finding.remedy("write a prefix length from 1 to 128"));
    }
    if services.ipv4.is_some() && services.ipv6.is_some() && !dotted && (1..=32).contains(&bits) {
        let finding = Finding::warning(
            netmask.place,
            format!("a netmask of {bits} bits is also that of the IPv6 services"),
        );
        cx.push(finding.remedy("put the IPv6 addresses into a virtual server of their own"));
    }
    bits
}

fn judge_engine(cx: &mut Context<'_>, engine: &At<String>, pool: &PoolOptions, services: &Services) {
    if engine.value != ENGINE {
        let message =
            format!("{} is not a persistence engine of the kernel as it comes", quote(&engine.value));
        let remedy =
            format!("write \"{ENGINE}\", or make sure that the module ip_vs_pe_{} is there", engine.value);
        cx.push(Finding::warning(engine.place, message).remedy(remedy));
    } else if services.by_address && !is_udp(&pool.protocol) {
        // It finds no call in other packets, and the kernel then drops them.
        let finding = Finding::error(engine.place, "the sip engine is for udp");
        cx.push(finding.remedy("write protocol = \"udp\", or remove `persistence_engine`"));
    }
}

/// One that is broken could be.
fn is_udp(protocol: &Field<Protocol>) -> bool {
    protocol.is_broken() || protocol.value() == Some(Protocol::Udp)
}
