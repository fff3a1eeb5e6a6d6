//! A checker as a check of lvsd: what it inherits in keepalived is resolved here.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use rustls_pki_types::ServerName;

use super::emit::DELAY_LOOP;
use super::globals::Globals;
use super::model::{Checker, CheckerKind, Http, RealServer, VirtualServer};
use super::reading::{Reading, unusable};
use super::services::Services;
use super::tracking::Certificates;
use super::words::shown;
use crate::config::import::document::{Check, Table, Value};
use crate::config::import::notes::At;

const TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// What stands around a checker.
pub(super) struct Around<'a> {
    pub(super) globals: &'a Globals,
    pub(super) certificates: &'a Certificates,
    pub(super) services: &'a Services,
    pub(super) vs: &'a VirtualServer,
    pub(super) rs: &'a RealServer,
}

pub(super) fn all(reading: &mut Reading<'_>, around: &Around<'_>, lost: &mut Vec<String>) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut known = BTreeSet::new();
    for checker in &around.rs.checkers {
        let Some(check) = check(reading, around, checker, lost) else { continue };
        // Two that ask the same of the same target are one to lvsd.
        let identity = format!("{} {:?} {}", check.kind, check.options, target(checker));
        if known.insert(identity) {
            checks.push(check);
        } else {
            let why = "there is the same check of the same target above; one of them is enough";
            reading.notes.remark(checker.at, check.kind, why);
        }
    }
    checks
}

/// Address, port, source and mark, as far as they count for this kind.
fn target(checker: &Checker) -> String {
    let connection = &checker.connection;
    let is_ping = checker.kind == CheckerKind::Ping;
    let port = connection.port.filter(|_| needs_port(&checker.kind));
    let bind_port = connection.bind_port.filter(|_| !is_ping && connection.bind_ip.is_some());
    let fwmark = if is_ping { 0 } else { connection.fwmark };
    let (ip, bind_ip, bind_if) = (connection.ip, connection.bind_ip, &connection.bind_if);
    format!("{ip:?} {port:?} {bind_ip:?} {bind_port:?} {bind_if:?} {fwmark}")
}

fn needs_port(kind: &CheckerKind) -> bool {
    !matches!(kind, CheckerKind::Ping | CheckerKind::File(_) | CheckerKind::Misc { .. })
}

fn check(
    reading: &mut Reading<'_>,
    around: &Around<'_>,
    checker: &Checker,
    lost: &mut Vec<String>,
) -> Option<Check> {
    let mut comments = checker.lost.clone();
    let (kind, name, options) = match &checker.kind {
        CheckerKind::Tcp => ("tcp", "tcp".to_owned(), Table::default()),
        CheckerKind::Ping => {
            let mut options = Table::default();
            options.set("size", super::checker::PING_SIZE);
            ("ping", "ping".to_owned(), options)
        }
        CheckerKind::Http(http) => {
            let name = if http.tls { "https" } else { "http" };
            ("http", name.to_owned(), self::http(reading, around, checker.at, http, &mut comments))
        }
        CheckerKind::Smtp(options) => ("smtp", "smtp".to_owned(), options.clone()),
        CheckerKind::Dns(options) => ("dns", "dns".to_owned(), options.clone()),
        CheckerKind::Udp(options) => {
            if options.value("reply").is_some() {
                comments.push("keepalived also takes a reply that is shorter than this".to_owned());
            }
            ("udp", "udp".to_owned(), options.clone())
        }
        CheckerKind::File(options) => ("file", "file".to_owned(), options.clone()),
        CheckerKind::Misc { options, .. } => {
            let mut options = options.clone();
            if options.value("user").is_none() {
                options.set_if("user", around.globals.script_user.clone());
            }
            if let Some(Value::Text(user)) = options.value("user") {
                let why = format!(
                    "it is to run as {}: the service of the package is no root and cannot become another user, so \
                     that the check would never run; leave `user` out, or see `lvsd doctor`",
                    shown(user)
                );
                reading.notes.remark(checker.at, "MISC_CHECK", why);
            }
            ("script", script_name(&options), options)
        }
    };
    let common = match &checker.kind {
        CheckerKind::File(_) => {
            // keepalived reads the file before anything else, and has no tries.
            let mut common = Table::default();
            common.set("retry", 0_u32);
            common.set("alpha", false);
            common
        }
        _ => {
            let mut common = timing(around, checker, &mut comments);
            connection(reading, around, checker, lost, &mut common)?;
            common
        }
    };
    Some(Check { name, comments, common, kind, options })
}

/// Of the program.
fn script_name(options: &Table) -> String {
    let program = match options.value("argv") {
        Some(Value::List(argv)) => argv.iter().find_map(|word| match word {
            Value::Text(text) if text != super::scripts::ENV => Path::new(text).file_stem(),
            _ => None,
        }),
        _ => None,
    };
    program.map_or("script".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn timing(around: &Around<'_>, checker: &Checker, comments: &mut Vec<String>) -> Table {
    let (vs, rs, own) = (&around.vs.timing, &around.rs.timing, &checker.timing);
    let vs_delay_loop = vs.delay_loop.unwrap_or(DELAY_LOOP);
    let delay_loop = own.delay_loop.or(rs.delay_loop).unwrap_or(vs_delay_loop);
    let one = own.connect_timeout.or(rs.connect_timeout).or(vs.connect_timeout).unwrap_or(TIMEOUT);
    let timeout = match &checker.kind {
        CheckerKind::Misc { timeout, .. } => timeout.unwrap_or(vs_delay_loop),
        CheckerKind::Http(http) if http.urls.len() > 1 => {
            comments.push(format!(
                "keepalived has {one:?} for each URL, and asks one in each delay_loop; this asks all in each"
            ));
            one.saturating_mul(u32::try_from(http.urls.len()).unwrap_or(u32::MAX)).min(LONGEST)
        }
        _ => one,
    };
    let (retry, pause) = checker.kind.default_tries();
    let mut common = Table::default();
    common.set("delay_loop", delay_loop);
    common.set("timeout", timeout);
    common.set("retry", own.retry.or(rs.retry).or(vs.retry).unwrap_or(retry));
    let said = own.delay_before_retry.or(rs.delay_before_retry).or(vs.delay_before_retry);
    common.set("delay_before_retry", said.or(pause).unwrap_or(delay_loop));
    common.set("warmup", own.warmup.or(rs.warmup).or(vs.warmup).unwrap_or(delay_loop));
    common.set("alpha", own.alpha.or(rs.alpha).or(vs.alpha).unwrap_or(false));
    common
}

/// `None`: there is nothing to connect to, which is said.
fn connection(
    reading: &mut Reading<'_>,
    around: &Around<'_>,
    checker: &Checker,
    lost: &mut Vec<String>,
    common: &mut Table,
) -> Option<()> {
    let (connection, kind) = (&checker.connection, &checker.kind);
    if matches!(kind, CheckerKind::Misc { .. }) {
        return Some(());
    }
    let is_mapped = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let target = connection.ip.unwrap_or(around.rs.ip);
    if let Some(why) = unusable(target) {
        reading.lose(lost, checker.at, "connect_ip", why);
        return None;
    }
    if matches!(target, IpAddr::V6(v6) if v6.is_unicast_link_local()) && connection.bind_if.is_none() {
        let why = "a link-local address needs a bind_if; keepalived drops the check";
        reading.lose(lost, checker.at, "connect_ip", why);
        return None;
    }
    if needs_port(kind) && connection.port.or(around.rs.port).is_none() {
        if around.services.first_port.is_none() {
            let why = "there is no port to connect to, and in keepalived the check always fails; write connect_port";
            reading.lose(lost, checker.at, "check", why);
            return None;
        }
        let why = "keepalived checks port 0 of a server without a port; lvsd checks the service's";
        reading.notes.remark(checker.at, "connect_port", why);
    }
    common.set_if("connect_ip", connection.ip.map(|ip| ip.to_string()));
    if needs_port(kind) {
        common.set_if("connect_port", connection.port);
    }
    let bind_ip = connection.bind_ip.filter(|ip| ip.is_ipv4() == target.is_ipv4() && !is_mapped(*ip));
    if connection.bind_ip != bind_ip {
        reading.notes.not_carried(checker.at, "bindto", "it is not of the family of what is checked");
    }
    common.set_if("bind_ip", bind_ip.map(|ip| ip.to_string()));
    match connection.bind_port {
        Some(_) if bind_ip.is_none() => {
            reading.notes.remark(checker.at, "bind_port", "keepalived ignores it without `bindto`");
        }
        Some(_) if *kind == CheckerKind::Ping => {
            reading.notes.remark(checker.at, "bind_port", "an echo request has no port");
        }
        port => common.set_if("bind_port", port),
    }
    common.set_if("bind_if", connection.bind_if.clone());
    if connection.fwmark > 0 && *kind == CheckerKind::Ping {
        reading.notes.remark(checker.at, "fwmark", "keepalived does not mark echo requests");
    } else if connection.fwmark > 0 {
        common.set("fwmark", connection.fwmark);
    }
    Some(())
}

fn http(
    reading: &mut Reading<'_>,
    around: &Around<'_>,
    at: At,
    http: &Http,
    comments: &mut Vec<String>,
) -> Table {
    let mut options = Table::default();
    let mut urls: Vec<Table> = Vec::new();
    for url in &http.urls {
        let mut table = url.options.clone();
        if let Some(name) = &url.virtualhost {
            host(reading, comments, at, name, &mut table);
        }
        urls.push(table);
    }
    if urls.len() == 1 {
        options = urls.remove(0);
    } else {
        options.set("urls", urls);
    }
    if let Some(name) = http.virtualhost.as_ref().filter(|_| options.value("virtualhost").is_none()) {
        host(reading, comments, at, name, &mut options);
    }
    options.set("version", http.version);
    if http.tls {
        options.set("tls", tls(reading, around, at, http, comments));
    }
    options
}

fn tls(
    reading: &mut Reading<'_>,
    around: &Around<'_>,
    at: At,
    http: &Http,
    comments: &mut Vec<String>,
) -> Table {
    let mut table = Table::default();
    table.set("verify", false);
    let how = match &around.certificates.ca {
        Some(ca) => format!("verify = true and ca = {}", shown(ca)),
        None => "verify = true".to_owned(),
    };
    comments.push(format!("keepalived verifies no certificate; with {how} this check does"));
    if let Some(name) = &http.sni_name {
        match ServerName::try_from(name.as_str()) {
            Ok(_) => table.set("server_name", name.as_str()),
            Err(_) => reading.lose(comments, at, "sni_name", format!("{} is no host name", shown(name))),
        }
    }
    if let (Some(certificate), Some(key)) = (&around.certificates.certificate, &around.certificates.key) {
        table.set("certificate", certificate.as_str());
        table.set("key", key.as_str());
    }
    table
}

/// `virtualhost`, if a Host header can be that.
pub(super) fn host(reading: &mut Reading<'_>, lost: &mut Vec<String>, at: At, name: &str, table: &mut Table) {
    let fits = (1..=255).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]~%".contains(&b));
    if fits {
        table.set("virtualhost", name);
    } else {
        reading.lose(lost, at, "virtualhost", format!("{} cannot be a Host header", shown(name)));
    }
}

/// `198.51.100.11:80`
pub(super) fn server_address(ip: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => std::net::SocketAddr::new(ip, port).to_string(),
        // Without brackets its last group could be taken for a port.
        None if ip.is_ipv6() => format!("[{ip}]"),
        None => ip.to_string(),
    }
}
