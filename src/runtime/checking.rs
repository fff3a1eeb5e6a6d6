//! `lvsd check-now`: checks that run because a client asked, and the clients that wait for them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use tracing::info;

use super::inquiries::selector;
use super::requests::refused;
use super::supervisor::{Answer, Supervisor};
use crate::control::protocol::Place;
use crate::control::{Peer, Reply, why};
use crate::engine::inquiry::Awaited;
use crate::engine::{Engine, ProbeId, Time};

/// Clients that wait at once.
const CLIENTS: usize = 16;
/// Beyond the time-outs: for runs that wait for a place to run.
const GRACE: Duration = Duration::from_secs(2);
/// A client waits no longer for any answer.
const LONGEST: Duration = Duration::from_secs(100);

#[derive(Debug, Default)]
pub(super) struct Checking(Vec<Client>);

#[derive(Debug)]
struct Client {
    on: Place,
    runs: BTreeMap<ProbeId, u32>,
    until: Time,
    reply: Answer,
}

impl Checking {
    pub(super) fn note_ended(&mut self, id: ProbeId) {
        for client in &mut self.0 {
            if let Some(left) = client.runs.get_mut(&id) {
                *left = left.saturating_sub(1);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.0.iter().map(|client| client.until).min()
    }

    /// Those whose runs have ended, or whose time is over. What a reload took away is not waited for.
    fn done(&mut self, engine: &Engine, now: Time) -> Vec<Client> {
        let is_done = |client: &mut Client| {
            client.runs.retain(|id, left| *left > 0 && engine.has_probe(*id));
            client.runs.is_empty() || client.until <= now
        };
        self.0.extract_if(.., is_done).collect()
    }
}

impl Supervisor {
    pub(super) fn begin_check(&mut self, on: Place, peer: &Peer, reply: Answer, now: Time) {
        let refusal = if self.checking.0.len() >= CLIENTS {
            format!("{CLIENTS} clients wait for checks already, try again")
        } else {
            match self.engine.handle_check_now(selector(&on), now) {
                Ok(Awaited { runs, timeout }) => {
                    let address = on.address;
                    info!(by = %peer, "checks of {address} run now: asked for by {peer}");
                    let until = now + (2 * timeout + GRACE).min(LONGEST);
                    self.checking.0.push(Client { on, runs, until, reply });
                    return;
                }
                Err(refusal) => refused(&on, &refusal),
            }
        };
        // A client that went away wants no answer, here and below.
        let _ = reply.send(Reply::failed(refusal));
    }

    /// Called at each turn.
    pub(super) fn conclude_checks(&mut self, now: Time) {
        if self.checking.0.is_empty() {
            return;
        }
        for client in self.checking.done(&self.engine, now) {
            let Client { on, runs, until: _, reply } = client;
            let answer = match self.engine.inquire(selector(&on)) {
                Ok(inquiries) => {
                    let (mut text, all) = why::results(&inquiries, now);
                    if runs.is_empty() {
                        if all == why::Passed::All { Reply::done(text) } else { Reply::failed(text) }
                    } else {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "\n{} of the checks have not answered in time", runs.len());
                        Reply::failed(text)
                    }
                }
                Err(refusal) => Reply::failed(refused(&on, &refusal)),
            };
            let _ = reply.send(answer);
        }
    }
}
