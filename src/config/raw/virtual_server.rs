//! `[[virtual_server]]` and what stands in it.

use std::num::NonZeroU32;

use super::announce::{self, Announce};
use super::check::{CheckRef, check_list};
use super::keys::{Scope, unknown_key};
use super::{At, CommonOptions, Field, ForwardingOptions, Section, Value, tables};
use crate::config::address::{self, AddressRange};
use crate::config::context::{Context, Key};
use crate::config::diagnostics::{Finding, Place};
use crate::config::raw::http::host;
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{ActiveWhen, Argv, Family, Mark, Portion, Protocol, RealServerId};

/// 31 days, keepalived's limit: what the kernel counts in ticks must not overflow.
const PERSISTENCE_MAXIMUM: u32 = 2_678_400;

/// What a virtual server inherits from `[defaults]`.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct PoolOptions {
    pub(in crate::config) protocol: Field<Protocol>,
    pub(in crate::config) scheduler: Field<String>,
    pub(in crate::config) scheduler_flags: Field<Vec<At<String>>>,
    pub(in crate::config) forwarding: ForwardingOptions,
    pub(in crate::config) persistence_timeout: Field<NonZeroU32>,
    pub(in crate::config) persistence_netmask: Field<Netmask>,
    pub(in crate::config) persistence_engine: Field<String>,
    pub(in crate::config) one_packet: Field<bool>,
    pub(in crate::config) quorum: Field<u32>,
    pub(in crate::config) hysteresis: Field<u32>,
    pub(in crate::config) min_alive: Field<Portion>,
    pub(in crate::config) omega: Field<bool>,
    pub(in crate::config) announce: Field<Announce>,
    pub(in crate::config) inhibit_on_failure: Field<bool>,
    pub(in crate::config) virtualhost: Field<String>,
    /// `None`: always.
    pub(in crate::config) active_when: Field<Option<ActiveWhen>>,
    pub(in crate::config) check: Field<Vec<At<CheckRef>>>,
}

/// As written: a dotted mask is of IPv4 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Netmask {
    Prefix(u8),
    Dotted(u8),
}

pub(in crate::config) struct VirtualServer<'a> {
    /// Of its header.
    pub(in crate::config) place: Place,
    pub(in crate::config) name: Field<String>,
    pub(in crate::config) address: Field<Vec<At<AddressRange>>>,
    pub(in crate::config) fwmark: Field<Vec<At<Mark>>>,
    pub(in crate::config) family: Field<Vec<At<Family>>>,
    pub(in crate::config) pool: PoolOptions,
    pub(in crate::config) common: CommonOptions,
    pub(in crate::config) sorry_server: Field<SorryServer>,
    pub(in crate::config) quorum_up: Field<Argv>,
    pub(in crate::config) quorum_down: Field<Argv>,
    /// Read one at a time: there can be tens of thousands.
    pub(in crate::config) real_servers: Field<Vec<Section<'a>>>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::config) struct SorryServer {
    pub(in crate::config) address: Field<RealServerId>,
    pub(in crate::config) forwarding: ForwardingOptions,
    pub(in crate::config) inhibit: Field<bool>,
}

pub(in crate::config) struct RealServer {
    pub(in crate::config) place: Place,
    pub(in crate::config) address: Field<RealServerId>,
    pub(in crate::config) weight: Field<u32>,
    pub(in crate::config) upper_threshold: Field<u32>,
    pub(in crate::config) lower_threshold: Field<u32>,
    pub(in crate::config) notify_up: Field<Argv>,
    pub(in crate::config) notify_down: Field<Argv>,
    pub(in crate::config) forwarding: ForwardingOptions,
    pub(in crate::config) inhibit_on_failure: Field<bool>,
    pub(in crate::config) virtualhost: Field<String>,
    pub(in crate::config) check: Field<Vec<At<CheckRef>>>,
    pub(in crate::config) common: CommonOptions,
}

impl PoolOptions {
    pub(super) fn read_key(&mut self, cx: &mut Context<'_>, key: Key<'_>, value: Value<'_>) -> bool {
        match key.name {
            "protocol" => {
                let words = [("tcp", Protocol::Tcp), ("udp", Protocol::Udp), ("sctp", Protocol::Sctp)];
                self.protocol = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            "scheduler" => self.scheduler = value.field(cx, |cx, v| value::parsed(cx, v, kernel_name)),
            "scheduler_flags" => {
                self.scheduler_flags = value.field(cx, |cx, v| value::list(cx, v, value::line));
            }
            "persistence_timeout" => {
                let seconds =
                    |cx: &mut Context<'_>, v: Value<'_>| value::whole_seconds(cx, v, PERSISTENCE_MAXIMUM);
                self.persistence_timeout = value.field(cx, seconds);
            }
            "persistence_netmask" => self.persistence_netmask = value.field(cx, netmask),
            "persistence_engine" => {
                self.persistence_engine = value.field(cx, |cx, v| value::parsed(cx, v, kernel_name));
            }
            "one_packet" => self.one_packet = value.field(cx, value::boolean),
            "quorum" => self.quorum = value.field(cx, value::positive),
            "hysteresis" => self.hysteresis = value.field(cx, value::count),
            "min_alive" => self.min_alive = value.field(cx, value::portion),
            "announce" => self.announce = value.field(cx, announce::read),
            "omega" => self.omega = value.field(cx, value::boolean),
            "inhibit_on_failure" => self.inhibit_on_failure = value.field(cx, value::boolean),
            "virtualhost" => self.virtualhost = value.field(cx, host),
            "active_when" => self.active_when = value.field(cx, super::active_when::read),
            "check" => self.check = value.field(cx, check_list),
            _ => return self.forwarding.read_key(cx, key, value),
        }
        true
    }

    /// Key by key, the nearest wins.
    #[must_use]
    pub(in crate::config) fn or(&self, outer: &Self) -> Self {
        Self {
            protocol: self.protocol.or(&outer.protocol),
            scheduler: self.scheduler.or(&outer.scheduler),
            scheduler_flags: self.scheduler_flags.or(&outer.scheduler_flags),
            forwarding: self.forwarding.or(&outer.forwarding),
            persistence_timeout: self.persistence_timeout.or(&outer.persistence_timeout),
            persistence_netmask: self.persistence_netmask.or(&outer.persistence_netmask),
            persistence_engine: self.persistence_engine.or(&outer.persistence_engine),
            one_packet: self.one_packet.or(&outer.one_packet),
            quorum: self.quorum.or(&outer.quorum),
            hysteresis: self.hysteresis.or(&outer.hysteresis),
            min_alive: self.min_alive.or(&outer.min_alive),
            omega: self.omega.or(&outer.omega),
            announce: self.announce.or(&outer.announce),
            inhibit_on_failure: self.inhibit_on_failure.or(&outer.inhibit_on_failure),
            virtualhost: self.virtualhost.or(&outer.virtualhost),
            active_when: self.active_when.or(&outer.active_when),
            check: self.check.or(&outer.check),
        }
    }
}

impl<'a> VirtualServer<'a> {
    pub(super) fn read(cx: &mut Context<'_>, section: Section<'a>) -> Self {
        let mut vs = Self {
            place: section.place,
            name: Field::Unset,
            address: Field::Unset,
            fwmark: Field::Unset,
            family: Field::Unset,
            pool: PoolOptions::default(),
            common: CommonOptions::default(),
            sorry_server: Field::Unset,
            quorum_up: Field::Unset,
            quorum_down: Field::Unset,
            real_servers: Field::Unset,
        };
        for (key, value) in section.entries() {
            match key.name {
                "name" => vs.name = value.field(cx, value::line),
                "address" => vs.address = value.field(cx, addresses),
                "fwmark" => vs.fwmark = value.field(cx, |cx, v| value::one_or_more(cx, v, mark)),
                "family" => vs.family = value.field(cx, families),
                "sorry_server" => vs.sorry_server = value.field(cx, SorryServer::read),
                "quorum_up" => vs.quorum_up = value.field(cx, value::argv),
                "quorum_down" => vs.quorum_down = value.field(cx, value::argv),
                "real_server" => {
                    let remedy = "write [[virtual_server.real_server]]";
                    vs.real_servers = value.field(cx, |cx, v| tables(cx, v, remedy));
                }
                _ if vs.pool.read_key(cx, key, value) => {}
                _ if vs.common.read_key(cx, key, value) => {}
                _ => unknown_key(cx, Scope::VirtualServer, key),
            }
        }
        vs
    }
}

impl SorryServer {
    fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Self> {
        let mut sorry = Self::default();
        if value.node.is_str() {
            sorry.address = value.field(cx, server_address);
            return sorry.address.get().is_some().then_some(sorry);
        }
        let remedy = "write \"198.51.100.99:80\" or { address = \"198.51.100.99:80\", lb_kind = \"dr\" }";
        for (key, value) in value::table(cx, value, remedy)?.entries() {
            match key.name {
                "address" => sorry.address = value.field(cx, server_address),
                "inhibit" => sorry.inhibit = value.field(cx, value::boolean),
                _ if sorry.forwarding.read_key(cx, key, value) => {}
                _ => unknown_key(cx, Scope::SorryServer, key),
            }
        }
        Some(sorry)
    }
}

impl RealServer {
    pub(in crate::config) fn read(cx: &mut Context<'_>, section: Section<'_>) -> Self {
        let mut rs = Self {
            place: section.place,
            address: Field::Unset,
            weight: Field::Unset,
            upper_threshold: Field::Unset,
            lower_threshold: Field::Unset,
            notify_up: Field::Unset,
            notify_down: Field::Unset,
            forwarding: ForwardingOptions::default(),
            inhibit_on_failure: Field::Unset,
            virtualhost: Field::Unset,
            check: Field::Unset,
            common: CommonOptions::default(),
        };
        for (key, value) in section.entries() {
            match key.name {
                "address" => rs.address = value.field(cx, server_address),
                // The kernel's weights are signed.
                "weight" => {
                    rs.weight = value.field(cx, |cx, v| value::integer(cx, v, 0..=i128::from(i32::MAX)))
                }
                "upper_threshold" => rs.upper_threshold = value.field(cx, value::count),
                "lower_threshold" => rs.lower_threshold = value.field(cx, value::count),
                "notify_up" => rs.notify_up = value.field(cx, value::argv),
                "notify_down" => rs.notify_down = value.field(cx, value::argv),
                "inhibit_on_failure" => rs.inhibit_on_failure = value.field(cx, value::boolean),
                "virtualhost" => rs.virtualhost = value.field(cx, host),
                "check" => rs.check = value.field(cx, check_list),
                _ if rs.forwarding.read_key(cx, key, value) => {}
                _ if rs.common.read_key(cx, key, value) => {}
                _ => unknown_key(cx, Scope::RealServer, key),
            }
        }
        rs
    }
}

fn addresses(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<At<AddressRange>>> {
    value::one_or_more(cx, value, |cx, v| value::parsed(cx, v, address::parse_services))
}

fn server_address(cx: &mut Context<'_>, value: Value<'_>) -> Option<RealServerId> {
    let server = value::parsed(cx, value, address::parse_server)?;
    if let Some((address, port)) = value.node.as_str().and_then(address::swallowed_port) {
        let message = format!("{server}: the port is a part of this IPv6 address", server = server.address);
        let finding = Finding::warning(value.place, message);
        cx.push(finding.remedy(format!(
            "for port {port} write \"[{address}]:{port}\"; if the address is meant so, \"[{}]\"",
            server.address
        )));
    }
    Some(server)
}

fn mark(cx: &mut Context<'_>, value: Value<'_>) -> Option<Mark> {
    Mark::new(value::positive(cx, value)?)
}

fn families(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<At<Family>>> {
    let words = [("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6)];
    value::one_or_more(cx, value, |cx, v| value::word(cx, v, &words))
}

/// What the kernel takes for the name of a scheduler or a persistence engine.
fn kernel_name(name: &str) -> Result<String, Wrong> {
    match crate::engine::model::Scheduler::new(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(Wrong::new(format!("{} cannot be a name in the kernel", quote(name)))
            .remedy("write 1 to 15 letters, digits, `-` or `_`")),
    }
}

fn netmask(cx: &mut Context<'_>, value: Value<'_>) -> Option<Netmask> {
    if !value.node.is_str() {
        return value::integer(cx, value, 0..=128).map(Netmask::Prefix);
    }
    value::parsed(cx, value, |text| {
        let bits = text.parse::<std::net::Ipv4Addr>().ok().map(std::net::Ipv4Addr::to_bits);
        match bits.filter(|bits| bits.leading_ones() + bits.trailing_zeros() >= 32) {
            Some(bits) => Ok(Netmask::Dotted(u8::try_from(bits.leading_ones()).unwrap_or(32))),
            None => Err(Wrong::new(format!("{} is not a netmask", quote(text)))
                .remedy("write a prefix length as 24, or for IPv4 a mask as \"255.255.255.0\"")),
        }
    })
}
