//! What we ask the kernel for, as bytes appended to a buffer.

use std::net::IpAddr;

use neli::consts::genl::{CtrlAttr, CtrlCmd};
use neli::consts::nl::NlmF;

use super::wire::{
    AF_INET, AF_INET6, Command, CommandAttr, DaemonAttr, DaemonState, DestAttr, FLAG_PERSISTENT,
    ForwardingMethod, ServiceAttr, TunnelFlags, TunnelType, VERSION,
};
use super::writer::{Header, Writer, message, noop};
use crate::engine::model::{Family, Forwarding, Protocol, Sync, Timeouts, Tunnel, TunnelChecksum};
use crate::engine::table::{Destination, DestinationId, ServiceAttributes, ServiceId};
use crate::ipvs::operation::{Operation, ipv4_mask};

/// Asks the generic netlink controller (`GENL_ID_CTRL` in the header) for the number of a family.
pub(in crate::ipvs) fn family(buffer: &mut Vec<u8>, header: Header, name: &str) {
    message(buffer, header, (CtrlCmd::Getfamily.into(), VERSION), |w| {
        w.string(CtrlAttr::FamilyName, name);
    });
}

/// Asks for nothing, and for an acknowledgement of that if `flags` say so.
pub(in crate::ipvs) fn nothing(buffer: &mut Vec<u8>, flags: NlmF, sequence: u32) {
    noop(buffer, flags, sequence);
}

pub(in crate::ipvs) fn operation(buffer: &mut Vec<u8>, header: Header, operation: &Operation) {
    match operation {
        Operation::AddService { service, attributes } => {
            full_service(buffer, header, Command::NewService, service, attributes);
        }
        Operation::EditService { service, attributes } => {
            full_service(buffer, header, Command::SetService, service, attributes);
        }
        Operation::RemoveService { service } => {
            ask(buffer, header, Command::DelService, |w| w.nested(CommandAttr::Service, |w| key(w, service)));
        }
        Operation::AddDestination { service, destination, record } => {
            with_destination(buffer, header, Command::NewDest, service, destination, Some(record));
        }
        Operation::EditDestination { service, destination, record } => {
            with_destination(buffer, header, Command::SetDest, service, destination, Some(record));
        }
        Operation::RemoveDestination { service, destination } => {
            with_destination(buffer, header, Command::DelDest, service, destination, None);
        }
    }
}

/// A dump request.
pub(in crate::ipvs) fn services(buffer: &mut Vec<u8>, header: Header) {
    ask(buffer, header, Command::GetService, |_| {});
}

/// One service. That it is not there is ESRCH.
pub(in crate::ipvs) fn service(buffer: &mut Vec<u8>, header: Header, service: &ServiceId) {
    ask(buffer, header, Command::GetService, |w| w.nested(CommandAttr::Service, |w| key(w, service)));
}

/// A dump request. The answer of a service that is not there is an empty success.
pub(in crate::ipvs) fn destinations(buffer: &mut Vec<u8>, header: Header, service: &ServiceId) {
    ask(buffer, header, Command::GetDest, |w| w.nested(CommandAttr::Service, |w| key(w, service)));
}

pub(in crate::ipvs) fn info(buffer: &mut Vec<u8>, header: Header) {
    ask(buffer, header, Command::GetInfo, |_| {});
}

pub(in crate::ipvs) fn timeouts(buffer: &mut Vec<u8>, header: Header) {
    ask(buffer, header, Command::GetConfig, |_| {});
}

pub(in crate::ipvs) fn set_timeouts(buffer: &mut Vec<u8>, header: Header, timeouts: &Timeouts) {
    ask(buffer, header, Command::SetConfig, |w| {
        for (attribute, seconds) in [
            (CommandAttr::TimeoutTcp, timeouts.tcp),
            (CommandAttr::TimeoutTcpFin, timeouts.tcp_fin),
            (CommandAttr::TimeoutUdp, timeouts.udp),
        ] {
            if let Some(seconds) = seconds {
                w.u32(attribute, seconds.get());
            }
        }
    });
}

/// A dump request: up to two daemons.
pub(in crate::ipvs) fn daemons(buffer: &mut Vec<u8>, header: Header) {
    ask(buffer, header, Command::GetDaemon, |_| {});
}

/// One of the two daemons, whatever role `sync` has.
pub(in crate::ipvs) fn start_daemon(buffer: &mut Vec<u8>, header: Header, role: DaemonRole, sync: &Sync) {
    ask(buffer, header, Command::NewDaemon, |w| {
        w.nested(CommandAttr::Daemon, |w| {
            w.u32(DaemonAttr::State, role.state().into());
            w.string(DaemonAttr::McastIfn, &sync.interface);
            w.u32(DaemonAttr::SyncId, sync.id.into());
            if let Some(length) = sync.max_length {
                w.u16(DaemonAttr::SyncMaxlen, length);
            }
            match sync.group {
                Some(IpAddr::V4(group)) => w.bytes(DaemonAttr::McastGroup, &group.octets()),
                Some(IpAddr::V6(group)) => w.bytes(DaemonAttr::McastGroup6, &group.octets()),
                None => {}
            }
            if let Some(port) = sync.port {
                w.u16(DaemonAttr::McastPort, port);
            }
            if let Some(ttl) = sync.ttl {
                w.u8(DaemonAttr::McastTtl, ttl);
            }
        });
    });
}

pub(in crate::ipvs) fn stop_daemon(buffer: &mut Vec<u8>, header: Header, role: DaemonRole) {
    ask(buffer, header, Command::DelDaemon, |w| {
        w.nested(CommandAttr::Daemon, |w| w.u32(DaemonAttr::State, role.state().into()));
    });
}

/// The kernel runs each of the two on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ipvs) enum DaemonRole {
    Master,
    Backup,
}

impl DaemonRole {
    const fn state(self) -> DaemonState {
        match self {
            Self::Master => DaemonState::Master,
            Self::Backup => DaemonState::Backup,
        }
    }
}

fn ask(buffer: &mut Vec<u8>, header: Header, command: Command, body: impl FnOnce(&mut Writer<'_>)) {
    message(buffer, header, (command.into(), VERSION), body);
}

fn full_service(
    buffer: &mut Vec<u8>,
    header: Header,
    command: Command,
    service: &ServiceId,
    attributes: &ServiceAttributes,
) {
    ask(buffer, header, command, |w| {
        w.nested(CommandAttr::Service, |w| {
            key(w, service);
            w.string(ServiceAttr::SchedName, attributes.scheduler.as_str());
            if let Some(engine) = &attributes.persistence_engine {
                w.string(ServiceAttr::PeName, engine);
            }
            w.bytes(ServiceAttr::Flags, &flags(attributes));
            w.u32(ServiceAttr::Timeout, attributes.persistence.unwrap_or(0));
            w.bytes(ServiceAttr::Netmask, &netmask(service, attributes.netmask));
        });
    });
}

/// `struct ip_vs_flags`: the bits and which of them count, which is all.
fn flags(attributes: &ServiceAttributes) -> [u8; 8] {
    let persistent = if attributes.persistence.is_some() { FLAG_PERSISTENT } else { 0 };
    let mut bytes = [0xff; 8];
    for (place, byte) in bytes.iter_mut().zip((attributes.flags.bits() | persistent).to_ne_bytes()) {
        *place = byte;
    }
    bytes
}

/// A mask in network order for IPv4, a prefix length in host order for IPv6.
fn netmask(service: &ServiceId, prefix: u8) -> [u8; 4] {
    match service.family() {
        Family::Ipv4 => ipv4_mask(prefix).octets(),
        Family::Ipv6 => u32::from(prefix).to_ne_bytes(),
    }
}

fn key(w: &mut Writer<'_>, service: &ServiceId) {
    w.u16(ServiceAttr::Af, address_family(service.family()));
    match service {
        ServiceId::Address { protocol, address, port } => {
            w.u16(ServiceAttr::Protocol, protocol_number(*protocol));
            w.bytes(ServiceAttr::Addr, &address_bytes(*address));
            w.be16(ServiceAttr::Port, *port);
        }
        ServiceId::Mark { mark, .. } => w.u32(ServiceAttr::Fwmark, mark.get()),
    }
}

fn with_destination(
    buffer: &mut Vec<u8>,
    header: Header,
    command: Command,
    service: &ServiceId,
    destination: &DestinationId,
    record: Option<&Destination>,
) {
    ask(buffer, header, command, |w| {
        w.nested(CommandAttr::Service, |w| key(w, service));
        w.nested(CommandAttr::Dest, |w| {
            w.u16(DestAttr::AddrFamily, address_family(Family::of(destination.address)));
            w.bytes(DestAttr::Addr, &address_bytes(destination.address));
            w.be16(DestAttr::Port, destination.port);
            if let Some(record) = record {
                w.u32(DestAttr::FwdMethod, forwarding_method(record.forwarding).into());
                w.u32(DestAttr::Weight, record.weight);
                w.u32(DestAttr::UThresh, record.upper_threshold);
                w.u32(DestAttr::LThresh, record.lower_threshold);
                tunnel(w, record.forwarding);
            }
        });
    });
}

const fn forwarding_method(forwarding: Forwarding) -> ForwardingMethod {
    match forwarding {
        Forwarding::Nat => ForwardingMethod::Masquerading,
        Forwarding::Local => ForwardingMethod::LocalNode,
        Forwarding::Tun(_) => ForwardingMethod::Tunnel,
        Forwarding::Dr => ForwardingMethod::DirectRoute,
    }
}

fn tunnel(w: &mut Writer<'_>, forwarding: Forwarding) {
    match forwarding {
        Forwarding::Nat | Forwarding::Dr | Forwarding::Local => {}
        Forwarding::Tun(Tunnel::Ipip) => w.u8(DestAttr::TunType, TunnelType::Ipip.into()),
        Forwarding::Tun(Tunnel::Gue { port, checksum }) => {
            w.u8(DestAttr::TunType, TunnelType::Gue.into());
            w.be16(DestAttr::TunPort, port);
            w.u16(DestAttr::TunFlags, tunnel_flags(checksum).into());
        }
        Forwarding::Tun(Tunnel::Gre { checksum }) => {
            w.u8(DestAttr::TunType, TunnelType::Gre.into());
            w.u16(DestAttr::TunFlags, tunnel_flags(checksum).into());
        }
    }
}

const fn tunnel_flags(checksum: TunnelChecksum) -> TunnelFlags {
    match checksum {
        TunnelChecksum::None => TunnelFlags::NoCsum,
        TunnelChecksum::Csum => TunnelFlags::Csum,
        TunnelChecksum::Remcsum => TunnelFlags::RemCsum,
    }
}

const fn address_family(family: Family) -> u16 {
    match family {
        Family::Ipv4 => AF_INET,
        Family::Ipv6 => AF_INET6,
    }
}

const fn protocol_number(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

/// `union nf_inet_addr`: 16 bytes for either family.
fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}
