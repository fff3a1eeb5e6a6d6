//! The kernel's table, written and read by two threads of their own: nothing that netlink does can
//! delay a check, and a dump never delays a write.
//!
//! The writer takes the newest wish, plans, writes in chunks and plans again if there is news, so that
//! a change never waits behind more than one chunk. What failed is tried again with back-off until
//! nothing is left. The reader dumps on a socket of its own, at each interval and on request.

mod backoff;
mod doubts;
mod ledger;
mod reader;
mod writer;

pub(super) use backoff::Backoff;
pub(super) use ledger::{Change, Drifted};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::engine::Time;
use crate::engine::model::{Drift, Sync, Timeouts};
use crate::engine::table::{Counters, CountersByDestination, Service, ServiceId, Table};
use crate::ipvs::{Dump, Kernel, Observed, OperationError, RequestError};
use ledger::Stamp;
use writer::WritingThread;

/// Counts what was asked of the writer; each answer says up to where it has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

impl Ticket {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
impl Ticket {
    pub(super) const fn for_tests(number: u64) -> Self {
        Self(number)
    }
}

/// What the writer tells the supervisor. The channel closes when the writer ends, be it asked or broken.
#[derive(Debug)]
pub(super) enum Report {
    /// All that was asked up to `ticket` has been carried out or tried. `failed` is what went wrong this
    /// time; `settled` says that nothing is left to do, of this time or of any before, and `open` for
    /// which services there may be. Of those, `held` wait for another try: what was last asked of the kernel for
    /// them was refused or not answered. The others were written since, which a dump has still to show.
    Written {
        ticket: Ticket,
        operations: usize,
        failed: Vec<OperationError>,
        settled: bool,
        open: BTreeSet<ServiceId>,
        held: BTreeSet<ServiceId>,
        /// Of all services that could serve none is there, because the kernel has refused them.
        barred: bool,
    },
    Drifted(Drifted),
    /// Operations failed because the table was not as it was left; what it is now has been looked up,
    /// and they are planned anew.
    Surprised(Vec<OperationError>),
    /// Time-outs, sync daemons or a dump failed.
    Failed(RequestError),
    /// A dump has been taken in; the first one after failures.
    Recovered,
}

/// What the kernel held when it was last looked at, for people to read.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) table: Table,
    /// What the writer was last asked for.
    pub(super) wanted: Table,
    pub(super) counters: Arc<CountersByDestination>,
    pub(super) totals: Arc<BTreeMap<ServiceId, Counters>>,
    /// When the dump of these was taken in.
    pub(super) counted: Time,
    /// How many dumps have been taken in.
    pub(super) looks: u64,
}

/// The kernel's settings beside its table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// To be set now: configured ones, or the original value of one that is configured no more.
    pub(super) timeouts: Timeouts,
    pub(super) sync: Option<Sync>,
}

#[derive(Default)]
struct Inbox {
    wants: BTreeMap<ServiceId, Option<Arc<Service>>>,
    configured: Option<BTreeSet<ServiceId>>,
    ticket: Ticket,
    settings: Option<Settings>,
    drift: Option<Drift>,
    dump: Option<(Result<Observed, RequestError>, Stamp)>,
    views: Vec<oneshot::Sender<View>>,
    stop: Option<Stop>,
}

impl Inbox {
    /// Nothing has come since `taken`. An empty wish is news too: it asks how far the writer is.
    fn is_idle(&self, taken: Ticket) -> bool {
        // Which services are configured matters to what is wanted only, and comes before it.
        let Self { wants, configured: _, ticket, settings, drift, dump, views, stop } = self;
        *ticket <= taken
            && wants.is_empty()
            && settings.is_none()
            && drift.is_none()
            && dump.is_none()
            && views.is_empty()
            && stop.is_none()
    }
}

/// How the writer ends.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// Take out all that is owned and put these time-outs back.
    Withdraw(Timeouts),
    Keep,
}

/// What the two threads share. A mutex and not a channel: a wish replaces the one before it, and the
/// reader must learn which write its dump came after. Held for moments only, never over I/O.
struct Shared {
    inbox: Mutex<Inbox>,
    news: Condvar,
    look: Mutex<Look>,
    asked: Condvar,
}

#[derive(Default)]
struct Look {
    wanted: bool,
    /// Services that were added since the last dump began.
    added: BTreeSet<ServiceId>,
    stamp: Stamp,
    interval: Duration,
    last_answer: Option<Instant>,
    stop: bool,
}

/// The supervisor's end.
pub(super) struct Writer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    ticket: Ticket,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// Where the threads begin.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) observed: Observed,
    pub(super) owned: BTreeSet<ServiceId>,
    pub(super) drift: Drift,
    pub(super) drift_interval: Duration,
}

/// Without a reader nothing tells the writer what the table is: when the reader breaks off, the writer
/// ends as well, and that the supervisor sees. At the usual end the writer is gone already.
struct EndOfReader<'a>(&'a Shared);

impl Drop for EndOfReader<'_> {
    fn drop(&mut self) {
        lock(&self.0.inbox).stop.get_or_insert(Stop::Keep);
        self.0.news.notify_one();
    }
}

impl Writer {
    pub(super) fn spawn(
        kernel: Box<dyn Kernel>,
        dump: Box<dyn Dump>,
        beginning: Beginning,
        reports: mpsc::Sender<Report>,
    ) -> std::io::Result<Self> {
        let look =
            Look { interval: beginning.drift_interval, last_answer: Some(Instant::now()), ..Look::default() };
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            news: Condvar::new(),
            look: Mutex::new(look),
            asked: Condvar::new(),
        });
        let (for_writer, for_reader) = (Arc::clone(&shared), Arc::clone(&shared));
        let writing = WritingThread::new(kernel, beginning, for_writer, reports);
        let threads = vec![
            std::thread::Builder::new().name("ipvs-writer".into()).spawn(move || writing.run())?,
            std::thread::Builder::new().name("ipvs-reader".into()).spawn(move || {
                let _end = EndOfReader(&for_reader);
                reader::run(dump, &for_reader);
            })?,
        ];
        Ok(Self { shared, threads, ticket: Ticket::default() })
    }

    /// Hands over changes of the wanted table; the newest counts.
    pub(super) fn want(&mut self, changes: Vec<Change>) -> Ticket {
        self.ticket = self.ticket.next();
        self.post(|inbox| inbox.wants.extend(changes))
    }

    /// The services of the configuration: they are ours, wanted in the table or not.
    pub(super) fn keep(&mut self, configured: BTreeSet<ServiceId>) {
        self.post(|inbox| inbox.configured = Some(configured));
    }

    pub(super) fn set(&mut self, settings: Settings) -> Ticket {
        self.ticket = self.ticket.next();
        self.post(|inbox| inbox.settings = Some(settings))
    }

    pub(super) fn set_drift(&mut self, drift: Drift, interval: Duration) {
        self.post(|inbox| inbox.drift = Some(drift));
        lock(&self.shared.look).interval = interval;
        self.shared.asked.notify_one();
    }

    /// The table as it was last seen, with the counters of the last dump.
    pub(super) fn view(&self) -> oneshot::Receiver<View> {
        let (sender, receiver) = oneshot::channel();
        self.post(|inbox| inbox.views.push(sender));
        receiver
    }

    /// Has the kernel looked at before the next interval. However often it is asked for, there are no
    /// more dumps than the reader's pause lets through.
    pub(super) fn look(&self) {
        lock(&self.shared.look).wanted = true;
        self.shared.asked.notify_one();
    }

    /// How long ago the kernel last answered a dump.
    pub(super) fn answers(&self) -> Answers {
        Answers(Arc::clone(&self.shared))
    }

    /// Ends both threads; what there was to do is done first.
    pub(super) fn stop(&mut self, stop: Stop) -> Ticket {
        self.ticket = self.ticket.next();
        self.post(|inbox| inbox.stop = Some(stop))
    }

    /// Waits for both threads to end.
    pub(super) fn join(self) {
        for thread in self.threads {
            // A panic in there has been printed by its hook.
            let _ = thread.join();
        }
    }

    fn post(&self, change: impl FnOnce(&mut Inbox)) -> Ticket {
        let mut inbox = lock(&self.shared.inbox);
        change(&mut inbox);
        inbox.ticket = self.ticket;
        drop(inbox);
        self.shared.news.notify_one();
        self.ticket
    }
}

/// For readiness: does netlink answer?
#[derive(Clone)]
pub(super) struct Answers(Arc<Shared>);

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Answers").field(&self.age()).finish()
    }
}

impl Answers {
    /// The age of the last good dump, and the longest age that is no cause for concern.
    pub(super) fn age(&self) -> (Option<Duration>, Duration) {
        let look = lock(&self.0.look);
        (look.last_answer.map(|at| at.elapsed()), 2 * look.interval + Duration::from_secs(2))
    }
}

/// A thread that panicked while it held the lock left plain data behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
