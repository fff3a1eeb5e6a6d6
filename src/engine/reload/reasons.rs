//! Why an entry of the plan is edited: what differs between two generations of it, in words.

use std::fmt;
use std::sync::Arc;

use crate::engine::identity::Identity;
use crate::engine::model;

/// What changed between two generations of a pool, apart from its servers. Taking the fields apart
/// makes the compiler ask about each new one.
pub(super) fn service_changes(old: &model::VirtualServer, new: &model::VirtualServer) -> Vec<String> {
    let model::VirtualServer {
        name,
        services: _,
        scheduler,
        scheduler_flags,
        one_packet,
        persistence,
        active_when,
        quorum,
        hysteresis,
        min_alive,
        omega,
        sorry_server: _,
        quorum_up,
        quorum_down,
        announce,
        real_servers: _,
    } = new;
    let mut reasons = Reasons::default();
    reasons.shown("moved or renamed", &old.name, name);
    reasons.shown("scheduler", &old.scheduler, scheduler);
    reasons.named("scheduler flags", old.scheduler_flags == *scheduler_flags);
    reasons.shown("one_packet", &old.one_packet, one_packet);
    reasons.named("persistence", old.persistence == *persistence);
    if old.active_when != *active_when {
        let shown =
            |gate: &Option<model::ActiveWhen>| gate.as_ref().map_or("always".to_owned(), ToString::to_string);
        reasons.shown("active_when", &shown(&old.active_when), &shown(active_when));
    }
    reasons.shown("quorum", &old.quorum, quorum);
    reasons.shown("hysteresis", &old.hysteresis, hysteresis);
    reasons.shown("min_alive", &old.min_alive, min_alive);
    reasons.shown("omega", &old.omega, omega);
    reasons.named("quorum_up", old.quorum_up == *quorum_up);
    reasons.named("quorum_down", old.quorum_down == *quorum_down);
    reasons.named("announce", old.announce == *announce);
    reasons.0
}

pub(super) fn server_changes(old: &model::RealServer, new: &model::RealServer) -> Vec<String> {
    let model::RealServer {
        id: _,
        weight,
        forwarding,
        upper_threshold,
        lower_threshold,
        inhibit_on_failure,
        alpha,
        notify_up,
        notify_down,
        checks,
    } = new;
    let mut reasons = Reasons::default();
    reasons.shown("weight", &old.weight, weight);
    reasons.named("forwarding method", old.forwarding == *forwarding);
    let limits = (old.upper_threshold, old.lower_threshold) == (*upper_threshold, *lower_threshold);
    reasons.named("connection limits", limits);
    reasons.shown("inhibit_on_failure", &old.inhibit_on_failure, inhibit_on_failure);
    reasons.shown("alpha", &old.alpha, alpha);
    reasons.named("notify_up", old.notify_up == *notify_up);
    reasons.named("notify_down", old.notify_down == *notify_down);
    if old.checks != *checks {
        let known: Vec<_> = old.checks.iter().map(|check| Identity::of(&check.probe)).collect();
        let decides = |check: &Arc<model::Check>| {
            check.mode == model::Mode::Enforce && !known.contains(&Identity::of(&check.probe))
        };
        // One wrong word of a check that many servers share can empty a pool with the next run.
        let warning = ", and ask something new: the first result decides alone";
        let more = if checks.iter().any(decides) { warning } else { "" };
        reasons.0.push(format!("checks changed{more}"));
    }
    reasons.0
}

#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn shown<T: PartialEq + fmt::Display>(&mut self, what: &str, old: &T, new: &T) {
        if old != new {
            self.0.push(format!("{what} {old} → {new}"));
        }
    }

    fn named(&mut self, what: &str, same: bool) {
        if !same {
            self.0.push(format!("{what} changed"));
        }
    }
}
