//! The table of `lvsd status`. Fits 80 columns as long as names and addresses let it.

use std::fmt::Write as _;

use super::order_name;
use crate::control::duration;
use crate::engine::model::Mode;
use crate::engine::snapshot::{CheckStatus, OrderNote, RealServerStatus, VirtualServerStatus};
use crate::engine::time::Time;

const WIDTH: usize = 80;
/// Before the text of a remark.
const INDENT: &str = "        ";

/// Without a line break at its end.
pub fn table(chosen: &[&VirtualServerStatus], now: Time) -> String {
    if chosen.is_empty() {
        return "no virtual servers".to_owned();
    }
    let blocks: Vec<String> = chosen.iter().map(|vs| virtual_server(vs, now)).collect();
    blocks.join("\n\n")
}

fn virtual_server(vs: &VirtualServerStatus, now: Time) -> String {
    let q = vs.quorum;
    let state = if q.up { "quorum up" } else { "QUORUM DOWN" };
    let relation = if q.up { "lost below" } else { "gained at" };
    let mut lines = vec![format!(
        "{}  {}  {state}, weight {}, {relation} {}",
        clean(&vs.name),
        clean(&vs.scheduler),
        q.weight,
        // With nothing alive the quorum is lost whatever the threshold.
        q.threshold.max(1),
    )];
    lines.extend(vs.services.iter().map(|service| format!("  {service}")));
    if let Some(sorry) = vs.sorry_server {
        let role = if sorry.active { "SERVING" } else { "standing by" };
        lines.push(format!("  sorry server {}  {role}", sorry.address));
    }
    let addresses: Vec<String> = vs.real_servers.iter().map(|rs| rs.address.to_string()).collect();
    let width = addresses.iter().map(String::len).max().unwrap_or(0).max("real server".len());
    if addresses.is_empty() {
        lines.push("  no real servers".to_owned());
    } else {
        lines.push(format!(
            "  {:width$}  {:8}  {:>10}  {:>7}  {:>8}",
            "real server", "state", "weight", "active", "inactive"
        ));
    }
    for (rs, address) in vs.real_servers.iter().zip(&addresses) {
        real_server(rs, address, width, now, &mut lines);
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn real_server(rs: &RealServerStatus, address: &str, width: usize, now: Time, lines: &mut Vec<String>) {
    let weight = if rs.effective_weight == rs.weight {
        rs.weight.to_string()
    } else {
        format!("{}/{}", rs.effective_weight, rs.weight)
    };
    lines.push(format!(
        "  {address:width$}  {:8}  {weight:>10}  {:>7}  {:>8}",
        state(rs),
        rs.active_connections,
        rs.inactive_connections
    ));
    if let Some(order) = &rs.order {
        lines.push(remark(order_name(order.order), &order.note, now));
    }
    if let Some(weight) = &rs.operator_weight {
        lines.push(remark(&format!("weight {}", weight.weight), &weight.note, now));
    }
    lines.extend(rs.checks.iter().filter_map(|check| complaint(check, now)));
}

/// One word; capitals where the operator's eye should stop.
fn state(rs: &RealServerStatus) -> &'static str {
    match (&rs.order, rs.alive, rs.installed) {
        (Some(order), ..) => match order.order {
            crate::engine::snapshot::Order::Drain => "drained",
            crate::engine::snapshot::Order::Disable => "disabled",
        },
        (None, true, true) => "up",
        (None, true, false) => "standby",
        (None, false, _) => "DOWN",
    }
}

/// `drain by alice 5m ago, 25m left: kernel update`
fn remark(what: &str, note: &OrderNote, now: Time) -> String {
    let mut line =
        format!("{INDENT}{what} by {} {} ago", clean(&note.by), duration::display(now.since(note.since)));
    if let Some(until) = note.until {
        let _infallible = write!(line, ", {} left", duration::display(until.since(now)));
    }
    if let Some(reason) = &note.reason {
        let _infallible = write!(line, ": {}", clean(reason));
    }
    cut(line)
}

/// What a check that is not well says; `None` for a healthy one.
fn complaint(check: &CheckStatus, now: Time) -> Option<String> {
    let mode = match check.mode {
        Mode::Enforce => "",
        Mode::Observe => " (observed only)",
    };
    let line = match &check.last {
        _ if check.up && check.failures == 0 => return None,
        None => format!("{INDENT}{}{mode}: has not run yet", check.kind),
        Some(last) => format!(
            "{INDENT}{}{mode}: {} ({} failed, last {} ago)",
            check.kind,
            clean(&last.detail),
            check.failures,
            duration::display(now.since(last.at)),
        ),
    };
    Some(cut(line))
}

/// Details come from servers and reasons from operators: nothing of them may reach a terminal
/// as a control sequence.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn cut(line: String) -> String {
    if line.chars().count() <= WIDTH {
        return line;
    }
    line.chars().take(WIDTH - 1).chain(['…']).collect()
}
