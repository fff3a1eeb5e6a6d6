//! The thread that writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::backoff::Backoff;
use super::doubts::Doubts;
use super::ledger::{Change, Ledger, Stamp};
use super::{Beginning, Inbox, Report, Settings, Shared, Stop, Ticket, View, lock};
use crate::engine::Time;
use crate::engine::model::{Drift, Sync, SyncRole, Timeouts};
use crate::engine::table::{Counters, CountersByDestination, ServiceId};
use crate::ipvs::{Kernel, Observed, Operation, OperationError, RequestError, sync_is_running};

/// For the dump that a withdrawal wants when some of it failed.
const LAST_LOOK: Duration = Duration::from_secs(5);
/// After a write, so that results that come in a storm are few writes: each costs more than the check that
/// led to it. The first of them never waits.
const GATHER: Duration = Duration::from_millis(5);
/// Operations between two looks at the inbox: some tens of milliseconds at the worst.
pub(super) const CHUNK: usize = 512;

pub(super) struct WritingThread {
    kernel: Box<dyn Kernel>,
    ledger: Ledger,
    shared: Arc<Shared>,
    reports: mpsc::Sender<Report>,
    counters: Arc<CountersByDestination>,
    /// When they came.
    counted: Time,
    totals: Arc<BTreeMap<ServiceId, Counters>>,
    /// Dumps that were taken in.
    looks: u64,
    drift: Drift,
    /// What the kernel was last told to be set to, and whether that is still to be done.
    settings: Settings,
    unset: bool,
    /// Their own: neither they nor the table wait for what is wrong with the other.
    settings_backoff: Backoff,
    settings_at: Option<Instant>,
    sync: Option<Sync>,
    backoff: Backoff,
    /// Services that have failed since they were last settled.
    failing: BTreeSet<ServiceId>,
    /// When to look and try again after failures.
    retry_at: Option<Instant>,
    /// A dump failed: the next good one is news.
    blind: bool,
    /// Which loading of the module the last dump was of.
    incarnation: u16,
    doubts: Doubts,
    /// Asked for up to here.
    taken: Ticket,
    unreported: Tally,
    reported: Ticket,
    /// Services that were unsettled, as last reported.
    open: BTreeSet<ServiceId>,
}

/// What has been done since the last report of it.
#[derive(Debug, Default)]
struct Tally {
    operations: usize,
    failed: Vec<OperationError>,
}

impl WritingThread {
    pub(super) fn new(
        kernel: Box<dyn Kernel>,
        beginning: Beginning,
        shared: Arc<Shared>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let Beginning { observed, owned, drift, drift_interval: _ } = beginning;
        Self {
            kernel,
            ledger: Ledger::new(observed.table, owned),
            shared,
            reports,
            counters: Arc::new(observed.counters),
            counted: crate::runtime::clock::now(),
            totals: Arc::new(observed.totals),
            looks: 0,
            drift,
            settings: Settings::default(),
            unset: false,
            settings_backoff: Backoff::new(),
            settings_at: None,
            sync: None,
            backoff: Backoff::new(),
            failing: BTreeSet::new(),
            retry_at: None,
            blind: false,
            incarnation: observed.incarnation,
            doubts: Doubts::default(),
            taken: Ticket::default(),
            unreported: Tally::default(),
            reported: Ticket::default(),
            open: BTreeSet::new(),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            let inbox = self.wait();
            self.taken = inbox.ticket;
            let stop = self.take_in(inbox);
            if self.retry_at.is_some_and(|at| at <= Instant::now()) {
                self.retry_at = None;
                self.ask_for_dump();
            }
            if self.unset && self.settings_at.is_none_or(|at| at <= Instant::now()) {
                self.apply_settings();
            }
            // Before the first wish, what an earlier run owned would seem to be wanted no more.
            let wrote = self.taken > Ticket::default() && self.write();
            if let Some(stop) = stop {
                self.end(stop);
                return;
            }
            if wrote {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the pause itself is wanted, whatever comes in it"
                )]
                std::thread::sleep(GATHER);
            }
        }
    }

    /// Until there is news, or it is time to try again.
    fn wait(&self) -> Inbox {
        let mut inbox = lock(&self.shared.inbox);
        loop {
            let next = [self.retry_at, self.settings_at].into_iter().flatten().min();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            if !inbox.is_idle(self.taken) || left == Some(Duration::ZERO) {
                let ticket = inbox.ticket;
                return std::mem::replace(&mut *inbox, Inbox { ticket, ..Inbox::default() });
            }
            // An hour stands for ever: a spurious wake-up is harmless.
            let limit = left.unwrap_or(Duration::from_secs(3600));
            let (guard, _) =
                self.shared.news.wait_timeout(inbox, limit).unwrap_or_else(PoisonError::into_inner);
            inbox = guard;
        }
    }

    fn take_in(&mut self, inbox: Inbox) -> Option<Stop> {
        if let Some(drift) = inbox.drift {
            if drift == Drift::Repair && self.drift != Drift::Repair {
                self.ledger.unsettle_all();
            }
            self.drift = drift;
        }
        inbox.configured.into_iter().for_each(|services| self.ledger.keep(services));
        self.want(inbox.wants);
        match inbox.dump {
            Some((Ok(seen), began)) => self.observe(seen, began),
            Some((Err(error), _)) => {
                self.blind = true;
                self.unreported.failed.append(&mut self.doubts.give_up());
                self.report(Report::Failed(error));
            }
            None => {}
        }
        if let Some(settings) = inbox.settings {
            self.settings = settings;
            self.unset_settings();
        }
        for view in inbox.views {
            let (table, wanted) = (self.ledger.observed().clone(), self.ledger.wanted().clone());
            let (counters, totals) = (Arc::clone(&self.counters), Arc::clone(&self.totals));
            // Nobody waits for it any more: nothing to do.
            let (counted, looks) = (self.counted, self.looks);
            let _ = view.send(View { table, wanted, counters, totals, counted, looks });
        }
        inbox.stop
    }

    /// The table as it is now: what was held back is planned anew from it.
    fn observe(&mut self, seen: Observed, began: Stamp) {
        self.looks += 1;
        if std::mem::take(&mut self.blind) {
            // The module may have been loaded anew, with settings of its own.
            self.unset_settings();
            self.report(Report::Recovered);
        }
        if std::mem::replace(&mut self.incarnation, seen.incarnation) != seen.incarnation {
            self.unset_settings();
        }
        let drifted = self.ledger.observe(&seen.table, began, self.drift);
        self.ledger.release();
        let explained = self.doubts.explain(|id| self.ledger.is_doubtful(id));
        if !explained.is_empty() {
            self.report(Report::Surprised(explained));
        }
        self.counters = Arc::new(seen.counters);
        self.counted = crate::runtime::clock::now();
        self.totals = Arc::new(seen.totals);
        if !drifted.repairs.is_empty() && self.drift != Drift::Off {
            self.report(Report::Drifted(drifted));
        }
    }

    /// Plans and writes until nothing is left but what failed. Was there anything to write?
    fn write(&mut self) -> bool {
        let mut failed: Vec<OperationError> = Vec::new();
        let mut plan = self.ledger.plan();
        let wrote = !plan.is_empty();
        let mut left = plan.as_slice();
        while let Some((chunk, rest)) =
            left.split_at_checked(left.len().min(CHUNK)).filter(|(c, _)| !c.is_empty())
        {
            self.unreported.operations += chunk.len();
            let answered = self.write_chunk(chunk, &mut failed);
            left = rest;
            if !answered {
                left.iter().for_each(|operation| self.ledger.failed(operation));
                break;
            }
            if !left.is_empty() && self.take_newer_wishes() {
                plan = self.ledger.plan();
                left = plan.as_slice();
            }
        }
        self.ledger.settle();
        lock(&self.shared.look).stamp = self.ledger.stamp();
        self.failing.retain(|id| !self.ledger.is_settled_for(id));
        if !failed.is_empty() {
            self.recover(&failed);
        } else if self.ledger.is_settled() {
            self.backoff.reset();
            self.retry_at = None;
        }
        self.doubts.forget(|id| self.ledger.is_settled_for(id));
        self.unreported.failed.append(&mut self.doubts.sort_out(failed));
        if self.doubts.is_empty() {
            self.report_written();
        } else {
            self.ask_for_dump();
        }
        wrote
    }

    fn report_written(&mut self) {
        let Tally { operations, failed } = std::mem::take(&mut self.unreported);
        let (ticket, settled) = (self.taken, self.ledger.is_settled());
        let news = ticket > self.reported || *self.ledger.unsettled() != self.open;
        if operations > 0 || !failed.is_empty() || news {
            let (open, held) = (self.ledger.unsettled().clone(), self.ledger.held().clone());
            (self.reported, self.open) = (ticket, open.clone());
            let barred = self.ledger.is_barred();
            self.report(Report::Written { ticket, operations, failed, settled, open, held, barred });
        }
    }

    /// What a dump has still to show is not tried before.
    fn want(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.ledger.want(changes);
        self.ledger.hold(self.doubts.waiting());
    }

    /// False if the kernel answered nothing at all: there is no point in asking on.
    fn write_chunk(&mut self, chunk: &[Operation], failed: &mut Vec<OperationError>) -> bool {
        let before = failed.len();
        let results = self.kernel.apply(chunk);
        let added = chunk.iter().zip(&results).filter_map(|(operation, result)| match (operation, result) {
            (Operation::AddService { service, .. }, Ok(())) => Some(*service),
            _ => None,
        });
        lock(&self.shared.look).added.extend(added);
        for (operation, result) in chunk.iter().zip(results) {
            match result {
                Ok(()) => self.ledger.applied(operation),
                Err(error) if error.is_done_already() => self.ledger.applied(operation),
                Err(error) => {
                    self.ledger.failed(operation);
                    failed.push(error);
                }
            }
        }
        let new = failed.get(before..).unwrap_or_default();
        new.len() < chunk.len() || new.iter().any(|error| error.errno().is_some())
    }

    fn take_newer_wishes(&mut self) -> bool {
        let mut inbox = lock(&self.shared.inbox);
        let (wants, configured) = (std::mem::take(&mut inbox.wants), inbox.configured.take());
        drop(inbox);
        configured.into_iter().for_each(|services| self.ledger.keep(services));
        let any = !wants.is_empty();
        self.want(wants);
        any
    }

    /// Only a dump tells what the table is now: at once when a service fails for the first time, however
    /// long others have been failing, then with back-off.
    fn recover(&mut self, failed: &[OperationError]) {
        let known = self.failing.len();
        self.failing.extend(failed.iter().map(OperationError::service));
        if self.failing.len() > known {
            self.backoff.reset();
            self.ask_for_dump();
        }
        self.retry_at = Some(Instant::now() + self.backoff.next());
    }

    fn ask_for_dump(&self) {
        lock(&self.shared.look).wanted = true;
        self.shared.asked.notify_one();
    }

    /// They are to be set now.
    fn unset_settings(&mut self) {
        self.unset = true;
        self.settings_at = None;
    }

    fn apply_settings(&mut self) {
        let timeouts = self.settings.timeouts;
        let set = if timeouts == Timeouts::default() { Ok(()) } else { self.kernel.set_timeouts(&timeouts) };
        match set.and_then(|()| self.apply_sync()) {
            Ok(()) => {
                self.unset = false;
                self.settings_at = None;
                self.settings_backoff.reset();
            }
            Err(error) => {
                self.report(Report::Failed(error));
                self.settings_at = Some(Instant::now() + self.settings_backoff.next());
            }
        }
    }

    /// Sync daemons that we did not start are left alone, unless the configuration wants its own.
    fn apply_sync(&mut self) -> Result<(), RequestError> {
        let wanted = self.settings.sync.clone();
        if wanted.is_none() && self.sync.is_none() {
            return Ok(());
        }
        let running = self.kernel.sync_daemons()?;
        if wanted.as_ref().is_none_or(|wanted| !sync_is_running(wanted, &running)) {
            self.kernel.stop_sync(SyncRole::Both)?;
            // Of two daemons one may come up: it is ours from before the first is started.
            self.sync.clone_from(&wanted);
            if let Some(wanted) = &wanted {
                self.kernel.start_sync(wanted)?;
            }
        }
        self.sync = wanted;
        Ok(())
    }

    fn end(mut self, stop: Stop) {
        // What waits for a dump is wanted no more, or left to the next start.
        self.doubts.give_up();
        if let Stop::Withdraw(_) = stop {
            self.ledger.want_nothing();
            self.write();
            if !self.ledger.is_settled() && self.look_again() {
                self.write();
            }
        }
        self.unreported.failed.append(&mut self.doubts.give_up());
        self.report_written();
        if let Stop::Withdraw(timeouts) = stop {
            self.settings = Settings { timeouts, sync: None };
            self.apply_settings();
        }
        lock(&self.shared.look).stop = true;
        self.shared.asked.notify_one();
    }

    /// Takes in a dump that began after the last write: what failed may be gone, or there after all.
    /// False if none comes.
    fn look_again(&mut self) -> bool {
        let (end, stamp) = (Instant::now() + LAST_LOOK, self.ledger.stamp());
        self.ask_for_dump();
        let mut inbox = lock(&self.shared.inbox);
        let seen = loop {
            match inbox.dump.take() {
                Some((seen, began)) if began >= stamp => break seen,
                // One that began before says nothing of it.
                Some(_) | None => {}
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let (guard, _) =
                self.shared.news.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner);
            inbox = guard;
        };
        drop(inbox);
        match seen {
            Ok(seen) => self.observe(seen, stamp),
            Err(error) => {
                self.report(Report::Failed(error));
                return false;
            }
        }
        true
    }

    fn report(&self, report: Report) {
        // The supervisor is gone only when the process ends.
        let _ = self.reports.blocking_send(report);
    }
}
