//! Virtual addresses on an operator's interface: there while a service of theirs has quorum, so that a
//! routing daemon announces them.
//!
//! The engine says which are wanted; here they wait for the table that serves them and for the record
//! that they are ours; the [`keeper`] makes it so. Nothing else on the interface is ever touched.

mod keeper;
mod ledger;
mod order;
mod plan;
mod shown;
mod tell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::{error, info, warn};

pub(super) use keeper::{Keeper, Netlink, Report, Stop};

use super::supervisor::Supervisor;
use crate::addresses::{Picture, Watcher, spawn_watcher};
use crate::anew::Breaks;
use crate::engine::announcements::{Announcements, Grounds, VirtualAddress};
use crate::engine::model::{Config, Drift, OnStop};
use crate::engine::table::ServiceId;
use crate::engine::{Time, VirtualServer};
use keeper::{Round, Standing};
use order::{Order, Progress};
use plan::Wish;
use tell::{Phase, Told};

/// Reports on their way to the supervisor; the keeper waits with more.
const REPORTS: usize = 64;
/// For the addresses to be taken away at the end.
const WITHDRAWAL: Duration = Duration::from_secs(10);

/// The supervisor's part.
#[derive(Debug)]
pub(super) struct Vips {
    /// `None` in a dry run.
    keeper: Option<Keeper>,
    reports: mpsc::Receiver<Report>,
    events: Option<(Watcher, watch::Receiver<Option<Arc<Picture>>>)>,
    announcements: Announcements,
    /// What those were made of.
    made_of: Option<(Arc<Config>, Grounds)>,
    order: Order,
    /// What the order was last made of.
    moment: Option<Moment>,
    wish: Wish,
    wishes: u64,
    standing: Standing,
    /// The last failure of each address that is not as it should be.
    failures: BTreeMap<VirtualAddress, String>,
    told: Told,
    phase: Phase,
    breaks: Breaks,
}

/// Everything that the order of things depends on, in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moment {
    progress: Progress,
    rounds: u64,
    recorded: usize,
}

impl Vips {
    pub(super) fn spawn(breaks: Breaks) -> std::io::Result<Self> {
        let (sender, reports) = mpsc::channel(REPORTS);
        let keeper = Keeper::spawn(Box::new(Netlink::default()), sender)?;
        Ok(Self::with(Some(keeper), reports, breaks))
    }

    /// For a dry run: nothing is announced.
    pub(super) fn none() -> Self {
        Self::with(None, mpsc::channel(1).1, Breaks::default())
    }

    fn with(keeper: Option<Keeper>, reports: mpsc::Receiver<Report>, breaks: Breaks) -> Self {
        Self {
            keeper,
            reports,
            events: None,
            announcements: Announcements::default(),
            made_of: None,
            order: Order::default(),
            moment: None,
            wish: Wish::default(),
            wishes: 0,
            standing: Standing::default(),
            failures: BTreeMap::new(),
            told: Told::new(),
            phase: Phase::Running,
            breaks,
        }
    }

    /// What the keeper has to say; `None` if it has broken off. Passes on to it that addresses or
    /// interfaces of this host have changed.
    pub(super) async fn report(&mut self) -> Option<Report> {
        let Some(keeper) = &self.keeper else { return std::future::pending().await };
        loop {
            let changed = async {
                match &mut self.events {
                    Some((_watcher, pictures)) => pictures.changed().await.is_ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                report = self.reports.recv() => return report,
                goes_on = changed => {
                    if !goes_on {
                        warn!("changes of this host's addresses are not heard of any more, only seen at intervals");
                        self.events = None;
                    }
                    keeper.look();
                }
            }
        }
    }

    /// From the first wish on: without one there is nothing that anybody could change.
    fn listen(&mut self) {
        match spawn_watcher(&self.breaks) {
            Ok(watcher) => {
                let pictures = watcher.pictures();
                self.events = Some((watcher, pictures));
            }
            Err(problem) => warn!("changes of this host's addresses are only seen at intervals: {problem}"),
        }
    }

    /// Brings the announcements up to date; have they changed? Looks at each pool, but computes only
    /// when one has another answer than before.
    fn remake(&mut self, config: &Arc<Config>, pools: &[VirtualServer]) -> bool {
        let same = self.made_of.as_ref().is_some_and(|(before, grounds)| {
            Arc::ptr_eq(before, config) && (self.announcements.addresses.is_empty() || grounds.hold(pools))
        });
        if !same {
            self.announcements = Announcements::of(pools);
            self.made_of = Some((Arc::clone(config), Grounds::of(pools)));
        }
        !same
    }

    /// Hands the keeper its wish if it is another: what is `ours` and neither admitted nor on its way is
    /// to go.
    fn post(&mut self, ours: &BTreeSet<VirtualAddress>, drift: Drift, interval: Duration) {
        let goes =
            |at: &&VirtualAddress| !self.order.admitted().contains(*at) && !self.order.is_waiting_for(at);
        let wish = Wish {
            present: self.order.admitted().clone(),
            absent: ours.iter().filter(goes).cloned().collect(),
        };
        if self.wishes == 0 && wish == Wish::default() {
            return;
        }
        if self.wishes == 0 {
            self.listen();
        }
        if let Some(keeper) = &self.keeper {
            self.wishes += 1;
            self.wish.clone_from(&wish);
            keeper.want(wish, drift, interval);
        }
    }

    fn take_in(&mut self, round: Round) {
        self.failures.extend(round.failed.into_iter().map(|(action, why)| (action.at().clone(), why)));
        for action in &round.done {
            self.failures.remove(action.at());
        }
        if round.standing.settled {
            self.failures.clear();
        }
        self.standing = round.standing;
    }

    /// What can be done about the newest wish has been done.
    pub(super) fn is_done(&self) -> bool {
        let told = self.wishes == 0 || self.standing.wishes == self.wishes;
        self.keeper.is_none() || told && !self.order.is_waiting()
    }

    /// All is as wished, of the newest wish.
    fn is_settled(&self) -> bool {
        self.wishes == 0 || self.standing.settled && self.standing.wishes == self.wishes
    }
}

impl Supervisor {
    /// Decides which addresses are to be there now. Called at each turn.
    pub(super) fn settle_addresses(&mut self) {
        let changed = self.vips.remake(&self.config, self.engine.virtual_servers());
        if self.vips.keeper.is_none() {
            return;
        }
        if changed {
            self.recorder.note_addresses(self.vips.announcements.configured());
        }
        let progress = Progress {
            asked: (!self.recorder.is_holding()).then_some(self.progress.asked),
            written: self.progress.writing.written(),
        };
        let (rounds, recorded) = (self.progress.writing.rounds(), self.recorder.addresses().len());
        let moment = Some(Moment { progress, rounds, recorded });
        if !changed && (!self.vips.order.is_waiting() || moment == self.vips.moment) {
            return;
        }
        self.vips.moment = moment;
        let Vips { order, announcements, .. } = &mut self.vips;
        let (recorder, open) = (&self.recorder, self.progress.writing.open());
        let is_served = |service: &ServiceId| !open.contains(service);
        let served = |at: &VirtualAddress| {
            let holders = announcements.addresses.get(at);
            holders.is_some_and(|h| h.with_quorum.iter().any(|(service, _)| is_served(service)))
        };
        let may_come = |at: &VirtualAddress| served(at) && recorder.addresses().contains(at);
        order.update(announcements.wanted(), progress, may_come, served);
        let mut ours = self.recorder.addresses().clone();
        ours.extend(self.vips.announcements.addresses.keys().cloned());
        let daemon = &self.config.daemon;
        self.vips.post(&ours, daemon.drift, daemon.drift_interval);
    }

    pub(super) fn handle_addresses(&mut self, report: Report, now: Time) {
        match report {
            Report::Round(round) => {
                self.announcer.addresses(&round.done, &self.vips.announcements, self.vips.phase);
                self.vips.told.tell_failures(&round, now);
                self.vips.take_in(round);
                // One that moves is ours where it still is.
                let rests = self.vips.is_settled() && !self.vips.order.is_waiting();
                if rests && self.vips.phase == Phase::Running {
                    self.recorder.forget_addresses();
                }
            }
            Report::Drifted(drifted) => {
                self.progress.counters.drift += drifted.len() as u64;
                self.vips.told.tell_drift(&drifted, self.config.daemon.drift, now);
            }
            Report::Blind(problem) => {
                error!("cannot read the addresses of this host, trying again: {problem}")
            }
            Report::Sees => info!("the addresses of this host are read again"),
        }
    }

    /// The end. Neighbours must not send what nobody will serve: the addresses go before the table.
    /// Is nothing of ours left?
    pub(super) async fn withdraw_addresses(&mut self) -> bool {
        let Some(keeper) = &self.vips.keeper else { return true };
        let stop = match self.on_stop() {
            OnStop::Keep => Stop::Keep,
            OnStop::Withdraw => Stop::Withdraw,
        };
        self.vips.phase = Phase::Stopping;
        if stop == Stop::Withdraw {
            let mut ours = self.recorder.addresses().clone();
            ours.extend(self.vips.announcements.addresses.keys().cloned());
            let wish = Wish { present: BTreeSet::new(), absent: ours };
            if self.vips.wishes > 0 {
                self.vips.wishes += 1;
                keeper.want(wish.clone(), Drift::Repair, self.config.daemon.drift_interval);
                self.vips.wish = wish;
            }
        }
        keeper.stop(stop);
        let ended = async {
            while let Some(report) = self.vips.reports.recv().await {
                self.handle_addresses(report, super::clock::now());
            }
        };
        let in_time = tokio::time::timeout(WITHDRAWAL, ended).await.is_ok();
        let gone = stop == Stop::Keep || self.vips.is_settled();
        if !in_time {
            error!("virtual addresses may be left: rtnetlink has not answered for {WITHDRAWAL:?}");
        } else if !gone {
            let left = tell::list(self.vips.standing.there.iter());
            error!("virtual addresses could not be withdrawn: {left}");
        }
        if let Some(keeper) = self.vips.keeper.take().filter(|_| in_time) {
            keeper.join();
        }
        gone
    }
}

#[cfg(test)]
mod tests;
