//! What keepalived is told about mail, as `[daemon.notify.mail]`. keepalived switches it for each server and each virtual
//! server; lvsd has one list of events, and what that changes is said where it was switched.

use std::net::Ipv6Addr;
use std::time::Duration;

use super::model::VirtualServer;
use super::reading::Reading;
use super::tree::Statement;
use super::words::{Garbage, shown};
use crate::config::import::document::{Table, Value};
use crate::config::import::notes::At;
use crate::config::raw::{endpoint, mailbox};

/// keepalived makes one of its user and its host.
const SENDER: &str = "root@localhost";
const TIMEOUT_MAXIMUM: i64 = 4_294;

/// `smtp_alert` of a server or a virtual server.
pub(super) type Alert = Option<(At, bool)>;

/// What `global_defs` says.
#[derive(Debug, Default)]
pub(super) struct Mail {
    server: Option<(At, String)>,
    from: Option<String>,
    to: Vec<String>,
    /// Where the receivers are named.
    named: Option<At>,
    timeout: Option<Duration>,
    alert: Option<bool>,
    alert_checker: Option<bool>,
}

/// What there is mail about.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) table: Option<Table>,
    servers: bool,
    quorums: bool,
}

impl Mail {
    /// `false`: it is no keyword of these.
    pub(super) fn read(
        &mut self,
        reading: &mut Reading<'_>,
        lost: &mut Vec<String>,
        line: &Statement,
    ) -> bool {
        match line.keyword() {
            "smtp_server" => self.server(reading, lost, line),
            "notification_email" => self.receivers(reading, lost, line),
            "notification_email_from" => {
                let Some(word) = reading.word(line) else { return true };
                match mailbox(&word) {
                    Ok(from) => self.from = Some(from),
                    Err(_) => no_address(reading, lost, line.at, line.keyword(), &word),
                }
            }
            "smtp_connect_timeout" => {
                let seconds = reading.number(line, 0, TIMEOUT_MAXIMUM, Garbage::Refused);
                // 0 is 1 second in keepalived.
                let seconds = seconds.and_then(|seconds| u64::try_from(seconds.max(1)).ok());
                if let Some(seconds) = seconds {
                    let why = "it is for each step of a mail in keepalived, and for the whole mail in lvsd";
                    reading.notes.remark(line.at, line.keyword(), why);
                    self.timeout = Some(Duration::from_secs(seconds));
                }
            }
            "smtp_helo_name" => {
                reading.lose(lost, line.at, line.keyword(), "lvsd greets with the name of its host");
            }
            "smtp_alert" => self.alert = self.switch(reading, line).or(self.alert),
            "smtp_alert_checker" => {
                self.alert_checker = self.switch(reading, line).or(self.alert_checker);
            }
            _ => return false,
        }
        true
    }

    fn switch(&self, reading: &mut Reading<'_>, line: &Statement) -> Option<bool> {
        let on = reading.switch(line);
        reading.notes.remark(line.at, line.keyword(), "it decides on `events` of [daemon.notify.mail]");
        on
    }

    /// `HOST [PORT]`
    fn server(&mut self, reading: &mut Reading<'_>, lost: &mut Vec<String>, line: &Statement) {
        let words = line.words();
        let Some(host) = reading.first(line) else { return };
        let Some(port) = reading.optional_port(line, words.get(2).map(String::as_str)) else { return };
        let host = if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]") } else { host };
        let server = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        if endpoint(&server).is_ok() {
            self.server = Some((line.at, server));
        } else {
            reading.lose(lost, line.at, line.keyword(), format!("{} is no mail server", shown(&host)));
        }
    }

    /// Every word of the block is one.
    fn receivers(&mut self, reading: &mut Reading<'_>, lost: &mut Vec<String>, line: &Statement) {
        self.named = Some(line.at);
        for inner in line.inner() {
            for word in inner.words() {
                match mailbox(&word) {
                    Ok(to) if !self.to.contains(&to) => self.to.push(to),
                    Ok(_) => {}
                    Err(_) => no_address(reading, lost, inner.at, line.keyword(), &word),
                }
            }
        }
    }

    /// With what servers and virtual servers say themselves. Mail about servers is on by default, about quorums it is off.
    pub(super) fn told(&self, reading: &mut Reading<'_>, servers: &[VirtualServer]) -> Told {
        let of_file = self.alert_checker.or(self.alert);
        let on = |alert: &Alert| alert.is_some_and(|(_, on)| on);
        let servers_told =
            of_file.unwrap_or(true) || servers.iter().flat_map(|vs| &vs.servers).any(|rs| on(&rs.smtp_alert));
        let quorums = of_file.unwrap_or(false) || servers.iter().any(|vs| on(&vs.smtp_alert));
        let incomplete = |reading: &mut Reading<'_>, at: Option<At>, what: &str, why: &str| {
            if let Some(at) = at {
                reading.notes.remark(at, what, why);
            }
            Told::default()
        };
        let Some((at, server)) = &self.server else {
            let why = "there is no smtp_server, without which there is no mail";
            return incomplete(reading, self.named, "notification_email", why);
        };
        if self.to.is_empty() {
            let why = "there is no notification_email, without which there is no mail";
            return incomplete(reading, Some(*at), "smtp_server", why);
        }
        if !servers_told && !quorums {
            let why = "smtp_alert is off everywhere: there is no mail";
            return incomplete(reading, Some(*at), "smtp_server", why);
        }
        let mut table = Table::default();
        table.set("server", server.as_str());
        if self.from.is_none() {
            let why = "keepalived makes the sender of its user and its host: write your own";
            reading.notes.remark(*at, "smtp_server", why);
            table.comment(why);
        }
        table.set("from", self.from.as_deref().unwrap_or(SENDER));
        table.set("to", self.to.clone());
        table.set_if("timeout", self.timeout);
        let events: &[&str] = match (servers_told, quorums) {
            // As it is by default.
            (true, true) | (false, false) => &[],
            (true, false) => &["real_server_up", "real_server_down"],
            (false, true) => &["quorum_gained", "quorum_lost"],
        };
        if !events.is_empty() {
            table.set("events", Value::from(events.to_vec()));
        }
        Told { table: Some(table), servers: servers_told, quorums }
    }
}

impl Told {
    pub(super) fn of_server(&self, reading: &mut Reading<'_>, lost: &mut Vec<String>, alert: Alert) {
        self.say(reading, lost, alert, (self.servers, "real servers"));
    }

    pub(super) fn of_virtual_server(&self, reading: &mut Reading<'_>, lost: &mut Vec<String>, alert: Alert) {
        self.say(reading, lost, alert, (self.quorums, "quorums"));
    }

    fn say(
        &self,
        reading: &mut Reading<'_>,
        lost: &mut Vec<String>,
        alert: Alert,
        (told, what): (bool, &str),
    ) {
        let Some((at, on)) = alert else { return };
        if self.table.is_none() {
            let why = "mail goes out with smtp_server and notification_email only";
            reading.notes.remark(at, "smtp_alert", why);
        } else if on == told {
            let all = if on { "all" } else { "none" };
            let why = format!("lvsd has one switch for mail about {what}: it tells of {all}");
            reading.notes.remark(at, "smtp_alert", why);
        } else {
            let why = format!("lvsd has one switch for mail about {what}, and it is on for others");
            reading.lose(lost, at, "smtp_alert", why);
        }
    }
}

fn no_address(reading: &mut Reading<'_>, lost: &mut Vec<String>, at: At, what: &str, word: &str) {
    reading.lose(lost, at, what, format!("{} is no mail address", shown(word)));
}
