//! How many ICMP errors the hosts that we check have left, and which of their ports were closed.
//!
//! Hosts limit the ICMP errors that they send: Linux to one a second for each receiver after a burst of
//! six (net.ipv4.icmp_ratelimit). Silence of a closed port is then no sign that it is open. So the errors that
//! came are counted as the host counts them: while it has none left, silence says nothing.
//! Pure: time is an argument.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A host has another error to send after this time.
const INTERVAL: Duration = Duration::from_secs(1);
/// Linux lets six through at once; one less, so that clocks may differ.
const BURST: Duration = Duration::from_secs(5);
/// More than this owed: the host may have none left.
const EMPTY: Duration = Duration::from_secs(4);
/// Not more than this owed: one may go to a port that is known to be closed.
const SPARE: Duration = Duration::from_secs(2);
/// A closed port that nobody has asked for this long is forgotten.
const FORGET: Duration = Duration::from_secs(600);
/// Hosts with closed ports that are remembered.
const HOSTS: usize = 4096;

/// The limit is that of a host towards this machine: it is one for all checks and outlives a
/// reload. A mutex: checks run on all threads and hold it for one look-up, never across an await.
static BUDGET: Mutex<Budget> = Mutex::new(Budget { hosts: BTreeMap::new() });

pub(super) fn budget() -> MutexGuard<'static, Budget> {
    BUDGET.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(super) struct Budget {
    hosts: BTreeMap<IpAddr, Host>,
}

#[derive(Debug)]
struct Host {
    /// One [`INTERVAL`] for each error sent, paid back by the time that passes.
    owed: Duration,
    /// When that was.
    at: Instant,
    /// From then on there is an error for whoever asks.
    able_from: Instant,
    closed: BTreeMap<u16, Instant>,
}

/// What asking may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charge {
    None,
    /// The error that a port known to be closed will answer with.
    Paid,
}

impl Budget {
    /// May this port be asked now? `None`: it was closed, and the host's errors are kept for
    /// ports that are not known to be.
    pub(super) fn ask(&mut self, address: IpAddr, port: u16, now: Instant) -> Option<Charge> {
        let Some(host) = self.hosts.get_mut(&address) else { return Some(Charge::None) };
        host.advance(now);
        if !host.closed.contains_key(&port) {
            return Some(Charge::None);
        }
        if host.owed > SPARE {
            return None;
        }
        host.owed += INTERVAL;
        Some(Charge::Paid)
    }

    /// An ICMP error came.
    pub(super) fn refused(&mut self, address: IpAddr, port: u16, charge: Charge, now: Instant) {
        // Loopback devices are not limited.
        if address.is_loopback() {
            return;
        }
        if self.hosts.len() >= HOSTS {
            self.hosts.retain(|_, host| now.saturating_duration_since(host.at) < BURST);
        }
        if self.hosts.len() >= HOSTS && !self.hosts.contains_key(&address) {
            return;
        }
        let host = self.hosts.entry(address).or_insert_with(|| Host {
            owed: Duration::ZERO,
            at: now,
            able_from: now,
            closed: BTreeMap::new(),
        });
        host.advance(now);
        host.closed.retain(|_, at| now.saturating_duration_since(*at) < FORGET);
        host.closed.insert(port, now);
        if charge == Charge::None {
            host.owed = (host.owed + INTERVAL).min(BURST);
        }
        if host.owed > EMPTY {
            host.able_from = host.able_from.max(now + (host.owed - EMPTY));
        }
    }

    /// A datagram came.
    pub(super) fn answered(&mut self, address: IpAddr, port: u16, charge: Charge, now: Instant) {
        let Some(host) = self.hosts.get_mut(&address) else { return };
        host.advance(now);
        host.refund(charge);
        host.closed.remove(&port);
        if host.closed.is_empty() && host.owed.is_zero() {
            self.hosts.remove(&address);
        }
    }

    /// Nothing came since `asked`. An error is the time from which on asking again tells more.
    pub(super) fn silent(
        &mut self,
        address: IpAddr,
        port: u16,
        charge: Charge,
        asked: Instant,
        now: Instant,
    ) -> Result<(), Instant> {
        match self.hosts.get_mut(&address) {
            Some(host) if host.able_from > asked => {
                host.advance(now);
                host.refund(charge);
                Err(host.able_from)
            }
            Some(_) | None => {
                self.answered(address, port, charge, now);
                Ok(())
            }
        }
    }
}

impl Host {
    fn advance(&mut self, now: Instant) {
        self.owed = self.owed.saturating_sub(now.saturating_duration_since(self.at));
        self.at = self.at.max(now);
    }

    fn refund(&mut self, charge: Charge) {
        if charge == Charge::Paid {
            self.owed = self.owed.saturating_sub(INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests;
