//! What a virtual server says about the service in the kernel: scheduler, flags, persistence.

use std::net::Ipv4Addr;

use super::lines::Directive;
use super::pool::Virtual;
use crate::config::import::document::Table;
use crate::config::import::notes::Notes;

/// lvsd's limit, and keepalived's.
const LONGEST_PERSISTENCE: u64 = 2_678_400;

/// What goes into the service itself, in the order of lvsd.toml.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) scheduler: Option<String>,
    pub(super) flags: Option<Directive>,
    pub(super) persistent: Option<Directive>,
    pub(super) netmask: Option<Directive>,
    pub(super) ops: Option<Directive>,
}

impl Kernel {
    pub(super) fn write(self, vs: &Virtual, keys: &mut Table, notes: &mut Notes) {
        let mut refuse =
            |directive: &Directive, why: &str| vs.say(notes.not_carried(directive.at, &directive.key, why));
        let scheduler = self.scheduler.unwrap_or_else(|| "wrr".to_owned());
        keys.set("scheduler", scheduler.as_str());
        if let Some(directive) = &self.flags {
            let fits = |flag: &&str| match flag.split_once('-') {
                Some(("flag", "1" | "2" | "3")) => true,
                Some((of @ ("sh" | "mh"), "port" | "fallback")) => of == scheduler,
                Some(_) | None => false,
            };
            let (good, bad): (Vec<&str>, Vec<&str>) =
                directive.unquoted().split(',').map(str::trim).partition(fits);
            if !bad.is_empty() {
                refuse(directive, &format!("{} is no flag of the scheduler {scheduler}", bad.join(", ")));
            }
            if !good.is_empty() {
                keys.set("scheduler_flags", good);
            }
        }
        let persistent = self.persistent.as_ref().map(|directive| (directive, directive.number()));
        match persistent {
            Some((_, Some(count @ 1..=LONGEST_PERSISTENCE))) => {
                keys.set("persistence_timeout", std::time::Duration::from_secs(count));
                if let Some(directive) = &self.netmask {
                    match netmask(directive.unquoted(), vs.is_v6) {
                        Some(bits) => keys.set("persistence_netmask", bits),
                        None => {
                            refuse(directive, "it is no netmask: a dotted one for IPv4, 1 to 128 for IPv6")
                        }
                    }
                }
            }
            Some((directive, _)) => refuse(directive, "it is no number of seconds from 1 to 31 days"),
            None => {
                if let Some(directive) = &self.netmask {
                    refuse(directive, "ldirectord takes it only beside `persistent`");
                }
            }
        }
        match self.ops.as_ref().map(|directive| (directive, directive.yes_or_no())) {
            Some((_, Some(true))) if vs.protocol == "udp" => keys.set("one_packet", true),
            Some((directive, Some(true))) => refuse(directive, "ldirectord takes it for udp only"),
            Some((directive, None)) => refuse(directive, "neither \"yes\" nor \"no\""),
            Some((_, Some(false))) | None => {}
        }
    }
}

fn netmask(text: &str, is_v6: bool) -> Option<u32> {
    if is_v6 {
        return text.parse().ok().filter(|bits| (1..=128).contains(bits));
    }
    let bits = text.parse::<Ipv4Addr>().ok()?.to_bits();
    (bits.leading_ones() + bits.trailing_zeros() >= 32).then_some(bits.leading_ones())
}
