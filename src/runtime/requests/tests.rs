//! What the kernel adds to a status, and the line that sums all up.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::engine::memory::Memory;
use crate::engine::model::Config;
use crate::engine::table::{Counters, CountersByDestination, Table};
use crate::runtime::testing::{config, destination, pool, service, table, tcp};

const FIRST: &str = "198.51.100.11:80";
const SECOND: &str = "198.51.100.12:80";
const NOW: Time = Time::from_nanos(1_000_000_000_000);

fn engine(config: &Config) -> Engine {
    Engine::start(config, &Memory::default(), &Table::default(), &crate::engine::Readings::new(), NOW)
}

fn counted(active: u32, inactive: u32) -> Counters {
    Counters { active, inactive, ..Counters::default() }
}

#[test]
fn installed_is_what_the_kernel_holds_and_connections_add_up_over_services() {
    let mut web = (*pool("web", "192.0.2.10:80", &[FIRST, SECOND])).clone();
    web.services.push(tcp("192.0.2.11:80"));
    let other = pool("other", "192.0.2.12:80", &[FIRST]);
    let mut snapshot = engine(&config(vec![Arc::new(web), other])).snapshot(None);
    // The first server is in both services of web, the second in none, and the third service is absent.
    let view = View {
        table: table([
            (tcp("192.0.2.10:80"), service("wrr", &[(FIRST, 1)])),
            (tcp("192.0.2.11:80"), service("wrr", &[(FIRST, 0)])),
            (tcp("192.0.2.99:80"), service("wrr", &[(SECOND, 1)])),
        ]),
        counters: Arc::new(CountersByDestination::from_iter([
            ((tcp("192.0.2.10:80"), destination(FIRST)), counted(3, u32::MAX)),
            ((tcp("192.0.2.11:80"), destination(FIRST)), counted(4, u32::MAX)),
            ((tcp("192.0.2.99:80"), destination(SECOND)), counted(100, 100)),
        ])),
        ..View::default()
    };
    fill_in(snapshot.virtual_servers.iter_mut().flat_map(|v| &mut v.real_servers), &view);
    let servers = snapshot.virtual_servers.iter().flat_map(|v| &v.real_servers);
    let found: Vec<_> =
        servers.map(|s| (s.installed, s.active_connections, s.inactive_connections)).collect();
    assert_eq!(found, [(true, 7, 2 * u64::from(u32::MAX)), (false, 0, 0), (false, 0, 0)]);
}

#[test]
fn what_the_kernel_lacks_is_told_from_what_has_no_place() {
    let mut engine = engine(&config(vec![
        pool("web", "192.0.2.10:80", &[FIRST, SECOND]),
        pool("other", "192.0.2.11:80", &[FIRST]),
    ]));
    let first = Selector { address: [198, 51, 100, 11].into(), port: Some(80), virtual_server: Some("web") };
    let note = OrderNote { by: "alice".to_owned(), reason: None, since: NOW, until: None };
    engine.handle_order(first, OrderChange::Disable, &note).unwrap();
    engine.take_table_changes();
    let wanted = engine.table();
    let mut snapshot = engine.snapshot(None);
    let service = tcp("192.0.2.10:80");
    let without_servers = service_of(&wanted, service);
    let view = View { table: table([(service, without_servers)]), ..View::default() };
    let refusals = BTreeMap::from([(tcp("192.0.2.11:80"), "no such scheduler".to_owned())]);
    find_missing(&mut snapshot, &view, &wanted, &refusals);
    let missing = |name: &str| {
        let pool = snapshot.virtual_servers.iter().find(|v| v.name == name).unwrap();
        (pool.missing.clone(), pool.real_servers.iter().map(|s| s.missing).collect::<Vec<_>>())
    };
    assert_eq!(missing("web"), (vec![(service, None)], vec![false, true]));
    let other = (tcp("192.0.2.11:80"), Some("no such scheduler".to_owned()));
    assert_eq!(missing("other"), (vec![other], vec![true]));
    let whole = View { table: wanted.clone(), ..View::default() };
    find_missing(&mut snapshot, &whole, &wanted, &refusals);
    assert!(snapshot.virtual_servers.iter().all(|v| v.missing.is_empty()));
    assert!(snapshot.virtual_servers.iter().flat_map(|v| &v.real_servers).all(|s| !s.missing));
}

/// As wanted, without its destinations.
fn service_of(wanted: &Table, id: ServiceId) -> Arc<crate::engine::table::Service> {
    let mut service = (*wanted.services[&id]).clone();
    service.destinations.clear();
    Arc::new(service)
}

#[test]
fn the_summary_counts_what_is_up() {
    let pools = vec![
        pool("web", "192.0.2.10:80", &[FIRST, SECOND]),
        pool("other", "192.0.2.11:80", &[FIRST]),
        pool("empty", "192.0.2.12:80", &[]),
    ];
    let mut engine = engine(&config(pools));
    let selector = Selector { address: [198, 51, 100, 11].into(), port: None, virtual_server: None };
    let note = OrderNote { by: "alice".to_owned(), reason: None, since: NOW, until: None };
    assert_eq!(engine.handle_order(selector, OrderChange::Disable, &note).unwrap().servers.len(), 2);
    assert_eq!(summary(&engine), "3 virtual servers, 1 with quorum; 3 real servers, 1 alive; 0 checks");
}

fn order(engine: &mut Engine, text: &str, place: Option<&str>) -> Reply {
    let address = crate::control::protocol::parse_address(text).unwrap();
    let on = Subject { address, virtual_server: place.map(ToOwned::to_owned), reason: None, duration: None };
    let selector = Selector {
        address: address.address,
        port: address.port,
        virtual_server: on.virtual_server.as_deref(),
    };
    let note = OrderNote { by: "alice".to_owned(), reason: None, since: NOW, until: None };
    answer(OrderChange::Drain, &on, engine.handle_order(selector, OrderChange::Drain, &note))
}

#[test]
fn an_order_says_whom_it_concerned_and_what_it_cost() {
    let mut sorry = (*pool("web", "192.0.2.10:80", &[FIRST])).clone();
    sorry.sorry_server = Some(crate::engine::model::SorryServer {
        address: [198, 51, 100, 99].into(),
        port: Some(80),
        forwarding: crate::engine::model::Forwarding::Nat,
        inhibit: false,
    });
    let pools = vec![
        Arc::new(sorry),
        pool("api", "192.0.2.11:80", &[FIRST, SECOND]),
        pool("mail", "192.0.2.12:80", &[FIRST]),
    ];
    let mut engine = engine(&config(pools));
    let reply = order(&mut engine, FIRST, None);
    assert_eq!(
        (reply.ok, reply.text.as_str()),
        (
            true,
            "198.51.100.11:80 in web, api, mail: drained\nweb has lost its quorum: its sorry server 198.51.100.99:80 serves now\nmail has lost its quorum: nothing serves new connections now"
        )
    );
}

/// Whoever reads "enabled" sends clients: what still holds the server back is said with it.
#[test]
fn enable_says_what_it_ended_and_what_still_holds_the_server_back() {
    let pools = [pool("web", "192.0.2.10:80", &[FIRST]), pool("api", "192.0.2.11:80", &[FIRST])];
    let mut engine = engine(&config(pools.to_vec()));
    let on = |address: &str, inside: Option<&str>| Subject {
        address: crate::control::protocol::parse_address(address).unwrap(),
        virtual_server: inside.map(str::to_owned),
        reason: None,
        duration: None,
    };
    let note = OrderNote { by: "root".to_owned(), reason: None, since: NOW, until: None };
    let mut give = |change, address: &str, inside: Option<&str>| {
        let on = on(address, inside);
        let place = Place { address: on.address, virtual_server: on.virtual_server.clone() };
        let selector = super::super::inquiries::selector(&place);
        match change {
            OrderChange::Enable => enable(&mut engine, Engine::handle_order, selector, &on, &note).text,
            _ => answer(change, &on, engine.handle_order(selector, change, &note)).text,
        }
    };
    assert_eq!(give(OrderChange::Enable, FIRST, None), format!("{FIRST} in web, api: nothing to end"));
    give(OrderChange::Drain, FIRST, Some("api"));
    give(OrderChange::Weight(0), FIRST, Some("web"));
    let said = give(OrderChange::Enable, FIRST, None);
    let wanted = format!(
        "{FIRST} in api: enabled\n{FIRST} in web: nothing to end; still weight 0 by root\napi has its quorum again"
    );
    assert_eq!(said, wanted);
    give(OrderChange::Disable, FIRST, Some("web"));
    assert_eq!(
        give(OrderChange::Enable, FIRST, Some("web")),
        format!("{FIRST} in web: enabled; still weight 0 by root")
    );
}

/// A host is not one of its servers, also where that is configured as the host alone is written.
#[test]
fn a_host_that_is_several_real_servers_is_none_of_them() {
    let [host, first] = ["198.51.100.11", FIRST];
    let pools = vec![
        pool("web", "192.0.2.10:80", &[first, SECOND]),
        pool("alt", "192.0.2.10:8080", &[first, host]),
        pool("six", "192.0.2.10:81", &["2001:db8::1", "[2001:db8::1]:82"]),
    ];
    let mut engine = engine(&config(pools));
    let several = "198.51.100.11 is more than one real server, name the port:\n  \
                   198.51.100.11 in alt (named 198.51.100.11:0)\n  198.51.100.11:80 in ";
    let both = format!("{several}web, alt");
    let in_alt = format!("{several}alt");
    let six = "2001:db8::1 is more than one real server, name the port:\n  \
               2001:db8::1 in six (named [2001:db8::1]:0)\n  [2001:db8::1]:82 in six";
    let nobody = "there is no real server 198.51.100.12:0; there is\n  198.51.100.12:80 in web";
    let cases = [
        (host, None, Err(both.as_str())),
        (host, Some("alt"), Err(in_alt.as_str())),
        (host, Some("web"), Ok("198.51.100.11:80 in web: drained")),
        ("198.51.100.11:0", None, Ok("198.51.100.11 in alt: drained")),
        ("198.51.100.11:8080", None, Ok("198.51.100.11 in alt: drained")),
        ("198.51.100.12:0", None, Err(nobody)),
        ("2001:db8::1", None, Err(six)),
        ("[2001:db8::1]:0", Some("six"), Ok("2001:db8::1 in six: drained")),
    ];
    for (address, inside, wanted) in cases {
        let reply = order(&mut engine, address, inside);
        let said = if reply.ok { Ok(reply.text.as_str()) } else { Err(reply.text.as_str()) };
        assert_eq!(said, wanted, "{address} {inside:?}");
    }
}

#[test]
fn a_forgotten_port_drains_nobody_unless_it_can_be_one_server_only() {
    let dns = "198.51.100.11:53";
    let pools = vec![
        pool("web", "192.0.2.10:80", &[FIRST, SECOND]),
        pool("dns", "192.0.2.10:53", &[dns]),
        pool("api", "192.0.2.11:80", &[FIRST]),
    ];
    let mut engine = engine(&config(pools));
    let cases = [
        (
            "198.51.100.11",
            None,
            Err(
                "198.51.100.11 is more than one real server, name the port:\n  198.51.100.11:53 in dns\n  198.51.100.11:80 in web, api",
            ),
        ),
        ("198.51.100.12", None, Ok("198.51.100.12:80 in web: drained")),
        (
            "198.51.100.11",
            Some("dns"),
            Ok(
                "198.51.100.11:53 in dns: drained\ndns has lost its quorum: nothing serves new connections now",
            ),
        ),
        (
            "198.51.100.11:81",
            None,
            Err(
                "there is no real server 198.51.100.11:81; there is\n  198.51.100.11:53 in dns\n  198.51.100.11:80 in web, api",
            ),
        ),
        ("198.51.100.12:80", Some("api"), Err("there is no real server 198.51.100.12:80 in api")),
        ("198.51.100.13", None, Err("there is no real server 198.51.100.13")),
    ];
    for (text, place, expected) in cases {
        let reply = order(&mut engine, text, place);
        let found = if reply.ok { Ok(reply.text.as_str()) } else { Err(reply.text.as_str()) };
        assert_eq!(found, expected, "{text} in {place:?}");
    }
}

#[test]
fn what_the_kernel_has_not_is_said_until_it_has_it_and_nothing_else() {
    use crate::ipvs::{Operation, Reason};
    let refused = |id: &str| {
        let attributes = service("wrrr", &[]).attributes.clone();
        let operation = Operation::AddService { service: tcp(id), attributes };
        OperationError { operation, reason: Reason::Refused(nix::errno::Errno::ENOENT) }
    };
    let line = |id: &str| format!("add service tcp {id}: the kernel has no scheduler wrrr (ENOENT)");
    let waits = |id: &str| format!("tcp {id} is not as it should be, trying again");
    let (web, api, mail) = ("192.0.2.10:80", "192.0.2.11:80", "192.0.2.12:80");
    // What a round reports as failed, as open and as held, and what is said of it.
    type Round<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], Vec<String>);
    let rounds: [Round<'_>; 7] = [
        (&[web], &[web], &[web], vec![line(web)]),
        (&[], &[web], &[web], vec![line(web)]),
        (&[api, web], &[web, api], &[web, api], vec![line(web), line(api)]),
        // Written, and a dump has still to show it.
        (&[], &[web, api], &[api], vec![line(api)]),
        (&[], &[api, mail], &[api, mail], vec![line(api), waits(mail)]),
        (&[mail], &[], &[], vec![]),
        (&[], &[mail], &[mail], vec![waits(mail)]),
    ];
    let mut writing = Writing::default();
    for ((failed, open, held, said), ticket) in rounds.into_iter().zip(crate::runtime::testing::tickets()) {
        let failed: Vec<_> = failed.iter().map(|id| refused(id)).collect();
        let services = |ids: &[&str]| ids.iter().map(|id| tcp(id)).collect();
        writing.note(ticket, &failed, services(open), services(held));
        assert_eq!(writing.shortfalls(), said, "{ticket:?}");
    }
}
