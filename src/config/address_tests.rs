//! What addresses, ranges and blocks mean; what is refused is in `tests/diagnostics/address.toml`.

use proptest::prelude::*;

use super::*;

fn range_of(text: &str) -> (String, String, u128, Option<u16>) {
    let range = parse_services(text).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.message));
    (range.first.to_string(), range.last.to_string(), range.len(), range.port)
}

#[test]
fn services() {
    let one = |address: &str, port| (address.to_owned(), address.to_owned(), 1, port);
    let many = |first: &str, last: &str, len, port| (first.to_owned(), last.to_owned(), len, port);
    for (text, wanted) in [
        ("192.0.2.10:80", one("192.0.2.10", Some(80))),
        ("192.0.2.10", one("192.0.2.10", None)),
        ("[2001:db8::10]:80", one("2001:db8::10", Some(80))),
        ("[2001:db8::10]", one("2001:db8::10", None)),
        ("2001:db8::10", one("2001:db8::10", None)),
        ("192.0.2.10-20:80", many("192.0.2.10", "192.0.2.20", 11, Some(80))),
        ("192.0.2.10-10:80", one("192.0.2.10", Some(80))),
        ("192.0.2.10-192.0.3.9:80", many("192.0.2.10", "192.0.3.9", 256, Some(80))),
        ("192.0.2.10-20", many("192.0.2.10", "192.0.2.20", 11, None)),
        ("[2001:db8::10-20]:80", many("2001:db8::10", "2001:db8::20", 17, Some(80))),
        ("[2001:db8::-ffff]:80", many("2001:db8::", "2001:db8::ffff", 65_536, Some(80))),
        ("[2001:db8::10-2001:db8::1:9]:80", many("2001:db8::10", "2001:db8::1:9", 0xfffa, Some(80))),
        ("192.0.2.0/28:80", many("192.0.2.0", "192.0.2.15", 16, Some(80))),
        ("192.0.2.7/32:80", one("192.0.2.7", Some(80))),
        ("[2001:db8::/126]:80", many("2001:db8::", "2001:db8::3", 4, Some(80))),
        ("2001:db8::/64", many("2001:db8::", "2001:db8::ffff:ffff:ffff:ffff", 1 << 64, None)),
    ] {
        assert_eq!(range_of(text), wanted, "{text}");
    }
}

#[test]
fn ranges_are_in_order_and_whole() {
    let addresses = |text| -> Vec<String> {
        parse_services(text).unwrap().iter().map(|address| address.to_string()).collect()
    };
    assert_eq!(
        addresses("192.0.2.254-192.0.3.1:80"),
        ["192.0.2.254", "192.0.2.255", "192.0.3.0", "192.0.3.1"]
    );
    assert_eq!(addresses("[2001:db8::fe-100]:80"), ["2001:db8::fe", "2001:db8::ff", "2001:db8::100"]);
}

#[test]
fn the_whole_of_ipv6_has_a_length() {
    let everything = AddressRange {
        first: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        last: IpAddr::V6(Ipv6Addr::from_bits(u128::MAX)),
        port: None,
    };
    assert_eq!(everything.len(), u128::MAX);
}

#[test]
fn servers() {
    for (text, wanted) in [
        ("198.51.100.11:80", "198.51.100.11:80"),
        ("198.51.100.11", "198.51.100.11"),
        ("[2001:db8:1::11]:80", "[2001:db8:1::11]:80"),
        ("[2001:db8:1::11]", "2001:db8:1::11"),
        ("2001:db8:1::11", "2001:db8:1::11"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
    ] {
        assert_eq!(parse_server(text).unwrap().to_string(), wanted);
    }
    for text in
        ["198.51.100.11-12:80", "198.51.100.0/24", "web-1:80", "fe80::1", "", ":80", "[]:80", "1.2.3.4:5:6"]
    {
        assert!(parse_server(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn nothing_panics(text in "[0-9a-f.:/%\\[\\]-]{0,40}|\\PC{0,40}") {
        if let Ok(range) = parse_services(&text) {
            prop_assert!(range.len() >= 1);
            prop_assert_eq!(range.iter().next(), Some(range.first));
        }
        drop(parse_server(&text));
        drop(parse_ip(&text));
    }

    #[test]
    fn what_is_written_is_read(bits in any::<u32>(), port in 1_u16..) {
        let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
        let text = std::net::SocketAddr::new(address, port).to_string();
        if let Ok(id) = parse_server(&text) {
            prop_assert_eq!(id, RealServerId { address, port: Some(port) });
        } else {
            prop_assert!(address.is_unspecified() || address.is_multicast() || bits == u32::MAX);
        }
    }
}
