//! The `udp` check: a datagram, and the reply that is wanted or the ICMP errors that are not.
//!
//! Without a wanted reply silence is success, so silence must mean something: a ping shows first that the
//! host is there at all, then ICMP has time to say that the port is closed: as long as the ping took, and more.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

use std::sync::Once;
use std::time::{Duration, Instant};

use regex::bytes::Regex;

use super::datagram::Datagram;
use super::deadline::Deadline;
use super::fault::{Trouble, quoted};
use super::icmp::{self, PingTrouble};
use super::icmp_budget::{Charge, budget};
use super::prepare::{PrepareError, compile};
use crate::engine::model::{Phase, ReplyPattern, Target, Udp};

/// Data in the ping before the datagram, as much as ping(8) sends.
const PING_SIZE: u16 = 56;
/// The wait for an ICMP error, in times of the ping, and its bounds.
const GRACE_PER_PING: u32 = 8;
const GRACE_LEAST: Duration = Duration::from_millis(200);
const GRACE_MOST: Duration = Duration::from_secs(1);

/// What is made once for all runs of a `udp` check.
#[derive(Debug)]
pub(super) struct Plan {
    payload: Vec<u8>,
    /// `None`: silence is success.
    wanted: Option<Wanted>,
}

#[derive(Debug, Default)]
struct Wanted {
    pattern: Option<Wish>,
    at_least: Option<u16>,
    at_most: Option<u16>,
}

#[derive(Debug)]
enum Wish {
    Regex(Regex),
    Nibbles(Vec<Option<u8>>),
}

impl Plan {
    pub(super) fn new(udp: &Udp) -> Result<Self, PrepareError> {
        let pattern = match &udp.reply {
            None => None,
            Some(ReplyPattern::Regex(pattern)) => Some(Wish::Regex(compile(pattern)?)),
            Some(ReplyPattern::Nibbles(nibbles)) => Some(Wish::Nibbles(nibbles.clone())),
        };
        let is_wanted =
            udp.require_reply || pattern.is_some() || udp.min_reply.is_some() || udp.max_reply.is_some();
        let wanted = Wanted { pattern, at_least: udp.min_reply, at_most: udp.max_reply };
        Ok(Self { payload: udp.payload.clone(), wanted: is_wanted.then_some(wanted) })
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    match &plan.wanted {
        Some(wanted) => ask(target, &plan.payload, wanted, deadline).await,
        None => knock(target, &plan.payload, deadline).await,
    }
}

// -- a reply is wanted ----------------------------------------------------------------------

async fn ask(
    target: &Target,
    payload: &[u8],
    wanted: &Wanted,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    let datagram = send(target, payload)?;
    let reply = match datagram.receive(deadline).await {
        None => return Err(Trouble::timed_out(Phase::Reply, deadline).with(" without a reply")),
        Some(Err(error)) => {
            note(target, &error, Charge::None);
            return Err(Trouble::io(Phase::Reply, "", &error));
        }
        Some(Ok(reply)) => reply,
    };
    budget().answered(target.address, target.port, Charge::None, Instant::now());
    match wanted.mismatch(&reply) {
        Some(why) => Err(Trouble::failure(Phase::Reply, format!("{why}: {}", quoted(&reply)))),
        None => Ok(format!("reply of {} bytes, as wanted", reply.len())),
    }
}

impl Wanted {
    fn mismatch(&self, reply: &[u8]) -> Option<String> {
        let length = reply.len();
        if let Some(least) = self.at_least.filter(|least| length < usize::from(*least)) {
            return Some(format!("the reply has {length} bytes, wanted at least {least}"));
        }
        if let Some(most) = self.at_most.filter(|most| length > usize::from(*most)) {
            return Some(format!("the reply has {length} bytes, wanted at most {most}"));
        }
        let fits = match &self.pattern {
            None => true,
            Some(Wish::Regex(pattern)) => pattern.is_match(reply),
            Some(Wish::Nibbles(nibbles)) => begins_with(reply, nibbles),
        };
        (!fits).then(|| "the reply is not the one wanted".to_owned())
    }
}

/// A shorter reply does not fit.
fn begins_with(reply: &[u8], nibbles: &[Option<u8>]) -> bool {
    let halves = reply.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    reply.len() * 2 >= nibbles.len()
        && halves.zip(nibbles).all(|(half, wanted)| wanted.is_none_or(|wanted| wanted == half))
}

// -- silence is success ---------------------------------------------------------------------

async fn knock(target: &Target, payload: &[u8], deadline: &mut Deadline<'_>) -> Result<String, Trouble> {
    let (address, port) = (target.address, target.port);
    let Some(mut charge) = budget().ask(address, port, Instant::now()) else {
        let reason = "connection refused (ECONNREFUSED) lately; it is asked again when the host's limit on \
                      ICMP errors leaves one for it";
        return Err(Trouble::failure(Phase::Reply, reason));
    };
    let ping = match icmp::echo(target, PING_SIZE, deadline).await {
        Ok(took) => Some(took),
        Err(PingTrouble::NotPermitted) => {
            warn_once();
            None
        }
        Err(PingTrouble::Other(trouble)) => return Err(trouble.with(" (of the ping before the datagram)")),
    };
    let grace = ping.map(|took| (took * GRACE_PER_PING).clamp(GRACE_LEAST, GRACE_MOST));
    loop {
        let asked = Instant::now();
        let datagram = send(target, payload)?;
        let heard = listen(&datagram, grace, deadline).await;
        let now = Instant::now();
        match heard {
            Heard::Error(error) => {
                note(target, &error, charge);
                return Err(Trouble::io(Phase::Reply, "", &error));
            }
            Heard::Datagram(length) => {
                budget().answered(address, port, charge, now);
                return Ok(format!("reply of {length} bytes"));
            }
            Heard::Nothing if ping.is_some_and(|took| now.saturating_duration_since(asked) < took) => {
                return Err(Trouble::timed_out(Phase::Reply, deadline));
            }
            Heard::Nothing => {}
        }
        let verdict = budget().silent(address, port, charge, asked, now);
        let Err(again) = verdict else { return Ok(silence(now.saturating_duration_since(asked))) };
        charge = Charge::None;
        if deadline.race(tokio::time::sleep_until(again.into())).await.is_none() {
            let reason = "no reply, which proves nothing: other ports of this host were refused until its \
                          limit on ICMP errors was reached";
            return Err(Trouble::failure(Phase::Reply, reason));
        }
    }
}

/// Only a closed port is the host's own word, and counts towards its limit.
fn note(target: &Target, error: &std::io::Error, charge: Charge) {
    if error.kind() == std::io::ErrorKind::ConnectionRefused {
        budget().refused(target.address, target.port, charge, Instant::now());
    }
}

/// Rounded, so that equal results read equal.
fn silence(waited: Duration) -> String {
    let tenths = waited.as_millis() / 100;
    format!("no ICMP error within {}.{}s", tenths / 10, tenths % 10)
}

enum Heard {
    Datagram(usize),
    Error(std::io::Error),
    Nothing,
}

/// Without a grace, which a ping would have measured, the whole rest of the time: the kernel
/// itself needs three seconds to find that a host of its own network is gone.
async fn listen(datagram: &Datagram, grace: Option<Duration>, deadline: &mut Deadline<'_>) -> Heard {
    let next = datagram.receive(deadline);
    let heard = match grace {
        Some(grace) => tokio::time::timeout(grace, next).await.ok().flatten(),
        None => next.await,
    };
    match heard {
        Some(Ok(reply)) => Heard::Datagram(reply.len()),
        Some(Err(error)) => Heard::Error(error),
        None => Heard::Nothing,
    }
}

/// What is missing is this host's, and the same for all checks.
fn warn_once() {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        tracing::warn!(
            "udp checks without a wanted reply cannot ping first: neither net.ipv4.ping_group_range nor \
             CAP_NET_RAW permits it (see /usr/share/doc/lvsd/examples/ping.conf); ICMP errors alone decide"
        );
    });
}

fn send(target: &Target, payload: &[u8]) -> Result<Datagram, Trouble> {
    let datagram = Datagram::udp(target)?;
    datagram.send(payload).map_err(|error| Trouble::io(Phase::Request, "", &error))?;
    Ok(datagram)
}

#[cfg(test)]
mod tests;
