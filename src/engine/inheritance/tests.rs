//! Who has an order after a reload or a restart, and which orders are said to have ended.

use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::engine::memory::Memory;
use crate::engine::model::{Config, Protocol, RealServerId, VirtualServer};
use crate::engine::snapshot::OrderNote;
use crate::engine::table::{ServiceId, Table};
use crate::engine::{Engine, Event, LostOrder, OrderChange, Readings, Selector, Time, testing};

const NOW: Time = Time::from_nanos(1_000_000_000_000);

/// A name, ports of services, last bytes of servers.
type Pool = (&'static str, &'static [u16], &'static [u8]);

fn config(pools: &[Pool]) -> Config {
    let pool = |(name, ports, servers): &Pool| {
        let service = |port: &u16| ServiceId::Address {
            protocol: Protocol::Tcp,
            address: Ipv4Addr::new(192, 0, 2, 10).into(),
            port: *port,
        };
        let server = |n: &u8| {
            let id = RealServerId { address: Ipv4Addr::new(198, 51, 100, *n).into(), port: Some(80) };
            Arc::new(testing::real_server(id))
        };
        Arc::new(VirtualServer {
            real_servers: servers.iter().map(server).collect(),
            ..testing::virtual_server(name, ports.iter().map(service).collect())
        })
    };
    Config { daemon: testing::daemon(), virtual_servers: pools.iter().map(pool).collect() }
}

/// With an order for each of these: virtual server, server, what.
fn ordered(pools: &[Pool], orders: &[(&str, u8, OrderChange)]) -> Engine {
    let mut engine =
        Engine::start(&config(pools), &Memory::default(), &Table::default(), &Readings::new(), NOW);
    for (virtual_server, server, change) in orders {
        let address = Ipv4Addr::new(198, 51, 100, *server).into();
        let selector = Selector { address, port: Some(80), virtual_server: Some(*virtual_server) };
        let note = OrderNote { by: "alice".to_owned(), reason: None, since: NOW, until: None };
        engine.handle_order(selector, *change, &note).unwrap();
    }
    engine
}

/// `web 11 Drain`, for each order that stands.
fn standing(engine: &Engine) -> Vec<String> {
    let snapshot = engine.snapshot(None);
    let servers = snapshot
        .virtual_servers
        .iter()
        .flat_map(|pool| pool.real_servers.iter().map(|server| (pool.name.as_str(), server)));
    let lines = servers.flat_map(|(pool, server)| {
        let at = server.address.address.to_string().replace("198.51.100.", "");
        let order = server.order.as_ref().map(|given| format!("{pool} {at} {:?}", given.order));
        let weight = server.operator_weight.as_ref().map(|given| format!("{pool} {at} {}", given.weight));
        order.into_iter().chain(weight)
    });
    lines.collect()
}

#[test]
fn an_order_follows_services_then_the_name_and_its_end_is_told() {
    const DRAIN: OrderChange = OrderChange::Drain;
    let drain = [("web", 11, DRAIN)];
    let both = [("web", 11, DRAIN), ("web", 11, OrderChange::Weight(7))];
    type Case<'a> =
        (&'a str, &'a [Pool], &'a [(&'a str, u8, OrderChange)], &'a [Pool], &'a [&'a str], &'a [&'a str]);
    let web: &[Pool] = &[("web", &[80], &[11, 12])];
    let two: &[Pool] = &[("web", &[80], &[11]), ("api", &[81], &[11])];
    let cases: [Case<'_>; 12] = [
        ("the same", web, &drain, web, &["web 11 Drain"], &[]),
        ("renamed", web, &drain, &[("shop", &[80], &[11])], &["shop 11 Drain"], &[]),
        ("another address", web, &both, &[("web", &[81], &[11])], &["web 11 Drain", "web 11 7"], &[]),
        (
            "another address and name",
            web,
            &both,
            &[("shop", &[81], &[11])],
            &[],
            &["web 11 Drain", "web 11 Weight(7)"],
        ),
        ("the server goes", web, &drain, &[("web", &[80], &[12])], &[], &["web 11 Drain"]),
        ("all goes", web, &drain, &[], &[], &["web 11 Drain"]),
        ("split", &[("web", &[80, 81], &[11])], &drain, two, &["web 11 Drain", "api 11 Drain"], &[]),
        ("merged", two, &[("api", 11, DRAIN)], &[("all", &[80, 81], &[11])], &["all 11 Drain"], &[]),
        (
            "merged, with one of two orders",
            two,
            &[("web", 11, DRAIN), ("api", 11, OrderChange::Disable)],
            &[("all", &[80, 81], &[11])],
            &["all 11 Drain"],
            &["api 11 Disable"],
        ),
        (
            "the name goes to another, the services go on",
            web,
            &drain,
            &[("web-old", &[80], &[11]), ("web", &[81], &[11])],
            &["web-old 11 Drain"],
            &[],
        ),
        (
            "swapped names: the services count",
            two,
            &drain,
            &[("api", &[80], &[11]), ("web", &[81], &[11])],
            &["api 11 Drain"],
            &[],
        ),
        (
            "the services go to one without the server, the name to one with it",
            &[("web", &[80], &[11]), ("api", &[81], &[12])],
            &drain,
            &[("api", &[80], &[12]), ("web", &[81], &[11])],
            &["web 11 Drain"],
            &[],
        ),
    ];
    for (case, before, orders, after, stands, ends) in cases {
        let after = config(after);
        let told = |lost: &[LostOrder]| -> Vec<String> {
            let line = |lost: &LostOrder| {
                let at = lost.real_server.address.to_string().replace("198.51.100.", "");
                assert_eq!(lost.note.by, "alice");
                format!("{} {at} {:?}", lost.virtual_server, lost.given)
            };
            lost.iter().map(line).collect()
        };
        let mut engine = ordered(before, orders);
        let memory = engine.memory(NOW);
        let planned = engine.plan_reload(&after, &Readings::new().presence);
        let plan = engine.handle_reload(&after, &Readings::new(), NOW);
        assert_eq!(planned.lost_orders, plan.lost_orders, "{case}");
        assert_eq!(lost(&mut engine), plan.lost_orders, "each is an event: {case}");
        assert_eq!(
            (standing(&engine), told(&plan.lost_orders)),
            (owned(stands), owned(ends)),
            "reload: {case}"
        );
        let mut started = Engine::start(&after, &memory, &Table::default(), &Readings::new(), NOW);
        let lost = lost(&mut started);
        assert_eq!((standing(&started), told(&lost)), (owned(stands), owned(ends)), "start: {case}");
    }
}

/// The events that say so.
fn lost(engine: &mut Engine) -> Vec<LostOrder> {
    let events = std::iter::from_fn(|| engine.next_event());
    events.filter_map(|event| if let Event::OrderLost(lost) = event { Some(lost) } else { None }).collect()
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

#[test]
fn an_order_that_was_over_before_the_start_is_no_loss() {
    let mut engine = ordered(&[("web", &[80], &[11])], &[]);
    let address = Ipv4Addr::new(198, 51, 100, 11).into();
    let selector = Selector { address, port: None, virtual_server: None };
    let until = NOW + std::time::Duration::from_secs(5);
    let note = OrderNote { by: "alice".to_owned(), reason: None, since: NOW, until: Some(until) };
    engine.handle_order(selector, OrderChange::Drain, &note).unwrap();
    let memory = engine.memory(NOW);
    for (now, count) in [(NOW, 1), (until, 0)] {
        let mut started = Engine::start(&config(&[]), &memory, &Table::default(), &Readings::new(), now);
        assert_eq!(lost(&mut started).len(), count, "at {now:?}");
    }
}
