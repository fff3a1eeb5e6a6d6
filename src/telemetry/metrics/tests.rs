//! A page of a picture that has one of everything, and what clients of the listener see of pages.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hyper::body::Body;

use super::collect::Page;
use super::encode::Format;
use super::*;
use crate::engine::announcements::VirtualAddress;
use crate::engine::figures::{CheckFigures, Figures, PoolFigures, ServerFigures};
use crate::engine::model::{
    Check, CheckKind, Forwarding, Mode, OnLocalError, Ping, Probe, Protocol, RealServer, RealServerId,
    Scheduler, SorryServer, Target, Tcp, Timing, VirtualServer,
};
use crate::engine::snapshot::{KernelCounters, Order, QuorumStatus};
use crate::engine::table::{
    Counters, CountersByDestination, Destination, DestinationId, Service, ServiceAttributes, ServiceFlags,
    ServiceId, Table,
};
use crate::engine::testing;
use crate::engine::time::Time;
use crate::telemetry::http::{Closed, Limits, Routes, bind, serve};

const ADDRESS: &str = "198.51.100.11";

fn server_id(port: u16) -> RealServerId {
    RealServerId { address: ADDRESS.parse().unwrap(), port: Some(port) }
}

fn service_id() -> ServiceId {
    ServiceId::Address { protocol: Protocol::Tcp, address: "192.0.2.10".parse().unwrap(), port: 80 }
}

fn destination_id(port: u16) -> DestinationId {
    DestinationId { address: ADDRESS.parse().unwrap(), port }
}

fn check(kind: CheckKind, mode: Mode) -> Arc<Check> {
    let target = Target { address: ADDRESS.parse().unwrap(), port: 80, source: None };
    let second = Duration::from_secs(1);
    let timing = Timing {
        delay_loop: second,
        timeout: second,
        retry: 1,
        delay_before_retry: second,
        rise: 1,
        warmup: second,
    };
    let probe = Probe { target, kind: Arc::new(kind) };
    Arc::new(Check { probe, timing: timing.into(), alpha: false, mode, on_local_error: OnLocalError::Ignore })
}

fn real_server(port: u16, checks: Vec<Arc<Check>>) -> Arc<RealServer> {
    Arc::new(RealServer { weight: 3, checks: checks.into(), ..testing::real_server(server_id(port)) })
}

fn pool(name: &str) -> Arc<VirtualServer> {
    let tcp = || check(CheckKind::Tcp(Tcp::default()), Mode::Enforce);
    let ping = check(CheckKind::Ping(Ping::default()), Mode::Observe);
    Arc::new(VirtualServer {
        sorry_server: Some(SorryServer {
            address: ADDRESS.parse().unwrap(),
            port: Some(99),
            forwarding: Forwarding::Nat,
            inhibit: false,
        }),
        real_servers: vec![real_server(80, vec![tcp(), ping, tcp()]), real_server(81, vec![])],
        ..testing::virtual_server(name, vec![service_id()])
    })
}

fn table(weight: u32) -> Table {
    let attributes = ServiceAttributes {
        scheduler: Scheduler::new("wrr").unwrap(),
        flags: ServiceFlags::default(),
        persistence: None,
        netmask: 32,
        persistence_engine: None,
    };
    let entry = Destination { forwarding: Forwarding::Nat, weight, upper_threshold: 0, lower_threshold: 0 };
    let service = Service { attributes, destinations: BTreeMap::from([(destination_id(80), entry)]) };
    Table { services: BTreeMap::from([(service_id(), Arc::new(service))]) }
}

/// One virtual server of that name with all that a page can show.
fn picture(name: &str) -> Picture {
    let mut totals =
        Totals::new("0123456789abcdef".to_owned(), SystemTime::UNIX_EPOCH + Duration::from_secs(9));
    let mut checks = CheckTotals { successes: 7, failures: 2, local_errors: 1, ..CheckTotals::default() };
    checks.duration.observe(Duration::from_millis(30));
    totals.pools = vec![Arc::new(PoolTotals {
        name: name.to_owned(),
        checks: BTreeMap::from([("tcp", checks)]),
        quorum_transitions: 4,
        server_transitions: BTreeMap::from([(server_id(80), 5)]),
    })];
    let quorum =
        QuorumStatus { up: true, weight: 6, threshold: 1, quorum: 1, hysteresis: 0, since: Time::ZERO };
    let server = |alive, order, operator_weight| ServerFigures {
        alive,
        kept: (!alive).then_some(crate::engine::Guard::MinAlive),
        effective_weight: 3,
        order,
        operator_weight,
    };
    let servers = vec![server(true, Some(Order::Drain), Some(9)), server(false, Some(Order::Disable), None)];
    let verdict = |up| CheckFigures { up, has_run: true };
    let checks = vec![verdict(true), verdict(false), verdict(true)];
    let pools = vec![PoolFigures {
        config: pool(name),
        quorum,
        inactive: vec![service_id()],
        sorry: false,
        servers,
        checks,
    }];
    let counters = Counters {
        active: 1,
        inactive: 2,
        connections: 3,
        packets_in: 4,
        packets_out: 5,
        bytes_in: 6,
        bytes_out: 7,
        ..Counters::default()
    };
    Picture {
        daemon: Some(DaemonPicture {
            name: "lvs1".to_owned(),
            table: "kernel",
            figures: Figures { pools, probes: 2 },
            totals,
            kernel: KernelCounters { operations: 10, failures: 1, drift: 2 },
            broken_checks: 0,
            self_test: Default::default(),
            running: 1,
            slots: 100,
            tasks: 2,
            addresses: vec![AddressPicture { at: virtual_address(), wanted: true, announced: Some(false) }],
            notifications: vec![Notified { channel: "script".to_owned(), result: "dropped", count: 3 }],
            made_in: Duration::from_millis(2),
        }),
        kernel: Some(KernelPicture {
            table: table(3),
            wanted: table(4),
            counters: Arc::new(CountersByDestination::from_iter([(
                (service_id(), destination_id(80)),
                counters,
            )])),
            totals: Arc::new(BTreeMap::from([(service_id(), Counters { connections: 33, ..counters })])),
        }),
        around: Around {
            dependencies: vec![("ipvs".to_owned(), true), ("probes".to_owned(), false)],
            started: Some(SystemTime::UNIX_EPOCH),
            broken: vec![("front", 1)],
            dumped: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)),
            ..Around::default()
        },
    }
}

fn virtual_address() -> VirtualAddress {
    VirtualAddress { interface: Arc::from("lvs0"), address: "192.0.2.10".parse().unwrap() }
}

fn page(picture: Picture, format: Format) -> String {
    format.encode(Page::new(picture)).unwrap()
}

/// The names behind `# TYPE `, in their order.
fn families(page: &str) -> Vec<&str> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap()).collect()
}

#[test]
fn every_family_of_the_catalogue_is_on_the_page_in_its_order_with_a_sample() {
    let page = page(picture("web"), Format::Text);
    let listed: Vec<&str> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(families(&page), listed);
    for Metric { name, kind, labels, .. } in ALL {
        let stem = if *kind == Kind::Histogram { format!("{name}_count") } else { (*name).to_owned() };
        let sample = page.lines().find(|line| line.split(['{', ' ']).next() == Some(&stem));
        let sample = sample.unwrap_or_else(|| panic!("{name} has no sample:\n{page}"));
        let found: Vec<&str> = sample.split_once('{').map_or(vec![], |(_, rest)| {
            let labels = rest.rsplit_once('}').unwrap().0;
            labels.split("\",").map(|label| label.split_once('=').unwrap().0).collect()
        });
        assert_eq!(found, *labels, "{sample}");
    }
}

#[test]
fn a_service_that_is_kept_out_of_the_table_is_in_sync() {
    let mut picture = picture("web");
    picture.kernel = Some(KernelPicture::default());
    let page = page(picture, Format::Text);
    let service = r#"virtual_server="web",service="tcp 192.0.2.10:80""#;
    for line in
        [format!("lvsd_service_in_sync{{{service}}} 1"), format!("lvsd_service_active{{{service}}} 0")]
    {
        assert!(page.lines().any(|found| found == line), "{line}:\n{page}");
    }
}

#[test]
fn samples_say_what_the_picture_says() {
    let page = page(picture("web"), Format::Text);
    let lines: BTreeSet<&str> = page.lines().collect();
    let service = r#"virtual_server="web",service="tcp 192.0.2.10:80""#;
    let at = format!(r#"{service},destination="198.51.100.11:80""#);
    let server = r#"virtual_server="web",real_server="198.51.100.11:80""#;
    let wanted = [
        r#"lvsd_daemon_info{name="lvs1",table="kernel"} 1"#.to_owned(),
        r#"lvsd_dependency_up{dependency="ipvs"} 1"#.to_owned(),
        r#"lvsd_dependency_up{dependency="probes"} 0"#.to_owned(),
        r#"lvsd_config_info{digest="0123456789abcdef"} 1"#.to_owned(),
        "lvsd_config_last_reload_success_timestamp_seconds 9.0".to_owned(),
        r#"lvsd_quorum_weight{virtual_server="web"} 6"#.to_owned(),
        r#"lvsd_sorry_server_active{virtual_server="web",sorry_server="198.51.100.11:99"} 0"#.to_owned(),
        format!("lvsd_real_server_up{{{server}}} 1"),
        r#"lvsd_real_server_up{virtual_server="web",real_server="198.51.100.11:81"} 0"#.to_owned(),
        format!("lvsd_real_server_kept{{{server}}} 0"),
        r#"lvsd_real_server_kept{virtual_server="web",real_server="198.51.100.11:81"} 1"#.to_owned(),
        format!("lvsd_real_server_transitions_total{{{server}}} 5"),
        // One that has not changed is there as well.
        r#"lvsd_real_server_transitions_total{virtual_server="web",real_server="198.51.100.11:81"} 0"#.to_owned(),
        format!(r#"lvsd_real_server_override{{{server},override="drain"}} 1"#),
        format!(r#"lvsd_real_server_override{{{server},override="weight"}} 9"#),
        r#"lvsd_real_server_override{virtual_server="web",real_server="198.51.100.11:81",override="disable"} 1"#.to_owned(),
        format!(r#"lvsd_check_up{{{server},check="tcp",mode="enforce"}} 1"#),
        format!(r#"lvsd_check_up{{{server},check="ping",mode="observe"}} 0"#),
        format!(r#"lvsd_check_up{{{server},check="tcp_2",mode="enforce"}} 1"#),
        r#"lvsd_check_runs_total{virtual_server="web",check="tcp",result="success"} 7"#.to_owned(),
        r#"lvsd_check_runs_total{virtual_server="web",check="tcp",result="local_error"} 1"#.to_owned(),
        r#"lvsd_check_duration_seconds_bucket{virtual_server="web",check="tcp",le="0.025"} 0"#.to_owned(),
        r#"lvsd_check_duration_seconds_bucket{virtual_server="web",check="tcp",le="0.05"} 1"#.to_owned(),
        r#"lvsd_check_duration_seconds_bucket{virtual_server="web",check="tcp",le="+Inf"} 1"#.to_owned(),
        format!("lvsd_service_in_sync{{{service}}} 0"),
        format!("lvsd_service_active{{{service}}} 0"),
        r#"lvsd_address_wanted{address="192.0.2.10",interface="lvs0"} 1"#.to_owned(),
        r#"lvsd_address_announced{address="192.0.2.10",interface="lvs0"} 0"#.to_owned(),
        format!("lvsd_service_connections_total{{{service}}} 33"),
        format!("lvsd_destination_weight_wanted{{{at}}} 4"),
        format!("lvsd_destination_weight_applied{{{at}}} 3"),
        format!(r#"lvsd_destination_connections{{{at},state="inactive"}} 2"#),
        format!("lvsd_destination_connections_total{{{at}}} 3"),
        format!(r#"lvsd_destination_packets_total{{{at},direction="out"}} 5"#),
        format!(r#"lvsd_destination_bytes_total{{{at},direction="in"}} 6"#),
        "lvsd_ipvs_dump_timestamp_seconds 1.5".to_owned(),
        "lvsd_netlink_operation_errors_total 1".to_owned(),
        r#"lvsd_notifications_total{channel="script",result="dropped"} 3"#.to_owned(),
    ];
    for line in &wanted {
        assert!(lines.contains(line.as_str()), "{line}\nis not in\n{page}");
    }
    let series: Vec<&str> =
        lines.iter().filter(|l| !l.starts_with('#')).map(|l| l.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "a series twice");
}

#[test]
fn names_of_any_kind_cannot_break_the_page() {
    let evil = "we\"b\\ \n} 1\nlvsd_forged 1";
    for format in Format::ALL {
        let page = page(picture(evil), format);
        assert!(
            page.contains(r#"lvsd_quorum_up{virtual_server="we\"b\\ \n} 1\nlvsd_forged 1"} 1"#),
            "{page}"
        );
        assert!(!page.lines().any(|line| line.starts_with("lvsd_forged")), "{page}");
    }
}

#[test]
fn without_anybody_to_ask_the_page_is_about_the_process() {
    let page = page(Picture { daemon: None, ..picture("web") }, Format::Text);
    assert_eq!(families(&page).len(), ALL.len());
    assert!(page.contains("\nlvsd_dependency_up{dependency=\"probes\"} 0\n"));
    assert!(page.contains("\nprocess_open_fds ") && !page.contains("\nlvsd_quorum_up"), "{page}");
    assert!(!page.contains("\nlvsd_destination_"), "{page}");
}

#[test]
fn openmetrics_has_its_own_rules() {
    let page = page(picture("web"), Format::OpenMetrics);
    assert!(page.ends_with("\n# EOF\n"));
    assert!(page.contains("# TYPE lvsd_drift counter\nlvsd_drift_total 2\n"), "{page}");
    assert!(page.contains("# TYPE lvsd_service_bytes counter\n# UNIT lvsd_service_bytes bytes\n"), "{page}");
    assert_eq!(families(&page).len(), ALL.len());
}

// -- over HTTP ------------------------------------------------------------------------------

/// A listener with an exporter of pictures whose name grows by `bulk` bytes, and how many were made.
fn listen(bulk: usize) -> (std::net::SocketAddr, Arc<AtomicU64>) {
    let made = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&made);
    let source: Source = Arc::new(move || {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { picture(&format!("web-{number}-{}", "x".repeat(bulk))) })
    });
    let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let routes = Routes::new().with("/metrics", Exporter::new(source).handler());
        // Ends with the test program.
        let served = serve(listener, routes, Limits::default(), Closed::default(), std::future::pending());
        runtime.block_on(served).unwrap();
    });
    (address, made)
}

fn ask(address: std::net::SocketAddr, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n").unwrap();
    stream
}

fn read(mut stream: TcpStream) -> (String, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn clients_that_come_together_share_a_picture() {
    let (address, made) = listen(0);
    let streams: Vec<TcpStream> = (0..20).map(|_| ask(address, "")).collect();
    let bodies: BTreeSet<String> = streams.into_iter().map(|stream| read(stream).1).collect();
    // A second may end between two of them, on a slow machine.
    assert_eq!(bodies.len() as u64, made.load(Ordering::Relaxed));
    assert!(bodies.len() < 10, "{} pages for 20 clients", bodies.len());
}

#[test]
fn a_client_gets_the_format_that_it_takes() {
    let (address, _) = listen(0);
    let (head, body) = read(ask(address, ""));
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert!(!body.contains("# EOF"));
    let (head, body) = read(ask(address, "Accept: application/openmetrics-text; version=1.0.0\r\n"));
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"));
}

#[test]
fn a_page_of_megabytes_arrives_whole() {
    let (address, _) = listen(200_000);
    let (head, body) = read(ask(address, ""));
    assert!(body.len() > 5_000_000, "{}", body.len());
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert_eq!(families(&body).last(), Some(&"process_start_time_seconds"));
}

/// Who reads too slowly loses its page, and never keeps many in memory: `pages` of this size are held.
async fn slow_readers_lose_their_pages(bulk: usize, pages: usize) {
    tokio::time::pause();
    let source: Source = Arc::new(move || Box::pin(async move { picture(&"x".repeat(bulk)) }));
    let handler = Exporter::new(source).handler();
    let mut bodies = Vec::new();
    let clients = pages + 2;
    for _ in 0..clients {
        bodies.push(handler(hyper::Request::new(())).await.into_body());
        // Beyond what a page is shown to others; the clock stands still otherwise.
        tokio::time::advance(Duration::from_secs(2)).await;
        tokio::task::yield_now().await;
    }
    for (number, body) in bodies.iter_mut().enumerate() {
        let (mut read, whole) = (0, body.size_hint().exact().unwrap());
        let failed = loop {
            match std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context)).await {
                Some(Ok(frame)) => read += frame.into_data().unwrap().len() as u64,
                Some(Err(withdrawn)) => break Some(withdrawn.to_string()),
                None => break None,
            }
        };
        assert_eq!(failed.is_some(), number < clients - pages, "{number}: {failed:?}");
        assert_eq!(read, if failed.is_some() { 0 } else { whole });
    }
}

#[tokio::test]
async fn the_oldest_page_gives_way_when_there_are_too_many() {
    slow_readers_lose_their_pages(10, 8).await;
}

#[tokio::test]
async fn large_pages_are_fewer() {
    let bulk = 600_000;
    let size = page(picture(&"x".repeat(bulk)), Format::Text).len();
    let pages = (128 << 20) / size;
    assert!((2..8).contains(&pages), "{size} bytes");
    slow_readers_lose_their_pages(bulk, pages).await;
}
