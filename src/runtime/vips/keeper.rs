//! The thread that keeps the virtual addresses as wished: looks, plans, writes, and tries again what
//! failed. The newest wish counts; whoever posts one waits for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::ledger::{Drifted, Ledger};
use super::plan::{Action, Interface, Observed, Obstacle, Wish};
use crate::addresses::{Reader, Writer};
use crate::engine::announcements::VirtualAddress;
use crate::engine::model::{Drift, Family};
use crate::runtime::kernel::Backoff;

/// Actions between two looks at the inbox.
const CHUNK: usize = 256;
/// How often the end tries what fails.
const LAST_TRIES: u32 = 2;

/// What the thread tells the supervisor. The channel closes when it ends, be it asked or broken.
#[derive(Debug)]
pub(in crate::runtime) enum Report {
    Round(Round),
    Drifted(Vec<Drifted>),
    /// The addresses cannot be read; and that they can again.
    Blind(String),
    Sees,
}

/// What has been done, and how things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Round {
    pub(in crate::runtime) done: Vec<Action>,
    pub(in crate::runtime) failed: Vec<(Action, String)>,
    pub(in crate::runtime) standing: Standing,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Standing {
    /// Those of the wish that are there.
    pub(in crate::runtime) there: BTreeSet<VirtualAddress>,
    pub(in crate::runtime) obstacles: BTreeMap<Arc<str>, Obstacle>,
    /// All is as wished, of this wish: the count of wishes taken in.
    pub(in crate::runtime) settled: bool,
    pub(in crate::runtime) wishes: u64,
}

/// How the thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Stop {
    /// Takes all away that is ours.
    Withdraw,
    Keep,
}

/// Where the addresses are: the kernel's, or a test's.
pub(in crate::runtime) trait Host: Send {
    /// Interfaces of these names.
    fn look(&mut self, names: &BTreeSet<Arc<str>>) -> Result<Observed, String>;
    fn act(&mut self, action: &Action, index: u32) -> Result<(), String>;
}

/// This network name space.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Netlink {
    reader: Reader,
    writer: Writer,
}

impl Host for Netlink {
    fn look(&mut self, names: &BTreeSet<Arc<str>>) -> Result<Observed, String> {
        let picture = self.reader.read().map_err(|error| error.to_string())?;
        let mut observed: Observed = names
            .iter()
            .filter_map(|name| {
                let found = picture.interface(name)?;
                let interface = Interface { index: found.index, up: found.up, addresses: BTreeSet::new() };
                Some((Arc::clone(name), interface))
            })
            .collect();
        for found in &picture.addresses {
            let is_single = found.prefix == Family::of(found.address).bits();
            if let (true, Some(interface)) = (is_single, observed.get_mut(found.interface.as_str())) {
                interface.addresses.insert(found.address);
            }
        }
        Ok(observed)
    }

    fn act(&mut self, action: &Action, index: u32) -> Result<(), String> {
        match action {
            Action::Announce(at) => self.writer.add(index, at.address),
            Action::Withdraw(at) => self.writer.remove(index, at.address),
        }
        .map_err(|error| error.to_string())
    }
}

#[derive(Default)]
struct Inbox {
    wish: Option<(Wish, Drift, Duration)>,
    look: bool,
    stop: Option<Stop>,
}

/// A mutex and not a channel: a wish replaces the one before it. Held for moments only.
#[derive(Default)]
struct Shared {
    inbox: Mutex<Inbox>,
    news: Condvar,
}

/// The supervisor's end.
pub(in crate::runtime) struct Keeper {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl Keeper {
    pub(in crate::runtime) fn spawn(
        host: Box<dyn Host>,
        reports: mpsc::Sender<Report>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let keeping = Keeping {
            host,
            reports,
            shared: Arc::clone(&shared),
            ledger: Ledger::new(Observed::new()),
            names: BTreeSet::new(),
            unseen: false,
            interval: Duration::from_secs(3600),
            looked_at: None,
            retry_at: None,
            backoff: Backoff::new(),
            blind: false,
            wishes: 0,
            told: Standing { settled: true, ..Standing::default() },
        };
        let thread =
            std::thread::Builder::new().name("vip-keeper".to_owned()).spawn(move || keeping.run())?;
        Ok(Self { shared, thread })
    }

    /// Hands over the newest wish; with `interval` between two looks without a reason.
    pub(in crate::runtime) fn want(&self, wish: Wish, drift: Drift, interval: Duration) {
        self.post(|inbox| inbox.wish = Some((wish, drift, interval)));
    }

    /// Something has happened to this host's addresses or interfaces.
    pub(in crate::runtime) fn look(&self) {
        self.post(|inbox| inbox.look = true);
    }

    pub(in crate::runtime) fn stop(&self, stop: Stop) {
        self.post(|inbox| inbox.stop = Some(stop));
    }

    pub(in crate::runtime) fn join(self) {
        // A panic in there has been printed by its hook.
        let _ = self.thread.join();
    }

    fn post(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut lock(&self.shared.inbox));
        self.shared.news.notify_one();
    }
}

struct Keeping {
    host: Box<dyn Host>,
    reports: mpsc::Sender<Report>,
    shared: Arc<Shared>,
    ledger: Ledger,
    /// Interfaces that the wish speaks of.
    names: BTreeSet<Arc<str>>,
    /// Some of them have not been looked at.
    unseen: bool,
    interval: Duration,
    looked_at: Option<Instant>,
    retry_at: Option<Instant>,
    backoff: Backoff,
    blind: bool,
    /// Taken in so far.
    wishes: u64,
    told: Standing,
}

impl Keeping {
    fn run(mut self) {
        loop {
            let inbox = self.wait();
            if let Some((wish, drift, interval)) = inbox.wish {
                self.take_wish(wish, drift, interval);
            }
            let mut look = inbox.look || self.unseen;
            let now = Instant::now();
            look |= self.looked_at.is_some_and(|at| now >= at + self.interval);
            if self.retry_at.is_some_and(|at| now >= at) {
                self.retry_at = None;
                self.ledger.release();
                look = true;
            }
            if !look || self.names.is_empty() || self.look() {
                self.write();
            }
            if let Some(stop) = inbox.stop {
                self.end(stop);
                return;
            }
        }
    }

    /// Until there is news, or it is time to look or to try again.
    fn wait(&self) -> Inbox {
        let mut inbox = lock(&self.shared.inbox);
        loop {
            let due = self.looked_at.filter(|_| !self.names.is_empty()).map(|at| at + self.interval);
            let next = [self.retry_at, due].into_iter().flatten().min();
            let left = next.map(|at| at.saturating_duration_since(Instant::now()));
            let news = inbox.wish.is_some() || inbox.look || inbox.stop.is_some();
            if news || left == Some(Duration::ZERO) {
                return std::mem::take(&mut *inbox);
            }
            // An hour stands for ever: a spurious wake-up is harmless.
            let limit = left.unwrap_or(Duration::from_secs(3600));
            let waited = self.shared.news.wait_timeout(inbox, limit);
            (inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take_wish(&mut self, wish: Wish, drift: Drift, interval: Duration) {
        let names: BTreeSet<Arc<str>> =
            wish.present.union(&wish.absent).map(|at| Arc::clone(&at.interface)).collect();
        self.unseen |= !names.is_subset(&self.names);
        // What is not spoken of any more was seen to be gone.
        self.names = names;
        self.interval = interval;
        self.wishes += 1;
        self.ledger.want(wish, drift);
    }

    /// Takes in what there is. Without it nothing is written: what is not known cannot be put right.
    fn look(&mut self) -> bool {
        self.looked_at = Some(Instant::now());
        match self.host.look(&self.names) {
            Ok(observed) => {
                self.unseen = false;
                if std::mem::take(&mut self.blind) {
                    self.report(Report::Sees);
                }
                let drifted = self.ledger.observe(observed);
                if !drifted.is_empty() {
                    self.report(Report::Drifted(drifted));
                }
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.blind, true) {
                    self.report(Report::Blind(error));
                }
                self.retry_at = Some(Instant::now() + self.backoff.next());
                false
            }
        }
    }

    fn write(&mut self) {
        let mut round = Round::default();
        loop {
            let plan = self.ledger.plan();
            let planned = plan.len();
            for action in plan.into_iter().take(CHUNK) {
                match self.act(&action) {
                    Ok(()) => {
                        self.ledger.applied(&action);
                        round.done.push(action);
                    }
                    Err(error) => {
                        self.ledger.failed(&action);
                        round.failed.push((action, error));
                    }
                }
            }
            if planned <= CHUNK {
                break;
            }
            let newer = lock(&self.shared.inbox).wish.take();
            if let Some((wish, drift, interval)) = newer {
                self.take_wish(wish, drift, interval);
            }
            if self.unseen && !self.look() {
                return self.tell(round);
            }
        }
        self.ledger.settle();
        self.tell(round);
    }

    /// What was done, if anything, and how things stand, if otherwise than before.
    fn tell(&mut self, mut round: Round) {
        if self.ledger.is_holding() {
            self.retry_at.get_or_insert_with(|| Instant::now() + self.backoff.next());
        } else if !self.blind {
            self.retry_at = None;
            self.backoff.reset();
        }
        round.standing = Standing {
            there: self.ledger.there(),
            obstacles: self.ledger.obstacles(),
            settled: self.ledger.is_settled(),
            wishes: self.wishes,
        };
        if round.standing != self.told || !round.done.is_empty() || !round.failed.is_empty() {
            self.told.clone_from(&round.standing);
            self.report(Report::Round(round));
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        match self.ledger.index(action.at()) {
            Some(index) => self.host.act(action, index),
            None => Err("the interface has gone".to_owned()),
        }
    }

    fn end(mut self, stop: Stop) {
        match stop {
            Stop::Keep => {}
            Stop::Withdraw => {
                self.ledger.unsettle_all();
                for _ in 0..LAST_TRIES {
                    self.ledger.release();
                    if self.names.is_empty() || self.look() {
                        self.write();
                    }
                    if self.ledger.is_settled() {
                        break;
                    }
                }
            }
        }
    }

    fn report(&self, report: Report) {
        // The supervisor is gone only when the process ends.
        let _ = self.reports.blocking_send(report);
    }
}

/// A thread that panicked while it held the lock left plain data behind.
fn lock(mutex: &Mutex<Inbox>) -> MutexGuard<'_, Inbox> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
