//! Whose quorum holds an address.

use super::*;
use crate::engine::memory::Memory;
use crate::engine::model::{Announce, Config, Protocol, RealServer, RealServerId};
use crate::engine::table::Table;
use crate::engine::testing;
use crate::engine::{Engine, OrderChange, Readings, Selector, Time};

const VIP: &str = "192.0.2.10";

fn tcp(address: &str, port: u16) -> ServiceId {
    ServiceId::Address { protocol: Protocol::Tcp, address: address.parse().unwrap(), port }
}

fn udp(address: &str, port: u16) -> ServiceId {
    ServiceId::Address { protocol: Protocol::Udp, address: address.parse().unwrap(), port }
}

fn on(interface: &str, address: &str) -> VirtualAddress {
    VirtualAddress { interface: interface.into(), address: address.parse().unwrap() }
}

/// A virtual server with one real server, called by its weight: 0 means without quorum.
fn pool(
    name: &str,
    interface: Option<&str>,
    services: &[ServiceId],
    weight: u32,
) -> Arc<model::VirtualServer> {
    let id = RealServerId { address: "198.51.100.11".parse().unwrap(), port: Some(8000) };
    let server = RealServer { weight, ..testing::real_server(id) };
    Arc::new(model::VirtualServer {
        announce: interface.map(|name| Announce { interface: name.into() }),
        real_servers: vec![Arc::new(server)],
        ..testing::virtual_server(name, services.to_vec())
    })
}

fn engine(pools: Vec<Arc<model::VirtualServer>>) -> Engine {
    let config = Config { daemon: testing::daemon(), virtual_servers: pools };
    Engine::start(&config, &Memory::default(), &Table::default(), &Readings::new(), Time::ZERO)
}

fn wanted(engine: &Engine) -> Vec<VirtualAddress> {
    Announcements::of(engine.virtual_servers()).wanted().cloned().collect()
}

#[test]
fn any_service_with_quorum_holds_its_address() {
    let table: [(&[u32], bool); 4] = [(&[1, 1], true), (&[0, 1], true), (&[1, 0], true), (&[0, 0], false)];
    for (weights, held) in table {
        let engine = engine(vec![
            pool("web", Some("lvs0"), &[tcp(VIP, 80), tcp(VIP, 443)], weights[0]),
            pool("dns", Some("lvs0"), &[udp(VIP, 53)], weights[1]),
        ]);
        let expected = if held { vec![on("lvs0", VIP)] } else { vec![] };
        assert_eq!(wanted(&engine), expected, "{weights:?}");
        let all = Announcements::of(engine.virtual_servers());
        assert_eq!(all.configured(), [on("lvs0", VIP)].into());
    }
}

#[test]
fn a_service_that_does_not_announce_holds_the_address_of_one_that_does() {
    let engine = engine(vec![
        pool("web", Some("lvs0"), &[tcp(VIP, 80)], 0),
        pool("dns", None, &[udp(VIP, 53), udp("192.0.2.11", 53)], 1),
    ]);
    assert_eq!(wanted(&engine), [on("lvs0", VIP)], "and 192.0.2.11 is nobody's to announce");
}

#[test]
fn each_address_of_a_pool_is_announced_and_marks_are_not() {
    let mark = ServiceId::Mark { family: model::Family::Ipv4, mark: model::Mark::new(5).unwrap() };
    let services = [tcp(VIP, 80), mark, tcp("2001:db8::10", 80)];
    let engine = engine(vec![pool("web", Some("lvs0"), &services, 1)]);
    assert_eq!(wanted(&engine), [on("lvs0", VIP), on("lvs0", "2001:db8::10")]);
}

#[test]
fn a_service_that_is_not_active_holds_nothing() {
    let gated = |name: &str, service| {
        let pool = pool(name, Some("lvs0"), &[service], 1);
        let file = model::ActiveWhen::File(format!("/run/{name}").into());
        Arc::new(model::VirtualServer { active_when: Some(file), ..(*pool).clone() })
    };
    let mut engine = engine(vec![gated("web", tcp(VIP, 80)), gated("dns", udp(VIP, 53))]);
    let there = |files: &[&str]| {
        let files = files.iter().map(|name| format!("/run/{name}").into()).collect();
        crate::engine::Presence { files, ..crate::engine::Presence::default() }
    };
    let table: [(&[&str], usize); 4] = [(&[], 0), (&["dns"], 1), (&["web", "dns"], 1), (&[], 0)];
    for (files, count) in table {
        let grounds = Grounds::of(engine.virtual_servers());
        let before = there(files) == crate::engine::Presence::default() && wanted(&engine).is_empty();
        engine.handle_presence(&there(files), Time::ZERO);
        assert_eq!(wanted(&engine).len(), count, "{files:?}");
        assert_eq!(grounds.hold(engine.virtual_servers()), before, "{files:?}");
        let all = Announcements::of(engine.virtual_servers());
        assert_eq!(all.addresses[&on("lvs0", VIP)].inactive.len(), 2 - files.len());
    }
}

#[test]
fn nothing_is_announced_that_nobody_asked_for() {
    let engine = engine(vec![pool("web", None, &[tcp(VIP, 80)], 1)]);
    assert_eq!(Announcements::of(engine.virtual_servers()), Announcements::default());
}

#[test]
fn the_holders_are_named() {
    let mut engine = engine(vec![
        pool("web", Some("lvs0"), &[tcp(VIP, 80)], 1),
        pool("dns", Some("lvs0"), &[udp(VIP, 53)], 1),
    ]);
    let selector =
        Selector { address: "198.51.100.11".parse().unwrap(), port: Some(8000), virtual_server: Some("web") };
    let note = crate::engine::snapshot::OrderNote {
        by: "alice".to_owned(),
        reason: None,
        since: Time::ZERO,
        until: None,
    };
    engine.handle_order(selector, OrderChange::Disable, &note).unwrap();
    let all = Announcements::of(engine.virtual_servers());
    let holders = &all.addresses[&on("lvs0", VIP)];
    let names = |side: &[(ServiceId, Arc<model::VirtualServer>)]| {
        side.iter().map(|(service, vs)| format!("{service} of {}", vs.name)).collect::<Vec<_>>()
    };
    assert!(holders.is_held());
    assert_eq!(names(&holders.with_quorum), ["udp 192.0.2.10:53 of dns"]);
    assert_eq!(names(&holders.without), ["tcp 192.0.2.10:80 of web"]);
}
