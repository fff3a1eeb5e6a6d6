//! What the kernel adds to a status, and the line that sums all up.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::engine::memory::Memory;
use crate::engine::model::Config;
use crate::engine::table::{Counters, Table};
use crate::runtime::testing::{config, destination, pool, service, table, tcp};

const FIRST: &str = "198.51.100.11:80";
const SECOND: &str = "198.51.100.12:80";
const NOW: Time = Time::from_nanos(1_000_000_000_000);

fn engine(config: &Config) -> Engine {
    Engine::start(config, &Memory::default(), &Table::default(), NOW)
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
        counters: Arc::new(BTreeMap::from([
            ((tcp("192.0.2.10:80"), destination(FIRST)), counted(3, u32::MAX)),
            ((tcp("192.0.2.11:80"), destination(FIRST)), counted(4, u32::MAX)),
            ((tcp("192.0.2.99:80"), destination(SECOND)), counted(100, 100)),
        ])),
    };
    fill_in(&mut snapshot, &view);
    let servers = snapshot.virtual_servers.iter().flat_map(|v| &v.real_servers);
    let found: Vec<_> =
        servers.map(|s| (s.installed, s.active_connections, s.inactive_connections)).collect();
    assert_eq!(found, [(true, 7, 2 * u64::from(u32::MAX)), (false, 0, 0), (false, 0, 0)]);
}

#[test]
fn without_a_view_nothing_is_installed() {
    let mut snapshot = engine(&config(vec![pool("web", "192.0.2.10:80", &[FIRST])])).snapshot(None);
    let before = snapshot.clone();
    fill_in(&mut snapshot, &View::default());
    assert_eq!(snapshot, before);
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
    assert_eq!(engine.handle_order(selector, OrderChange::Disable, &note), 2);
    assert_eq!(summary(&engine), "3 virtual servers, 1 with quorum; 3 real servers, 1 alive; 0 checks");
}
