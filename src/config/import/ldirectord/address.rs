//! Addresses, ports and ranges as ldirectord.cf writes them. Nothing is looked up: names of hosts
//! are refused, names of services come from a table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::address;

/// ldirectord's own names for the ports of its checks, and what /etc/services calls them and others.
const PORTS: [(&str, u16); 46] = [
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("mail", 25),
    ("domain", 53),
    ("dns", 53),
    ("tftp", 69),
    ("http", 80),
    ("www", 80),
    ("kerberos", 88),
    ("pop", 110),
    ("pop3", 110),
    ("pop-3", 110),
    ("sunrpc", 111),
    ("nntp", 119),
    ("ntp", 123),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("ldap", 389),
    ("https", 443),
    ("submissions", 465),
    ("smtps", 465),
    ("urd", 465),
    ("syslog", 514),
    ("submission", 587),
    ("ldaps", 636),
    ("domain-s", 853),
    ("rsync", 873),
    ("ftps", 990),
    ("imaps", 993),
    ("pops", 995),
    ("pop3s", 995),
    ("socks", 1080),
    ("ms-sql-s", 1433),
    ("oracle", 1521),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("nfs", 2049),
    ("http_proxy", 3128),
    ("mysql", 3306),
    ("ms-wbt-server", 3389),
    ("sip", 5060),
    ("pgsql", 5432),
    ("postgresql", 5432),
];

/// What a range of real servers may be at most.
const RANGE: u32 = 4_096;

/// `host`, `host:port`, `[v6]`, `[v6]:port`; the port as written.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    if text.starts_with('[') {
        let (host, rest) = text.split_once(']').unwrap_or((text, ""));
        return (host, rest.strip_prefix(':'));
    }
    match text.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

pub(super) fn host(text: &str, is_v6: bool) -> Result<IpAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = match bare.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) if bare == "localhost" && is_v6 => Ipv6Addr::LOCALHOST.into(),
        Err(_) if bare == "localhost" => Ipv4Addr::LOCALHOST.into(),
        Err(_) => {
            return Err(format!("\"{bare}\" is a host name: nothing is looked up here, write its address"));
        }
    };
    if address.is_ipv6() != is_v6 {
        let (wanted, six) = if is_v6 { ("an IPv6", "") } else { ("an IPv4", "6") };
        return Err(format!(
            "{address} is not {wanted} address; ldirectord wants the keyword with \"{six}\""
        ));
    }
    // What lvsd.toml itself would refuse.
    address::parse_server(&bracketed(address)).map(|_| address).map_err(|wrong| wrong.message)
}

/// `None` for port 0.
pub(super) fn port(text: &str) -> Result<Option<u16>, String> {
    if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        let port: u16 = text.parse().map_err(|_| format!("port {text} is above 65535"))?;
        return Ok((port != 0).then_some(port));
    }
    let known = PORTS.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, port)| Some(*port))
        .ok_or_else(|| format!("\"{text}\" is not a service that is known here: write its port"))
}

/// The port that ldirectord's check of this service goes to by itself.
pub(super) fn service_port(service: &str) -> Option<u16> {
    port(service).ok().flatten()
}

/// Every address from the first to the last.
pub(super) fn range(first: IpAddr, last: IpAddr) -> Result<Vec<IpAddr>, String> {
    let (IpAddr::V4(first), IpAddr::V4(last)) = (first, last) else {
        return Err("ldirectord has no ranges of IPv6 addresses".to_owned());
    };
    let (first, last) = (first.to_bits(), last.to_bits());
    match last.checked_sub(first) {
        None => Err("the range ends before it begins".to_owned()),
        Some(length) if length >= RANGE => Err(format!("the range has more than {RANGE} addresses")),
        Some(_) => Ok((first..=last).map(|bits| Ipv4Addr::from_bits(bits).into()).collect()),
    }
}

/// As it stands before `:port`.
pub(super) fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

pub(super) fn with_port(address: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => format!("{}:{port}", bracketed(address)),
        None => bracketed(address),
    }
}
