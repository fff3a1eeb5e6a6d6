//! `http = { … }`.

use toml::de::DeValue;

use super::keys::{Scope, unknown_key};
use super::tcp::{bytes, pattern, text};
use super::{At, Field, Value, only_one, tls};
use crate::config::context::Context;
use crate::config::defaults;
use crate::config::diagnostics::{Finding, Place};
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{BodyRule, CheckKind, Digest, Http, HttpVersion, StatusSet, Url};

/// More is no health check any more, and each running check may hold that much.
const MAX_BODY: u64 = 1 << 30;

/// What a reply must be; of the table, and of each of its `urls`.
#[derive(Default)]
struct ReplyRules {
    path: Field<String>,
    virtualhost: Field<String>,
    status: Field<Vec<At<(u16, u16)>>>,
    body: Field<BodyRule>,
    digest: Field<Digest>,
}

impl ReplyRules {
    fn read_key(&mut self, cx: &mut Context<'_>, name: &str, value: Value<'_>) -> bool {
        match name {
            "path" => self.path = value.field(cx, |cx, v| value::parsed(cx, v, path)),
            "virtualhost" => self.virtualhost = value.field(cx, host),
            "status" => self.status = value.field(cx, |cx, v| non_empty(cx, v, status)),
            "body" => self.body = value.field(cx, body),
            "digest" => self.digest = value.field(cx, |cx, v| value::parsed(cx, v, digest)),
            _ => return false,
        }
        true
    }

    /// `outer`: of the table, for what a url does not say itself.
    fn url(&self, path: String, outer: &Self) -> Option<Url> {
        let status = self.status.or(&outer.status).sound()?;
        let ranges = status.map(|all| all.into_iter().map(|at| at.value).collect());
        Some(Url {
            path,
            // The table's own is in `Http::virtualhost`.
            virtualhost: self.virtualhost.clone().sound()?,
            status: StatusSet::new(ranges.unwrap_or(vec![defaults::HTTP_STATUS])),
            body: self.body.or(&outer.body).sound()?,
            digest: self.digest.or(&outer.digest).sound()?,
        })
    }
}

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, "write http = { path = \"/\" }")?;
    let mut rules = ReplyRules::default();
    let (mut urls, mut headers, mut tls) = (Field::Unset, Field::Unset, Field::Unset);
    let (mut method, mut version, mut max_body) = (Field::Unset, Field::Unset, Field::Unset);
    let (mut request_body, mut follow_redirects) = (Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "urls" => {
                urls = value
                    .field(cx, |cx, v| non_empty(cx, v, |cx, v| url(cx, v).map(|rules| (rules, v.place))))
            }
            "method" => method = value.field(cx, |cx, v| value::parsed(cx, v, method_name)),
            "version" => {
                let words = [("1.0", HttpVersion::Http10), ("1.1", HttpVersion::Http11)];
                version = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            "headers" => headers = value.field(cx, super::headers::read),
            "request_body" => request_body = value.field(cx, bytes),
            "max_body" => max_body = value.field(cx, size),
            "tls" => tls = value.field(cx, tls::read),
            "follow_redirects" => follow_redirects = value.field(cx, value::boolean),
            _ if rules.read_key(cx, key.name, value) => {}
            _ => unknown_key(cx, Scope::Http, key),
        }
    }
    let method_place = method.place();
    let method = method.sound();
    let urls = all_urls(cx, value.place, &rules, urls)?;
    let method = method?.unwrap_or(defaults::HTTP_METHOD.to_owned());
    if method == "HEAD" && urls.iter().any(|url| url.body.is_some() || url.digest.is_some()) {
        let place = rules.body.place().or(rules.digest.place()).or(method_place).unwrap_or(value.place);
        let finding = Finding::error(place, "a reply to HEAD has no body to look at");
        cx.push(finding.remedy("write method = \"GET\", or remove `body` and `digest`"));
    }
    Some(CheckKind::Http(Http {
        urls,
        method,
        version: version.sound()?.unwrap_or(HttpVersion::Http11),
        virtualhost: rules.virtualhost.sound()?,
        headers: headers.sound()?.unwrap_or_default(),
        request_body: request_body.sound()?,
        max_body: max_body.sound()?.unwrap_or(defaults::HTTP_MAX_BODY),
        tls: tls.sound()?,
        follow_redirects: follow_redirects.sound()?.unwrap_or(false),
    }))
}

/// Either `path` or `urls`.
fn all_urls(
    cx: &mut Context<'_>,
    place: Place,
    rules: &ReplyRules,
    urls: Field<Vec<At<(ReplyRules, Place)>>>,
) -> Option<Vec<Url>> {
    match (&rules.path, urls) {
        (Field::Unset, Field::Unset) => {
            let finding = Finding::error(place, "an http check needs a path");
            cx.push_missing(finding.remedy("write path = \"/\", or urls = [{ path = \"/\" }]"));
            None
        }
        (Field::Set(path), Field::Set(urls)) => {
            let finding = Finding::error(urls.place, "`urls` and `path` exclude each other");
            cx.push(finding.label(path.place, "`path` is here").remedy("write the path as one of `urls`"));
            None
        }
        (Field::Set(path), Field::Unset) => Some(vec![rules.url(path.value.clone(), rules)?.without_host()]),
        (Field::Unset, Field::Set(urls)) => {
            let url = |At { value: (own, place), .. }: At<(ReplyRules, Place)>| match &own.path {
                Field::Set(path) => own.url(path.value.clone(), rules),
                Field::Broken => None,
                Field::Unset => {
                    cx.push_missing(Finding::error(place, "a url needs a path").remedy("write path = \"/\""));
                    None
                }
            };
            let all: Vec<Option<Url>> = urls.value.into_iter().map(url).collect();
            all.into_iter().collect()
        }
        (Field::Broken, _) | (_, Field::Broken) => None,
    }
}

impl Url {
    /// Of a check with one path: its virtual host is the table's.
    fn without_host(self) -> Self {
        Self { virtualhost: None, ..self }
    }
}

fn url(cx: &mut Context<'_>, value: Value<'_>) -> Option<ReplyRules> {
    let section = value::table(cx, value, "write { path = \"/\" }")?;
    let mut rules = ReplyRules::default();
    for (key, value) in section.entries() {
        if !rules.read_key(cx, key.name, value) {
            unknown_key(cx, Scope::Url, key);
        }
    }
    Some(rules)
}

fn non_empty<'a, T>(
    cx: &mut Context<'_>,
    value: Value<'a>,
    reader: impl FnMut(&mut Context<'_>, Value<'a>) -> Option<T>,
) -> Option<Vec<At<T>>> {
    let list = value::one_or_more(cx, value, reader)?;
    if list.is_empty() {
        let why = Wrong::new("the list is empty");
        return value::wrong(cx, value, why.remedy("write at least one, or remove the line for the default"));
    }
    Some(list)
}

fn path(text: &str) -> Result<String, Wrong> {
    if !text.starts_with('/') {
        return Err(Wrong::new(format!("{} is not a path", quote(text)))
            .remedy("begin it with `/`; the host goes into `virtualhost`"));
    }
    if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
        return Err(Wrong::new(format!("{} has characters that a request cannot carry", quote(text)))
            .remedy("write spaces and other characters in percent form, as %20"));
    }
    Ok(text.to_owned())
}

/// A Host header: a name or address, perhaps with a port.
pub(super) fn host(cx: &mut Context<'_>, value: Value<'_>) -> Option<String> {
    value::parsed(cx, value, |text| {
        let fits = (1..=255).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]~%".contains(&b));
        match fits {
            true => Ok(text.to_owned()),
            false => Err(Wrong::new(format!("{} cannot be a Host header", quote(text)))
                .remedy("write a host name as \"www.example.org\", without scheme or path")),
        }
    })
}

/// RFC 9110 section 9.1: methods are tokens, and their case counts.
fn method_name(text: &str) -> Result<String, Wrong> {
    if text.is_empty() || text.len() > 32 || !text.bytes().all(super::headers::is_token) {
        return Err(Wrong::new(format!("{} is not a method", quote(text)))
            .remedy("write \"GET\", \"HEAD\" or \"POST\""));
    }
    if text == "CONNECT" {
        return Err(Wrong::new("CONNECT asks a proxy, not a server").remedy("write \"GET\" or \"HEAD\""));
    }
    if text.bytes().any(|b| b.is_ascii_lowercase()) {
        return Err(Wrong::new(format!("{} is not written in capitals", quote(text)))
            .remedy(format!("write {}", quote(&text.to_ascii_uppercase()))));
    }
    Ok(text.to_owned())
}

/// `200`, `"302"`, `"200-299"`
fn status(cx: &mut Context<'_>, value: Value<'_>) -> Option<(u16, u16)> {
    if value.node.is_integer() {
        return value::integer(cx, value, 100..=599).map(|one| (one, one));
    }
    value::parsed(cx, value, |text| {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let code = |digits: &str| {
            let three = digits.len() == 3 && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse::<u16>().ok().filter(|code| three && (100..=599).contains(code))
        };
        match (code(low), code(high)) {
            (Some(low), Some(high)) if low <= high => Ok((low, high)),
            _ => Err(Wrong::new(format!("{} is not a status", quote(text)))
                .remedy("write \"200\" or \"200-299\", from 100 to 599")),
        }
    })
}

fn body(cx: &mut Context<'_>, value: Value<'_>) -> Option<BodyRule> {
    let section = value::table(cx, value, "write body = { contains = \"…\" }")?;
    let mut found = Vec::new();
    for (key, value) in section.entries() {
        let rule = match key.name {
            "contains" => value.field(cx, |cx, v| value::parsed(cx, v, text).map(BodyRule::Contains)),
            "regex" => value.field(cx, |cx, v| value::parsed(cx, v, pattern).map(BodyRule::Regex)),
            "not_regex" => value.field(cx, |cx, v| value::parsed(cx, v, pattern).map(BodyRule::NotRegex)),
            _ => {
                unknown_key(cx, Scope::Body, key);
                continue;
            }
        };
        found.push((key.place, rule));
    }
    only_one(cx, value.place, "`contains`, `regex` or `not_regex`", found)
}

fn digest(text: &str) -> Result<Digest, Wrong> {
    let refuse = || {
        let remedy = match super::tcp::hex(text) {
            Ok(bytes) if bytes.len() == 16 => format!("write \"md5:{text}\""),
            Ok(bytes) if bytes.len() == 32 => format!("write \"sha256:{text}\""),
            Ok(_) | Err(_) => "write \"md5:\" and 32, or \"sha256:\" and 64 hexadecimal digits".to_owned(),
        };
        Wrong::new(format!("{} is not a digest", quote(text))).remedy(remedy)
    };
    let (algorithm, digits) = text.split_once(':').ok_or_else(refuse)?;
    let bytes = super::tcp::hex(digits).map_err(|_| refuse())?;
    match algorithm {
        "md5" => bytes.try_into().map(Digest::Md5).map_err(|_| refuse()),
        "sha256" => bytes.try_into().map(Digest::Sha256).map_err(|_| refuse()),
        _ => Err(refuse()),
    }
}

/// Bytes, or `"64KiB"`, `"1MiB"`.
fn size(cx: &mut Context<'_>, value: Value<'_>) -> Option<u64> {
    if !matches!(value.node, DeValue::String(_)) {
        return value::integer(cx, value, 1..=i128::from(MAX_BODY));
    }
    value::parsed(cx, value, |text| {
        let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let factor: Option<u64> = match unit.trim_start() {
            "B" => Some(1),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            _ => None,
        };
        let bytes = digits.parse::<u64>().ok().zip(factor).and_then(|(n, factor)| n.checked_mul(factor));
        bytes.filter(|bytes| (1..=MAX_BODY).contains(bytes)).ok_or_else(|| {
            Wrong::new(format!("{} is not a size", quote(text)))
                .remedy("write a number of bytes, \"64KiB\" or \"1MiB\", at most \"1GiB\"")
        })
    })
}
