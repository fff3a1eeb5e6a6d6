//! The names of all keys, for keys that are not known: what was meant, and where it belongs.

use crate::config::context::{Context, Key};
use crate::config::diagnostics::Finding;
use crate::config::text::{closest, one_of, quote};

/// The tables of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Scope {
    Root,
    Daemon,
    Timeouts,
    Sync,
    SelfTest,
    Notify,
    Mail,
    MailTls,
    Webhook,
    HeaderFile,
    Defaults,
    VirtualServer,
    RealServer,
    SorryServer,
    Announce,
    MaxDownRate,
    Tunnel,
    ActiveWhen,
    Check,
    Tcp,
    Expect,
    Http,
    Smtp,
    Grpc,
    Dialogue,
    Script,
    File,
    Url,
    Body,
    Tls,
    Dns,
    Udp,
    Ping,
}

impl Scope {
    pub(super) const ALL: [Self; 33] = [
        Self::Root,
        Self::Daemon,
        Self::Timeouts,
        Self::Sync,
        Self::SelfTest,
        Self::Notify,
        Self::Mail,
        Self::MailTls,
        Self::Webhook,
        Self::HeaderFile,
        Self::Defaults,
        Self::VirtualServer,
        Self::RealServer,
        Self::SorryServer,
        Self::Announce,
        Self::MaxDownRate,
        Self::Tunnel,
        Self::ActiveWhen,
        Self::Check,
        Self::Tcp,
        Self::Expect,
        Self::Http,
        Self::Smtp,
        Self::Grpc,
        Self::Dialogue,
        Self::Script,
        Self::File,
        Self::Url,
        Self::Body,
        Self::Tls,
        Self::Dns,
        Self::Udp,
        Self::Ping,
    ];

    const fn title(self) -> &'static str {
        match self {
            Self::Root => "the top level",
            Self::Daemon => "[daemon]",
            Self::Timeouts => "[daemon.timeouts]",
            Self::Sync => "[daemon.sync]",
            Self::SelfTest => "[daemon.self_test]",
            Self::Notify => "[daemon.notify]",
            Self::Mail => "[daemon.notify.mail]",
            Self::MailTls => "`tls` of a mail",
            Self::Webhook => "[[daemon.notify.webhook]]",
            Self::HeaderFile => "a header from a file",
            Self::Defaults => "[defaults]",
            Self::VirtualServer => "[[virtual_server]]",
            Self::RealServer => "[[virtual_server.real_server]]",
            Self::SorryServer => "`sorry_server`",
            Self::Announce => "`announce`",
            Self::MaxDownRate => "`max_down_rate`",
            Self::Tunnel => "`tunnel`",
            Self::ActiveWhen => "`active_when`",
            Self::Check => "a check",
            Self::Tcp => "`tcp`",
            Self::Expect => "bytes or a pattern",
            Self::Http => "`http`",
            Self::Smtp => "`smtp`",
            Self::Grpc => "`grpc`",
            Self::Dialogue => "`dialogue`",
            Self::Script => "`script`",
            Self::File => "`file`",
            Self::Url => "`urls`",
            Self::Body => "`body`",
            Self::Tls => "`tls`",
            Self::Dns => "`dns`",
            Self::Udp => "`udp`",
            Self::Ping => "`ping`",
        }
    }

    /// Lists of names, so that shared ones are written once.
    const fn keys(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Root => &[&["include", "daemon", "defaults", "check", "virtual_server"]],
            Self::Daemon => &[DAEMON],
            Self::Timeouts => &[&["tcp", "tcp_fin", "udp"]],
            Self::Sync => &[&["state", "interface", "id", "max_length", "group", "port", "ttl"]],
            Self::SelfTest => &[SELF_TEST],
            Self::Notify => {
                &[&["fifo", "script", "script_user", "script_timeout", "start", "stop", "mail", "webhook"]]
            }
            Self::Mail => &[MAIL],
            Self::MailTls => &[&["mode"], TLS],
            Self::Webhook => &[&["url", "headers", "timeout", "tls", "events"]],
            Self::HeaderFile => &[&["file", "prefix"]],
            Self::Defaults => &[POOL, COMMON],
            Self::VirtualServer => &[VIRTUAL_SERVER, POOL, COMMON],
            Self::RealServer => &[REAL_SERVER, COMMON],
            Self::SorryServer => &[&["address", "lb_kind", "tunnel", "inhibit"]],
            Self::Announce => &[&["interface"]],
            Self::MaxDownRate => &[&["servers", "per"]],
            Self::ActiveWhen => &[&["address_present", "file", "interface"]],
            Self::Tunnel => &[&["type", "port", "checksum"]],
            Self::Check => {
                &[&["tcp", "http", "dns", "smtp", "udp", "ping", "script", "file", "grpc", "fwmark"], COMMON]
            }
            Self::Tcp => &[&["send", "expect", "dialogue", "tls"]],
            Self::Expect => &[&["hex", "regex"]],
            Self::Http => &[HTTP],
            Self::Smtp => &[&["helo", "starttls", "tls"]],
            Self::Grpc => &[&["service", "tls"]],
            Self::Dialogue => &[&["expect", "send"]],
            Self::Script => &[&["argv", "user", "dynamic_weight"]],
            Self::File => &[&["path", "weight", "reverse"]],
            Self::Url => &[&["path", "status", "body", "digest", "virtualhost"]],
            Self::Body => &[&["contains", "regex", "not_regex"]],
            Self::Tls => &[TLS, &["alpn"]],
            Self::Dns => &[&["name", "type", "rcode", "expect", "transport"]],
            Self::Udp => &[&["payload", "reply", "require_reply", "min_reply", "max_reply"]],
            Self::Ping => &[&["size"]],
        }
    }

    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.keys().iter().flat_map(|names| names.iter().copied())
    }
}

const DAEMON: &[&str] = &[
    "name",
    "control_socket",
    "control_group",
    "control_mode",
    "state_file",
    "http",
    "on_stop",
    "max_removed",
    "max_down_rate",
    "drift",
    "drift_interval",
    "log",
    "timeouts",
    "sync",
    "notify",
    "self_test",
];

const SELF_TEST: &[&str] = &["max_lateness", "local_errors", "canary", "canary_interval", "canary_timeout"];

const MAIL: &[&str] =
    &["server", "from", "to", "tls", "user", "password_file", "timeout", "min_interval", "events"];

const TLS: &[&str] = &["verify", "ca", "server_name", "certificate", "key", "min_version"];

/// Of a virtual server, and inherited from `[defaults]`.
pub(in crate::config) const POOL: &[&str] = &[
    "protocol",
    "scheduler",
    "scheduler_flags",
    "lb_kind",
    "tunnel",
    "persistence_timeout",
    "persistence_netmask",
    "persistence_engine",
    "one_packet",
    "quorum",
    "hysteresis",
    "min_alive",
    "omega",
    "announce",
    "inhibit_on_failure",
    "virtualhost",
    "active_when",
    "check",
];

const VIRTUAL_SERVER: &[&str] =
    &["name", "address", "fwmark", "family", "sorry_server", "quorum_up", "quorum_down", "real_server"];

const REAL_SERVER: &[&str] = &[
    "address",
    "weight",
    "upper_threshold",
    "lower_threshold",
    "notify_up",
    "notify_down",
    "lb_kind",
    "tunnel",
    "inhibit_on_failure",
    "virtualhost",
    "check",
];

/// Options of every check, which may stand further out as well.
const COMMON: &[&str] = &[
    "delay_loop",
    "timeout",
    "retry",
    "delay_before_retry",
    "rise",
    "warmup",
    "alpha",
    "connect_ip",
    "connect_port",
    "bind_ip",
    "bind_port",
    "bind_if",
    "on_local_error",
    "mode",
];

const HTTP: &[&str] = &[
    "path",
    "urls",
    "method",
    "version",
    "virtualhost",
    "headers",
    "request_body",
    "status",
    "body",
    "digest",
    "max_body",
    "tls",
    "follow_redirects",
];

/// keepalived's words for the same things.
const KEEPALIVED: &[(&str, &str)] = &[
    ("lvs_sched", "scheduler"),
    ("lb_algo", "scheduler"),
    ("lvs_method", "lb_kind"),
    ("persistence_granularity", "persistence_netmask"),
    ("ip_family", "family"),
    ("ops", "one_packet"),
    ("uthreshold", "upper_threshold"),
    ("lthreshold", "lower_threshold"),
    ("connect_timeout", "timeout"),
    ("nb_get_retry", "retry"),
    ("bindto", "bind_ip"),
    ("http_protocol", "version"),
    ("status_code", "status"),
    ("sni_name", "server_name"),
    ("url", "urls"),
    ("check_interval", "delay_loop"),
    ("interval", "delay_loop"),
    ("helo_name", "helo"),
    ("min_reply_length", "min_reply"),
    ("max_reply_length", "max_reply"),
    ("misc_path", "argv"),
    ("misc_dynamic", "dynamic_weight"),
    ("track_file", "path"),
    ("lvs_notify_fifo", "fifo"),
    ("lvs_notify_fifo_script", "script"),
    ("startup_script", "start"),
    ("shutdown_script", "stop"),
    ("ha_suspend", "active_when"),
];

/// keepalived's names of checks, as a check is written here.
const KEEPALIVED_CHECKS: &[(&str, &str)] = &[
    ("TCP_CHECK", "tcp = {}"),
    ("HTTP_GET", "http = { path = \"/\" }"),
    ("SSL_GET", "http = { path = \"/\", tls = {} }"),
];

/// Shorter ones say too little to guess from.
const MIN_PREFIX: usize = 3;

/// Does any table have it?
pub(in crate::config) fn is_key(name: &str) -> bool {
    Scope::ALL.into_iter().flat_map(Scope::names).any(|known| known == name)
}

pub(in crate::config) fn is_root_key(name: &str) -> bool {
    Scope::Root.names().any(|known| known == name)
}

/// Reports a key that its table does not have.
pub(in crate::config) fn unknown_key(cx: &mut Context<'_>, scope: Scope, key: Key<'_>) {
    let message = format!("unknown key {} in {}", quote(key.name), scope.title());
    cx.push(Finding::error(key.place, message).remedy(remedy(scope, key.name)));
}

/// The one key of `scope` that begins like this.
fn beginning(name: &str, scope: Scope) -> Option<&'static str> {
    let mut known = scope.names().filter(|known| name.len() >= MIN_PREFIX && known.starts_with(name));
    known.next().filter(|_| known.next().is_none())
}

fn remedy(scope: Scope, name: &str) -> String {
    let keepalived = KEEPALIVED.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    if let Some(ours) = keepalived.filter(|ours| scope.names().any(|known| known == *ours)) {
        return format!("write `{ours}`");
    }
    if let Some((_, check)) = KEEPALIVED_CHECKS.iter().find(|(theirs, _)| *theirs == name) {
        return match scope {
            Scope::Check => format!("write `{check}`"),
            _ => format!("write `check = {{ {check} }}`"),
        };
    }
    if let Some(meant) = closest(name, scope.names()).or_else(|| beginning(name, scope)) {
        return format!("did you mean `{meant}`?");
    }
    if scope != Scope::Check && name == "fwmark" {
        return "a check's own mark stands in the check; a service's in [[virtual_server]]".to_owned();
    }
    let homes = |name: &str| {
        let known_there = |other: &Scope| other.names().any(|known| known == name);
        one_of(Scope::ALL.into_iter().filter(known_there).map(Scope::title))
    };
    match closest(name, Scope::ALL.into_iter().flat_map(Scope::names)) {
        Some(known) if known == name => return format!("it belongs in {}", homes(name)),
        Some(known) => return format!("did you mean `{known}`? it belongs in {}", homes(known)),
        None => {}
    }
    let names: Vec<&str> = scope.names().collect();
    if names.len() <= 16 {
        return format!("known here: {}", names.join(", "));
    }
    "remove it".to_owned()
}
