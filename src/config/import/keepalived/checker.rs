//! The checkers of a real server, apart from HTTP: their keywords and what they become.

use std::net::IpAddr;

use super::http;
use super::model::{Checker, CheckerKind, Connection, Lost, Timing};
use super::reading::{LONG, Reading, SHORT};
use super::scripts::{self, is_user};
use super::tracking::Files;
use super::tree::{self, Statement};
use super::virtual_server::keep;
use super::words::{self, Garbage, Wild, shown};
use crate::config::import::document::{Table, Value};

const KINDS: [&str; 9] = [
    "TCP_CHECK",
    "HTTP_GET",
    "SSL_GET",
    "SMTP_CHECK",
    "DNS_CHECK",
    "UDP_CHECK",
    "PING_CHECK",
    "MISC_CHECK",
    "FILE_CHECK",
];

/// Bytes of data in keepalived's echo requests.
pub(super) const PING_SIZE: u16 = 128;

/// What keepalived calls itself to mail servers.
const HELO: &str = "smtpchecker.keepalived.org";

pub(super) fn is_checker(keyword: &str) -> bool {
    KINDS.contains(&keyword) || keyword == "BFD_CHECK"
}

/// `None`: there is no such check then, which is said.
pub(super) fn read(
    reading: &mut Reading<'_>,
    files: &Files,
    server: IpAddr,
    lost: &mut Lost,
    statement: &Statement,
) -> Option<Checker> {
    let mut checker = Checker {
        at: statement.at,
        kind: CheckerKind::Tcp,
        timing: Timing::default(),
        connection: Connection { ip: Some(server), ..Connection::default() },
        lost: Vec::new(),
    };
    reading.beyond(statement, 0);
    let kind = match statement.keyword() {
        "TCP_CHECK" => {
            plain(reading, &mut checker, statement, "TCP_CHECK");
            Some(CheckerKind::Tcp)
        }
        "PING_CHECK" => {
            plain(reading, &mut checker, statement, "PING_CHECK");
            Some(CheckerKind::Ping)
        }
        "HTTP_GET" | "SSL_GET" => http::read(reading, &mut checker, lost, statement).map(CheckerKind::Http),
        "SMTP_CHECK" => Some(smtp(reading, &mut checker, statement)),
        "DNS_CHECK" => Some(dns(reading, &mut checker, statement)),
        "UDP_CHECK" => Some(udp(reading, &mut checker, statement)),
        "MISC_CHECK" => misc(reading, &mut checker, lost, statement),
        "FILE_CHECK" => file(reading, files, lost, statement),
        _ => {
            let why = "lvsd has no BFD; a daemon that has it can write a file for a `file` check";
            reading.lose(lost, statement.at, "BFD_CHECK", why);
            None
        }
    };
    checker.connection.ip = checker.connection.ip.filter(|ip| *ip != server);
    kind.map(|kind| Checker { kind, ..checker })
}

fn plain(reading: &mut Reading<'_>, checker: &mut Checker, statement: &Statement, place: &str) {
    for line in statement.inner() {
        if !common(reading, checker, line) {
            tree::unknown(reading.notes, line, place);
        }
    }
}

/// What all checkers with a connection have.
pub(super) fn common(reading: &mut Reading<'_>, checker: &mut Checker, line: &Statement) -> bool {
    timing(reading, checker, line) || connection(reading, checker, line)
}

fn timing(reading: &mut Reading<'_>, checker: &mut Checker, line: &Statement) -> bool {
    let timing = &mut checker.timing;
    match line.keyword() {
        "retry" => keep(&mut timing.retry, reading.count(line, 0, u32::MAX, Garbage::Tolerated)),
        "delay_before_retry" => keep(&mut timing.delay_before_retry, reading.pause(line)),
        "warmup" => keep(&mut timing.warmup, reading.pause(line)),
        "delay_loop" => keep(&mut timing.delay_loop, reading.period(line, LONG)),
        "alpha" => keep(&mut timing.alpha, reading.switch(line)),
        "log_all_failures" => {
            let why = "lvsd logs failed tries at level debug: log = \"info,lvsd::runtime=debug\"";
            reading.lose(&mut checker.lost, line.at, "log_all_failures", why);
        }
        _ => return false,
    }
    true
}

fn connection(reading: &mut Reading<'_>, checker: &mut Checker, line: &Statement) -> bool {
    let connection = &mut checker.connection;
    match line.keyword() {
        "connect_timeout" => keep(&mut checker.timing.connect_timeout, reading.period(line, SHORT)),
        "connect_ip" => {
            let word = reading.word(line);
            keep(&mut connection.ip, word.and_then(|word| reading.ip(line, &word)));
        }
        "connect_port" => keep(&mut connection.port, reading.port(line)),
        "bindto" => {
            let ip = reading.word(line).and_then(|word| reading.ip(line, &word));
            let fits = ip.filter(|ip| connection.ip.is_none_or(|target| target.is_ipv4() == ip.is_ipv4()));
            if ip.is_some() && fits.is_none() {
                let why = "it is not of the family of what is checked; keepalived ignores the line";
                reading.notes.remark(line.at, "bindto", why);
            }
            keep(&mut connection.bind_ip, fits);
        }
        "bind_port" => keep(&mut connection.bind_port, reading.port(line)),
        "bind_if" => {
            let name = reading.word(line);
            let fits = |name: &String| {
                (1..=15).contains(&name.len())
                    && !matches!(name.as_str(), "." | "..")
                    && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
            };
            if name.as_ref().is_some_and(|name| !fits(name)) {
                reading.lose(&mut checker.lost, line.at, "bind_if", "no device can have that name");
            }
            keep(&mut connection.bind_if, name.filter(fits));
        }
        "fwmark" => {
            let mark = reading.count(line, 0, u32::MAX, Garbage::Tolerated);
            connection.fwmark = mark.unwrap_or(connection.fwmark);
        }
        _ => return false,
    }
    true
}

fn smtp(reading: &mut Reading<'_>, checker: &mut Checker, statement: &Statement) -> CheckerKind {
    let mut helo = HELO.to_owned();
    for line in statement.inner() {
        match line.keyword() {
            "helo_name" => helo = reading.word(line).unwrap_or(helo),
            "host" => {
                reading.notes.remark(
                    line.at,
                    "host",
                    "keepalived takes what is in it for the whole check, and so does this",
                );
                plain(reading, checker, line, "host");
            }
            _ if common(reading, checker, line) => {}
            _ => tree::unknown(reading.notes, line, "SMTP_CHECK"),
        }
    }
    let fits = (1..=255).contains(&helo.len())
        && helo.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
    let mut options = Table::default();
    if fits {
        options.set("helo", helo);
    } else {
        let why = format!("{} is neither a host name nor an address in brackets", shown(&helo));
        reading.lose(&mut checker.lost, statement.at, "helo_name", why);
    }
    CheckerKind::Smtp(options)
}

fn dns(reading: &mut Reading<'_>, checker: &mut Checker, statement: &Statement) -> CheckerKind {
    const TYPES: [&str; 9] = ["A", "NS", "CNAME", "SOA", "MX", "TXT", "AAAA", "RRSIG", "DNSKEY"];
    let mut options = Table::default();
    for line in statement.inner() {
        match line.keyword() {
            "type" => match reading.word(line).map(|word| word.to_ascii_uppercase()) {
                Some(word) if TYPES.contains(&word.as_str()) => options.set("type", word),
                Some(word) => {
                    let why = format!("keepalived knows no type {} and ignores the line", shown(&word));
                    reading.notes.remark(line.at, "type", why);
                }
                None => {}
            },
            "name" if options.value("name").is_none() => match reading.word(line) {
                Some(name) if is_domain(&name) => options.set("name", name.to_ascii_lowercase()),
                Some(name) => {
                    let why = format!("{} is no name in DNS; the root is asked for", shown(&name));
                    reading.lose(&mut checker.lost, line.at, "name", why);
                }
                None => {}
            },
            "name" => {
                reading.notes.remark(line.at, "name", "there is one already; keepalived ignores the second")
            }
            _ if common(reading, checker, line) => {}
            _ => tree::unknown(reading.notes, line, "DNS_CHECK"),
        }
    }
    CheckerKind::Dns(options)
}

fn is_domain(name: &str) -> bool {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let labels = || bare.split('.');
    name == "."
        || (labels().all(|label| (1..=63).contains(&label.len()))
            && labels().map(|label| label.len() + 1).sum::<usize>() < 255
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'\\'))
}

fn udp(reading: &mut Reading<'_>, checker: &mut Checker, statement: &Statement) -> CheckerKind {
    let mut options = Table::default();
    let (mut reply, mut least, mut most) = (None, 0, 255);
    for line in statement.inner() {
        let rest = line.words().get(1..).unwrap_or_default().join(" ");
        match line.keyword() {
            "payload" => match words::hex(&rest, Wild::Refused) {
                Some(hex) => options.set("payload", hexadecimal(hex)),
                None => reading.notes.remark(
                    line.at,
                    "payload",
                    "it is no hexadecimal text; keepalived sends its own",
                ),
            },
            "require_reply" => {
                options.set("require_reply", true);
                reply = words::hex(&rest, Wild::Allowed);
                if reply.is_none() && !rest.is_empty() {
                    reading.notes.remark(
                        line.at,
                        "require_reply",
                        "it is no hexadecimal text; any reply will do",
                    );
                }
            }
            "min_reply_length" => least = reading.count(line, 0, 65_535, Garbage::Refused).unwrap_or(least),
            "max_reply_length" => most = reading.count(line, 0, 65_535, Garbage::Refused).unwrap_or(most),
            _ if common(reading, checker, line) => {}
            _ => tree::unknown(reading.notes, line, "UDP_CHECK"),
        }
    }
    if let Some(hex) = reply {
        options.set("reply", hexadecimal(hex));
        // Without a text to compare with, keepalived does not look at the lengths.
        let (least, most) = (least.min(65_507), most.min(65_507));
        if least > most || most == 0 {
            let why = "no reply can have such a length: this check always fails in keepalived; the lengths are left out";
            reading.lose(&mut checker.lost, statement.at, "min_reply_length", why);
        } else {
            options.set_if("min_reply", Some(least).filter(|least| *least > 0));
            options.set("max_reply", most);
        }
    }
    CheckerKind::Udp(options)
}

fn hexadecimal(hex: String) -> Value {
    let mut table = Table::default();
    table.set("hex", hex);
    table.into()
}

fn misc(
    reading: &mut Reading<'_>,
    checker: &mut Checker,
    lost: &mut Lost,
    statement: &Statement,
) -> Option<CheckerKind> {
    let (mut command, mut timeout, mut dynamic, mut user) = (None, None, false, None);
    for line in statement.inner() {
        match line.keyword() {
            "misc_path" => command = scripts::command(reading, line),
            "misc_timeout" => {
                let seconds = reading.count(line, 0, 4_294, Garbage::Tolerated);
                timeout = seconds
                    .filter(|seconds| *seconds > 0)
                    .map(|s| std::time::Duration::from_secs(u64::from(s)));
            }
            "misc_dynamic" => dynamic = reading.flag(line),
            "user" => {
                user = reading.first(line).filter(|name| is_user(name));
                reading.beyond(line, 2);
                if line.words().len() > 2 {
                    let why = "the group: lvsd runs programs with all groups of their user";
                    reading.lose(&mut checker.lost, line.at, "user", why);
                }
            }
            _ if timing(reading, checker, line) => {}
            _ => tree::unknown(reading.notes, line, "MISC_CHECK"),
        }
    }
    let Some(command) = command else {
        reading.lose(lost, statement.at, "MISC_CHECK", "it names no program; keepalived drops the check");
        return None;
    };
    let mut options = Table::default();
    options.set("argv", command.argv);
    options.set_if("user", user);
    if dynamic {
        options.set("dynamic_weight", true);
    }
    Some(CheckerKind::Misc { options, timeout })
}

fn file(
    reading: &mut Reading<'_>,
    files: &Files,
    lost: &mut Lost,
    statement: &Statement,
) -> Option<CheckerKind> {
    let (mut file, mut weight) = (None, None);
    for line in statement.inner() {
        match line.keyword() {
            "track_file" => {
                let name = reading.word(line).unwrap_or_default();
                file = files.file(&name).cloned();
                if file.is_none() {
                    let why = format!("there is no usable track_file {} above", shown(&name));
                    reading.lose(lost, line.at, "track_file", why);
                }
            }
            "weight" => {
                let most = 2_147_483_647;
                let number = reading.number(line, -most, most, Garbage::Tolerated);
                let reverse = match line.words().get(2).map(String::as_str) {
                    None | Some("noreverse") => Some(false),
                    Some("reverse") => Some(true),
                    Some(other) => {
                        let why = format!(
                            "{} is neither reverse nor noreverse; keepalived ignores the line",
                            shown(other)
                        );
                        reading.notes.remark(line.at, "weight", why);
                        None
                    }
                };
                keep(&mut weight, number.zip(reverse));
            }
            _ => tree::unknown(reading.notes, line, "FILE_CHECK"),
        }
    }
    let Some(file) = file else {
        reading.lose(lost, statement.at, "FILE_CHECK", "it has no track_file; keepalived drops the check");
        return None;
    };
    let (weight, reverse) = weight.unwrap_or((file.weight, file.reverse));
    let mut options = Table::default();
    options.set("path", file.path);
    options.set("weight", weight);
    if reverse {
        options.set("reverse", true);
    }
    Some(CheckerKind::File(options))
}
