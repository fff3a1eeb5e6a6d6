//! What a daemon with real back ends shows of what happens to it.

use lvsd::telemetry::metrics;
use serde_json::json;

use crate::page::Page;
use crate::promtool::promtool;
use crate::support::{Backend, Daemon, Place, web, within};

fn page(daemon: &Daemon<'_>) -> Page {
    let (status, body) = daemon.page("/metrics");
    assert_eq!(status, 200);
    Page::new(&body)
}

/// Until a page says so: each shows a moment that is up to a second old.
fn wait_for(daemon: &Daemon<'_>, what: &str, holds: impl Fn(&Page) -> bool) -> Page {
    within(what, || Some(page(daemon)).filter(&holds))
}

fn http(servers: &[(&Backend, u32)]) -> String {
    format!("http = \"127.0.0.1:0\"\ndrift_interval = \"1s\"\n{}", web(servers))
}

#[test]
fn promtool_has_nothing_to_say() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&http(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    let (status, text) = daemon.page("/metrics");
    assert_eq!(status, 200);
    assert_eq!(promtool(&place.path(""), "check metrics", &text), "");
    let page = Page::new(&text);
    let listed = metrics::ALL.iter().map(|metric| metric.name.to_owned());
    assert_eq!(page.families, listed.collect(), "the page has what the catalogue has");
}

#[test]
fn a_server_that_dies_and_returns_is_seen() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let place = Place::new(&http(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    place.wait_for_servers("alive", &[json!(true), json!(true)]);
    let server = format!("virtual_server=\"web\",real_server=\"{}\"", second.address);
    let at =
        format!("virtual_server=\"web\",service=\"tcp 192.0.2.10:80\",destination=\"{}\"", second.address);
    let (up, transitions) = (
        format!("lvsd_real_server_up{{{server}}}"),
        format!("lvsd_real_server_transitions_total{{{server}}}"),
    );
    let applied = format!("lvsd_destination_weight_applied{{{at}}}");
    let before = wait_for(&daemon, "both are in the table", |page| page.value(&applied) == Some(1.0));
    assert_eq!((before.value(&up), before.value(&transitions)), (Some(1.0), Some(0.0)));
    assert_eq!(before.value("lvsd_quorum_weight{virtual_server=\"web\"}"), Some(4.0));

    second.die();
    let down = wait_for(&daemon, "it is out of the table", |page| page.value(&applied).is_none());
    assert_eq!((down.value(&up), down.value(&transitions)), (Some(0.0), Some(1.0)));
    assert_eq!(down.value("lvsd_quorum_weight{virtual_server=\"web\"}"), Some(3.0));
    assert_eq!(
        down.value("lvsd_service_in_sync{virtual_server=\"web\",service=\"tcp 192.0.2.10:80\"}"),
        Some(1.0)
    );
    let runs = |page: &Page, result: &str| {
        page.value(&format!(
            "lvsd_check_runs_total{{virtual_server=\"web\",check=\"tcp\",result=\"{result}\"}}"
        ))
    };
    assert!(runs(&down, "failure") >= Some(1.0) && runs(&down, "success") >= Some(2.0));
    let counted = down.value("lvsd_check_duration_seconds_count{virtual_server=\"web\",check=\"tcp\"}");
    let results: f64 = ["success", "failure", "local_error"].iter().filter_map(|r| runs(&down, r)).sum();
    assert_eq!(counted, Some(results));
    assert!(down.value("lvsd_check_lateness_seconds_count") >= counted);
    assert_eq!(down.value("lvsd_checks"), Some(2.0));

    second.revive();
    let back = wait_for(&daemon, "it is in the table again", |page| page.value(&applied) == Some(1.0));
    assert_eq!((back.value(&up), back.value(&transitions)), (Some(1.0), Some(2.0)));
    // Service, two destinations, one of them away and back.
    assert_eq!(back.value("lvsd_netlink_operations_total"), Some(5.0));
    assert_eq!(back.value("lvsd_netlink_operation_errors_total"), Some(0.0));
    assert!(back.value("lvsd_netlink_write_seconds_count") >= Some(3.0));
}

#[test]
fn reloads_orders_and_readiness_are_seen() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&http(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    place.wait_for_servers("alive", &[json!(true), json!(true)]);
    let page = page(&daemon);
    for name in ["ipvs", "config", "first-sync", "probes"] {
        assert_eq!(page.value(&format!("lvsd_dependency_up{{dependency=\"{name}\"}}")), Some(1.0), "{name}");
    }
    let digest = |page: &Page| {
        let info = page.samples.keys().find(|series| series.starts_with("lvsd_config_info{"));
        info.expect("a digest").clone()
    };
    let reloads =
        |page: &Page, result: &str| page.value(&format!("lvsd_config_reloads_total{{result=\"{result}\"}}"));
    assert_eq!(page.value("lvsd_config_last_reload_successful"), Some(1.0));

    place.configure("nonsense = 1\n");
    assert_eq!(place.ask("reload").code, Some(78));
    let refused = wait_for(&daemon, "a refused reload", |page| reloads(page, "refused") == Some(1.0));
    assert_eq!(refused.value("lvsd_config_last_reload_successful"), Some(0.0));
    assert_eq!(digest(&refused), digest(&page), "the configuration before it is in force");

    place.configure(&http(&[(&first, 7)]));
    assert_eq!(place.ask("reload").code, Some(0));
    let done = wait_for(&daemon, "a reload", |page| reloads(page, "done") == Some(1.0));
    assert_eq!(done.value("lvsd_config_last_reload_successful"), Some(1.0));
    assert_ne!(digest(&done), digest(&page));
    let loaded = "lvsd_config_last_reload_success_timestamp_seconds";
    assert!(done.value(loaded) > page.value(loaded));
    // A server that has gone leaves nothing behind.
    let (gone, stays) = (second.address.to_string(), first.address.to_string());
    for family in &done.families {
        assert_eq!(done.with(family, &gone), 0, "{family}");
    }
    assert!(done.with("lvsd_real_server_up", &stays) == 1 && done.with("lvsd_check_up", &stays) == 1);

    assert_eq!(place.ask(&format!("drain {stays}")).code, Some(0));
    let order = format!(
        "lvsd_real_server_override{{virtual_server=\"web\",real_server=\"{stays}\",override=\"drain\"}}"
    );
    let drained = wait_for(&daemon, "an order", |page| page.value(&order) == Some(1.0));
    let server = format!("{{virtual_server=\"web\",real_server=\"{stays}\"}}");
    let weight = |what: &str| drained.value(&format!("lvsd_real_server_weight_{what}{server}"));
    assert_eq!((weight("configured"), weight("effective")), (Some(7.0), Some(0.0)));
    assert_eq!(place.ask(&format!("enable {stays}")).code, Some(0));
    wait_for(&daemon, "no order", |page| page.value(&order).is_none());
}

/// The list for readers is made of the same catalogue as the page.
#[test]
fn the_documentation_lists_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/src/reference/metrics.md");
    let (begin, end) = ("<!-- begin: made by tests/metrics -->\n", "<!-- end -->");
    let text = std::fs::read_to_string(path).expect("the page");
    let (head, rest) = text.split_once(begin).expect("a mark where the list begins");
    let (list, tail) = rest.split_once(end).expect("a mark where it ends");
    let wanted = metrics::markdown();
    if std::env::var("LVSD_UPDATE_DOCS").is_ok_and(|update| update == "1") {
        std::fs::write(path, format!("{head}{begin}{wanted}{end}{tail}")).expect("the tree can be written");
    } else {
        assert_eq!(list, wanted, "LVSD_UPDATE_DOCS=1 cargo test --test metrics writes it anew");
    }
}
