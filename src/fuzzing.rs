//! Everything that lvsd reads from outside, as functions of bytes: for `fuzz/`, which feeds them whatever
//! it can think of, and for `tests/fuzzing.rs`, which replays what was found.
//!
//! A function returns when it has read, and panics where something is not as it must be, whatever the
//! bytes are.

use std::sync::LazyLock;

use crate::config::fuzzing as config;
use crate::engine::model::Config;
use crate::{addresses, checks, control, ipvs, notify, runtime};

/// One reader.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Of its folder in `fuzz/corpus`.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 18] = [
    Target { name: "config", run: toml },
    Target { name: "keepalived", run: config::import_keepalived },
    Target { name: "ldirectord", run: config::import_ldirectord },
    Target { name: "ipvs", run: ipvs::fuzzing::replies },
    Target { name: "rtnetlink", run: addresses::fuzzing::datagram },
    Target { name: "http", run: checks::fuzzing::http },
    Target { name: "dns", run: checks::fuzzing::dns },
    Target { name: "smtp", run: checks::fuzzing::smtp },
    Target { name: "udp", run: checks::fuzzing::udp },
    Target { name: "grpc", run: checks::fuzzing::grpc },
    Target { name: "icmp", run: checks::fuzzing::icmp },
    Target { name: "dialogue", run: dialogue },
    Target { name: "file", run: checks::fuzzing::file },
    Target { name: "control", run: request },
    Target { name: "reply", run: control::fuzzing::reply },
    Target { name: "state", run: state },
    Target { name: "mail", run: notify::fuzzing::mail },
    Target { name: "webhook", run: notify::fuzzing::webhook },
];

/// As [`crate::config::Sources`] reads a file that is not UTF-8.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn toml(bytes: &[u8]) {
    let Some(config) = config::load(&text(bytes)) else { return };
    assert!(config.virtual_servers.iter().all(|pool| !pool.services.is_empty()));
}

/// A `tcp` check's value, a line `%%%`, and what the server says.
fn dialogue(bytes: &[u8]) {
    const BORDER: &[u8] = b"\n%%%\n";
    let Some(at) = memchr::memmem::find(bytes, BORDER) else { return };
    let (check, says) = bytes.split_at(at);
    let Some(tcp) = config::tcp(&text(check)) else { return };
    checks::fuzzing::dialogue(&tcp, says.get(BORDER.len()..).unwrap_or_default());
}

fn request(bytes: &[u8]) {
    if let Some(sources) = control::fuzzing::request(bytes) {
        drop(config::load_sent(sources));
    }
}

/// What the sample state files are about.
static CONFIG: LazyLock<Config> =
    LazyLock::new(|| config::load(include_str!("fuzzing/state.toml")).unwrap_or_else(unloadable));

fn unloadable() -> Config {
    unreachable!("fuzzing/state.toml is wrong")
}

fn state(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        runtime::fuzzing::state_file(text, &CONFIG);
    }
}
