//! `HTTP_GET` and `SSL_GET`.

use super::checker::common;
use super::model::{Checker, Http, Lost, Url};
use super::pattern;
use super::reading::Reading;
use super::tree::{self, Statement};
use super::virtual_server::keep;
use super::words::{Escapes, Garbage, shown, split_quoted};
use crate::config::import::document::Table;

/// `None`: keepalived drops the check, which is said.
pub(super) fn read(
    reading: &mut Reading<'_>,
    checker: &mut Checker,
    lost: &mut Lost,
    statement: &Statement,
) -> Option<Http> {
    let place = if statement.keyword() == "SSL_GET" { "SSL_GET" } else { "HTTP_GET" };
    let mut http = Http { tls: place == "SSL_GET", version: "1.0", ..Http::default() };
    for line in statement.inner() {
        match line.keyword() {
            "nb_get_retry" => {
                keep(&mut checker.timing.retry, reading.count(line, 0, u32::MAX, Garbage::Tolerated));
            }
            "virtualhost" => keep(&mut http.virtualhost, reading.word(line)),
            "http_protocol" => match reading.word(line).as_deref() {
                Some("1.0") => http.version = "1.0",
                Some("1.1") => http.version = "1.1",
                Some("1.0C" | "1.0c") => {
                    http.version = "1.0";
                    let why = "lvsd always asks for the end of the connection, as 1.0C does";
                    reading.notes.remark(line.at, "http_protocol", why);
                }
                Some(other) => {
                    let why = format!("keepalived knows no version {} and ignores the line", shown(other));
                    reading.notes.remark(line.at, "http_protocol", why);
                }
                None => {}
            },
            "enable_sni" => http.sni = reading.switch(line).unwrap_or(http.sni),
            "sni_name" => {
                http.sni = true;
                reading.beyond(line, 1);
                keep(&mut http.sni_name, line.value());
            }
            "fast_recovery" => {
                reading.switch(line);
                let why = "it is always so: lvsd asks all URLs in one run, keepalived one in each delay_loop";
                reading.notes.remark(line.at, "fast_recovery", why);
            }
            "tls_compliant" if http.tls => tls_compliant(reading, line),
            "url" => http.urls.extend(url(reading, checker, lost, line, place)),
            _ if common(reading, checker, line) => {}
            _ => tree::unknown(reading.notes, line, place),
        }
    }
    if http.urls.is_empty() {
        reading.lose(lost, statement.at, place, "it has no url with a path; keepalived drops the check");
        return None;
    }
    Some(http)
}

fn tls_compliant(reading: &mut Reading<'_>, line: &Statement) {
    reading.switch(line);
    reading.notes.remark(line.at, "tls_compliant", "lvsd always closes TLS connections properly");
}

#[derive(Default)]
struct Pattern {
    text: Option<String>,
    options: Vec<String>,
    no_match: bool,
}

fn url(
    reading: &mut Reading<'_>,
    checker: &mut Checker,
    lost: &mut Lost,
    statement: &Statement,
    place: &str,
) -> Option<Url> {
    let (mut path, mut host, mut digest) = (None, None, None);
    let mut statuses: Vec<String> = Vec::new();
    let mut regex = Pattern::default();
    for line in statement.inner() {
        match line.keyword() {
            "path" => keep(&mut path, reading.word(line)),
            "virtualhost" => keep(&mut host, reading.word(line)),
            "digest" => keep(&mut digest, self::digest(reading, line)),
            "status_code" => statuses.extend(status_codes(reading, line)),
            "regex" => match split_quoted(&line.text, Escapes::Read).as_deref() {
                Some([_, text]) => regex.text = Some(text.clone()),
                _ => reading.notes.remark(
                    line.at,
                    "regex",
                    "keepalived wants exactly one pattern, and ignores the line",
                ),
            },
            "regex_no_match" => regex.no_match = reading.flag(line),
            "regex_options" => regex.options.extend(line.words().into_iter().skip(1)),
            "regex_min_offset" | "regex_max_offset" => {
                let why = "lvsd looks at the whole body";
                reading.lose(&mut checker.lost, line.at, line.keyword(), why);
            }
            "regex_stack" => reading.notes.remark(line.at, "regex_stack", "lvsd's patterns need no stack"),
            "tls_compliant" if place == "SSL_GET" => tls_compliant(reading, line),
            _ => tree::unknown(reading.notes, line, "url"),
        }
    }
    let Some(path) = path else {
        reading.lose(lost, statement.at, "url", "it has no path; keepalived drops it");
        return None;
    };
    let mut options = Table::default();
    options.set("path", request_path(reading, statement, &path));
    if !statuses.is_empty() {
        options.set("status", statuses);
    }
    options.set_if("digest", digest);
    body(reading, checker, statement, &regex, &mut options);
    Some(Url { virtualhost: host, options })
}

/// What a request line can carry, in percent form where it must be.
fn request_path(reading: &mut Reading<'_>, statement: &Statement, path: &str) -> String {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut clean = String::from(slash);
    for byte in path.bytes() {
        if byte.is_ascii_graphic() && byte != b'#' {
            clean.push(char::from(byte));
        } else {
            clean.push_str(&format!("%{byte:02X}"));
        }
    }
    if clean != path {
        reading.notes.remark(statement.at, "path", format!("{} is asked for as {clean}", shown(path)));
    }
    clean
}

fn digest(reading: &mut Reading<'_>, line: &Statement) -> Option<String> {
    let word = reading.word(line)?;
    if word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Some(format!("md5:{}", word.to_ascii_lowercase()));
    }
    let why = format!("{} is no MD5 digest; keepalived ignores the line", shown(&word));
    reading.notes.remark(line.at, "digest", why);
    None
}

/// `200`, `200-299`, several of them.
fn status_codes(reading: &mut Reading<'_>, line: &Statement) -> Vec<String> {
    let mut codes = Vec::new();
    for word in line.words().into_iter().skip(1) {
        let (low, high) = word.split_once('-').unwrap_or((&word, &word));
        let code = |text: &str| text.parse::<u16>().ok().filter(|code| (100..=599).contains(code));
        match (code(low), code(high)) {
            (Some(low), Some(high)) if low == high => codes.push(low.to_string()),
            (Some(low), Some(high)) if low < high => codes.push(format!("{low}-{high}")),
            _ => {
                let why = format!("{} is no status from 100 to 599; keepalived ignores it", shown(&word));
                reading.notes.remark(line.at, "status_code", why);
            }
        }
    }
    codes
}

fn body(
    reading: &mut Reading<'_>,
    checker: &mut Checker,
    statement: &Statement,
    regex: &Pattern,
    options: &mut Table,
) {
    let Some(text) = &regex.text else {
        if regex.no_match || !regex.options.is_empty() {
            reading.notes.remark(statement.at, "regex_options", "without a `regex` keepalived ignores them");
        }
        return;
    };
    match pattern::translate(text, &regex.options) {
        Ok(translated) => {
            for option in translated.ignored {
                let why = format!("lvsd's patterns have no {option}");
                reading.lose(&mut checker.lost, statement.at, "regex_options", why);
            }
            let mut rule = Table::default();
            rule.set(if regex.no_match { "not_regex" } else { "regex" }, translated.text);
            options.set("body", rule);
        }
        Err(why) => {
            let why = format!("{}: {why}", shown(text));
            reading.lose(&mut checker.lost, statement.at, "regex", why);
        }
    }
}
