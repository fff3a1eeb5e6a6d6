//! Configurations of scenario files: the words of lvsd.toml, with the short names of [`crate::names`]
//! and defaults that make a scene short. What the engine does not look at is left out.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lvsd::engine::model::{
    self, ActiveWhen, AddressGate, Check, CheckKind, Config, Daemon, Drift, Family, Forwarding, Mode, Notify,
    OnLocalError, OnStop, Persistence, Portion, Probe, Protocol, RealServerId, Scheduler, SchedulerFlag,
    SelfTest, SorryServer, Target, Tcp, Timeouts, Timing, Tunnel, Whose,
};
use lvsd::engine::table::ServiceId;
use serde::Deserialize;

use crate::names;

pub(crate) type Topology = Vec<VirtualServer>;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VirtualServer {
    name: Option<String>,
    #[serde(default)]
    address: OneOrMany,
    fwmark: Option<NonZeroU32>,
    protocol: Option<String>,
    scheduler: Option<String>,
    #[serde(default)]
    scheduler_flags: Vec<String>,
    #[serde(default)]
    one_packet: bool,
    persistence_timeout: Option<NonZeroU32>,
    lb_kind: Option<String>,
    quorum: Option<u32>,
    #[serde(default)]
    hysteresis: u32,
    min_alive: Option<CountOrShare>,
    #[serde(default)]
    omega: bool,
    active_when: Option<Gate>,
    #[serde(default)]
    inhibit_on_failure: bool,
    sorry_server: Option<Sorry>,
    check: Option<OneOrManyChecks>,
    #[serde(default)]
    real_server: Vec<NameOrServer>,
    alpha: Option<bool>,
    delay_loop: Option<Seconds>,
    timeout: Option<Seconds>,
    retry: Option<u32>,
    delay_before_retry: Option<Seconds>,
    rise: Option<u32>,
    warmup: Option<Seconds>,
}

/// `2`, `"50%"`
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum CountOrShare {
    Count(u32),
    Share(String),
}

impl CountOrShare {
    fn lower(&self) -> Portion {
        match self {
            Self::Count(count) => Portion::Count(*count),
            Self::Share(text) => Portion::Share(text.trim_end_matches('%').parse().unwrap()),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gate {
    address_present: Option<Present>,
    interface: Option<String>,
    file: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Present {
    Own(bool),
    Any(Vec<String>),
}

impl Gate {
    fn lower(&self) -> ActiveWhen {
        let whose = match (&self.address_present, &self.file) {
            (None, Some(file)) => return ActiveWhen::File(file.clone()),
            (Some(Present::Own(true)), None) => Whose::Own,
            (Some(Present::Any(names)), None) => {
                Whose::AnyOf(names.iter().map(|name| names::read(name).0).collect())
            }
            _ => panic!("no such condition: {self:?}"),
        };
        ActiveWhen::Address(AddressGate { whose, interface: self.interface.clone() })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Sorry {
    Name(String),
    Table {
        address: String,
        lb_kind: Option<String>,
        #[serde(default)]
        inhibit: bool,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum NameOrServer {
    Name(String),
    Server(Box<RealServer>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RealServer {
    address: String,
    weight: Option<u32>,
    lb_kind: Option<String>,
    upper_threshold: Option<NonZeroU32>,
    lower_threshold: Option<NonZeroU32>,
    inhibit_on_failure: Option<bool>,
    alpha: Option<bool>,
    check: Option<OneOrManyChecks>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrManyChecks {
    One(CheckTable),
    Many(Vec<CheckTable>),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckTable {
    #[serde(default)]
    tcp: TcpTable,
    connect_ip: Option<String>,
    connect_port: Option<u16>,
    alpha: Option<bool>,
    mode: Option<String>,
    on_local_error: Option<String>,
    delay_loop: Option<Seconds>,
    timeout: Option<Seconds>,
    retry: Option<u32>,
    delay_before_retry: Option<Seconds>,
    rise: Option<u32>,
    warmup: Option<Seconds>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TcpTable {
    send: Option<String>,
}

/// A number of seconds, with its fraction.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Seconds {
    Whole(u64),
    Fraction(f64),
}

impl Seconds {
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Whole(seconds) => Duration::from_secs(seconds),
            Self::Fraction(seconds) => Duration::from_secs_f64(seconds),
        }
    }
}

pub(crate) fn lower(topology: &Topology) -> Config {
    config(topology.iter().map(|v| Arc::new(v.lower())).collect())
}

/// A configuration whose daemon part does not matter.
pub(crate) fn config(virtual_servers: Vec<Arc<model::VirtualServer>>) -> Config {
    let daemon = Daemon {
        name: None,
        control_socket: PathBuf::from("control.sock"),
        control: Default::default(),
        max_removed: None,
        max_down_rate: None,
        state_file: PathBuf::from("state.json"),
        http: None,
        on_stop: OnStop::Withdraw,
        drift: Drift::Repair,
        drift_interval: Duration::from_secs(10),
        log: "info".to_owned(),
        timeouts: Timeouts::default(),
        sync: None,
        notify: Notify {
            fifo: None,
            script: None,
            script_user: None,
            script_timeout: Duration::from_secs(30),
            start: None,
            stop: None,
            mail: None,
            webhooks: vec![],
        },
        self_test: SelfTest::off(),
    };
    Config { daemon, virtual_servers }
}

impl VirtualServer {
    fn lower(&self) -> model::VirtualServer {
        let protocol = match self.protocol.as_deref() {
            None | Some("tcp") => Protocol::Tcp,
            Some("udp") => Protocol::Udp,
            Some("sctp") => Protocol::Sctp,
            Some(other) => panic!("no such protocol: {other}"),
        };
        let addresses = match &self.address {
            OneOrMany::None => Vec::new(),
            OneOrMany::One(one) => vec![one.clone()],
            OneOrMany::Many(many) => many.clone(),
        };
        let by_address = addresses.iter().map(|text| {
            let (address, port) = names::read(text);
            ServiceId::Address { protocol, address, port: port.unwrap_or(0) }
        });
        let by_mark = self.fwmark.map(|mark| ServiceId::Mark { family: Family::Ipv4, mark });
        let services: Vec<ServiceId> = by_address.chain(by_mark).collect();
        let default_name = addresses.first().cloned().unwrap_or_else(|| services[0].to_string());
        let port = services[0].port();
        model::VirtualServer {
            name: self.name.clone().unwrap_or(default_name),
            services,
            scheduler: Scheduler::new(self.scheduler.as_deref().unwrap_or("rr")).unwrap(),
            scheduler_flags: self.scheduler_flags.iter().map(|f| flag(f)).collect(),
            one_packet: self.one_packet,
            persistence: self.persistence_timeout.map(|timeout| Persistence {
                timeout,
                netmask: None,
                engine: None,
            }),
            quorum: self.quorum.unwrap_or(1),
            hysteresis: self.hysteresis,
            min_alive: self.min_alive.as_ref().map_or(Portion::Count(0), CountOrShare::lower),
            omega: self.omega,
            sorry_server: self.sorry_server.as_ref().map(|s| s.lower(self.lb_kind.as_deref())),
            quorum_up: None,
            quorum_down: None,
            announce: None,
            active_when: self.active_when.as_ref().map(Gate::lower),
            real_servers: self.real_server.iter().map(|s| Arc::new(self.server(s, port))).collect(),
        }
    }

    fn server(&self, server: &NameOrServer, service_port: u16) -> model::RealServer {
        let from_name;
        let server = match server {
            NameOrServer::Server(server) => &**server,
            NameOrServer::Name(name) => {
                from_name = RealServer {
                    address: name.clone(),
                    weight: None,
                    lb_kind: None,
                    upper_threshold: None,
                    lower_threshold: None,
                    inhibit_on_failure: None,
                    alpha: None,
                    check: None,
                };
                &from_name
            }
        };
        let (address, port) = names::read(&server.address);
        let checks = match server.check.as_ref().or(self.check.as_ref()) {
            None => vec![CheckTable::default()],
            Some(OneOrManyChecks::One(check)) => vec![check.clone()],
            Some(OneOrManyChecks::Many(checks)) => checks.clone(),
        };
        let alpha = server.alpha.or(self.alpha).unwrap_or(false);
        let target = (address, port.unwrap_or(service_port));
        model::RealServer {
            id: RealServerId { address, port },
            weight: server.weight.unwrap_or(1),
            forwarding: forwarding(server.lb_kind.as_deref().or(self.lb_kind.as_deref())),
            upper_threshold: server.upper_threshold,
            lower_threshold: server.lower_threshold,
            inhibit_on_failure: server.inhibit_on_failure.unwrap_or(self.inhibit_on_failure),
            alpha,
            notify_up: None,
            notify_down: None,
            checks: checks.iter().map(|c| Arc::new(self.check(c, target, alpha))).collect(),
        }
    }

    fn check(&self, check: &CheckTable, (address, port): (std::net::IpAddr, u16), alpha: bool) -> Check {
        let seconds = |own: Option<Seconds>, pool: Option<Seconds>, default: u64| {
            own.or(pool).map_or(Duration::from_millis(default), Seconds::duration)
        };
        let address = check.connect_ip.as_ref().map_or(address, |name| names::read(name).0);
        Check {
            probe: Probe {
                target: Target { address, port: check.connect_port.unwrap_or(port), source: None },
                kind: Arc::new(CheckKind::Tcp(Tcp {
                    send: check.tcp.send.as_ref().map(|s| s.clone().into_bytes()),
                    ..Tcp::default()
                })),
            },
            timing: Arc::new(Timing {
                delay_loop: seconds(check.delay_loop, self.delay_loop, 1000),
                timeout: seconds(check.timeout, self.timeout, 500),
                retry: check.retry.or(self.retry).unwrap_or(0),
                delay_before_retry: seconds(check.delay_before_retry, self.delay_before_retry, 200),
                rise: check.rise.or(self.rise).unwrap_or(1),
                warmup: seconds(check.warmup, self.warmup, 0),
            }),
            alpha: check.alpha.unwrap_or(alpha),
            mode: match check.mode.as_deref() {
                None | Some("enforce") => Mode::Enforce,
                Some("observe") => Mode::Observe,
                Some(other) => panic!("no such mode: {other}"),
            },
            on_local_error: match check.on_local_error.as_deref() {
                None | Some("ignore") => OnLocalError::Ignore,
                Some("fail") => OnLocalError::Fail,
                Some(other) => panic!("no such way: {other}"),
            },
        }
    }
}

impl Sorry {
    fn lower(&self, of_service: Option<&str>) -> SorryServer {
        let (name, method, inhibit) = match self {
            Self::Name(name) => (name, None, false),
            Self::Table { address, lb_kind, inhibit } => (address, lb_kind.as_deref(), *inhibit),
        };
        let (address, port) = names::read(name);
        SorryServer { address, port, forwarding: forwarding(method.or(of_service)), inhibit }
    }
}

fn forwarding(name: Option<&str>) -> Forwarding {
    match name {
        None | Some("nat") => Forwarding::Nat,
        Some("dr") => Forwarding::Dr,
        Some("tun") => Forwarding::Tun(Tunnel::Ipip),
        Some(other) => panic!("no such lb_kind: {other}"),
    }
}

fn flag(name: &str) -> SchedulerFlag {
    let known = BTreeMap::from([
        ("flag-1", SchedulerFlag::One),
        ("flag-2", SchedulerFlag::Two),
        ("flag-3", SchedulerFlag::Three),
    ]);
    known.get(name).copied().unwrap_or_else(|| panic!("no such flag: {name}"))
}
