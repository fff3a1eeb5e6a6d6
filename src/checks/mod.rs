//! The probes: one run of one check against one server, and nothing more.
//!
//! Owns sockets, protocols and the wording of what went wrong. Keeps no state between runs
//! but [`Prepared`] and the number of [`Scripts`], never retries, never decides whether a server is up: that is the engine's.

mod connection;
mod datagram;
mod deadline;
mod dns;
mod expect;
mod fault;
mod file;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod grpc;
mod guard;
mod http;
mod icmp;
mod icmp_budget;
mod ping;
mod prepare;
mod script;
mod smtp;
mod socket;
mod tcp;
mod tls;
mod udp;

use std::pin::pin;
use std::time::{Duration, Instant};

use crate::engine::model::{Outcome, Target, Verdict, WeightChange};

pub use guard::guarded;
pub use prepare::{PrepareError, Prepared, Preparer};
pub use script::Scripts;
pub use tls::TlsError;

use deadline::Deadline;
use prepare::Plan;

/// Runs one check once. `timeout` is the one deadline over everything in it: connect,
/// handshake, request and reply, of all its URLs.
///
/// Needs a tokio runtime with I/O and time enabled. Dropping the future closes its socket.
pub async fn probe(target: &Target, prepared: &Prepared, timeout: Duration) -> Outcome {
    probe_since(Instant::now(), target, prepared, timeout).await
}

async fn probe_since(started: Instant, target: &Target, prepared: &Prepared, timeout: Duration) -> Outcome {
    let mut sleep = pin!(deadline::timer(started.into(), timeout));
    let mut deadline = Deadline::new(sleep.as_mut(), timeout);
    let mut weight = WeightChange::None;
    let result = match prepared.plan() {
        Plan::Tcp(plan) => tcp::probe(target, plan, &mut deadline).await,
        Plan::Http(plan) => http::probe(target, plan, &mut deadline).await,
        // On the heap, as they are larger than what most runs need.
        Plan::Smtp(plan) => Box::pin(smtp::probe(target, plan, &mut deadline)).await,
        Plan::Grpc(plan) => Box::pin(grpc::probe(target, plan, &mut deadline)).await,
        Plan::Dns(plan) => Box::pin(dns::probe(target, plan, &mut deadline)).await,
        Plan::Udp(plan) => Box::pin(udp::probe(target, plan, &mut deadline)).await,
        Plan::Ping(plan) => Box::pin(ping::probe(target, plan, &mut deadline)).await,
        // Has a deadline of its own, and what comes after it.
        Plan::Script(plan) => return script::probe(target, plan, timeout).await,
        Plan::File(plan) => file::probe(plan, &mut deadline).await.map(|(detail, change)| {
            weight = change;
            detail
        }),
    };
    let verdict = match result {
        Ok(detail) => Verdict::Success { detail, weight },
        Err(trouble) => trouble.into(),
    };
    Outcome { verdict, latency: started.elapsed() }
}

/// [`probe`], with a panic turned into a failed check.
pub async fn run(target: &Target, prepared: &Prepared, timeout: Duration) -> Outcome {
    run_since(Instant::now(), target, prepared, timeout).await
}

/// The same for a caller that has read the clock: where that is a system call, it is one less.
pub async fn run_since(started: Instant, target: &Target, prepared: &Prepared, timeout: Duration) -> Outcome {
    // Pinned here: passed by value it would lie in this future twice.
    guarded(started, pin!(probe_since(started, target, prepared, timeout))).await
}

#[cfg(test)]
mod tests;
