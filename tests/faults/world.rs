//! One director between a client and two servers, watched; and the line that says what came of it.

use std::fs;
use std::time::Duration;

use crate::lab::backend::Backend;
use crate::lab::client::Traffic;
use crate::lab::net::{FOREIGN, Network, add_foreign};
use crate::lab::wait::{pause, until};
use crate::process::{Daemon, Director, wait_for_table};
use crate::watch::{Judge, Table, Watch, judge};

pub(crate) const WEB: &str = "192.0.2.10:80";
pub(crate) const FIRST: &str = "198.51.100.11:80";
pub(crate) const SECOND: &str = "198.51.100.12:80";

/// A service with two servers, quick to judge; whatever breaks, the table is kept.
pub(crate) const CONFIG: &str = r#"
on_stop = "keep"
drift_interval = "300ms"
http = "127.0.0.1:9480"

[defaults]
delay_loop = "200ms"
delay_before_retry = "100ms"
timeout = "2s"

[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { http = { path = "/" } }
[[virtual_server.real_server]]
address = "198.51.100.11:80"
weight = 3
[[virtual_server.real_server]]
address = "198.51.100.12:80"
"#;

pub(crate) struct World {
    pub(crate) network: Network,
    _backends: [Backend; 2],
    pub(crate) director: Director,
}

/// How much of something: short among all tests, long when asked for.
pub(crate) fn rounds(short: u32, long: u32) -> u32 {
    if std::env::var("LVSD_FAULTS").is_ok_and(|how| how == "long") { long } else { short }
}

/// Random enough to choose moments by; the seed is the process's.
pub(crate) struct Moments(u64);

impl Moments {
    pub(crate) fn new() -> Self {
        Self(std::process::id().into())
    }

    pub(crate) fn below(&mut self, limit: Duration) -> Duration {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let millis = u64::try_from(limit.as_millis()).expect("short");
        Duration::from_millis((self.0 >> 33) % millis)
    }
}

/// Both servers are well all the time: so both are there, and so is what is somebody else's.
pub(crate) fn both(table: &Table) -> Option<String> {
    let weight = |at: &str| table.get(WEB).and_then(|web| web.get(at)).copied().unwrap_or(0);
    if weight(FIRST) == 0 || weight(SECOND) == 0 {
        return Some(format!("a server that is well is missing: {table:?}"));
    }
    foreign(table)
}

/// The first server is well all the time, the second is not.
pub(crate) fn first(table: &Table) -> Option<String> {
    match table.get(WEB).and_then(|web| web.get(FIRST)) {
        Some(1..) => foreign(table),
        _ => Some(format!("the server that is well is missing: {table:?}")),
    }
}

pub(crate) fn foreign(table: &Table) -> Option<String> {
    let theirs = table.get("192.0.2.11:25").and_then(|mail| mail.get("198.51.100.14:25"));
    (theirs != Some(&5)).then(|| format!("somebody else's service was touched: {table:?}"))
}

impl World {
    pub(crate) fn new(config: &str) -> Self {
        let network = Network::new();
        let backends = [FIRST, SECOND].map(|at| Backend::start(&network.servers, at));
        add_foreign(&network.director);
        let director = Director::new(&network.director, config);
        Self { network, _backends: backends, director }
    }

    /// From here on the table is judged and connections are made.
    pub(crate) fn trial(&self, name: &'static str, judge: Judge) -> Trial {
        let watch = Watch::start(&self.network.director, judge);
        let traffic = Traffic::start(&self.network.client, WEB);
        Trial { name, watch, traffic, faults: 0 }
    }

    /// The configuration with another weight of the first server.
    pub(crate) fn weigh(&self, config: &str, weight: u32) {
        self.director.configure(&config.replace("weight = 3", &format!("weight = {weight}")));
    }

    /// Waits until the first server has this weight and all else is as it was.
    pub(crate) fn converges(&self, weight: u32) {
        let first = format!("-a -t {WEB} -r {FIRST} -m -w {weight}");
        let second = format!("-a -t {WEB} -r {SECOND} -m -w 1");
        let service = format!("-A -t {WEB} -s wrr");
        wait_for_table(&self.network.director, &[&service, FOREIGN[0], &first, &second, FOREIGN[1]]);
    }

    /// The loop answers, a change of the file reaches the kernel, nothing panicked.
    pub(crate) fn works(&self, config: &str, weight: u32) {
        self.weigh(config, weight);
        until("a reload is done", || self.director.lvsd("reload").status.success());
        self.converges(weight);
        assert!(!self.director.log().contains("panic"), "{}", self.director.log());
    }
}

pub(crate) struct Trial {
    name: &'static str,
    watch: Watch,
    traffic: Traffic,
    faults: u32,
}

impl Trial {
    pub(crate) fn survived(&mut self, faults: u32) {
        self.faults += faults;
    }

    /// Prints the counts, and fails if one of them should be 0 and is not.
    pub(crate) fn end(self) {
        // At least one connection after the last fault.
        pause(Duration::from_millis(50));
        judge(self.name, u64::from(self.faults), &self.watch.stop(), &self.traffic.stop());
    }
}

/// What a process holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) resident_kilobytes: u64,
    pub(crate) peak_kilobytes: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    pub(crate) netlink_sockets: u64,
    pub(crate) children: u64,
}

pub(crate) fn held(daemon: &Daemon<'_>) -> Held {
    let pid = daemon.pid();
    let status = read(format!("/proc/{pid}/status"));
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    };
    let links = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let sockets: Vec<_> = links.filter_map(|link| fs::read_link(link.path()).ok()).collect();
    let netlink = read(format!("/proc/{pid}/net/netlink"));
    let inodes: Vec<&str> = netlink.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let is_netlink = |path: &&std::path::PathBuf| {
        let text = path.to_string_lossy();
        text.strip_prefix("socket:[")
            .and_then(|rest| rest.strip_suffix(']'))
            .is_some_and(|i| inodes.contains(&i))
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    Held {
        resident_kilobytes: field("VmRSS:"),
        peak_kilobytes: field("VmHWM:"),
        descriptors: sockets.len() as u64,
        threads: field("Threads:"),
        netlink_sockets: sockets.iter().filter(is_netlink).count() as u64,
        children: children.map(|text| text.split_whitespace().count() as u64).sum(),
    }
}

fn read(path: String) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
