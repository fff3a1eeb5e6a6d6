//! `lvsd why`: what holds of a real server now, what it follows from, and what happened to it last.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::duration;
use super::happening::{Happening, HappeningJson, target};
use super::protocol::{Reply, VERSION};
use super::text::{clean, latency, micros, millis};
use crate::engine::Guard;
use crate::engine::inquiry::{CheckInquiry, Inquiry, NextRun};
use crate::engine::model::{Mode, RealServerId, WeightChange};
use crate::engine::snapshot::{Order, OrderNote, Override};
use crate::engine::time::Time;

/// One real server in one virtual server, with its history, newest first.
#[derive(Debug)]
pub struct Case {
    pub inquiry: Inquiry,
    pub history: Vec<Arc<Happening>>,
}

pub fn reply(cases: &[Case], now: Time) -> Reply {
    let text: Vec<String> = cases.iter().map(|case| case.text(now)).collect();
    let json = Why { version: VERSION, servers: cases.iter().map(|case| case.json(now)).collect() };
    Reply::done(text.join("\n\n"))
        .with_data(&json)
        .unwrap_or_else(|error| Reply::failed(format!("writing the answer as JSON: {error}")))
}

/// Are all checks that count up, by their last results?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    All,
    NotAll,
}

/// For `lvsd check-now`: the last result of each check, which may be worse than its verdict.
pub fn results(inquiries: &[Inquiry], now: Time) -> (String, Passed) {
    let mut lines = Vec::new();
    let mut passed = Passed::All;
    for inquiry in inquiries {
        let (address, pool) = (inquiry.status.address, clean(&inquiry.virtual_server.name));
        lines.push(format!("{address} in {pool}: {}", standing(inquiry)));
        if inquiry.checks.is_empty() {
            lines.push("  no checks".to_owned());
        }
        for check in &inquiry.checks {
            let is_good = check.state.last.as_ref().is_some_and(|last| last.ok);
            if !is_good && check.check.mode == Mode::Enforce {
                passed = Passed::NotAll;
            }
            lines.push(check_text(check, now));
        }
    }
    (lines.join("\n"), passed)
}

/// By its checks, and what an operator wants of it: an order says nothing of whether it is well.
fn standing(inquiry: &Inquiry) -> String {
    let fails = inquiry.checks.iter().any(|check| check.check.mode == Mode::Enforce && !check.state.up);
    let state = if fails { "DOWN" } else { "up" };
    match inquiry.status.order.as_ref() {
        None => state.to_owned(),
        Some(Override { order, note }) => {
            let ordered = match order {
                Order::Drain => "drained",
                Order::Disable => "disabled",
            };
            format!("{state}, {ordered} by {}", clean(&note.by))
        }
    }
}

/// A server that is no longer configured, but was.
pub fn farewell(address: RealServerId, history: &[Arc<Happening>], now: Time) -> String {
    let lines = history.iter().map(|h| format!("\n  {}  {}: {}", h.when(now), h.object(), h.text()));
    format!("; what is known of {address} from before:{}", lines.collect::<String>())
}

impl Case {
    fn text(&self, now: Time) -> String {
        let Inquiry { virtual_server, quorum, sorry_server, status, .. } = &self.inquiry;
        let lasts = duration::display(now.since(status.since));
        let state = if status.alive { "up" } else { "DOWN" };
        let mut lines =
            vec![format!("{} in {}: {state} for {lasts}", status.address, clean(&virtual_server.name))];
        lines.extend(self.reasons().into_iter().map(|reason| format!("  {reason}")));
        if let Some(guard) = status.kept {
            lines.push(format!("  KEPT in the table all the same, by {}", guard.name()));
        }
        lines.push(format!("  {}", self.weight()));
        lines.extend(self.orders(now).into_iter().map(|order| format!("  {order}")));
        lines.push(format!("  {}", self.table()));
        let side = if quorum.up { "up" } else { "DOWN" };
        let relation = if quorum.up { "lost below" } else { "gained at" };
        let (weight, threshold) = (quorum.weight, quorum.threshold.max(1));
        let since = duration::display(now.since(quorum.since));
        let mut pool = format!("quorum {side} for {since}, weight {weight}, {relation} {threshold}");
        if let Some(sorry) = sorry_server {
            let role = if sorry.active { "SERVES" } else { "stands by" };
            // Writing to a string cannot fail.
            let _ = write!(pool, "; the sorry server {} {role}", sorry.address);
        }
        lines.push(format!("  {pool}"));
        let inactive = self.inquiry.inactive.iter();
        lines.extend(inactive.map(|(id, reason)| format!("  NOT ACTIVE: {id}: {}", clean(reason))));
        lines.push(if self.inquiry.checks.is_empty() {
            "  no checks: always up".into()
        } else {
            "checks:".into()
        });
        lines.extend(self.inquiry.checks.iter().map(|check| check_text(check, now)));
        if self.history.is_empty() {
            lines.push("nothing has changed since the daemon's start".to_owned());
        } else {
            lines.push("last changes, newest first:".to_owned());
        }
        for happening in &self.history {
            let (what, why) = happening.lines();
            let place = self.place(happening);
            lines.push(format!("  {}  {place}{what}", happening.when(now)));
            lines.extend(why.map(|why| format!("      {why}")));
        }
        lines.join("\n")
    }

    /// Where it happened, if not to this server in this virtual server.
    fn place(&self, happening: &Happening) -> String {
        let name = &happening.virtual_server;
        if happening.real_server.is_none() {
            "pool: ".to_owned()
        } else if **name == self.inquiry.virtual_server.name {
            String::new()
        } else {
            format!("in {}: ", clean(name))
        }
    }

    /// Why it is down, or nothing where there is nothing to say.
    fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        let enforced = self.inquiry.checks.iter().filter(|c| c.check.mode == Mode::Enforce);
        for check in enforced.filter(|c| !c.state.up) {
            let said = check.state.last.as_ref().map(|last| clean(&last.detail));
            let kind = check.check.probe.kind.name();
            reasons.push(match said {
                Some(said) if check.state.has_run => format!("because its {kind} check fails: {said}"),
                Some(_) | None => format!("because its {kind} check has not succeeded yet"),
            });
        }
        if let Some(order) = self.inquiry.status.order.as_ref().filter(|o| o.order == Order::Disable) {
            reasons.push(format!("because {} has disabled it", clean(&order.note.by)));
        }
        reasons
    }

    /// `weight 5: 3 configured, script check of /usr/local/bin/load sets 5`
    fn weight(&self) -> String {
        let Inquiry { status, base_weight, .. } = &self.inquiry;
        let mut parts = vec![format!("{} configured", status.weight)];
        if let Some(set) = &status.operator_weight {
            parts.push(format!("{base_weight} by {}", clean(&set.note.by)));
        }
        for check in self.inquiry.checks.iter().filter(|c| c.check.mode == Mode::Enforce) {
            let (kind, of) = (check.check.probe.kind.name(), clean(&target(&check.check)));
            match check.state.weight {
                WeightChange::None => {}
                WeightChange::Absolute(weight) => parts.push(format!("the {kind} check {of} says {weight}")),
                WeightChange::Delta(delta) => parts.push(format!("the {kind} check {of} adds {delta:+}")),
            }
        }
        if status.order.as_ref().is_some_and(|o| o.order == Order::Drain) {
            parts.push("0 while drained".to_owned());
        }
        format!("weight {}: {}", status.effective_weight, parts.join(", "))
    }

    fn orders(&self, now: Time) -> Vec<String> {
        let status = &self.inquiry.status;
        let order = status.order.as_ref().map(|order| {
            let word = match order.order {
                Order::Drain => "drained",
                Order::Disable => "disabled",
            };
            noted(word, &order.note, now)
        });
        let weight = status
            .operator_weight
            .as_ref()
            .map(|w| noted(&format!("weight set to {}", w.weight), &w.note, now));
        order.into_iter().chain(weight).collect()
    }

    fn table(&self) -> String {
        let status = &self.inquiry.status;
        let (active, inactive) = (status.active_connections, status.inactive_connections);
        if status.installed {
            format!("in the kernel's table, {active} active and {inactive} inactive connections")
        } else if status.missing {
            "NOT in the kernel's table, although it should be".to_owned()
        } else {
            format!("not in the kernel's table{}", self.absence())
        }
    }

    /// Why a server that is well serves nobody.
    fn absence(&self) -> &'static str {
        let Inquiry { quorum, sorry_server, status, virtual_server, inactive, .. } = &self.inquiry;
        let sorry_serves = sorry_server.as_ref().is_some_and(|sorry| sorry.active);
        if !status.alive && status.kept.is_none() {
            ", because it is down"
        } else if !quorum.up && sorry_serves && !status.alive {
            ", although it is kept: the quorum is lost, and the sorry server serves alone"
        } else if !quorum.up && sorry_serves {
            ", although it is up: the quorum is lost, and the sorry server serves alone"
        } else if !inactive.is_empty() && inactive.len() == virtual_server.services.len() {
            ", although it is up: no service is active"
        } else {
            ""
        }
    }
}

/// `drained by alice 5m ago, 25m left: kernel update`
fn noted(what: &str, note: &OrderNote, now: Time) -> String {
    let ago = duration::display(now.since(note.since));
    let left = note.until.map(|until| format!(", {} left", duration::display(until.since(now))));
    let reason = note.reason.as_ref().map(|reason| format!(": {}", clean(reason)));
    format!(
        "{what} by {} {ago} ago{}{}",
        clean(&note.by),
        left.unwrap_or_default(),
        reason.unwrap_or_default()
    )
}

fn check_text(check: &CheckInquiry, now: Time) -> String {
    let CheckInquiry { check, state, next } = check;
    let timing = &check.timing;
    let mode = if check.mode == Mode::Observe { " (observed only)" } else { "" };
    let count = match (state.up, state.has_run) {
        (up, false) => format!("has not run yet, taken for {}", if up { "up" } else { "down" }),
        (true, true) if state.failures == 0 => "up".to_owned(),
        (true, true) => {
            format!("up, {} in a row failed, down at {}", state.failures, timing.retry.saturating_add(1))
        }
        (false, true) if state.successes > 0 => {
            format!("DOWN, {} in a row succeeded, up at {}", state.successes, timing.rise)
        }
        (false, true) => format!("DOWN, {} in a row failed", state.failures),
    };
    let next = match next {
        NextRun::Running => "running now".to_owned(),
        NextRun::At(at) => format!("next run in {}", duration::display(at.since(now))),
        NextRun::Never => "not scheduled".to_owned(),
    };
    let of = clean(&target(check));
    let mut text = format!("  {} {of}{mode}: {count}; {next}", check.probe.kind.name());
    if let Some(last) = &state.last {
        let ago = duration::display(now.since(state.heard));
        let took = latency(last.latency());
        let _ = write!(text, "\n      {ago} ago, {took}: {}", clean(&last.detail));
    }
    text
}

fn check_json(check: &CheckInquiry, now: Time) -> CheckJson {
    let CheckInquiry { check, state, next } = check;
    let (running, next_ms) = match next {
        NextRun::Running => (true, None),
        NextRun::At(at) => (false, Some(millis(at.since(now)))),
        NextRun::Never => (false, None),
    };
    CheckJson {
        kind: check.probe.kind.name(),
        target: target(check),
        mode: match check.mode {
            Mode::Enforce => "enforce",
            Mode::Observe => "observe",
        },
        up: state.up,
        has_run: state.has_run,
        failures: state.failures,
        successes: state.successes,
        retry: check.timing.retry,
        rise: check.timing.rise,
        running,
        next_ms,
        last: state.last.as_ref().map(|last| LastJson {
            ok: last.ok,
            detail: last.detail.to_string(),
            latency_us: micros(last.latency()),
            age_ms: millis(now.since(state.heard)),
        }),
    }
}

/// The document of `lvsd why --json`: keys may be added, never removed.
#[derive(Debug, Serialize)]
struct Why<'a> {
    version: u32,
    servers: Vec<CaseJson<'a>>,
}

#[derive(Debug, Serialize)]
struct CaseJson<'a> {
    virtual_server: &'a str,
    address: String,
    alive: bool,
    /// Down, and in the table all the same, by the rule of this name.
    kept: Option<&'static str>,
    age_ms: u64,
    reasons: Vec<String>,
    weight: u32,
    effective_weight: u32,
    weight_reason: String,
    installed: bool,
    orders: Vec<String>,
    quorum: QuorumJson,
    sorry_server_active: bool,
    inactive: Vec<InactiveJson<'a>>,
    checks: Vec<CheckJson>,
    history: Vec<AgedJson<'a>>,
}

#[derive(Debug, Serialize)]
struct QuorumJson {
    up: bool,
    weight: u64,
    threshold: u64,
}

#[derive(Debug, Serialize)]
struct InactiveJson<'a> {
    service: String,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct CheckJson {
    kind: &'static str,
    target: String,
    mode: &'static str,
    up: bool,
    has_run: bool,
    failures: u32,
    successes: u32,
    retry: u32,
    rise: u32,
    running: bool,
    next_ms: Option<u64>,
    last: Option<LastJson>,
}

#[derive(Debug, Serialize)]
struct LastJson {
    ok: bool,
    detail: String,
    latency_us: u64,
    age_ms: u64,
}

#[derive(Debug, Serialize)]
struct AgedJson<'a> {
    age_ms: u64,
    #[serde(flatten)]
    happening: HappeningJson<'a>,
}

impl Case {
    fn json(&self, now: Time) -> CaseJson<'_> {
        let Inquiry { virtual_server, quorum, sorry_server, status, .. } = &self.inquiry;
        let aged = |h: &'_ Arc<Happening>| -> Duration { now.since(h.time) };
        CaseJson {
            virtual_server: &virtual_server.name,
            address: status.address.to_string(),
            alive: status.alive,
            kept: status.kept.map(Guard::name),
            age_ms: millis(now.since(status.since)),
            reasons: self.reasons(),
            weight: status.weight,
            effective_weight: status.effective_weight,
            weight_reason: self.weight(),
            installed: status.installed,
            orders: self.orders(now),
            quorum: QuorumJson { up: quorum.up, weight: quorum.weight, threshold: quorum.threshold },
            sorry_server_active: sorry_server.is_some_and(|sorry| sorry.active),
            inactive: self
                .inquiry
                .inactive
                .iter()
                .map(|(service, reason)| InactiveJson { service: service.to_string(), reason })
                .collect(),
            checks: self.inquiry.checks.iter().map(|check| check_json(check, now)).collect(),
            history: self
                .history
                .iter()
                .map(|h| AgedJson { age_ms: millis(aged(h)), happening: h.json() })
                .collect(),
        }
    }
}
