//! The director itself is the sick one: its network is gone, it has no descriptor left, it stood still. The
//! table stays as it is, readiness fails, and afterwards a server that is really dead leaves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::process::{Director, wait_for_table};
use super::{WEB, WEB_SECOND, WEB_SERVICE, WEB_TABLE};
use crate::lab::backend::Backend;
use crate::lab::capture::{Capture, writes};
use crate::lab::net::{Network, Space};
use crate::lab::wait::{output, pause, until};

const HTTP: &str = "127.0.0.1:9480";

/// [`WEB`] with pages, a canary among the real servers that refuses, and one that is the director itself.
fn with_canary() -> String {
    let test = "[daemon.self_test]\ncanary = [\"192.0.2.10:9\", \"198.51.100.14:9\"]\ncanary_interval = \"100ms\"\ncanary_timeout = \"500ms\"\n";
    format!("http = {HTTP:?}\n{test}{}", WEB.replace("before_retry = \"100ms\"", "before_retry = \"500ms\""))
}

/// Status and body.
fn page(space: &Space, path: &str) -> (String, String) {
    let text = space.run(|| {
        let mut stream = TcpStream::connect(HTTP).expect("lvsd listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time-out");
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    });
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status");
    (status.to_owned(), body.to_owned())
}

/// The value of a sample.
fn sample(space: &Space, name: &str) -> f64 {
    let (_, text) = page(space, "/metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

fn frozen(space: &Space) -> bool {
    sample(space, "lvsd_verdicts_frozen") > 0.0
}

/// The network goes by `cut` and comes back by `mend`, both of them batches of `ip` in one of the spaces.
fn network_is_gone(cut: impl Fn(&Network), mend: impl Fn(&Network)) {
    let network = Network::new();
    let space = &network.director;
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    let director = Director::new(space, &with_canary());
    let _daemon = director.start();
    assert_eq!((page(space, "/readyz").0.as_str(), frozen(space)), ("200", false));
    let capture = Capture::start(space);
    cut(&network);
    until("verdicts are frozen", || frozen(space));
    let (status, body) = page(space, "/readyz");
    assert_eq!(status, "503");
    assert!(body.contains("\"self-test\"") && !body.contains("probes"), "{body}");
    // Each server has failed far more often than a verdict takes.
    until("checks go on", || sample(space, "lvsd_check_results_set_aside_total") > 7.0);
    assert_eq!(space.table(), WEB_TABLE);
    let table = String::from_utf8(director.lvsd("status").stdout).expect("text");
    assert!(table.contains("VERDICTS FROZEN for "), "{table}");
    let status: serde_json::Value =
        serde_json::from_slice(&director.lvsd("status --json").stdout).expect("JSON");
    let reason = status["frozen"]["reasons"][0].as_str().expect("a reason");
    assert!(reason.starts_with("no canary answers: 198.51.100.14:9: "), "{reason}");

    mend(&network);
    until("verdicts count again", || !frozen(space));
    assert_eq!(page(space, "/readyz").0, "200");
    until("a check has run", || {
        let status: serde_json::Value =
            serde_json::from_slice(&director.lvsd("status --json").stdout).expect("JSON");
        let servers = status["virtual_servers"][0]["real_servers"].as_array().expect("a list").clone();
        servers.iter().all(|server| server["checks"][0]["last"]["ok"] == true)
    });
    assert_eq!(writes(&capture.stop(space)), [] as [&str; 0], "nobody left, nobody came");
    assert_eq!(sample(space, "lvsd_self_test_symptoms_total{symptom=\"canary\"}"), 1.0);

    drop(first);
    wait_for_table(space, &[WEB_SERVICE, WEB_SECOND]);
    let log = director.log();
    for line in [
        "the canary 192.0.2.10:9 is an address of this host",
        "this host seems to be sick, verdicts are frozen: no canary answers: 198.51.100.14:9: ",
        "this host seems to be well, verdicts count again after ",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line:?} in {log}");
    }
}

#[test]
fn a_link_of_our_own_that_is_down_takes_nobody_out() {
    network_is_gone(
        |network| network.director.ip("link set back down"),
        |network| network.director.ip("link set back up"),
    );
}

#[test]
fn a_network_that_answers_nothing_takes_nobody_out() {
    network_is_gone(
        |network| network.servers.ip("link set eth0 down"),
        |network| network.servers.ip("link set eth0 up"),
    );
}

#[test]
fn checks_without_a_descriptor_take_nobody_out() {
    let network = Network::new();
    let space = &network.director;
    let first = Backend::start(&network.servers, "198.51.100.11:80");
    let _second = Backend::start(&network.servers, "198.51.100.12:80");
    // Each local error counts as a failure, so that only the self-test keeps the servers.
    let config = WEB.replace("timeout = \"2s\"", "timeout = \"2s\"\nretry = 12\non_local_error = \"fail\"");
    let director = Director::new(space, &config);
    let daemon = director.start();
    until("every check has run", || {
        let status: serde_json::Value =
            serde_json::from_slice(&director.lvsd("status --json").stdout).expect("JSON");
        let servers = status["virtual_servers"][0]["real_servers"].as_array().expect("a list").clone();
        servers.iter().all(|server| server["checks"][0]["has_run"] == true)
    });
    let limit = |files: u32| {
        let (pid, files) = (daemon.pid().to_string(), format!("--nofile={files}:1024"));
        output(Command::new("prlimit").args(["--pid", &pid, &files]));
    };
    let capture = Capture::start(space);
    // Numbers below that were taken at its start.
    limit(8);
    until("verdicts are frozen", || {
        director.log().contains("this host seems to be sick, verdicts are frozen: ")
    });
    // Far longer than 13 tries take, which would have been the end of both.
    for _ in 0..40 {
        pause(Duration::from_millis(100));
        assert_eq!(space.table(), WEB_TABLE);
    }
    limit(1024);
    until("verdicts count again", || director.log().contains("this host seems to be well, "));
    assert_eq!(writes(&capture.stop(space)), [] as [&str; 0]);
    assert!(director.log().contains("could not be run on this host"), "{}", director.log());
    drop(first);
    wait_for_table(space, &[WEB_SERVICE, WEB_SECOND]);
}

/// What came while the daemon was stopped came to nobody: one failure would be enough here.
#[test]
fn a_daemon_that_stood_still_loses_nobody() {
    let network = Network::new();
    let space = &network.director;
    let servers = ["198.51.100.11:80", "198.51.100.12:80"];
    let backends = servers.map(|at| Backend::start(&network.servers, at));
    let config = WEB.replace("timeout = \"2s\"", "timeout = \"2s\"\nretry = 0");
    let config = format!("http = {HTTP:?}\n[daemon.self_test]\nmax_lateness = \"1s\"\n{config}");
    let director = Director::new(space, &config);
    let daemon = director.start();
    // Runs are in flight most of the time, and end with a reset while nobody looks.
    backends.iter().for_each(|backend| backend.set_delay(Duration::from_secs(1)));
    let running = || sample(space, "lvsd_checks_running") > 1.0;
    until("both checks run", running);
    let capture = Capture::start(space);
    daemon.signal(Signal::SIGSTOP);
    drop(backends);
    let [first, _second] = servers.map(|at| Backend::start(&network.servers, at));
    pause(Duration::from_millis(3500));
    daemon.signal(Signal::SIGCONT);
    until("verdicts are frozen", || frozen(space));
    assert_eq!(page(space, "/readyz").0, "503");
    until("verdicts count again", || !frozen(space));
    assert_eq!(writes(&capture.stop(space)), [] as [&str; 0]);
    assert_eq!(space.table(), WEB_TABLE);
    assert!(
        director.log().contains("verdicts are frozen: the daemon stood still for "),
        "{}",
        director.log()
    );
    drop(first);
    wait_for_table(space, &[WEB_SERVICE, WEB_SECOND]);
}
