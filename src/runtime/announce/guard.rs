//! Rules that keep failed servers in the table, as log lines: when one begins to, and when it ends.

use std::sync::Arc;

use tracing::{info, warn};

use super::{Announcer, ToTell};
use crate::control::duration;
use crate::engine::Guard;
use crate::engine::model::{self, DownRate, RealServerId};
use crate::notify::EventKind;

/// Servers named in one line: a pool can have thousands.
const NAMED: usize = 20;

/// How many are to be left, and how fast they may go.
pub(in crate::runtime) type Numbers = (usize, Option<DownRate>);

/// `min_alive = 2 keeps 198.51.100.11:80 and 198.51.100.12:80, which have failed`
pub(in crate::runtime) fn text(
    of: &model::VirtualServer,
    guard: Guard,
    kept: &[RealServerId],
    numbers: Numbers,
) -> String {
    let rule = rule(of, guard, numbers);
    if kept.is_empty() {
        return format!("{rule} keeps no failed server any more");
    }
    format!("{rule} keeps servers in the table that have failed: {}", names(kept))
}

/// As it is written, and what a share comes to.
fn rule(of: &model::VirtualServer, guard: Guard, (min_alive, rate): Numbers) -> String {
    match (guard, of.min_alive) {
        (Guard::MinAlive, model::Portion::Count(_)) => format!("min_alive = {min_alive}"),
        (Guard::MinAlive, share @ model::Portion::Share(_)) => {
            format!("min_alive = {share}, {min_alive} of its servers,")
        }
        (Guard::MaxDownRate, _) => rate.map_or("max_down_rate".to_owned(), |rate| {
            format!("max_down_rate = {} per {}", rate.servers, duration::display(rate.per))
        }),
    }
}

fn names(kept: &[RealServerId]) -> String {
    let mut names: Vec<String> = kept.iter().take(NAMED).map(ToString::to_string).collect();
    if let more @ 1.. = kept.len().saturating_sub(names.len()) {
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

impl Announcer {
    pub(super) fn guard(
        &mut self,
        of: &Arc<model::VirtualServer>,
        guard: Guard,
        kept: &[RealServerId],
        numbers: Numbers,
    ) {
        let (virtual_server, guard_name, rule) = (of.name.as_str(), guard.name(), rule(of, guard, numbers));
        let kind = if kept.is_empty() {
            info!(
                virtual_server,
                guard = guard_name,
                "{virtual_server}: {rule} keeps no failed server any more"
            );
            EventKind::GuardEnded
        } else {
            let kept = names(kept);
            warn!(
                virtual_server,
                guard = guard_name,
                kept,
                "{virtual_server}: {rule} keeps servers in the table that have failed: {kept}"
            );
            EventKind::GuardBegan
        };
        let text = text(of, guard, kept, numbers);
        let virtual_server = Some(of);
        let reason = Some(text);
        self.publish(ToTell { kind, script: None, virtual_server, real_server: None, reason, quorum: None });
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::engine::model::Portion;
    use crate::runtime::testing;

    #[test]
    fn the_rule_and_those_whom_it_keeps_are_named() {
        let mut pool = (*testing::pool("web", "192.0.2.10:80", &["198.51.100.11:80"])).clone();
        pool.min_alive = Portion::Count(2);
        let ids: Vec<RealServerId> =
            (0..30).map(|n| RealServerId { address: [198, 51, 100, n].into(), port: Some(80) }).collect();
        assert_eq!(
            text(&pool, Guard::MinAlive, &ids[11..13], (2, None)),
            "min_alive = 2 keeps servers in the table that have failed: 198.51.100.11:80 and 198.51.100.12:80"
        );
        assert!(text(&pool, Guard::MinAlive, &ids, (2, None)).ends_with("198.51.100.19:80 and 10 more"));
        let rate = DownRate { servers: NonZeroU32::MIN, per: Duration::from_secs(90) };
        assert_eq!(
            text(&pool, Guard::MaxDownRate, &[], (2, Some(rate))),
            "max_down_rate = 1 per 1m30s keeps no failed server any more"
        );
        pool.min_alive = Portion::Share(50);
        assert_eq!(
            text(&pool, Guard::MinAlive, &[], (2, None)),
            "min_alive = 50%, 2 of its servers, keeps no failed server any more"
        );
    }
}
