//! The words of every standing. What is active when, over time, is in tests/engine.

use std::net::IpAddr;
use std::path::PathBuf;

use super::*;
use crate::engine::model::{Protocol, VirtualServer};
use crate::engine::testing::virtual_server;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn tcp(address: &str) -> ServiceId {
    ServiceId::Address { protocol: Protocol::Tcp, address: ip(address), port: 80 }
}

fn pool(gate: Option<ActiveWhen>) -> VirtualServer {
    VirtualServer { active_when: gate, ..virtual_server("web", vec![tcp("192.0.2.10")]) }
}

fn address(whose: Whose, interface: Option<&str>) -> Option<ActiveWhen> {
    Some(ActiveWhen::Address(AddressGate { whose, interface: interface.map(str::to_owned) }))
}

/// `192.0.2.10 eth0`
fn presence(lines: &[&str]) -> Presence {
    let mut presence = Presence::default();
    for line in lines {
        let (text, interface) = line.split_once(' ').unwrap();
        let holder = Holder { interface: interface.to_owned(), loopback: interface == "lo" };
        presence.addresses.entry(ip(text)).or_default().insert(holder);
    }
    presence
}

fn standing(gate: Option<ActiveWhen>, there: &[&str]) -> String {
    let standing = presence(there).standing(&pool(gate), &tcp("192.0.2.10"));
    let word = if standing.is_active() { "active" } else { "not active" };
    format!("{word}: {}", standing.reason())
}

#[test]
fn standings_have_a_reason() {
    let own = || address(Whose::Own, None);
    let any = |list: &[&str]| Whose::AnyOf(list.iter().map(|text| ip(text)).collect());
    for (gate, there, wanted) in [
        (None, &[][..], "active: there is no active_when"),
        (own(), &["192.0.2.10 eth0"], "active: 192.0.2.10 is on eth0"),
        (own(), &["192.0.2.10 eth0", "192.0.2.10 eth1"], "active: 192.0.2.10 is on eth0 and eth1"),
        (own(), &["192.0.2.11 eth0"], "not active: 192.0.2.10 is on no interface"),
        (own(), &["192.0.2.10 lo"], "not active: 192.0.2.10 is on no interface but lo"),
        (own(), &["192.0.2.10 lo", "192.0.2.10 eth0"], "active: 192.0.2.10 is on eth0"),
        (address(Whose::Own, Some("lo")), &["192.0.2.10 lo"], "active: 192.0.2.10 is on lo"),
        (
            address(Whose::Own, Some("eth1")),
            &["192.0.2.10 eth0"],
            "not active: 192.0.2.10 is on eth0, not on eth1",
        ),
        (address(Whose::Own, Some("eth1")), &[], "not active: 192.0.2.10 is not on eth1"),
        (
            address(any(&["2001:db8::1", "192.0.2.9"]), None),
            &["192.0.2.9 eth0"],
            "active: 192.0.2.9 is on eth0",
        ),
        (
            address(any(&["2001:db8::1", "192.0.2.9"]), None),
            &["192.0.2.10 eth0"],
            "not active: none of 2001:db8::1, 192.0.2.9 is on any interface",
        ),
    ] {
        assert_eq!(standing(gate.clone(), there), wanted, "{gate:?} {there:?}");
    }
}

#[test]
fn a_file_opens_its_gate_and_no_other() {
    let gate = || Some(ActiveWhen::File(PathBuf::from("/run/active")));
    let with = |path: &str| Presence { files: [PathBuf::from(path)].into(), ..Presence::default() };
    let of = |presence: &Presence| presence.standing(&pool(gate()), &tcp("192.0.2.10"));
    assert_eq!(of(&with("/run/active")), Standing::Active("/run/active exists".to_owned()));
    assert_eq!(of(&with("/run/other")), Standing::Inactive("/run/active does not exist".to_owned()));
}

#[test]
fn a_mark_has_no_address_of_its_own() {
    let mark = ServiceId::Mark { family: model::Family::Ipv4, mark: 5.try_into().unwrap() };
    let everywhere = presence(&["192.0.2.10 eth0"]);
    assert!(!everywhere.standing(&pool(address(Whose::Own, None)), &mark).is_active());
    let given = address(Whose::AnyOf(vec![ip("192.0.2.10")]), None);
    assert!(everywhere.standing(&pool(given), &mark).is_active());
}
