//! The text of a state, written piece by piece.

use std::cell::Cell;
use std::io::Write;
use std::num::NonZeroU32;

use serde::{Serialize, Serializer};

use super::{Check, File, Note, OrderName, Pool, Server, VERSION};
use crate::engine::memory::{RememberedRealServer, RememberedVirtualServer};
use crate::engine::model::WeightChange;
use crate::engine::snapshot::{Order, OrderNote, Override};
use crate::engine::{CheckerState, Identity, Time};
use crate::runtime::state_file::State;

/// Writes the text of a state, unless it is more than `most` bytes; where in it the stamp stands.
pub(in crate::runtime) fn write(
    state: &State,
    boot_id: &str,
    to: impl Write,
    most: u64,
) -> std::io::Result<u64> {
    let State { memory, owned, announced, original_timeouts } = state;
    let seconds = |t: Option<NonZeroU32>| t.map_or(0, NonZeroU32::get);
    let (written, at) = (Cell::new(0), Cell::new(0));
    let stamp = Stamp { text: stamp(memory.saved_at.unwrap_or(Time::ZERO)), written: &written, at: &at };
    let file = File {
        version: VERSION,
        boot_id: boot_id.to_owned(),
        stamp,
        owned: owned.iter().map(ToString::to_string).collect(),
        announced: announced.iter().map(ToString::to_string).collect(),
        original_timeouts: original_timeouts.map(|t| [seconds(t.tcp), seconds(t.tcp_fin), seconds(t.udp)]),
        left: memory.left.iter().map(|at| at.as_nanos()).collect(),
        virtual_servers: Pools(&memory.virtual_servers),
    };
    serde_json::to_writer(Counted { to, written: &written, most }, &file)?;
    Ok(at.get())
}

/// A time as text of fixed width, so that it can be replaced in place.
pub(in crate::runtime) fn stamp(now: Time) -> String {
    format!("{:020}", now.as_nanos())
}

/// Notes where it is written.
struct Stamp<'a> {
    text: String,
    written: &'a Cell<u64>,
    at: &'a Cell<u64>,
}

impl Serialize for Stamp<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Behind its quotation mark; everything before it has been written.
        self.at.set(self.written.get() + 1);
        serializer.serialize_str(&self.text)
    }
}

/// Counts what is written, and takes no more than `most`.
struct Counted<'a, W> {
    to: W,
    written: &'a Cell<u64>,
    most: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.written.get() + bytes.len() as u64 > self.most {
            let reason = format!("it would be larger than {} MiB, which no start reads", self.most >> 20);
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
        }
        let count = self.to.write(bytes)?;
        self.written.set(self.written.get() + count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

/// Written one after the other: all of them at once are several times as large as the memory of them.
struct Pools<'a>(&'a [RememberedVirtualServer]);

impl Serialize for Pools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(render_pool))
    }
}

/// The whole text, for tests.
#[cfg(any(test, feature = "fuzzing"))]
#[derive(Debug)]
pub(in crate::runtime) struct Stored {
    pub(in crate::runtime) text: String,
    pub(in crate::runtime) stamp_at: u64,
}

#[cfg(any(test, feature = "fuzzing"))]
#[expect(clippy::unwrap_used, reason = "memory takes every write, and the text is UTF-8")]
pub(in crate::runtime) fn render(state: &State, boot_id: &str) -> Stored {
    let mut text = Vec::new();
    let stamp_at = write(state, boot_id, &mut text, u64::MAX).unwrap();
    Stored { text: String::from_utf8(text).unwrap(), stamp_at }
}

fn render_pool(pool: &RememberedVirtualServer) -> Pool {
    Pool {
        name: pool.name.clone(),
        services: pool.services.iter().map(ToString::to_string).collect(),
        quorum_up: pool.quorum_up,
        since: pool.since.map(Time::as_nanos),
        real_servers: pool.real_servers.iter().map(render_server).collect(),
    }
}

fn render_server(server: &RememberedRealServer) -> Server {
    let order = |o: &Override| {
        let name = match o.order {
            Order::Drain => OrderName::Drain,
            Order::Disable => OrderName::Disable,
        };
        (name, render_note(&o.note))
    };
    Server {
        address: server.id.to_string(),
        order: server.order.as_deref().map(order),
        weight: server.operator_weight.as_ref().map(|w| (w.weight, render_note(&w.note))),
        kept: server.kept.map(Time::as_nanos),
        since: server.since.map(|since| (since.alive, since.at.as_nanos())),
        checks: server.checks.iter().map(|(identity, state)| render_check(*identity, state)).collect(),
    }
}

fn render_note(note: &OrderNote) -> Note {
    Note {
        by: note.by.clone(),
        reason: note.reason.clone(),
        since: note.since.as_nanos(),
        until: note.until.map(Time::as_nanos),
    }
}

fn render_check(identity: Identity, state: &CheckerState) -> Check {
    let (absolute, delta) = match state.weight {
        WeightChange::None => (None, None),
        WeightChange::Absolute(weight) => (Some(weight), None),
        WeightChange::Delta(delta) => (None, Some(delta)),
    };
    Check {
        identity: identity.to_string(),
        up: state.up,
        failures: state.failures,
        successes: state.successes,
        absolute,
        delta,
        heard: state.heard.as_nanos(),
        last: state.last.as_ref().map(|last| {
            let microseconds = u32::try_from(last.latency().as_micros()).unwrap_or(u32::MAX);
            (last.at.as_nanos(), microseconds, last.detail.to_string())
        }),
    }
}
