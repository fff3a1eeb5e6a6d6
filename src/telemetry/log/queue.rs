//! The bounded queue between everything that logs and the one thread that writes.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tracing::Level;

use super::format::{self, Format, Head};
use super::layer::now;
use super::record::{Fields, Value};
use super::sink::{Output, Sink};
use crate::anew::{Breaks, Part, Watch};

/// Whichever is reached first.
const MAX_RECORDS: usize = 10_000;
const MAX_BYTES: usize = 8 << 20;
/// While the queue stays busy, losses are told this often.
const REPORT_PERIOD: Duration = Duration::from_secs(1);

/// While somebody waits for it, a thread that has broken off pauses no longer than this.
const NUDGE: Duration = Duration::from_millis(50);

/// Clones are the same queue.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    shared: Arc<Shared>,
    /// Which writes.
    thread: Thread,
}

/// A mutex and no channel, because three things must be bounded or awaited together: records,
/// their bytes, and the writer's own idleness. It is held for a push or a pop, never while writing.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to write.
    work: Condvar,
    /// There is nothing to write and nothing being written.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    records: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Since the start.
    lost: u64,
    /// Of `lost`, what no line has told yet.
    untold: u64,
    writing: bool,
    closed: bool,
}

impl Queue {
    /// The thread ends when the queue is closed and empty, or with the process. What breaks it off is a line in the
    /// queue, which it writes once it is begun anew.
    pub(super) fn start(format: Format, sink: Sink, breaks: &Breaks) -> io::Result<Self> {
        let shared: Arc<Shared> = Arc::default();
        let mut output = sink.open()?;
        let (theirs, mut watch) = (Arc::clone(&shared), Watch::over(Part::Log, breaks));
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            while watch.breaks_here(|| {
                theirs.write_all(format, &mut output);
                Ok(())
            }) {}
        })?;
        Ok(Self { shared, thread: thread.thread().clone() })
    }

    /// Never waits for the writer. What does not fit is counted.
    pub(super) fn push(&self, record: Vec<u8>) {
        let mut state = self.shared.lock();
        if state.closed || state.records.len() >= MAX_RECORDS || state.bytes + record.len() > MAX_BYTES {
            state.lose();
            return;
        }
        state.bytes += record.len();
        state.records.push_back(record);
        drop(state);
        self.shared.work.notify_one();
    }

    /// True once everything is written; false if that takes longer than `limit`.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let busy = |state: &mut State| state.writing || !state.records.is_empty();
        let end = Instant::now() + limit;
        let mut state = self.shared.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // Where the thread does not pause this changes nothing but its next pause.
            self.thread.unpark();
            let waiting = self.shared.idle.wait_timeout_while(state, left.min(NUDGE), busy);
            let (then, waited) = waiting.unwrap_or_else(PoisonError::into_inner);
            if !waited.timed_out() || left.is_zero() {
                return !waited.timed_out();
            }
            state = then;
        }
    }

    /// Lets the thread end after what is queued; later records are lost.
    pub(super) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }

    pub(super) fn lost(&self) -> u64 {
        self.shared.lock().lost
    }
}

impl State {
    fn lose(&mut self) {
        self.lost += 1;
        self.untold += 1;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, format: Format, output: &mut Output) {
        let mut told = Instant::now();
        // The record that broke it is not tried again.
        if std::mem::take(&mut self.lock().writing) {
            self.lock().lose();
        }
        while let Some(record) = self.next() {
            let written = output.write(&record).is_ok();
            let mut state = self.lock();
            if !written {
                state.lose();
            }
            // Only behind a success: a reader that is gone would have us report for ever.
            let room = state.records.is_empty() || told.elapsed() >= REPORT_PERIOD;
            if written && room && state.untold > 0 {
                let count = std::mem::take(&mut state.untold);
                drop(state);
                told = Instant::now();
                let report = output.write(&loss(format, count));
                state = self.lock();
                if report.is_err() {
                    state.untold += count;
                }
            }
            state.writing = false;
            if state.records.is_empty() {
                self.idle.notify_all();
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let nothing = |state: &mut State| state.records.is_empty() && !state.closed;
        let mut state = self.work.wait_while(self.lock(), nothing).unwrap_or_else(PoisonError::into_inner);
        let record = state.records.pop_front()?;
        state.bytes -= record.len();
        state.writing = true;
        Some(record)
    }
}

fn loss(format: Format, count: u64) -> Vec<u8> {
    let lines = if count == 1 { "log line" } else { "log lines" };
    let fields =
        Fields { message: format!("{count} {lines} lost"), named: vec![("lost", Value::Unsigned(count))] };
    let head = Head { time: &now(), level: Level::WARN, target: module_path!(), place: None };
    format::encode(format, &head, &fields)
}
