//! What happens to virtual addresses, for the log: each announcement and withdrawal with its reason;
//! failures once, then hourly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{error, info, warn};

use super::keeper::Round;
use super::ledger::Drifted;
use super::plan::{Action, Obstacle};
use crate::engine::Time;
use crate::engine::announcements::{Announcements, Holders};
use crate::engine::model::Drift;
use crate::runtime::announce::Announcer;
use crate::telemetry::repeats::{HOURLY, Repeat, Repeats};

/// Addresses in one line, or lines of one kind about one round.
const LINES: usize = 50;
/// Conditions whose repeats are counted.
const REPEATS: usize = 1000;

/// What has been told and is not over.
#[derive(Debug)]
pub(super) struct Told {
    failures: Repeats<String>,
    drift: Repeats<String>,
    obstacles: BTreeMap<Arc<str>, Obstacle>,
}

impl Told {
    pub(super) fn new() -> Self {
        let repeats = || Repeats::new(HOURLY, REPEATS);
        Self { failures: repeats(), drift: repeats(), obstacles: BTreeMap::new() }
    }

    pub(super) fn tell_failures(&mut self, round: &Round, now: Time) {
        for (interface, obstacle) in &round.standing.obstacles {
            if self.obstacles.get(interface) != Some(obstacle) {
                error!(
                    interface = &**interface,
                    "virtual addresses cannot be announced: {}",
                    obstacle.describe(interface)
                );
            }
        }
        self.obstacles.clone_from(&round.standing.obstacles);
        for (action, why) in round.failed.iter().take(LINES) {
            let (address, interface) = (action.at().address.to_string(), &*action.at().interface);
            let text = format!("cannot {action}: {why}");
            match self.failures.observe(text.clone(), now) {
                Repeat::Tell { unsaid: 0 } => error!(address, interface, "{text}"),
                Repeat::Tell { unsaid } => {
                    error!(address, interface, "{text} ({unsaid} times more since it was last said)");
                }
                Repeat::Count => {}
            }
        }
        if round.standing.settled {
            self.failures.retain(|_| false);
        }
    }

    pub(super) fn tell_drift(&mut self, drifted: &[Drifted], drift: Drift, now: Time) {
        let does = if drift == Drift::Repair { "putting it right" } else { "left as it is" };
        for one in drifted.iter().take(LINES) {
            let at = one.at();
            let what = match one {
                Drifted::Gone(_) => format!("{} is gone from {}", at.address, at.interface),
                Drifted::Came(_) => format!("{} came to {}", at.address, at.interface),
            };
            if let Repeat::Tell { .. } = self.drift.observe(what.clone(), now) {
                let (address, interface) = (at.address.to_string(), &*at.interface);
                warn!(address, interface, "a virtual address is not as it was left, {does}: {what}");
            }
        }
        if let Some(more) = drifted.len().checked_sub(LINES).filter(|more| *more > 0) {
            warn!("virtual addresses are not as they were left, {does}: {more} more");
        }
    }
}

/// Why addresses come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Stopping,
}

impl Announcer {
    /// Virtual addresses came or went.
    pub(super) fn addresses(&self, done: &[Action], announcements: &Announcements, phase: Phase) {
        for action in done.iter().take(LINES) {
            let at = action.at();
            let (address, interface) = (at.address.to_string(), &*at.interface);
            let holders = announcements.addresses.get(at);
            let reason = reason(action, holders, phase);
            match action {
                Action::Announce(_) => {
                    info!(address, interface, reason, "{address} announced on {interface}: {reason}");
                }
                Action::Withdraw(_) if phase == Phase::Stopping || holders.is_none() => {
                    info!(address, interface, reason, "{address} withdrawn from {interface}: {reason}");
                }
                Action::Withdraw(_) => {
                    warn!(address, interface, reason, "{address} withdrawn from {interface}: {reason}");
                }
            }
        }
        let more = done.get(LINES..).unwrap_or_default();
        if !more.is_empty() {
            let announced = more.iter().filter(|action| matches!(action, Action::Announce(_))).count();
            let withdrawn = more.len() - announced;
            info!("virtual addresses: {announced} more announced, {withdrawn} more withdrawn");
        }
    }
}

pub(super) fn reason(action: &Action, holders: Option<&Holders>, phase: Phase) -> String {
    match (action, holders) {
        _ if phase == Phase::Stopping => "lvsd stops".to_owned(),
        (_, None) => "the configuration does not announce it any more".to_owned(),
        // What was done is told a moment later, and may be over by then.
        (Action::Announce(_), Some(holders)) if !holders.is_held() => {
            "there was quorum, which is lost again".to_owned()
        }
        (Action::Withdraw(_), Some(holders)) if holders.is_held() => {
            "there was no quorum, and is again".to_owned()
        }
        (Action::Announce(_), Some(holders)) => {
            let names = names(&holders.with_quorum);
            let verb = if names.len() == 1 { "has" } else { "have" };
            format!("{} {verb} quorum", list(names.iter()))
        }
        (Action::Withdraw(_), Some(holders)) => without(holders),
    }
}

/// Why nobody holds an address.
pub(super) fn without(holders: &Holders) -> String {
    let (without, inactive) = (names(&holders.without), names(&holders.inactive));
    let verb = if inactive.len() == 1 { "is" } else { "are" };
    match (without.is_empty(), inactive.is_empty()) {
        (_, true) => format!("no quorum in {}", list(without.iter())),
        (true, false) => format!("{} {verb} not active", list(inactive.iter())),
        (false, false) => {
            format!("no quorum in {}, and {} {verb} not active", list(without.iter()), list(inactive.iter()))
        }
    }
}

type Side = [(crate::engine::table::ServiceId, Arc<crate::engine::model::VirtualServer>)];

fn names(side: &Side) -> BTreeSet<&str> {
    side.iter().map(|(_, virtual_server)| virtual_server.name.as_str()).collect()
}

/// With commas; of many only the first.
pub(super) fn list<T: std::fmt::Display>(mut items: impl Iterator<Item = T>) -> String {
    let first: Vec<String> = items.by_ref().take(LINES).map(|item| item.to_string()).collect();
    match items.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
