//! The table of `lvsd status`. Lines are as long as they must be: who prints them on a terminal cuts them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::order_name;
use crate::control::duration;
use crate::control::text::clean;
use crate::engine::model::Mode;
use crate::engine::snapshot::{
    AnnouncementStatus, CheckStatus, KernelCounters, NotInForce, Order, OrderNote, RealServerStatus,
    Snapshot, VirtualServerStatus,
};
use crate::engine::table::ServiceId;
use crate::engine::time::Time;

/// Before the text of a remark.
const INDENT: &str = "        ";

/// Without a line break at its end.
pub fn table(snapshot: &Snapshot, chosen: &[&VirtualServerStatus], now: Time) -> String {
    let mut blocks = Vec::new();
    if snapshot.dry_run {
        blocks.push("dry run: the table is in memory, the kernel's is not touched".to_owned());
    }
    if snapshot.nothing_served {
        blocks.push("NOTHING IS SERVED: the kernel has refused every service that could serve".to_owned());
    }
    if let Some(NotInForce { kind: _, since, text }) = &snapshot.not_in_force {
        let lasts = duration::display(now.since(*since));
        blocks.push(format!("THE FILE IS NOT IN FORCE for {lasts}: {}", clean(text)));
    }
    if let Some(until) = snapshot.unconfirmed {
        let left = duration::display(until.since(now));
        blocks.push(format!("NOT CONFIRMED: goes back in {left} unless lvsd confirm comes"));
    }
    blocks.extend(snapshot.lacks.iter().map(|lack| clean(lack)));
    if let Some(frozen) = &snapshot.frozen {
        let lasts = duration::display(now.since(frozen.since));
        let reasons: Vec<String> = frozen.reasons.iter().map(|reason| clean(reason)).collect();
        blocks.push(format!(
            "VERDICTS FROZEN for {lasts}, this host seems to be sick: {}; {} results set aside",
            reasons.join("; "),
            frozen.set_aside,
        ));
    }
    if chosen.is_empty() {
        blocks.push("no virtual servers".to_owned());
    }
    blocks.extend(chosen.iter().map(|vs| virtual_server(vs, now)));
    let KernelCounters { operations, failures, drift } = snapshot.kernel;
    if failures > 0 || drift > 0 {
        blocks.push(format!(
            "kernel, since the start: {operations} changes asked for, {failures} refused, {drift} found changed by others"
        ));
    }
    if snapshot.broken_checks > 0 {
        blocks.push(format!("{} runs of checks broke, see the log", snapshot.broken_checks));
    }
    blocks.join("\n\n")
}

fn virtual_server(vs: &VirtualServerStatus, now: Time) -> String {
    let q = vs.quorum;
    let state = if q.up { "quorum up" } else { "QUORUM DOWN" };
    let relation = if q.up { "lost below" } else { "gained at" };
    let mut lines = vec![format!(
        "{}  {}  {state} for {}, weight {}, {relation} {}{}",
        clean(&vs.name),
        clean(&vs.scheduler),
        duration::display(now.since(q.since)),
        q.weight,
        // With nothing alive the quorum is lost whatever the threshold.
        q.threshold.max(1),
        match vs.inactive.len() {
            0 => String::new(),
            all if all == vs.services.len() => ", not active".to_owned(),
            some => format!(", {some} of {} services not active", vs.services.len()),
        },
    )];
    let inactive: BTreeMap<ServiceId, &str> =
        vs.inactive.iter().map(|(service, reason)| (*service, reason.as_str())).collect();
    lines.extend(vs.services.iter().map(|service| match inactive.get(service) {
        Some(reason) => format!("  {service}  not active: {}", clean(reason)),
        None => format!("  {service}"),
    }));
    lines.extend(vs.missing.iter().map(|(service, refusal)| match refusal {
        Some(refusal) => format!("  NOT AS WANTED in the kernel: {service}: {}", clean(refusal)),
        None => format!("  NOT AS WANTED in the kernel: {service}"),
    }));
    lines.extend(vs.announcements.iter().map(announcement));
    if let Some(sorry) = vs.sorry_server {
        let role = if sorry.active { "SERVING" } else { "standing by" };
        lines.push(format!("  sorry server {}  {role}", sorry.address));
    }
    if vs.real_servers.is_empty() {
        lines.push("  no real servers".to_owned());
    } else {
        real_servers(&vs.real_servers, now, &mut lines);
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

fn announcement(status: &AnnouncementStatus) -> String {
    let AnnouncementStatus { address, interface, announced, wanted, problem } = status;
    let state = match (wanted, announced) {
        (_, true) => "announced on",
        (true, false) => "NOT ANNOUNCED on",
        (false, false) => "withdrawn from",
    };
    let why = problem.as_ref().map(|why| format!(": {}", clean(why))).unwrap_or_default();
    format!("  {address} {state} {interface}{why}")
}

fn real_servers(servers: &[RealServerStatus], now: Time, lines: &mut Vec<String>) {
    let heading = ["real server", "state", "for", "weight"].map(str::to_owned);
    let cells = |rs: &RealServerStatus| {
        // Of the state that is shown: an order is part of it, and may have come later than the verdict.
        let since = rs.order.as_ref().map_or(rs.since, |order| order.note.since.max(rs.since));
        [rs.address.to_string(), state(rs), duration::display(now.since(since)), weight(rs)]
    };
    let rows: Vec<[String; 4]> = servers.iter().map(cells).collect();
    let widths = rows.iter().chain([&heading]).fold([0; 4], |mut widths, row| {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
        widths
    });
    let line = |[address, state, lasts, weight]: &[String; 4], connections: &str| {
        let [a, s, l, w] = widths;
        format!("  {address:a$}  {state:s$}  {lasts:l$}  {weight:>w$}  {connections}")
    };
    lines.push(line(&heading, "connections"));
    for (rs, row) in servers.iter().zip(&rows) {
        let connections = format!("{} active, {} inactive", rs.active_connections, rs.inactive_connections);
        lines.push(line(row, &connections));
        if let Some(guard) = rs.kept {
            lines.push(format!("{INDENT}kept in the table by {}", guard.name()));
        }
        if let Some(order) = &rs.order {
            lines.push(remark(order_name(order.order), &order.note, now));
        }
        if let Some(weight) = &rs.operator_weight {
            lines.push(remark(&format!("weight {}", weight.weight), &weight.note, now));
        }
        lines.extend(rs.checks.iter().filter_map(|check| complaint(check, now)));
    }
}

fn weight(rs: &RealServerStatus) -> String {
    if rs.effective_weight == rs.weight {
        rs.weight.to_string()
    } else {
        format!("{}/{}", rs.effective_weight, rs.weight)
    }
}

/// Few words; capitals where the operator's eye should stop.
fn state(rs: &RealServerStatus) -> String {
    // An order to disable hides in `alive` what the checks say.
    let fails = rs.checks.iter().any(|check| check.mode == Mode::Enforce && !check.up);
    let by_checks = match (fails, rs.missing, rs.installed) {
        (true, ..) if rs.kept.is_some() => "DOWN, KEPT",
        (true, ..) => "DOWN",
        (false, true, _) => "NOT INSTALLED",
        (false, false, true) => "up",
        (false, false, false) => "standby",
    };
    match rs.order.as_ref().map(|order| order.order) {
        None => by_checks.to_owned(),
        Some(order) => {
            let ordered = match order {
                Order::Drain => "drained",
                Order::Disable => "disabled",
            };
            if fails || rs.missing { format!("{by_checks}, {ordered}") } else { ordered.to_owned() }
        }
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
    line
}

/// What a check that is not well says; `None` for a healthy one.
fn complaint(check: &CheckStatus, now: Time) -> Option<String> {
    let mode = match check.mode {
        Mode::Enforce => "",
        Mode::Observe => " (observed only)",
    };
    let line = match &check.last {
        // Its last run decided nothing: the server is neither good nor bad for it.
        Some(last) if check.up && check.failures == 0 && !last.ok => {
            let ran = if check.has_run { "did not count" } else { "HAS NEVER BEEN ABLE TO RUN" };
            let ago = duration::display(now.since(last.at));
            format!("{INDENT}{}{mode}: {ran}: {} (last tried {ago} ago)", check.kind, clean(&last.detail))
        }
        _ if check.up && check.failures == 0 => return None,
        None if check.has_run => format!("{INDENT}{}{mode}: has not run since the start", check.kind),
        None => format!("{INDENT}{}{mode}: has not run yet", check.kind),
        Some(last) => format!(
            "{INDENT}{}{mode}: {} ({} failed, last {} ago)",
            check.kind,
            clean(&last.detail),
            check.failures,
            duration::display(now.since(last.at)),
        ),
    };
    Some(line)
}
