//! What `/metrics` shows of a real table after real traffic, against what was sent, what ipvsadm counts and
//! what promtool takes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::process::{Director, wait_for_table};
use super::{WEB, WEB_ADDRESS, WEB_SECOND, WEB_SERVICE, WEB_TABLE};
use crate::lab::backend::Backend;
use crate::lab::client::fetch;
use crate::lab::net::{Network, Space};
use crate::lab::wait::{SOON, within};
use crate::promtool::promtool;

const HTTP: &str = "127.0.0.1:9480";
const SERVICE: &str = r#"virtual_server="web",service="tcp 192.0.2.10:80""#;

/// As Prometheus gets it.
fn page(space: &Space) -> String {
    let text = space.run(|| {
        let mut stream = TcpStream::connect(HTTP).expect("lvsd listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    });
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    body.to_owned()
}

/// Every sample, by everything in front of its value.
fn scrape(space: &Space) -> BTreeMap<String, f64> {
    let body = page(space);
    let samples = body.lines().filter(|line| !line.starts_with('#'));
    let samples = samples.map(|line| {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        (series.to_owned(), value.parse().expect("a number"))
    });
    samples.collect()
}

fn wait_for(space: &Space, series: &str, value: Option<f64>) -> BTreeMap<String, f64> {
    within(SOON, series, || Some(scrape(space)).filter(|page| page.get(series).copied() == value))
}

fn at(server: u8) -> String {
    format!(r#"{SERVICE},destination="198.51.100.{server}:80""#)
}

fn config() -> String {
    format!("http = \"{HTTP}\"\ndrift_interval = \"1s\"\n{WEB}")
}

#[test]
fn the_kernels_counters_are_those_of_the_traffic() {
    let network = Network::new();
    let servers = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, &config());
    let _daemon = director.start();
    wait_for(&network.director, &format!("lvsd_destination_connections_total{{{}}}", at(11)), Some(0.0));

    // By weights of 3 and 1.
    for _ in 0..20 {
        network.client.run(|| fetch(WEB_ADDRESS)).expect("an answer");
    }
    let total = format!("lvsd_service_connections_total{{{SERVICE}}}");
    let page = wait_for(&network.director, &total, Some(20.0));
    let value = |series: String| page.get(&series).copied().unwrap_or_else(|| panic!("no {series}"));
    for (server, connections) in [(11, 15.0), (12, 5.0)] {
        let at = at(server);
        assert_eq!(value(format!("lvsd_destination_connections_total{{{at}}}")), connections);
        assert_eq!(
            value(format!("lvsd_destination_weight_applied{{{at}}}")),
            f64::from(if server == 11 { 3 } else { 1 })
        );
        let states = ["active", "inactive"]
            .map(|state| value(format!(r#"lvsd_destination_connections{{{at},state="{state}"}}"#)));
        assert!(states.iter().sum::<f64>() <= connections, "{states:?}");
    }
    // The farewells of the last connections may still come: in the end, packets and bytes are what ipvsadm shows.
    within(SOON, "the same as ipvsadm shows", || counts_agree(&network.director).then_some(()));
    assert_eq!(promtool(Path::new("/"), "check metrics", &self::page(&network.director)), "");
    drop(servers);
}

/// Whether ipvsadm, whose lines are `TCP 192.0.2.10:80 Conns InPkts OutPkts InBytes OutBytes`, has the same.
fn counts_agree(director: &Space) -> bool {
    let (page, stats) = (scrape(director), director.ipvsadm("-Ln --stats --exact"));
    let value = |series: String| page.get(&series).copied().unwrap_or_else(|| panic!("no {series}"));
    let counted = |address: &str| -> Vec<f64> {
        let line = stats.lines().find(|line| line.contains(address)).unwrap_or_else(|| panic!("{stats}"));
        line.split_whitespace().skip(2).map(|number| number.parse().expect("a number")).collect()
    };
    [
        ("service", SERVICE.to_owned(), "192.0.2.10:80"),
        ("destination", at(11), "198.51.100.11:80"),
        ("destination", at(12), "198.51.100.12:80"),
    ]
    .into_iter()
    .all(|(family, labels, address)| {
        let traffic = |what: &str, direction: &str| {
            value(format!(r#"lvsd_{family}_{what}_total{{{labels},direction="{direction}"}}"#))
        };
        let shown = [
            value(format!("lvsd_{family}_connections_total{{{labels}}}")),
            traffic("packets", "in"),
            traffic("packets", "out"),
            traffic("bytes", "in"),
            traffic("bytes", "out"),
        ];
        shown[..] == counted(address)[..] && shown.iter().all(|number| *number > 0.0)
    })
}

#[test]
fn a_service_goes_on_counting_when_a_server_leaves() {
    let network = Network::new();
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(&network.director, &config());
    let _daemon = director.start();
    for _ in 0..8 {
        network.client.run(|| fetch(WEB_ADDRESS)).expect("an answer");
    }
    drop(first);
    wait_for_table(&network.director, &[WEB_SERVICE, WEB_SECOND]);
    for _ in 0..4 {
        network.client.run(|| fetch(WEB_ADDRESS)).expect("an answer");
    }
    // A sum over what is there would have gone back to 6.
    let total = format!("lvsd_service_connections_total{{{SERVICE}}}");
    let page = wait_for(&network.director, &total, Some(12.0));
    let gone: Vec<&String> = page.keys().filter(|series| series.contains(&at(11))).collect();
    assert!(gone.is_empty(), "{gone:?}");
    assert_eq!(
        page.get(r#"lvsd_real_server_up{virtual_server="web",real_server="198.51.100.11:80"}"#),
        Some(&0.0)
    );
}

#[test]
fn drift_and_refusals_are_counted() {
    let network = Network::new();
    let _servers = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, &config());
    let _daemon = director.start();
    wait_for(&network.director, "lvsd_drift_total", Some(0.0));
    network.director.ipvsadm("-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 77");
    network.director.ipvsadm("-d -t 192.0.2.10:80 -r 198.51.100.12:80");
    wait_for_table(&network.director, &WEB_TABLE);
    let page = wait_for(&network.director, "lvsd_drift_total", Some(2.0));
    let value = |series: &str| page.get(series).copied();
    assert_eq!(value(&format!("lvsd_service_in_sync{{{SERVICE}}}")), Some(1.0));
    assert_eq!(value("lvsd_netlink_operations_total"), Some(5.0));
    assert_eq!(value("lvsd_netlink_operation_errors_total"), Some(0.0));
    assert_eq!(value(r#"lvsd_dependency_up{dependency="ipvs"}"#), Some(1.0));
    assert!(value(r#"lvsd_state_file_writes_total{result="written"}"#) >= Some(1.0));

    // A scheduler that this kernel does not have.
    director.configure(&config().replace("scheduler = \"wrr\"", "scheduler = \"nosuch\""));
    assert!(!director.lvsd("reload").status.success());
    let wrong = format!("lvsd_service_in_sync{{{SERVICE}}}");
    let page = wait_for(&network.director, &wrong, Some(0.0));
    assert!(page["lvsd_netlink_operation_errors_total"] >= 1.0);
    assert_eq!(page.get(r#"lvsd_config_reloads_total{result="incomplete"}"#), Some(&1.0));
}
