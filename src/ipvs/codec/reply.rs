//! What the kernel answers, as values of the model.
//!
//! The table holds entries of others too. An entry that the model cannot name is `None`; a value
//! that it cannot say becomes one that no configuration has, so that an entry of ours that was
//! tampered with is seen to differ.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use neli::consts::genl::CtrlAttr;

use super::Malformed;
use super::reader::{Attribute, Attributes};
use super::wire::{
    AF_INET, AF_INET6, CommandAttr, DaemonAttr, DaemonState, DestAttr, FLAG_PERSISTENT, FORWARDING_MASK,
    ForwardingMethod, InfoAttr, ServiceAttr, StatsAttr, TunnelFlags, TunnelType,
};
use crate::engine::model::{
    Family, Forwarding, Mark, Protocol, Scheduler, Sync, SyncRole, Timeouts, Tunnel, TunnelChecksum,
};
use crate::engine::table::{
    Counters, Destination, DestinationId, ServiceAttributes, ServiceFlags, ServiceId,
};
use crate::ipvs::handle::Info;

/// The number of the family, from the generic netlink controller.
pub(in crate::ipvs) fn family(attributes: Attributes<'_>) -> Result<u16, Malformed> {
    attributes.find(CtrlAttr::FamilyId)?.ok_or(Malformed::Missing("family number"))?.u16("family number")
}

pub(in crate::ipvs) fn info(attributes: Attributes<'_>) -> Result<Info, Malformed> {
    let version = attributes.find(InfoAttr::Version)?.ok_or(Malformed::Missing("version"))?.u32("version")?;
    let size = attributes.find(InfoAttr::ConnTabSize)?.ok_or(Malformed::Missing("table size"))?;
    let [_, major, minor, patch] = version.to_be_bytes();
    Ok(Info { version: (major, minor, patch), connection_table_size: size.u32("table size")? })
}

pub(in crate::ipvs) fn timeouts(attributes: Attributes<'_>) -> Result<Timeouts, Malformed> {
    let seconds = |kind: CommandAttr| -> Result<Option<NonZeroU32>, Malformed> {
        let attribute = attributes.find(kind)?.ok_or(Malformed::Missing("timeout"))?;
        Ok(NonZeroU32::new(attribute.u32("timeout")?))
    };
    Ok(Timeouts {
        tcp: seconds(CommandAttr::TimeoutTcp)?,
        tcp_fin: seconds(CommandAttr::TimeoutTcpFin)?,
        udp: seconds(CommandAttr::TimeoutUdp)?,
    })
}

/// `None`: a daemon in a state that this code does not know.
pub(in crate::ipvs) fn daemon(attributes: Attributes<'_>) -> Result<Option<Sync>, Malformed> {
    let nested = attributes.find(CommandAttr::Daemon)?.ok_or(Malformed::Missing("sync daemon"))?;
    let mut role = None;
    let mut sync = Sync {
        role: SyncRole::Master,
        interface: String::new(),
        id: 0,
        max_length: None,
        group: None,
        port: None,
        ttl: None,
    };
    for attribute in nested.nested() {
        let attribute = attribute?;
        match DaemonAttr::from(attribute.kind) {
            DaemonAttr::State => {
                role = match DaemonState::from(attribute.u32("sync state")?) {
                    DaemonState::Master => Some(SyncRole::Master),
                    DaemonState::Backup => Some(SyncRole::Backup),
                    DaemonState::UnrecognizedConst(_) => None,
                };
            }
            DaemonAttr::McastIfn => sync.interface = attribute.string(),
            DaemonAttr::SyncId => {
                // The kernel keeps 32 bits and puts the lowest 8 on the wire.
                let [lowest, _, _, _] = attribute.u32("sync id")?.to_le_bytes();
                sync.id = lowest;
            }
            DaemonAttr::SyncMaxlen => sync.max_length = Some(attribute.u16("sync length")?),
            DaemonAttr::McastGroup => sync.group = Some(ipv4(attribute, "sync group")?),
            DaemonAttr::McastGroup6 => sync.group = Some(ipv6(attribute, "sync group")?),
            DaemonAttr::McastPort => sync.port = Some(attribute.u16("sync port")?),
            DaemonAttr::McastTtl => sync.ttl = Some(attribute.u8("sync ttl")?),
            DaemonAttr::UnrecognizedConst(_) => {}
        }
    }
    Ok(role.map(|role| Sync { role, ..sync }))
}

/// `None`: a service that no [`ServiceId`] can name, of another protocol or address family.
pub(in crate::ipvs) fn service(
    attributes: Attributes<'_>,
) -> Result<Option<(ServiceId, ServiceAttributes)>, Malformed> {
    let nested = attributes.find(CommandAttr::Service)?.ok_or(Malformed::Missing("service"))?.nested();
    let Some(family) = nested.find(ServiceAttr::Af)?.map(|a| a.u16("address family")).transpose()? else {
        return Err(Malformed::Missing("address family"));
    };
    let Some(family) = known_family(family) else { return Ok(None) };
    let mut raw = RawService::default();
    for attribute in nested {
        raw.take(attribute?, family)?;
    }
    let Some(id) = raw.id(family)? else { return Ok(None) };
    Ok(raw.attributes(family).map(|attributes| (id, attributes)))
}

/// What a service has carried since it was added, destinations that have gone since included. Of the
/// connections only how many there were.
pub(in crate::ipvs) fn service_counters(attributes: Attributes<'_>) -> Result<Counters, Malformed> {
    let nested = attributes.find(CommandAttr::Service)?.ok_or(Malformed::Missing("service"))?.nested();
    let mut counters = Counters::default();
    // Kernels before 4.1 have 32 bits only for some.
    let stats = nested
        .find(ServiceAttr::Stats64)?
        .map_or_else(|| nested.find(ServiceAttr::Stats), |s| Ok(Some(s)))?;
    if let Some(stats) = stats {
        traffic(&mut counters, stats)?;
    }
    Ok(counters)
}

#[derive(Default)]
struct RawService {
    protocol: Option<u16>,
    address: Option<IpAddr>,
    port: Option<u16>,
    mark: Option<u32>,
    scheduler: String,
    engine: Option<String>,
    flags: u32,
    timeout: u32,
    netmask: [u8; 4],
}

impl RawService {
    fn take(&mut self, attribute: Attribute<'_>, family: Family) -> Result<(), Malformed> {
        match ServiceAttr::from(attribute.kind) {
            ServiceAttr::Protocol => self.protocol = Some(attribute.u16("protocol")?),
            ServiceAttr::Addr => self.address = Some(address(attribute, family)?),
            ServiceAttr::Port => self.port = Some(attribute.be16("port")?),
            ServiceAttr::Fwmark => self.mark = Some(attribute.u32("mark")?),
            ServiceAttr::SchedName => self.scheduler = attribute.string(),
            ServiceAttr::PeName => self.engine = Some(attribute.string()),
            ServiceAttr::Flags => {
                let [a, b, c, d, _, _, _, _] = attribute.array("flags")?;
                self.flags = u32::from_ne_bytes([a, b, c, d]);
            }
            ServiceAttr::Timeout => self.timeout = attribute.u32("timeout")?,
            ServiceAttr::Netmask => self.netmask = attribute.array("netmask")?,
            ServiceAttr::Af
            | ServiceAttr::Stats
            | ServiceAttr::Stats64
            | ServiceAttr::UnrecognizedConst(_) => {}
        }
        Ok(())
    }

    fn id(&self, family: Family) -> Result<Option<ServiceId>, Malformed> {
        if let Some(mark) = self.mark {
            return Ok(Mark::new(mark).map(|mark| ServiceId::Mark { family, mark }));
        }
        let protocol = match self.protocol.ok_or(Malformed::Missing("protocol"))? {
            6 => Protocol::Tcp,
            17 => Protocol::Udp,
            132 => Protocol::Sctp,
            _ => return Ok(None),
        };
        let address = self.address.ok_or(Malformed::Missing("address"))?;
        let port = self.port.ok_or(Malformed::Missing("port"))?;
        Ok(Some(ServiceId::Address { protocol, address, port }))
    }

    /// `None` for a scheduler whose name cannot be written down: not one of ours.
    fn attributes(self, family: Family) -> Option<ServiceAttributes> {
        Some(ServiceAttributes {
            scheduler: Scheduler::new(&self.scheduler)?,
            flags: ServiceFlags::from_bits_truncate(self.flags),
            persistence: (self.flags & FLAG_PERSISTENT != 0).then_some(self.timeout),
            netmask: prefix(family, self.netmask),
            persistence_engine: self.engine.filter(|name| !name.is_empty()),
        })
    }
}

/// An IPv4 mask with holes, which only others set, is no prefix: 255, which nobody can want.
fn prefix(family: Family, netmask: [u8; 4]) -> u8 {
    match family {
        Family::Ipv6 => u8::try_from(u32::from_ne_bytes(netmask)).unwrap_or(u8::MAX),
        Family::Ipv4 => {
            let mask = u32::from_be_bytes(netmask);
            let ones = mask.leading_ones();
            if ones + mask.trailing_zeros() >= 32 { u8::try_from(ones).unwrap_or(u8::MAX) } else { u8::MAX }
        }
    }
}

/// One destination of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipvs) struct DestinationEntry {
    pub(in crate::ipvs) id: DestinationId,
    pub(in crate::ipvs) record: Destination,
    pub(in crate::ipvs) counters: Counters,
}

/// A destination of a service of `service_family`. `None`: of an unknown address family.
pub(in crate::ipvs) fn destination(
    attributes: Attributes<'_>,
    service_family: Family,
) -> Result<Option<DestinationEntry>, Malformed> {
    let nested = attributes.find(CommandAttr::Dest)?.ok_or(Malformed::Missing("destination"))?.nested();
    let mut raw = RawDestination::default();
    for attribute in nested {
        raw.take(attribute?)?;
    }
    // Kernels before 3.18 have no mixed families and do not say.
    let family = raw.family.map_or(Some(service_family), known_family);
    let Some(family) = family else { return Ok(None) };
    let address = address(raw.address.ok_or(Malformed::Missing("destination address"))?, family)?;
    let port = raw.port.ok_or(Malformed::Missing("destination port"))?;
    // Kernels before 4.1 have 32 bits only for some.
    if let Some(stats) = raw.stats64.or(raw.stats) {
        traffic(&mut raw.counters, stats)?;
    }
    Ok(Some(DestinationEntry {
        id: DestinationId { address, port },
        record: Destination {
            forwarding: forwarding(raw.method, (raw.tunnel, raw.tunnel_port, raw.tunnel_flags)),
            weight: raw.weight,
            upper_threshold: raw.upper,
            lower_threshold: raw.lower,
        },
        counters: raw.counters,
    }))
}

#[derive(Default)]
struct RawDestination<'a> {
    family: Option<u16>,
    address: Option<Attribute<'a>>,
    port: Option<u16>,
    method: u32,
    weight: u32,
    upper: u32,
    lower: u32,
    tunnel: u8,
    tunnel_port: u16,
    tunnel_flags: u16,
    counters: Counters,
    stats: Option<Attribute<'a>>,
    stats64: Option<Attribute<'a>>,
}

impl<'a> RawDestination<'a> {
    fn take(&mut self, attribute: Attribute<'a>) -> Result<(), Malformed> {
        match DestAttr::from(attribute.kind) {
            DestAttr::AddrFamily => self.family = Some(attribute.u16("destination family")?),
            DestAttr::Addr => self.address = Some(attribute),
            DestAttr::Port => self.port = Some(attribute.be16("destination port")?),
            DestAttr::FwdMethod => self.method = attribute.u32("forwarding method")?,
            DestAttr::Weight => self.weight = attribute.u32("weight")?,
            DestAttr::UThresh => self.upper = attribute.u32("upper threshold")?,
            DestAttr::LThresh => self.lower = attribute.u32("lower threshold")?,
            DestAttr::ActiveConns => self.counters.active = attribute.u32("connections")?,
            DestAttr::InactConns => self.counters.inactive = attribute.u32("connections")?,
            DestAttr::PersistConns => self.counters.persistent = attribute.u32("connections")?,
            DestAttr::TunType => self.tunnel = attribute.u8("tunnel type")?,
            DestAttr::TunPort => self.tunnel_port = attribute.be16("tunnel port")?,
            DestAttr::TunFlags => self.tunnel_flags = attribute.u16("tunnel flags")?,
            DestAttr::Stats => self.stats = Some(attribute),
            DestAttr::Stats64 => self.stats64 = Some(attribute),
            DestAttr::UnrecognizedConst(_) => {}
        }
        Ok(())
    }
}

fn traffic(counters: &mut Counters, attribute: Attribute<'_>) -> Result<(), Malformed> {
    for attribute in attribute.nested() {
        let attribute = attribute?;
        let counter = match StatsAttr::from(attribute.kind) {
            StatsAttr::Conns => &mut counters.connections,
            StatsAttr::InPkts => &mut counters.packets_in,
            StatsAttr::OutPkts => &mut counters.packets_out,
            StatsAttr::InBytes => &mut counters.bytes_in,
            StatsAttr::OutBytes => &mut counters.bytes_out,
            // Rates, and padding between 64-bit values.
            StatsAttr::UnrecognizedConst(_) => continue,
        };
        *counter = attribute.counter("counter")?;
    }
    Ok(())
}

/// What the model has no word for (cache bypass, a tunnel kind of the future, a mix of checksum
/// flags) reads as local, which is never wanted.
fn forwarding(method: u32, (tunnel, port, flags): (u8, u16, u16)) -> Forwarding {
    match ForwardingMethod::from(method & FORWARDING_MASK) {
        ForwardingMethod::Masquerading => Forwarding::Nat,
        ForwardingMethod::DirectRoute => Forwarding::Dr,
        ForwardingMethod::LocalNode | ForwardingMethod::UnrecognizedConst(_) => Forwarding::Local,
        ForwardingMethod::Tunnel => {
            let checksum = match TunnelFlags::from(flags) {
                TunnelFlags::NoCsum => TunnelChecksum::None,
                TunnelFlags::Csum => TunnelChecksum::Csum,
                TunnelFlags::RemCsum => TunnelChecksum::Remcsum,
                TunnelFlags::UnrecognizedConst(_) => return Forwarding::Local,
            };
            match TunnelType::from(tunnel) {
                TunnelType::Ipip => Forwarding::Tun(Tunnel::Ipip),
                TunnelType::Gue => Forwarding::Tun(Tunnel::Gue { port, checksum }),
                TunnelType::Gre => Forwarding::Tun(Tunnel::Gre { checksum }),
                TunnelType::UnrecognizedConst(_) => Forwarding::Local,
            }
        }
    }
}

const fn known_family(number: u16) -> Option<Family> {
    match number {
        AF_INET => Some(Family::Ipv4),
        AF_INET6 => Some(Family::Ipv6),
        _ => None,
    }
}

/// `union nf_inet_addr`: 16 bytes, of which IPv4 uses the first four.
fn address(attribute: Attribute<'_>, family: Family) -> Result<IpAddr, Malformed> {
    match family {
        Family::Ipv6 => ipv6(attribute, "address"),
        Family::Ipv4 => {
            let (octets, _) = attribute.payload.split_first_chunk::<4>().ok_or(Malformed::Size("address"))?;
            Ok(Ipv4Addr::from(*octets).into())
        }
    }
}

fn ipv4(attribute: Attribute<'_>, name: &'static str) -> Result<IpAddr, Malformed> {
    attribute.array::<4>(name).map(|octets| Ipv4Addr::from(octets).into())
}

fn ipv6(attribute: Attribute<'_>, name: &'static str) -> Result<IpAddr, Malformed> {
    attribute.array::<16>(name).map(|octets| Ipv6Addr::from(octets).into())
}
