//! Addresses, ranges and blocks as the configuration writes them. Pure text, no look-ups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::text::{Wrong, quote};
use crate::engine::model::{Family, RealServerId};

/// `192.0.2.10:80`, `192.0.2.10-20:80`, `192.0.2.0/28:80`, `[2001:db8::10-20]:80`: consecutive
/// addresses with one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AddressRange {
    first: IpAddr,
    last: IpAddr,
    /// `None` is every port.
    pub(super) port: Option<u16>,
}

impl AddressRange {
    pub(super) fn family(&self) -> Family {
        Family::of(self.first)
    }

    /// The number of addresses; saturates for the whole of IPv6.
    pub(super) fn len(&self) -> u128 {
        (number(self.last) - number(self.first)).saturating_add(1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let family = self.family();
        (number(self.first)..=number(self.last)).map(move |n| address(n, family))
    }
}

/// The address of a virtual service.
pub(super) fn parse_services(text: &str) -> Result<AddressRange, Wrong> {
    let (host, port) = split(text)?;
    let (first, last) = range(host, text)?;
    for end in [first, last] {
        usable(end, text)?;
    }
    Ok(AddressRange { first, last, port })
}

/// The address of one server. Without a port: that of each service.
pub(super) fn parse_server(text: &str) -> Result<RealServerId, Wrong> {
    let (host, port) = split(text)?;
    if host.contains('/') || (host.contains('-') && range(host, text).is_ok()) {
        return Err(Wrong::new(format!("{} is more than one address", quote(text)))
            .remedy("write one real server for each address"));
    }
    let address = single(host, text)?;
    usable(address, text)?;
    if let IpAddr::V6(v6) = address
        && v6.is_unicast_link_local()
    {
        return Err(Wrong::new(format!("{} is a link-local address", quote(text)))
            .remedy("write a global or unique local address; the kernel refuses others"));
    }
    Ok(RealServerId { address, port })
}

/// Ports that are hardly ever the last group of an address.
const USUAL_PORTS: [u16; 18] =
    [25, 53, 80, 110, 143, 389, 443, 465, 587, 636, 853, 993, 995, 3306, 5060, 5432, 8080, 8443];

/// `2001:db8::2:80`, without brackets, is an address without a port: what was most likely meant by it.
pub(super) fn swallowed_port(text: &str) -> Option<(Ipv6Addr, u16)> {
    text.parse::<Ipv6Addr>().ok()?;
    let (address, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| USUAL_PORTS.contains(port))?;
    Some((address.parse().ok()?, port))
}

/// An address without a port.
pub(super) fn parse_ip(text: &str) -> Result<IpAddr, Wrong> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    if let Ok((host, Some(_))) = split(text)
        && single(host, text).is_ok()
    {
        return Err(Wrong::new(format!("{} has a port", quote(text))).remedy(format!("write \"{host}\"")));
    }
    single(bare, text)
}

/// Host and port: `h:p`, `[h]:p`, `[h]`, and without brackets whatever has no or several colons.
fn split(text: &str) -> Result<(&str, Option<u16>), Wrong> {
    if let Some(inner) = text.strip_prefix('[') {
        let closing = || {
            Wrong::new(format!("{} has no closing bracket", quote(text)))
                .remedy("write \"[2001:db8::10]:80\"")
        };
        let (host, rest) = inner.split_once(']').ok_or_else(closing)?;
        if host.parse::<Ipv4Addr>().is_ok() {
            return Err(Wrong::new(format!("{} has an IPv4 address in brackets", quote(text)))
                .remedy(format!("write \"{host}{rest}\"")));
        }
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host, Some(port(digits, text)?))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(Wrong::new(format!("{} has {} after the bracket", quote(text), quote(rest)))
                .remedy(format!("write \"[{host}]:80\""))),
        };
    }
    match text.split_once(':') {
        Some((host, digits)) if !digits.contains(':') => Ok((host, Some(port(digits, text)?))),
        Some(_) | None => Ok((text, None)),
    }
}

fn port(digits: &str, text: &str) -> Result<u16, Wrong> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Wrong::new(format!("{} has no port number after its colon", quote(text)))
            .remedy("write the port as a number, as in \"192.0.2.10:80\""));
    }
    match digits.parse() {
        Ok(0) => Err(Wrong::new(format!("{} has port 0", quote(text)))
            .remedy("write a port from 1 to 65535, or the address alone")),
        Ok(port) => Ok(port),
        Err(_) => Err(Wrong::new(format!("{} has a port above 65535", quote(text)))
            .remedy("write a port from 1 to 65535")),
    }
}

fn range(host: &str, text: &str) -> Result<(IpAddr, IpAddr), Wrong> {
    if let Some((network, prefix)) = host.split_once('/') {
        return block(network, prefix, text);
    }
    // A host name may have a dash as well: only what begins with an address is a range.
    let Some((first, last)) = host.split_once('-').filter(|(first, _)| first.parse::<IpAddr>().is_ok())
    else {
        let address = single(host, text)?;
        return Ok((address, address));
    };
    let first = single(first, text)?;
    let end = || {
        let remedy = match first {
            IpAddr::V4(_) => "write \"192.0.2.10-20:80\" or \"192.0.2.10-192.0.2.20:80\"",
            IpAddr::V6(_) => "write \"[2001:db8::10-20]:80\", with the last group in hexadecimal",
        };
        Wrong::new(format!("{} is not a range of addresses", quote(text))).remedy(remedy)
    };
    let last = match first {
        _ if last.contains(['.', ':']) => single(last, text)?,
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let digits = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
            let octet = last.parse::<u8>().ok().filter(|_| digits).ok_or_else(end)?;
            IpAddr::V4(Ipv4Addr::new(a, b, c, octet))
        }
        IpAddr::V6(v6) => {
            let digits = (1..=4).contains(&last.len()) && last.bytes().all(|b| b.is_ascii_hexdigit());
            let group = u16::from_str_radix(last, 16).ok().filter(|_| digits).ok_or_else(end)?;
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !0xffff | u128::from(group)))
        }
    };
    if Family::of(first) != Family::of(last) {
        return Err(end());
    }
    if number(last) < number(first) {
        return Err(Wrong::new(format!("{} ends before it begins", quote(text)))
            .remedy("write the lower address first"));
    }
    Ok((first, last))
}

fn block(network: &str, prefix: &str, text: &str) -> Result<(IpAddr, IpAddr), Wrong> {
    let first = single(network, text)?;
    let family = Family::of(first);
    let bits = family.bits();
    let digits = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix = prefix.parse::<u8>().ok().filter(|prefix| digits && *prefix <= bits).ok_or_else(|| {
        Wrong::new(format!("{} has no prefix length after its slash", quote(text)))
            .remedy(format!("write a prefix length from 0 to {bits}"))
    })?;
    let hosts = match bits - prefix {
        128 => u128::MAX,
        host_bits => (1 << host_bits) - 1,
    };
    if number(first) & hosts != 0 {
        let network = address(number(first) & !hosts, family);
        return Err(Wrong::new(format!("{} is not the first address of its block", quote(text)))
            .remedy(format!("write {network}/{prefix} for the block, or the address without the slash")));
    }
    Ok((first, address(number(first) | hosts, family)))
}

fn single(host: &str, text: &str) -> Result<IpAddr, Wrong> {
    if host.contains('%') {
        return Err(Wrong::new(format!("{} has a zone", quote(text)))
            .remedy("write the address without `%`; IPVS knows no zones"));
    }
    let address = match host.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) if is_name(host) => {
            return Err(Wrong::new(format!("{} is a host name", quote(text)))
                .remedy("write its IP address; names are not looked up"));
        }
        Err(_) => {
            return Err(Wrong::new(format!("{} is not an IP address", quote(text)))
                .remedy("write \"192.0.2.10:80\" or \"[2001:db8::10]:80\""));
        }
    };
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            let v4 = v6.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED);
            Err(Wrong::new(format!("{} is an IPv4 address in IPv6 form", quote(text)))
                .remedy(format!("write {v4}")))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => Ok(address),
    }
}

fn is_name(host: &str) -> bool {
    !host.contains(':')
        && host.bytes().any(|b| b.is_ascii_alphabetic())
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

/// Neither services nor servers can have these; the kernel refuses most of them.
fn usable(address: IpAddr, text: &str) -> Result<(), Wrong> {
    let broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    let kind = if address.is_unspecified() {
        "the unspecified address"
    } else if address.is_multicast() {
        "a multicast address"
    } else if broadcast {
        "the broadcast address"
    } else {
        return Ok(());
    };
    Err(Wrong::new(format!("{} is {kind}", quote(text))).remedy("write the address of one host"))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The reverse of [`number`]; for IPv4 the low 32 bits count.
fn address(number: u128, family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => {
            let [.., a, b, c, d] = number.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
