//! Short names of scenario files: `V` is the service 192.0.2.10:80, `A` the server 198.51.100.11:80,
//! `A:8080` another port of it, `A:` its address without one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SERVICES: [(&str, IpAddr); 5] = [
    ("V", service(10)),
    ("W", service(11)),
    ("X", service(20)),
    ("Y", service(21)),
    ("V6", IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10))),
];

const SERVERS: [(&str, IpAddr); 8] = [
    ("A", server(11)),
    ("B", server(12)),
    ("C", server(13)),
    ("D", server(14)),
    ("E", server(15)),
    ("S", server(99)),
    ("T", server(98)),
    ("A6", IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x11))),
];

const fn service(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

const fn server(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, last))
}

/// `A` → 198.51.100.11 and 80, `A:443`, `A:` without a port, `198.51.100.77:80` as it stands.
pub(crate) fn read(text: &str) -> (IpAddr, Option<u16>) {
    let known = SERVICES.iter().chain(&SERVERS);
    if let Some((_, address)) = known.clone().find(|(name, _)| *name == text) {
        return (*address, Some(80));
    }
    if let Ok(address) = text.parse() {
        return (address, None);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or_else(|| panic!("no such name: {text}"));
    let named = known.clone().find(|(name, _)| *name == host).map(|(_, address)| *address);
    let address = named.unwrap_or_else(|| host.parse().unwrap_or_else(|_| panic!("no such name: {text}")));
    let port = (!port.is_empty()).then(|| port.parse().unwrap_or_else(|_| panic!("no port: {text}")));
    (address, port)
}

/// The way back: what [`read`] would take for the same.
pub(crate) fn write(address: IpAddr, port: Option<u16>) -> String {
    let known = SERVICES.iter().chain(&SERVERS).find(|(_, known)| *known == address);
    let host = known.map_or_else(|| address.to_string(), |(name, _)| (*name).to_owned());
    match port {
        Some(80) => host,
        Some(port) => format!("{host}:{port}"),
        None => format!("{host}:"),
    }
}
