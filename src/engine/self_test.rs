//! Is the director itself the sick one? While it is, verdicts are frozen: results of checks neither take
//! a server out nor bring one back, and count for nothing.
//!
//! Three signs are looked for: the loop that calls the engine is late, checks that could be run cannot be
//! run any more, no canary answers. Each ends by itself when it has been gone for a while. Owns no verdict.

mod signs;

use std::collections::BTreeSet;
use std::time::Duration;

use super::event::{Event, Server};
use super::model::{self, Outcome, Phase, Verdict};
use super::schedule::{Places, ProbeId};
use super::snapshot::FrozenStatus;
use super::{Engine, Time};
use signs::{Results, Sign};

/// The caller's loop turns at least this often, whether or not there is anything to do.
pub const TURN: Duration = Duration::from_secs(1);

/// What speaks for a sick director.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Symptom {
    Lateness,
    LocalErrors,
    Canary,
}

impl Symptom {
    pub const ALL: [Self; 3] = [Self::Lateness, Self::LocalErrors, Self::Canary];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Lateness => "lateness",
            Self::LocalErrors => "local_errors",
            Self::Canary => "canary",
        }
    }
}

/// What one round of asking the canaries has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Canary {
    /// One at least did, be it by refusing.
    Answers,
    /// None did, and why not.
    Silent(String),
}

/// For metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelfTestFigures {
    pub frozen: bool,
    /// How often each sign came up.
    pub symptoms: [(&'static str, u64); 3],
    /// Results that did not count, since the start.
    pub set_aside: u64,
}

#[derive(Debug)]
pub(super) struct SelfTest {
    config: model::SelfTest,
    lateness: Sign,
    local_errors: Sign,
    canary: Sign,
    last_turn: Option<Time>,
    results: Results,
    /// No canary has been heard of yet: at the start a failure may be the network's, and the first result
    /// of a check decides alone.
    awaits_canary: bool,
    frozen: Option<Frozen>,
    /// Runs that were in flight when the verdicts thawed: a failure of theirs may be of the time before.
    doubtful: BTreeSet<ProbeId>,
    set_aside: u64,
}

#[derive(Clone, Copy, Debug)]
struct Frozen {
    since: Time,
    /// Of `SelfTest::set_aside`.
    before: u64,
}

impl Default for SelfTest {
    fn default() -> Self {
        Self::new(&model::SelfTest::off())
    }
}

impl SelfTest {
    pub(super) fn new(config: &model::SelfTest) -> Self {
        Self {
            config: config.clone(),
            lateness: Sign::default(),
            local_errors: Sign::default(),
            canary: Sign::default(),
            last_turn: None,
            results: Results::default(),
            awaits_canary: !config.canary.is_empty(),
            frozen: None,
            doubtful: BTreeSet::new(),
            set_aside: 0,
        }
    }

    /// After a reload. A sign that is not looked for any more ends.
    pub(super) fn configure(&mut self, config: &model::SelfTest) {
        if config.max_lateness.is_none() {
            self.lateness.end();
        }
        if config.local_errors.is_none() {
            self.local_errors.end();
        }
        if config.canary.is_empty() {
            self.canary.end();
            self.awaits_canary = false;
        }
        self.config = config.clone();
    }

    const fn signs(&self) -> [(Symptom, &Sign); 3] {
        let Self { lateness, local_errors, canary, .. } = self;
        [(Symptom::Lateness, lateness), (Symptom::LocalErrors, local_errors), (Symptom::Canary, canary)]
    }

    /// When a sign ends, or results are too old to be one.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let ends = self.signs().into_iter().filter_map(|(_, sign)| sign.ends());
        let old = self.local_errors.is_lasting().then(|| self.results.next_to_expire()).flatten();
        ends.chain(old).min()
    }

    pub(super) fn status(&self) -> Option<FrozenStatus> {
        let frozen = self.frozen?;
        let reasons = self.signs().into_iter().filter_map(|(_, sign)| sign.reason().map(str::to_owned));
        let set_aside = self.set_aside - frozen.before;
        Some(FrozenStatus { since: frozen.since, reasons: reasons.collect(), set_aside })
    }

    /// How a result counts, and what it says of the director.
    fn judge(&mut self, id: ProbeId, outcome: &Outcome) -> Counts {
        let failed = !matches!(outcome.verdict, Verdict::Success { .. });
        let doubtful = self.doubtful.remove(&id);
        if self.frozen.is_some() {
            Counts::Never
        } else if failed && (doubtful || self.awaits_canary) {
            Counts::AskAgain
        } else {
            Counts::Yes
        }
    }

    /// Counts this result among the newest.
    fn observe(&mut self, id: ProbeId, local: bool, checks: usize, now: Time) {
        self.results.push((now, id, local), checks);
        self.look_at_results(now);
    }

    fn look_at_results(&mut self, now: Time) {
        let Some(percent) = self.config.local_errors else { return };
        self.results.expire(now);
        if self.results.exceed(percent) {
            let (local, all) = (self.results.local, self.results.len());
            let reason = || format!("{local} of the last {all} checks could not be run on this host");
            self.local_errors.seen(reason);
        } else if self.results.are_well_below(percent) {
            self.local_errors.unseen(now);
        }
    }
}

/// Does a result count?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Yes,
    /// No, and the check is to run again soon.
    AskAgain,
    Never,
}

/// Does it say that this host cannot run checks? Not what the options of one check ask for in vain: a
/// source address that is on the other director now.
fn is_local(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Success { .. } => false,
        Verdict::Failure(fault) => fault.phase == Phase::Internal,
        Verdict::LocalError(fault) => fault.phase != Phase::Source,
    }
}

impl Engine {
    /// The caller's loop has come round, which it does once in [`TURN`] at least. To be called before any
    /// other input: what came in while the loop stood still is not to count.
    pub fn handle_turn(&mut self, now: Time) {
        let test = &mut self.self_test;
        let last = test.last_turn.replace(now).unwrap_or(now);
        let late = now.since(last).saturating_sub(TURN);
        match test.config.max_lateness {
            Some(most) if late > most => {
                test.lateness.seen(|| format!("the daemon stood still for {:.1} s", late.as_secs_f64()));
            }
            Some(_) => test.lateness.unseen(now),
            None => {}
        }
        self.settle_self_test(now);
    }

    /// One round of asking the canaries is over.
    pub fn handle_canary(&mut self, canary: &Canary, now: Time) {
        let test = &mut self.self_test;
        if test.config.canary.is_empty() {
            return;
        }
        test.awaits_canary = false;
        match canary {
            Canary::Answers => test.canary.unseen(now),
            Canary::Silent(why) => test.canary.seen(|| format!("no canary answers: {why}")),
        }
        self.settle_self_test(now);
    }

    /// Verdicts stay as they are.
    pub const fn is_frozen(&self) -> bool {
        self.self_test.frozen.is_some()
    }

    pub fn self_test_figures(&self) -> SelfTestFigures {
        let test = &self.self_test;
        let symptoms = test.signs().map(|(symptom, sign)| (symptom.name(), sign.count()));
        SelfTestFigures { frozen: self.is_frozen(), symptoms, set_aside: test.set_aside }
    }

    /// Takes the result for what it says of the director, and keeps it from the verdicts if it must not
    /// count: `Some`, and whether the check is to run again soon.
    pub(super) fn set_aside(
        &mut self,
        id: ProbeId,
        places: &Places,
        outcome: &Outcome,
        now: Time,
    ) -> Option<bool> {
        let local = is_local(&outcome.verdict);
        // What could never be run is set up wrongly, and no sign of anything new.
        if self.schedule.note_ran(id, local) {
            self.self_test.observe(id, local, self.schedule.len(), now);
        }
        self.settle_self_test(now);
        let again = match self.self_test.judge(id, outcome) {
            Counts::Yes => return None,
            Counts::AskAgain => true,
            Counts::Never => false,
        };
        self.self_test.set_aside += 1;
        for (pool_at, server_at, checker_at) in places.iter() {
            let Some(pool) = self.pools.get_mut(pool_at as usize) else { continue };
            let virtual_server = &pool.config;
            let Some(server) = pool.real_servers.get_mut(server_at as usize) else { continue };
            let Some(checker) = server.checkers.get_mut(checker_at as usize) else { continue };
            checker.show(outcome, now);
            if let Verdict::Failure(fault) | Verdict::LocalError(fault) = &outcome.verdict {
                let (virtual_server, real_server) = (virtual_server.clone(), server.config.clone());
                let of = Server { virtual_server, real_server };
                let (check, fault) = (checker.config.clone(), fault.clone());
                self.events.push_back(Event::SetAside { of, check, fault });
            }
        }
        Some(again)
    }

    /// Freezes or thaws the verdicts as the signs say. Spurious calls are harmless.
    pub(super) fn settle_self_test(&mut self, now: Time) {
        let test = &mut self.self_test;
        if test.local_errors.is_lasting() {
            test.look_at_results(now);
        }
        let mut new = Vec::new();
        for (symptom, sign) in [
            (Symptom::Lateness, &mut test.lateness),
            (Symptom::LocalErrors, &mut test.local_errors),
            (Symptom::Canary, &mut test.canary),
        ] {
            sign.end_if_due(now);
            new.extend(sign.take_new().map(|reason| (symptom, reason)));
        }
        for (symptom, reason) in new {
            let first = self.self_test.frozen.is_none();
            if first {
                self.self_test.frozen = Some(Frozen { since: now, before: self.self_test.set_aside });
                self.forget_counts();
            }
            self.events.push_back(Event::Frozen { symptom, reason, first });
        }
        self.thaw_if_well(now);
    }

    fn thaw_if_well(&mut self, now: Time) {
        let test = &mut self.self_test;
        let Some(frozen) = test.frozen else { return };
        if test.signs().iter().any(|(_, sign)| sign.reason().is_some()) {
            return;
        }
        test.frozen = None;
        test.doubtful = self.schedule.running().collect();
        let (lasted, set_aside) = (now.since(frozen.since), test.set_aside - frozen.before);
        self.events.push_back(Event::Thawed { lasted, set_aside });
    }

    /// What was counted towards the next change was counted by a director that is sick now.
    fn forget_counts(&mut self) {
        let servers = self.pools.iter_mut().flat_map(|pool| &mut pool.real_servers);
        servers.flat_map(|server| &mut server.checkers).for_each(super::Checker::forget_counts);
        self.memory_changed = true;
    }
}

#[cfg(test)]
mod tests;
