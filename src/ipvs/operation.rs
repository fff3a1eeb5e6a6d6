//! One change of the IPVS table as a value: what a plan consists of and what the kernel is asked for.
//!
//! Written as ipvsadm writes it, so that a printed plan can be read, or fed to `ipvsadm -R`, by
//! anyone who knows that tool. Does no I/O and decides nothing.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use crate::engine::model::{Family, Forwarding, Protocol, Tunnel, TunnelChecksum};
use crate::engine::table::{Destination, DestinationId, ServiceAttributes, ServiceFlags, ServiceId};

/// A change with all the values it needs. Edits carry the full record: the kernel replaces what
/// it is given and what it is not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    AddService {
        service: ServiceId,
        attributes: ServiceAttributes,
    },
    EditService {
        service: ServiceId,
        attributes: ServiceAttributes,
    },
    /// The service's destinations go with it.
    RemoveService {
        service: ServiceId,
    },
    AddDestination {
        service: ServiceId,
        destination: DestinationId,
        record: Destination,
    },
    EditDestination {
        service: ServiceId,
        destination: DestinationId,
        record: Destination,
    },
    RemoveDestination {
        service: ServiceId,
        destination: DestinationId,
    },
}

impl Operation {
    pub const fn service(&self) -> &ServiceId {
        match self {
            Self::AddService { service, .. }
            | Self::EditService { service, .. }
            | Self::RemoveService { service }
            | Self::AddDestination { service, .. }
            | Self::EditDestination { service, .. }
            | Self::RemoveDestination { service, .. } => service,
        }
    }

    pub const fn destination(&self) -> Option<&DestinationId> {
        match self {
            Self::AddService { .. } | Self::EditService { .. } | Self::RemoveService { .. } => None,
            Self::AddDestination { destination, .. }
            | Self::EditDestination { destination, .. }
            | Self::RemoveDestination { destination, .. } => Some(destination),
        }
    }

    /// For log fields and metrics: `add service`, `remove destination`, …
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AddService { .. } => "add service",
            Self::EditService { .. } => "edit service",
            Self::RemoveService { .. } => "remove service",
            Self::AddDestination { .. } => "add destination",
            Self::EditDestination { .. } => "edit destination",
            Self::RemoveDestination { .. } => "remove destination",
        }
    }
}

/// `-A -t 192.0.2.10:80 -s wrr`, `-a -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 1`
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddService { service, attributes } => write_service(f, "-A", service, attributes),
            Self::EditService { service, attributes } => write_service(f, "-E", service, attributes),
            Self::RemoveService { service } => write!(f, "-D {}", Key(service)),
            Self::AddDestination { service, destination, record } => {
                write!(f, "-a {} -r {destination}", Key(service))?;
                write_destination(f, record)
            }
            Self::EditDestination { service, destination, record } => {
                write!(f, "-e {} -r {destination}", Key(service))?;
                write_destination(f, record)
            }
            Self::RemoveDestination { service, destination } => {
                write!(f, "-d {} -r {destination}", Key(service))
            }
        }
    }
}

/// The service as ipvsadm's options name it.
struct Key<'a>(&'a ServiceId);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ServiceId::Address { protocol, address, port } => {
                let option = match protocol {
                    Protocol::Tcp => "-t",
                    Protocol::Udp => "-u",
                    Protocol::Sctp => "--sctp-service",
                };
                write!(f, "{option} {}", SocketAddr::new(*address, *port))
            }
            ServiceId::Mark { family, mark } => {
                write!(f, "-f {mark}")?;
                match family {
                    Family::Ipv4 => Ok(()),
                    Family::Ipv6 => f.write_str(" -6"),
                }
            }
        }
    }
}

fn write_service(
    f: &mut fmt::Formatter<'_>,
    command: &str,
    service: &ServiceId,
    attributes: &ServiceAttributes,
) -> fmt::Result {
    write!(f, "{command} {} -s {}", Key(service), attributes.scheduler)?;
    if let Some(seconds) = attributes.persistence {
        write!(f, " -p {seconds}")?;
        match service.family() {
            Family::Ipv4 if attributes.netmask < 32 => {
                write!(f, " -M {}", ipv4_mask(attributes.netmask))?;
            }
            Family::Ipv6 if attributes.netmask != 128 => write!(f, " -M {}", attributes.netmask)?,
            Family::Ipv4 | Family::Ipv6 => {}
        }
    }
    if let Some(engine) = &attributes.persistence_engine {
        write!(f, " --pe {engine}")?;
    }
    if attributes.flags.contains(ServiceFlags::ONE_PACKET) {
        f.write_str(" -o")?;
    }
    write_flags(f, attributes.flags)
}

fn write_flags(f: &mut fmt::Formatter<'_>, flags: ServiceFlags) -> fmt::Result {
    let names = [
        (ServiceFlags::SCHEDULER_1, "flag-1"),
        (ServiceFlags::SCHEDULER_2, "flag-2"),
        (ServiceFlags::SCHEDULER_3, "flag-3"),
    ];
    let mut separator = " -b ";
    for (flag, name) in names {
        if flags.contains(flag) {
            write!(f, "{separator}{name}")?;
            separator = ",";
        }
    }
    Ok(())
}

fn write_destination(f: &mut fmt::Formatter<'_>, record: &Destination) -> fmt::Result {
    match record.forwarding {
        Forwarding::Nat => f.write_str(" -m")?,
        Forwarding::Dr => f.write_str(" -g")?,
        Forwarding::Tun(Tunnel::Ipip) => f.write_str(" -i")?,
        Forwarding::Tun(Tunnel::Gue { port, checksum }) => {
            write!(f, " -i --tun-type gue --tun-port {port}{}", checksum_option(checksum))?;
        }
        Forwarding::Tun(Tunnel::Gre { checksum }) => {
            write!(f, " -i --tun-type gre{}", checksum_option(checksum))?;
        }
        // ipvsadm prints it and has no option to set it, nor does a plan ever ask for it.
        Forwarding::Local => f.write_str(" (local)")?,
    }
    write!(f, " -w {}", record.weight)?;
    if record.upper_threshold > 0 {
        write!(f, " -x {}", record.upper_threshold)?;
    }
    if record.lower_threshold > 0 {
        write!(f, " -y {}", record.lower_threshold)?;
    }
    Ok(())
}

const fn checksum_option(checksum: TunnelChecksum) -> &'static str {
    match checksum {
        TunnelChecksum::None => " --tun-nocsum",
        TunnelChecksum::Csum => " --tun-csum",
        TunnelChecksum::Remcsum => " --tun-remcsum",
    }
}

/// The netmask of an IPv4 prefix of at most 32 bits.
pub(super) const fn ipv4_mask(prefix: u8) -> Ipv4Addr {
    let host_bits = 32_u32.saturating_sub(prefix as u32);
    match u32::MAX.checked_shl(host_bits) {
        Some(mask) => Ipv4Addr::from_bits(mask),
        None => Ipv4Addr::UNSPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipvs::testing::{attributes, destination, fwmark, nat, tcp};

    #[test]
    fn services_are_written_in_ipvsadms_terms() {
        let mut persistent = attributes("sh");
        persistent.persistence = Some(300);
        persistent.netmask = 24;
        persistent.persistence_engine = Some("sip".to_owned());
        persistent.flags =
            ServiceFlags::ONE_PACKET.with(ServiceFlags::SCHEDULER_1).with(ServiceFlags::SCHEDULER_2);
        let mut wide = attributes("rr");
        wide.persistence = Some(60);
        wide.netmask = 64;
        for (operation, text) in [
            (
                Operation::AddService { service: tcp("192.0.2.10:80"), attributes: attributes("wrr") },
                "-A -t 192.0.2.10:80 -s wrr",
            ),
            (
                Operation::EditService { service: tcp("192.0.2.10:80"), attributes: persistent },
                "-E -t 192.0.2.10:80 -s sh -p 300 -M 255.255.255.0 --pe sip -o -b flag-1,flag-2",
            ),
            (
                Operation::AddService { service: fwmark(5, Family::Ipv6), attributes: wide },
                "-A -f 5 -6 -s rr -p 60 -M 64",
            ),
            (Operation::RemoveService { service: tcp("[2001:db8::1]:80") }, "-D -t [2001:db8::1]:80"),
        ] {
            assert_eq!(operation.to_string(), text);
        }
    }

    #[test]
    fn destinations_are_written_in_ipvsadms_terms() {
        let service = tcp("192.0.2.10:80");
        let id = destination("198.51.100.11:80");
        let gue = Tunnel::Gue { port: 6080, checksum: TunnelChecksum::Remcsum };
        for (forwarding, text) in [
            (Forwarding::Nat, "-m"),
            (Forwarding::Dr, "-g"),
            (Forwarding::Tun(Tunnel::Ipip), "-i"),
            (Forwarding::Tun(gue), "-i --tun-type gue --tun-port 6080 --tun-remcsum"),
            (Forwarding::Tun(Tunnel::Gre { checksum: TunnelChecksum::Csum }), "-i --tun-type gre --tun-csum"),
        ] {
            let record = Destination { forwarding, ..nat(7) };
            assert_eq!(
                Operation::AddDestination { service, destination: id, record }.to_string(),
                format!("-a -t 192.0.2.10:80 -r 198.51.100.11:80 {text} -w 7")
            );
        }
        let record = Destination { upper_threshold: 100, lower_threshold: 90, ..nat(1) };
        assert_eq!(
            Operation::EditDestination { service, destination: id, record }.to_string(),
            "-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 1 -x 100 -y 90"
        );
        assert_eq!(
            Operation::RemoveDestination { service, destination: id }.to_string(),
            "-d -t 192.0.2.10:80 -r 198.51.100.11:80"
        );
    }

    #[test]
    fn prefixes_become_ipv4_masks() {
        for (prefix, mask) in
            [(0, "0.0.0.0"), (1, "128.0.0.0"), (24, "255.255.255.0"), (32, "255.255.255.255")]
        {
            assert_eq!(ipv4_mask(prefix).to_string(), mask);
        }
    }
}
