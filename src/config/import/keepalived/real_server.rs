//! `real_server`: its keywords and its checkers.

use super::checker;
use super::model::{RealServer, Timing, VirtualServer};
use super::reading::{Reading, unusable_server};
use super::tracking::Files;
use super::tree::{self, Statement};
use super::virtual_server::{alert, keep, method, no_snmp, pace, script_of};
use super::words::Garbage;

const WEIGHT_MAXIMUM: u32 = 2_147_483_647;

/// `None`: it is left out, which is said.
pub(super) fn read(
    reading: &mut Reading<'_>,
    files: &Files,
    vs: &mut VirtualServer,
    statement: &Statement,
) -> Option<RealServer> {
    let words = statement.words();
    reading.beyond(statement, 2);
    let word = reading.first(statement)?;
    let port = reading.optional_port(statement, words.get(2).map(String::as_str));
    let (Some(ip), Some(port)) = (reading.ip(statement, &word), port) else {
        reading.lose(
            &mut vs.lost,
            statement.at,
            "real_server",
            "its address or port is wrong; keepalived skips it",
        );
        return None;
    };
    if let Some(why) = unusable_server(ip) {
        reading.lose(&mut vs.lost, statement.at, "real_server", format!("{ip}: {why}"));
        return None;
    }
    let mut server = RealServer {
        at: statement.at,
        ip,
        port,
        weight: None,
        // What the virtual server says below this is not for this server.
        method: vs.method,
        upper: 0,
        lower: 0,
        inhibit: None,
        virtualhost: None,
        smtp_alert: None,
        notify_up: None,
        notify_down: None,
        timing: Timing::default(),
        checkers: Vec::new(),
        lost: Vec::new(),
    };
    for line in statement.inner() {
        let known = timing(reading, &mut server, line) || keyword(reading, &mut server, line);
        if known {
            continue;
        }
        if checker::is_checker(line.keyword()) {
            if let Some(checker) = checker::read(reading, files, ip, &mut server.lost, line) {
                server.checkers.push(checker);
            }
        } else {
            tree::unknown(reading.notes, line, "real_server");
        }
    }
    Some(server)
}

fn timing(reading: &mut Reading<'_>, server: &mut RealServer, line: &Statement) -> bool {
    match line.keyword() {
        "alpha" => keep(&mut server.timing.alpha, reading.switch(line)),
        _ => return pace(reading, &mut server.timing, line),
    }
    true
}

fn keyword(reading: &mut Reading<'_>, server: &mut RealServer, line: &Statement) -> bool {
    match line.keyword() {
        "weight" => keep(&mut server.weight, reading.count(line, 0, WEIGHT_MAXIMUM, Garbage::Tolerated)),
        "lvs_method" => method(reading, &mut server.method, line),
        "uthreshold" => {
            server.upper = reading.count(line, 0, u32::MAX, Garbage::Tolerated).unwrap_or(server.upper);
        }
        "lthreshold" => {
            server.lower = reading.count(line, 0, u32::MAX, Garbage::Tolerated).unwrap_or(server.lower);
        }
        "inhibit_on_failure" => keep(&mut server.inhibit, reading.switch(line)),
        "virtualhost" => keep(&mut server.virtualhost, reading.word(line)),
        "notify_up" => script_of(reading, &mut server.notify_up, line),
        "notify_down" => script_of(reading, &mut server.notify_down, line),
        "smtp_alert" => keep(&mut server.smtp_alert, alert(reading, line)),
        "snmp_name" => no_snmp(reading, &mut server.lost, line),
        _ => return false,
    }
    true
}
