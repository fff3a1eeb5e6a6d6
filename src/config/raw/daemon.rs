//! `[daemon]` with its tables.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::access;
use super::common::interface;
use super::keys::{Scope, unknown_key};
use super::notify::Notify;
use super::self_test::SelfTest;
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Place;
use crate::config::text::{Wrong, closest, quote};
use crate::config::value;
use crate::engine::model::{DownRate, Drift, OnStop, Portion, SyncRole};

/// A dump of the whole table more often than this would only compete with the checks.
const DRIFT_MINIMUM: Duration = Duration::from_millis(100);

/// The kernel takes INT_MAX / HZ seconds; this fits at every HZ up to 1000.
const TIMEOUT_MAXIMUM: u32 = 2_147_483;

/// Bytes of a unix socket's address, without its closing zero.
const SOCKET_PATH_MAX: usize = 107;

const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

#[derive(Debug, Default)]
pub(in crate::config) struct Daemon {
    pub(in crate::config) name: Field<String>,
    pub(in crate::config) control_socket: Field<PathBuf>,
    pub(in crate::config) control_group: Field<String>,
    pub(in crate::config) control_mode: Field<u32>,
    pub(in crate::config) state_file: Field<PathBuf>,
    pub(in crate::config) http: Field<SocketAddr>,
    pub(in crate::config) on_stop: Field<OnStop>,
    pub(in crate::config) max_removed: Field<Portion>,
    pub(in crate::config) max_down_rate: Field<DownRate>,
    pub(in crate::config) drift: Field<Drift>,
    pub(in crate::config) drift_interval: Field<Duration>,
    pub(in crate::config) log: Field<String>,
    pub(in crate::config) timeouts: Timeouts,
    pub(in crate::config) sync: Field<Sync>,
    pub(in crate::config) notify: Notify,
    pub(in crate::config) self_test: SelfTest,
}

#[derive(Debug, Default)]
pub(in crate::config) struct Timeouts {
    pub(in crate::config) tcp: Field<NonZeroU32>,
    pub(in crate::config) tcp_fin: Field<NonZeroU32>,
    pub(in crate::config) udp: Field<NonZeroU32>,
}

#[derive(Debug)]
pub(in crate::config) struct Sync {
    pub(in crate::config) place: Place,
    pub(in crate::config) state: Field<SyncRole>,
    pub(in crate::config) interface: Field<String>,
    pub(in crate::config) id: Field<u8>,
    pub(in crate::config) max_length: Field<u16>,
    pub(in crate::config) group: Field<IpAddr>,
    pub(in crate::config) port: Field<u16>,
    pub(in crate::config) ttl: Field<u8>,
}

impl Daemon {
    pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Self {
        let mut daemon = Self::default();
        let Some(section) = value::table(cx, value, "write [daemon]") else { return daemon };
        for (key, value) in section.entries() {
            match key.name {
                "name" => daemon.name = value.field(cx, value::line),
                "control_socket" => daemon.control_socket = value.field(cx, socket),
                "control_group" => {
                    daemon.control_group = value.field(cx, |cx, v| value::parsed(cx, v, access::group));
                }
                "control_mode" => {
                    daemon.control_mode = value.field(cx, |cx, v| value::parsed(cx, v, access::mode));
                }
                "max_removed" => daemon.max_removed = value.field(cx, value::portion),
                "max_down_rate" => daemon.max_down_rate = value.field(cx, super::down_rate::read),
                "state_file" => daemon.state_file = value.field(cx, path),
                "http" => daemon.http = value.field(cx, |cx, v| value::parsed(cx, v, listen)),
                "on_stop" => {
                    let words = [("withdraw", OnStop::Withdraw), ("keep", OnStop::Keep)];
                    daemon.on_stop = value.field(cx, |cx, v| value::word(cx, v, &words));
                }
                "drift" => {
                    let words = [("repair", Drift::Repair), ("warn", Drift::Warn), ("off", Drift::Off)];
                    daemon.drift = value.field(cx, |cx, v| value::word(cx, v, &words));
                }
                "drift_interval" => {
                    daemon.drift_interval = value.field(cx, |cx, v| value::duration(cx, v, DRIFT_MINIMUM));
                }
                "log" => daemon.log = value.field(cx, |cx, v| value::parsed(cx, v, log)),
                "timeouts" => daemon.timeouts = Timeouts::read(cx, value),
                "sync" => daemon.sync = value.field(cx, Sync::read),
                "notify" => daemon.notify = Notify::read(cx, value),
                "self_test" => daemon.self_test = SelfTest::read(cx, value),
                _ => unknown_key(cx, Scope::Daemon, key),
            }
        }
        daemon
    }
}

impl Timeouts {
    fn read(cx: &mut Context<'_>, value: Value<'_>) -> Self {
        let mut timeouts = Self::default();
        let Some(section) = value::table(cx, value, "write [daemon.timeouts]") else { return timeouts };
        for (key, value) in section.entries() {
            let seconds = |cx: &mut Context<'_>, v: Value<'_>| value::whole_seconds(cx, v, TIMEOUT_MAXIMUM);
            match key.name {
                "tcp" => timeouts.tcp = value.field(cx, seconds),
                "tcp_fin" => timeouts.tcp_fin = value.field(cx, seconds),
                "udp" => timeouts.udp = value.field(cx, seconds),
                _ => unknown_key(cx, Scope::Timeouts, key),
            }
        }
        timeouts
    }
}

impl Sync {
    fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Self> {
        let section = value::table(cx, value, "write [daemon.sync]")?;
        let mut sync = Self {
            place: value.place,
            state: Field::Unset,
            interface: Field::Unset,
            id: Field::Unset,
            max_length: Field::Unset,
            group: Field::Unset,
            port: Field::Unset,
            ttl: Field::Unset,
        };
        for (key, value) in section.entries() {
            match key.name {
                "state" => {
                    let words = [
                        ("master", SyncRole::Master),
                        ("backup", SyncRole::Backup),
                        ("both", SyncRole::Both),
                    ];
                    sync.state = value.field(cx, |cx, v| value::word(cx, v, &words));
                }
                "interface" => sync.interface = value.field(cx, interface),
                "id" => sync.id = value.field(cx, |cx, v| value::integer(cx, v, 0..=255)),
                // The payload of one UDP datagram.
                "max_length" => sync.max_length = value.field(cx, |cx, v| value::integer(cx, v, 1..=65_507)),
                "group" => sync.group = value.field(cx, group),
                "port" => sync.port = value.field(cx, value::port),
                "ttl" => sync.ttl = value.field(cx, |cx, v| value::integer(cx, v, 1..=255)),
                _ => unknown_key(cx, Scope::Sync, key),
            }
        }
        Some(sync)
    }
}

pub(super) fn path(cx: &mut Context<'_>, value: Value<'_>) -> Option<PathBuf> {
    let text = value::line(cx, value)?;
    Some(cx.resolve(&text, value.place))
}

fn socket(cx: &mut Context<'_>, value: Value<'_>) -> Option<PathBuf> {
    let path = path(cx, value)?;
    let length = path.as_os_str().len();
    if length > SOCKET_PATH_MAX {
        let why = Wrong::new(format!("{length} bytes are too long for a socket's path"));
        return value::wrong(cx, value, why.remedy(format!("write at most {SOCKET_PATH_MAX} bytes")));
    }
    Some(path)
}

fn listen(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse().map_err(|_| {
        Wrong::new(format!("{} is not an address with a port", quote(text)))
            .remedy("write \"127.0.0.1:9480\" or \"[::1]:9480\"")
    })
}

pub(in crate::config) fn log(text: &str) -> Result<String, Wrong> {
    if text.parse::<tracing_subscriber::EnvFilter>().is_err() || text.is_empty() {
        return Err(Wrong::new(format!("{} is not a filter", quote(text))).remedy(
            "write a level, as in \"info\", or levels by module, as in \"info,lvsd::checks=debug\"",
        ));
    }
    // A lone word that is no level is taken for a module's name, and everything else is silent.
    let is_level = LOG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(text));
    let is_word = text.bytes().all(|b| b.is_ascii_alphabetic());
    match closest(text, LOG_LEVELS) {
        Some(level) if is_word && !is_level => Err(Wrong::new(format!("{} is not a level", quote(text)))
            .remedy(format!("did you mean \"{level}\"?"))),
        Some(_) | None => Ok(text.to_owned()),
    }
}

fn group(cx: &mut Context<'_>, value: Value<'_>) -> Option<IpAddr> {
    let group = value::ip(cx, value)?;
    if !group.is_multicast() {
        let why = Wrong::new(format!("{group} is not a multicast address"));
        return value::wrong(cx, value, why.remedy("write one as \"224.0.0.81\", the kernel's default"));
    }
    Some(group)
}
