//! `service` of a negotiated check: what ldirectord's Perl modules say to a server, as lvsd's
//! checks. What these cannot say is told.

use std::net::Ipv4Addr;

use super::address;
use super::bytes::{self, hex, regex, step};
use super::checks::Target;
use super::pool::Virtual;
use super::words::{escaped, imap_quoted, is_dns_name, is_host, literal};
use crate::config::import::document::{Check, Table, Value};
use crate::config::import::notes::Notes;
use crate::engine::model::Pattern;

/// Each with its port.
const SERVICES: [(&str, u16); 21] = [
    ("ftp", 21),
    ("smtp", 25),
    ("dns", 53),
    ("http", 80),
    ("pop", 110),
    ("nntp", 119),
    ("imap", 143),
    ("ldap", 389),
    ("https", 443),
    ("submission", 587),
    ("ldaps", 636),
    ("imaps", 993),
    ("pops", 995),
    ("oracle", 1521),
    ("radius", 1812),
    ("http_proxy", 3128),
    ("mysql", 3306),
    ("sip", 5060),
    ("pgsql", 5432),
    // Without a port of their own.
    ("simpletcp", 0),
    ("none", 0),
];

const UNVERIFIED: &str = "ldirectord does not verify certificates; with tls = {} lvsd does";
const SECRET: &str = "there is a password in this file: only lvsd's user should be able to read it";

pub(super) fn of_port(port: u16) -> &'static str {
    SERVICES.iter().find(|(_, of)| *of == port).map_or("none", |(name, _)| name)
}

pub(super) fn is_known(service: &str) -> bool {
    SERVICES.iter().any(|(name, _)| *name == service)
}

/// `check` has timing and nothing else. `None`: ldirectord checks nothing.
pub(super) fn negotiated(
    check: Check,
    vs: &Virtual,
    target: &Target<'_>,
    notes: &mut Notes,
) -> Option<Check> {
    let mut talk = Talk { check, vs, target, notes };
    match vs.service.as_str() {
        "http" | "https" => talk.http(),
        "http_proxy" => talk.http_proxy(),
        "smtp" | "submission" => talk.check.kind = "smtp",
        "dns" => talk.dns(),
        "ftp" => talk.ftp(),
        "pop" | "pops" => talk.pop(),
        "imap" | "imaps" => talk.imap(),
        "nntp" => talk.dialogue(vec![step(Some(regex("^2")), Some("QUIT\r\n".into()))]),
        "ldap" | "ldaps" => talk.ldap(),
        "radius" => talk.radius(),
        "mysql" | "pgsql" | "oracle" => talk.sql(),
        "sip" => talk.sip(),
        "simpletcp" => talk.simple(),
        _ => return None,
    }
    Some(talk.check)
}

struct Talk<'a> {
    check: Check,
    vs: &'a Virtual,
    target: &'a Target<'a>,
    notes: &'a mut Notes,
}

impl Talk<'_> {
    fn dialogue(&mut self, steps: Vec<Value>) {
        self.check.kind = "tcp";
        self.check.options.set("dialogue", steps);
    }

    fn tls(&mut self) {
        let mut tls = Table::default();
        tls.set("verify", false);
        self.check.options.set("tls", tls);
        self.check.comments.push(UNVERIFIED.to_owned());
    }

    fn not_carried(&mut self, what: &str, why: impl Into<String>) {
        let at = match what {
            "request" => self.vs.request.as_ref().map(|directive| directive.at),
            "receive" => self.vs.receive.as_ref().map(|directive| directive.at),
            "virtualhost" => self.vs.virtualhost.as_ref().map(|directive| directive.at),
            _ => None,
        };
        let comment = self.notes.not_carried(at.unwrap_or(self.target.directive.at), what, why);
        self.check.comments.push(comment);
    }

    fn secret(&mut self) {
        self.check.comments.push(SECRET.to_owned());
    }

    /// What is asked for, without the slash that ldirectord puts before all of it.
    fn request(&self) -> &str {
        self.target.request.strip_prefix('/').unwrap_or(self.target.request)
    }

    /// The pattern of the reply, if there is one and it can be one here.
    fn receive(&mut self) -> Option<String> {
        let pattern = self.target.receive;
        if pattern.is_empty() {
            return None;
        }
        let compiled = regex::bytes::RegexBuilder::new(pattern).size_limit(Pattern::SIZE_LIMIT).build();
        if compiled.is_err() {
            let why = format!(
                "{pattern:?} is no pattern here: Perl's look-around and back references, and braces that stand for themselves, do not exist"
            );
            self.not_carried("receive", why);
            return None;
        }
        Some(pattern.to_owned())
    }

    fn http(&mut self) {
        self.check.kind = "http";
        let absolute = format!("{}://", self.vs.service);
        let mut path = self.target.request.to_owned();
        if let Some((_, rest)) = self.target.request.split_once(&absolute) {
            let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
            path = format!("/{rest}");
            self.other_host(host);
        }
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
        self.check.options.set("path", escaped(&path));
        if self.vs.head_only {
            self.check.options.set("method", "HEAD");
        }
        if let Some(directive) = &self.vs.virtualhost {
            let host = directive.unquoted().to_owned();
            match is_host(&host) {
                true => self.check.options.set("virtualhost", host),
                false => self.not_carried("virtualhost", "it cannot be a Host header"),
            }
        }
        // LWP does.
        self.check.options.set("follow_redirects", true);
        match self.receive() {
            Some(_) if self.vs.head_only => {
                let why =
                    "a reply to HEAD has no body in which it could be; ldirectord looks for it all the same";
                self.not_carried("receive", why);
            }
            Some(pattern) => {
                let mut body = Table::default();
                body.set("regex", pattern);
                self.check.options.set("body", body);
            }
            None => {}
        }
        if self.vs.service == "https" {
            self.tls();
        }
    }

    /// A request for a whole URL asks that host, whatever the server's address is.
    fn other_host(&mut self, host: &str) {
        let (name, port) = address::split(host);
        let port = port.map_or(Ok(None), address::port);
        match (address::host(name, self.vs.is_v6), port) {
            (Ok(address), Ok(port)) => {
                self.check.common.set("connect_ip", address.to_string());
                let default = if self.vs.service == "https" { 443_u16 } else { 80 };
                self.check.common.set("connect_port", port.unwrap_or(default));
            }
            (Err(why), _) | (_, Err(why)) => {
                self.not_carried("request", format!("{why}; the server itself is asked"));
            }
        }
    }

    fn http_proxy(&mut self) {
        let url = escaped(self.request());
        let host = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
        if !is_host(host) {
            self.not_carried(
                "request",
                "a proxy is asked for a whole URL, as http://www.example.org/; here a connection is enough",
            );
            return;
        }
        let method = if self.vs.head_only { "HEAD" } else { "GET" };
        let request = format!(
            "{method} {url} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: lvsd\r\nConnection: close\r\n\r\n"
        );
        let mut steps =
            vec![step(None, Some(request.into())), step(Some(regex(r"^HTTP/1\.[01] 2\d\d ")), None)];
        if let Some(pattern) = self.receive() {
            steps.push(step(Some(regex(pattern)), None));
        }
        self.dialogue(steps);
    }

    fn dns(&mut self) {
        self.check.kind = "dns";
        let asked = self.request().to_owned();
        let reverse = asked.parse::<Ipv4Addr>().ok().map(|address| {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        });
        let (name, kind) = match reverse {
            Some(name) => (name, "PTR"),
            None => (asked, "A"),
        };
        if is_dns_name(&name) {
            self.check.options.set("name", name);
            self.check.options.set("type", kind);
        } else {
            self.not_carried("request", "it is no name in DNS; the root is asked for");
        }
        if self.vs.protocol == "tcp" {
            self.check.options.set("transport", "tcp");
        }
        // Any answer that the pattern matches is good there, one of a list here.
        match literal(self.target.receive) {
            Some(text) if !text.is_empty() => self.check.options.set("expect", vec![text]),
            Some(_) => self.not_carried("receive", "without it ldirectord never takes the server as alive; here any answer without an error is good"),
            None => self.not_carried("receive", "lvsd compares answers with addresses and names, not with patterns; any answer without an error is good"),
        }
    }

    fn ftp(&mut self) {
        let (user, password) = match self.vs.login.as_str() {
            "" => ("anonymous", "ldirectord@"),
            user => (user, if self.vs.passwd.is_empty() { "ldirectord@" } else { self.vs.passwd.as_str() }),
        };
        let steps = vec![
            step(Some(regex(r"(?-u)^(220-(?s:.*)\n)?220 .*\r\n")), Some(format!("USER {user}\r\n").into())),
            step(Some(regex(r"(?-u)^(331|230) .*\r\n")), Some(format!("PASS {password}\r\n").into())),
            step(Some(regex(r"(?m-u)^(230|202) .*\r\n")), Some("QUIT\r\n".into())),
        ];
        if !self.vs.passwd.is_empty() {
            self.secret();
        }
        self.not_carried("request", "the file is not fetched: the login is the check");
        self.dialogue(steps);
    }

    fn pop(&mut self) {
        let ok = || Some(regex(r"(?-u)^\+OK\b.*\r\n"));
        let mut steps = Vec::new();
        if !self.vs.login.is_empty() {
            steps.push(step(ok(), Some(format!("USER {}\r\n", self.vs.login).into())));
            steps.push(step(ok(), Some(format!("PASS {}\r\n", self.vs.passwd).into())));
            self.secret();
        }
        steps.push(step(ok(), Some("QUIT\r\n".into())));
        steps.push(step(ok(), None));
        self.dialogue(steps);
        if self.vs.service == "pops" {
            self.tls();
        }
    }

    fn imap(&mut self) {
        let greeting = Some(regex(r"(?-u)^\* (OK|PREAUTH)\b.*\r\n"));
        let mut steps = Vec::new();
        if self.vs.login.is_empty() {
            steps.push(step(greeting, Some("a1 LOGOUT\r\n".into())));
        } else {
            let login =
                format!("a0 LOGIN {} {}\r\n", imap_quoted(&self.vs.login), imap_quoted(&self.vs.passwd));
            steps.push(step(greeting, Some(login.into())));
            steps.push(step(Some(regex(r"(?m-u)^a0 OK\b.*\r\n")), Some("a1 LOGOUT\r\n".into())));
            self.secret();
        }
        steps.push(step(Some(regex(r"(?m-u)^a1 OK\b")), None));
        self.dialogue(steps);
        if self.vs.service == "imaps" {
            self.tls();
        }
    }

    fn ldap(&mut self) {
        let with_login = !self.vs.login.is_empty() && !self.vs.passwd.is_empty();
        let (name, password) =
            if with_login { (self.vs.login.as_str(), self.vs.passwd.as_str()) } else { ("", "") };
        let bound = r"(?s-u)^\x30(.|\x84....)\x02\x01\x01\x61(.|\x84....)\x0a\x01\x00";
        let found = r"(?s-u)\x02\x01\x02\x64.*\x02\x01\x02\x65(.|\x84....)\x0a\x01\x00";
        let steps = vec![
            step(None, Some(hex(&bytes::ldap_bind(name, password)))),
            step(Some(regex(bound)), Some(hex(&bytes::ldap_search(self.request())))),
            step(Some(regex(found)), Some(hex(&bytes::LDAP_UNBIND))),
        ];
        if with_login {
            self.secret();
        }
        if !self.target.receive.is_empty() {
            self.not_carried(
                "receive",
                "that the entry of `request` is there is the check; its name is not compared with a pattern",
            );
        }
        self.dialogue(steps);
        if self.vs.service == "ldaps" {
            self.tls();
        }
    }

    fn radius(&mut self) {
        let (user, password, secret) = (&self.vs.login, &self.vs.passwd, &self.vs.secret);
        if user.len() > bytes::RADIUS_LONGEST || password.len() > bytes::RADIUS_LONGEST {
            self.not_carried("login", "it is too long for RADIUS; the server is pinged instead");
            self.check.kind = "ping";
            return;
        }
        let packet = bytes::radius_request(user, password, secret);
        self.check.kind = "udp";
        self.check.options.set("payload", hex(&packet));
        // Access-Accept to request 1.
        self.check.options.set("reply", hex(&[2, 1]));
        self.secret();
    }

    fn sql(&mut self) {
        let why = "lvsd sends no SQL: that the server speaks to a client that logs in is the check";
        self.not_carried("request", why);
        if self.vs.login.is_empty() {
            self.not_carried("login", "ldirectord takes the server as down without one");
        }
        let user = if self.vs.login.is_empty() { "lvsd" } else { self.vs.login.as_str() };
        match self.vs.service.as_str() {
            "mysql" => {
                let steps = vec![
                    step(Some(regex(r"(?s-u)^...\x00\x0a.+")), Some(hex(&bytes::mysql_login(user)))),
                    step(
                        Some(regex(r"(?s-u)...\x02(\x00|\xfe|\xff\x15\x04#28000)")),
                        Some(hex(&bytes::MYSQL_QUIT)),
                    ),
                ];
                self.dialogue(steps);
            }
            "pgsql" => {
                let database = if self.vs.database.is_empty() { user } else { self.vs.database.as_str() };
                let answer = regex(r"(?s-u)^(R....|E.*\x00C(28000|3D000)\x00)");
                let steps = vec![
                    step(None, Some(hex(&bytes::postgresql_start(user, database)))),
                    step(Some(answer), Some(hex(&bytes::POSTGRESQL_END))),
                ];
                self.dialogue(steps);
            }
            // Oracle's protocol is its own: a connection.
            _ => {}
        }
    }

    fn sip(&mut self) {
        let over = if self.vs.protocol == "udp" { "UDP" } else { "TCP" };
        let user = match self.vs.login.as_str() {
            "" => "ldirectord@lvsd.invalid",
            user => user,
        };
        let request = format!(
            "OPTIONS sip:{user} SIP/2.0\r\nVia: SIP/2.0/{over} lvsd.invalid;branch=z9hG4bKlvsd\r\nMax-Forwards: 70\r\n\
             To: <sip:{user}>\r\nFrom: <sip:{user}>;tag=lvsd\r\nCall-ID: lvsd@lvsd.invalid\r\nCSeq: 1 OPTIONS\r\n\
             Contact: <sip:{user}>\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n"
        );
        let answer = r"^SIP/2\.0 200 OK";
        if self.vs.protocol == "udp" {
            self.check.kind = "udp";
            self.check.options.set("payload", request);
            self.check.options.set("reply", regex(answer));
        } else {
            self.dialogue(vec![step(None, Some(request.into())), step(Some(regex(answer)), None)]);
        }
    }

    fn simple(&mut self) {
        let text = self.request().replace("\\n", "\n");
        let had_pattern = !self.target.receive.is_empty();
        // Without a pattern any line is good; with one that cannot be one here, too.
        let wanted = self.receive().unwrap_or_else(|| "(?s-u).".to_owned());
        if !had_pattern {
            self.check.comments.push("any reply is good: there is no `receive`".to_owned());
        }
        if self.vs.protocol == "udp" {
            self.check.kind = "udp";
            self.check.options.set_if("payload", (!text.is_empty()).then_some(text));
            self.check.options.set("reply", regex(wanted));
            return;
        }
        self.check.options.set_if("send", (!text.is_empty()).then_some(text));
        self.check.options.set("expect", regex(wanted));
        self.notes.remark(
            self.target.directive.at,
            "simpletcp",
            "lvsd does not close its side of the connection before it reads",
        );
    }
}
