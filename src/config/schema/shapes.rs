//! What each key may be, as far as a schema can say it. A key that is new in [`Scope`] needs its shape here;
//! a test compares the two.

use serde_json::{Value, json};

use crate::config::raw::keys::Scope;

type Keys = Vec<(&'static str, Value)>;

/// The keys of a table, each with its shape.
pub(in crate::config) fn of(scope: Scope) -> Keys {
    match scope {
        Scope::Root => vec![
            ("include", list(line())),
            ("daemon", refer("daemon")),
            ("defaults", refer("defaults")),
            ("check", json!({ "type": "object", "additionalProperties": refer("check") })),
            ("virtual_server", list(refer("virtual_server"))),
        ],
        Scope::Daemon => daemon(),
        Scope::Notify => vec![
            ("fifo", line()),
            ("script", argv()),
            ("script_user", line()),
            ("script_timeout", refer("duration")),
            ("start", argv()),
            ("stop", argv()),
            ("mail", refer("mail")),
            ("webhook", list(refer("webhook"))),
        ],
        Scope::Mail => vec![
            ("server", line()),
            ("from", line()),
            ("to", one_or_more(line())),
            ("tls", json!({ "anyOf": [words(&["none", "starttls", "implicit"]), refer("mail_tls")] })),
            ("user", line()),
            ("password_file", line()),
            ("timeout", refer("duration")),
            ("min_interval", refer("duration")),
            ("events", one_or_more(line())),
        ],
        Scope::MailTls => [vec![("mode", words(&["starttls", "implicit"]))], tls()].concat(),
        Scope::Webhook => vec![
            ("url", line()),
            (
                "headers",
                json!({ "type": "object", "additionalProperties": { "anyOf": [string(), refer("header_file")] } }),
            ),
            ("timeout", refer("duration")),
            ("tls", refer("tls")),
            ("events", one_or_more(line())),
        ],
        Scope::HeaderFile => vec![("file", line()), ("prefix", string())],
        Scope::Announce => vec![("interface", interface())],
        Scope::MaxDownRate => vec![("servers", integer(1, u32::MAX.into())), ("per", refer("duration"))],
        Scope::ActiveWhen => vec![
            ("address_present", json!({ "anyOf": [{ "const": true }, one_or_more(line())] })),
            ("file", line()),
            ("interface", interface()),
        ],
        Scope::Timeouts => ["tcp", "tcp_fin", "udp"].map(|key| (key, refer("duration"))).to_vec(),
        Scope::SelfTest => vec![
            ("max_lateness", json!({ "anyOf": [{ "const": "off" }, refer("duration")] })),
            ("local_errors", line()),
            ("canary", one_or_more(line())),
            ("canary_interval", refer("duration")),
            ("canary_timeout", refer("duration")),
        ],
        Scope::Sync => vec![
            ("state", words(&["master", "backup", "both"])),
            ("interface", interface()),
            ("id", integer(0, 255)),
            ("max_length", integer(1, 65_507)),
            ("group", line()),
            ("port", port()),
            ("ttl", integer(1, 255)),
        ],
        Scope::Defaults => [pool(), common()].concat(),
        Scope::VirtualServer => [virtual_server(), pool(), common()].concat(),
        Scope::RealServer => [real_server(), common()].concat(),
        Scope::SorryServer => [vec![("address", line()), ("inhibit", flag())], forwarding()].concat(),
        Scope::Tunnel => vec![
            ("type", words(&["ipip", "gue", "gre"])),
            ("port", port()),
            ("checksum", words(&["none", "csum", "remcsum"])),
        ],
        Scope::Check => {
            let kinds = KINDS.map(|kind| (kind, refer(kind))).to_vec();
            [kinds, vec![("fwmark", count())], common()].concat()
        }
        Scope::Tcp
        | Scope::Expect
        | Scope::Dialogue
        | Scope::Http
        | Scope::Url
        | Scope::Body
        | Scope::Tls
        | Scope::Smtp
        | Scope::Grpc
        | Scope::Script
        | Scope::File
        | Scope::Dns
        | Scope::Udp
        | Scope::Ping => check_kind(scope),
    }
}

/// What holds between keys.
pub(super) fn rules(scope: Scope) -> Value {
    let required =
        |keys: &[&str]| keys.iter().map(|key| json!({ "required": [key] })).collect::<Vec<Value>>();
    match scope {
        Scope::Check => json!({ "oneOf": required(&KINDS) }),
        Scope::Expect => json!({ "oneOf": required(&["hex", "regex"]) }),
        Scope::Body => json!({ "oneOf": required(&["contains", "regex", "not_regex"]) }),
        Scope::Http => json!({ "oneOf": required(&["path", "urls"]) }),
        Scope::Dialogue => json!({ "anyOf": required(&["expect", "send"]) }),
        Scope::Url | Scope::File => json!({ "required": ["path"] }),
        Scope::Script => json!({ "required": ["argv"] }),
        Scope::Mail => json!({ "required": ["server", "from", "to"] }),
        Scope::Webhook => json!({ "required": ["url"] }),
        Scope::MailTls => json!({ "required": ["mode"] }),
        Scope::HeaderFile => json!({ "required": ["file"] }),
        Scope::Sync | Scope::Announce => json!({ "required": ["interface"] }),
        Scope::MaxDownRate => json!({ "required": ["servers", "per"] }),
        Scope::ActiveWhen => json!({ "oneOf": required(&["address_present", "file"]) }),
        Scope::RealServer | Scope::SorryServer => json!({ "required": ["address"] }),
        Scope::VirtualServer => json!({ "anyOf": required(&["address", "fwmark"]) }),
        Scope::Root
        | Scope::Daemon
        | Scope::Timeouts
        | Scope::SelfTest
        | Scope::Defaults
        | Scope::Tunnel
        | Scope::Notify
        | Scope::Tcp
        | Scope::Smtp
        | Scope::Grpc
        | Scope::Tls
        | Scope::Dns
        | Scope::Udp
        | Scope::Ping => json!({}),
    }
}

const KINDS: [&str; 9] = ["tcp", "http", "dns", "smtp", "udp", "ping", "script", "file", "grpc"];

fn daemon() -> Keys {
    vec![
        ("name", line()),
        ("control_socket", line()),
        ("control_group", line()),
        ("control_mode", line()),
        ("max_removed", json!({ "anyOf": [count(), line()] })),
        ("max_down_rate", refer("max_down_rate")),
        ("state_file", line()),
        ("http", line()),
        ("on_stop", words(&["withdraw", "keep"])),
        ("drift", words(&["repair", "warn", "off"])),
        ("drift_interval", refer("duration")),
        ("log", line()),
        ("timeouts", refer("timeouts")),
        ("notify", refer("notify")),
        ("sync", refer("sync")),
        ("self_test", refer("self_test")),
    ]
}

/// Of a virtual server, and in `[defaults]`.
fn pool() -> Keys {
    let own = vec![
        ("protocol", words(&["tcp", "udp", "sctp"])),
        ("scheduler", kernel_name()),
        (
            "scheduler_flags",
            list(words(&["sh-port", "sh-fallback", "mh-port", "mh-fallback", "flag-1", "flag-2", "flag-3"])),
        ),
        ("persistence_timeout", refer("duration")),
        ("persistence_netmask", json!({ "anyOf": [integer(0, 128), line()] })),
        ("persistence_engine", kernel_name()),
        ("one_packet", flag()),
        ("quorum", count()),
        ("hysteresis", count()),
        ("min_alive", json!({ "anyOf": [count(), line()] })),
        ("omega", flag()),
        ("inhibit_on_failure", flag()),
        ("virtualhost", line()),
        ("check", checks()),
        ("announce", json!({ "anyOf": [{ "const": false }, refer("announce")] })),
        ("active_when", json!({ "anyOf": [{ "const": "always" }, refer("active_when")] })),
    ];
    [own, forwarding()].concat()
}

fn virtual_server() -> Keys {
    vec![
        ("name", line()),
        ("address", one_or_more(line())),
        ("fwmark", one_or_more(integer(1, u32::MAX.into()))),
        ("family", one_or_more(words(&["ipv4", "ipv6"]))),
        ("sorry_server", json!({ "anyOf": [line(), refer("sorry_server")] })),
        ("quorum_up", argv()),
        ("quorum_down", argv()),
        ("real_server", list(refer("real_server"))),
    ]
}

fn real_server() -> Keys {
    let own = vec![
        ("address", line()),
        ("weight", integer(0, i32::MAX.into())),
        ("upper_threshold", count()),
        ("lower_threshold", count()),
        ("notify_up", argv()),
        ("notify_down", argv()),
        ("inhibit_on_failure", flag()),
        ("virtualhost", line()),
        ("check", checks()),
    ];
    [own, forwarding()].concat()
}

fn forwarding() -> Keys {
    vec![("lb_kind", words(&["nat", "dr", "tun"])), ("tunnel", refer("tunnel"))]
}

fn common() -> Keys {
    vec![
        ("delay_loop", refer("duration")),
        ("timeout", refer("duration")),
        ("retry", count()),
        ("delay_before_retry", refer("duration")),
        ("rise", integer(1, u32::MAX.into())),
        ("warmup", refer("duration")),
        ("alpha", flag()),
        ("connect_ip", line()),
        ("connect_port", port()),
        ("bind_ip", line()),
        ("bind_port", port()),
        ("bind_if", interface()),
        ("on_local_error", words(&["ignore", "fail"])),
        ("mode", words(&["enforce", "observe"])),
    ]
}

fn check_kind(scope: Scope) -> Keys {
    match scope {
        Scope::Tcp => vec![
            ("send", refer("text_or_bytes")),
            ("expect", pattern()),
            ("dialogue", list(refer("dialogue"))),
            ("tls", refer("tls")),
        ],
        Scope::Expect => vec![("hex", line()), ("regex", string())],
        Scope::Dialogue => vec![("expect", pattern()), ("send", refer("text_or_bytes"))],
        Scope::Http => [
            vec![
                ("urls", one_or_more(refer("url"))),
                ("method", json!({ "type": "string", "pattern": "^[^a-z]+$" })),
                ("version", words(&["1.0", "1.1"])),
                ("headers", json!({ "type": "object", "additionalProperties": one_or_more(string()) })),
                ("request_body", refer("text_or_bytes")),
                ("max_body", json!({ "anyOf": [integer(1, 1 << 30), line()] })),
                ("tls", refer("tls")),
                ("follow_redirects", flag()),
            ],
            reply(),
        ]
        .concat(),
        Scope::Url => reply(),
        Scope::Body => ["contains", "regex", "not_regex"].map(|key| (key, line())).to_vec(),
        Scope::Tls => [tls(), vec![("alpn", list(line()))]].concat(),
        Scope::Smtp => vec![("helo", line()), ("starttls", flag()), ("tls", refer("tls"))],
        Scope::Grpc => vec![("service", string()), ("tls", refer("tls"))],
        Scope::Script => vec![("argv", argv()), ("user", line()), ("dynamic_weight", flag())],
        Scope::File => {
            vec![("path", line()), ("weight", integer(i32::MIN.into(), i32::MAX.into())), ("reverse", flag())]
        }
        Scope::Dns => vec![
            ("name", line()),
            ("type", json!({ "anyOf": [integer(1, 65_535), line()] })),
            ("rcode", one_or_more(json!({ "anyOf": [integer(0, 15), line()] }))),
            ("expect", one_or_more(line())),
            ("transport", words(&["udp", "tcp"])),
        ],
        Scope::Udp => vec![
            ("payload", refer("text_or_bytes")),
            ("reply", pattern()),
            ("require_reply", flag()),
            ("min_reply", integer(1, 65_507)),
            ("max_reply", integer(1, 65_507)),
        ],
        Scope::Ping => vec![("size", integer(0, 65_507))],
        Scope::Root
        | Scope::Daemon
        | Scope::Notify
        | Scope::Mail
        | Scope::MailTls
        | Scope::Webhook
        | Scope::HeaderFile
        | Scope::Announce
        | Scope::MaxDownRate
        | Scope::ActiveWhen
        | Scope::Timeouts
        | Scope::SelfTest
        | Scope::Sync
        | Scope::Defaults
        | Scope::VirtualServer
        | Scope::RealServer
        | Scope::SorryServer
        | Scope::Tunnel
        | Scope::Check => vec![],
    }
}

/// Of checks, mails and webhooks.
fn tls() -> Keys {
    vec![
        ("verify", flag()),
        ("ca", line()),
        ("server_name", line()),
        ("certificate", line()),
        ("key", line()),
        ("min_version", words(&["1.2", "1.3"])),
    ]
}

fn reply() -> Keys {
    let status = json!({ "anyOf": [integer(100, 599), { "type": "string", "pattern": "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$" }] });
    vec![
        ("path", json!({ "type": "string", "pattern": "^/" })),
        ("status", one_or_more(status)),
        ("body", refer("body")),
        ("digest", json!({ "type": "string", "pattern": "^(md5|sha256):" })),
        ("virtualhost", line()),
    ]
}

// -- kinds of values ------------------------------------------------------------------------

pub(super) fn duration() -> Value {
    json!({
        "description": "\"500ms\", \"6s\", \"1m30s\", \"2h\", \"1d\", or a number of seconds",
        "anyOf": [
            { "type": "number", "minimum": 0 },
            { "type": "string", "pattern": "^ *([0-9.]+ *(ms|s|m|h|d)? *)+$" },
        ],
    })
}

/// What is sent: a text, or bytes as `{ hex }`.
pub(super) fn text_or_bytes() -> Value {
    json!({ "anyOf": [string(), { "type": "object", "additionalProperties": false, "required": ["hex"], "properties": { "hex": line() } }] })
}

/// What must come: a text, bytes or a pattern.
fn pattern() -> Value {
    json!({ "anyOf": [string(), refer("expect")] })
}

fn refer(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn line() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn integer(minimum: i64, maximum: i64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}

fn port() -> Value {
    integer(1, 65_535)
}

fn count() -> Value {
    integer(0, u32::MAX.into())
}

fn words(words: &[&str]) -> Value {
    json!({ "enum": words })
}

fn kernel_name() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,15}$" })
}

fn interface() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 15 })
}

fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

fn one_or_more(of: Value) -> Value {
    json!({ "anyOf": [of, list(of.clone())] })
}

/// A program by its full path, and its arguments.
fn argv() -> Value {
    json!({ "type": "array", "minItems": 1, "items": string(), "prefixItems": [{ "type": "string", "pattern": "^/" }] })
}

/// Names of checks, checks, or a list of them.
fn checks() -> Value {
    one_or_more(json!({ "anyOf": [line(), refer("check")] }))
}
