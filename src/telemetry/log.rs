//! The log: tracing events as journal entries with fields, as plain lines or as JSON lines.
//!
//! Nothing that a log reader does may delay the daemon. A record is formatted where it arises,
//! which is cheap and bounded, and put into a bounded queue; one thread writes. tracing-journald
//! and tracing-subscriber's formatter write in the calling thread, which a full socket or pipe
//! stops: that is why both are missing here. What does not fit is counted, and said once there
//! is room.

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::stat::fstat;
use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

mod format;
mod layer;
mod queue;
mod record;
mod sink;

use crate::anew::Breaks;
use format::Format;
use layer::LogLayer;
use queue::Queue;
use sink::Sink;

const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// For what is left in the queue when the last handle goes.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum LogError {
    #[error("log filter {filter:?}: {reason}")]
    Filter { filter: String, reason: String },
    #[error("LVSD_LOG_FORMAT={0:?}: json, plain and journal are known")]
    Format(String),
    #[error("starting the log writer")]
    Thread(#[source] io::Error),
    #[error("the log has been started already")]
    Started,
}

/// The running log. Dropping it waits a moment for the last lines.
#[derive(Debug)]
pub struct Log {
    queue: Queue,
    filter: reload::Handle<EnvFilter, Registry>,
    breaks: Breaks,
}

impl Log {
    /// Takes the whole process's tracing events. Where they go follows from the environment:
    /// `LVSD_LOG_FORMAT` if set, the journal if stderr leads to it, else plain lines on stderr.
    /// A panic becomes a record too: the default hook would write to stderr and wait for its
    /// reader.
    pub fn start(filter: &str) -> Result<Self, LogError> {
        let (format, sink) = destination(env::var("LVSD_LOG_FORMAT").ok().as_deref())?;
        let (subscriber, log) = build(filter, format, sink)?;
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Started)?;
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let words = panic.payload_as_str().unwrap_or("no words");
            tracing::error!(place, thread = std::thread::current().name(), "panic: {words}");
        }));
        Ok(log)
    }

    /// Another filter, in the syntax of `EnvFilter`; a wrong one leaves the old in place.
    pub fn set_filter(&self, filter: &str) -> Result<(), LogError> {
        let parsed = parse_filter(filter)?;
        self.filter
            .reload(parsed)
            .map_err(|error| LogError::Filter { filter: filter.to_owned(), reason: error.to_string() })
    }

    /// Waits until everything so far is written, no longer than `limit`; true if it is.
    pub fn flush(&self, limit: Duration) -> bool {
        self.queue.flush(limit)
    }

    /// What broke off, this log's thread included. All that is begun anew is to be counted here.
    pub fn breaks(&self) -> &Breaks {
        &self.breaks
    }

    /// Records that were never written, since the start.
    pub fn lost(&self) -> u64 {
        self.queue.lost()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.flush(LAST_WORDS);
        self.queue.close();
    }
}

/// Would `Log::start` and `set_filter` take this?
pub fn check_filter(filter: &str) -> Result<(), LogError> {
    parse_filter(filter).map(drop)
}

fn parse_filter(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|error| LogError::Filter { filter: filter.to_owned(), reason: error.to_string() })
}

fn build(filter: &str, format: Format, sink: Sink) -> Result<(impl Subscriber + Send + Sync, Log), LogError> {
    let (filter, handle) = reload::Layer::new(parse_filter(filter)?);
    let breaks = Breaks::default();
    let queue = Queue::start(format, sink, &breaks).map_err(LogError::Thread)?;
    let subscriber = tracing_subscriber::registry().with(filter).with(LogLayer::new(format, queue.clone()));
    Ok((subscriber, Log { queue, filter: handle, breaks }))
}

fn destination(wanted: Option<&str>) -> Result<(Format, Sink), LogError> {
    let journal = || (Format::Journal, Sink::Journal { path: PathBuf::from(JOURNAL_SOCKET) });
    let plain = || {
        let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none();
        (if colours { Format::Coloured } else { Format::Plain }, Sink::stderr())
    };
    match wanted {
        Some("json") => Ok((Format::Json, Sink::stderr())),
        Some("plain") => Ok(plain()),
        Some("journal") => Ok(journal()),
        Some(other) => Err(LogError::Format(other.to_owned())),
        None if stderr_is_journal(env::var("JOURNAL_STREAM").ok().as_deref()) => Ok(journal()),
        None => Ok(plain()),
    }
}

/// systemd names the device and inode of the stream that it connected; a redirection of stderr
/// inherits the variable but not the stream.
fn stderr_is_journal(journal_stream: Option<&str>) -> bool {
    let named = journal_stream.and_then(|value| {
        let (device, inode) = value.split_once(':')?;
        Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?))
    });
    match (named, fstat(io::stderr())) {
        (Some(named), Ok(stderr)) => named == (stderr.st_dev, stderr.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
