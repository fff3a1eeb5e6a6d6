//! What servers answer, for fuzzing: each protocol's reader with a server in memory.
//!
//! A verdict must not depend on how a server's bytes were cut on their way, and no run may wait for a
//! server that has said all.

use std::net::IpAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use super::connection::Wire;
use super::deadline::{self, Deadline};
use super::fault::Trouble;
use crate::engine::model::{Phase, Target};
use crate::net::fuzzing::{Cut, End, Memory, block_on};

pub(crate) use super::dns::fuzzing::reply as dns;
pub(crate) use super::file::fuzzing::content as file;
pub(crate) use super::grpc::fuzzing::reply as grpc;
pub(crate) use super::http::fuzzing::reply as http;
pub(crate) use super::icmp::fuzzing::packet as icmp;
pub(crate) use super::smtp::fuzzing::replies as smtp;
pub(crate) use super::tcp::fuzzing::dialogue;
pub(crate) use super::udp::fuzzing::datagram as udp;

/// Nothing in memory takes as long.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that may be sent one by one, which takes its time.
const FEW: usize = 2048;
/// Bytes after which an endless server ends after all.
const ENDLESS: usize = 256 * 1024;

/// What a run came to. The words of a failure say how much had been read, which depends on the cuts.
pub(super) type Kind = Result<String, (Phase, bool)>;

pub(super) fn target() -> Target {
    Target { address: IpAddr::from([198, 51, 100, 11]), port: 80, source: None }
}

/// One run with a server in memory.
pub(super) fn run(
    says: &[u8],
    cut: Cut,
    end: End,
    probe: impl AsyncFnOnce(Wire, &mut Deadline<'_>) -> Result<String, Trouble>,
) -> Kind {
    let wire = Wire::Memory(Box::new(Memory::new(says, cut, end)));
    block_on(async {
        let mut sleep = pin!(deadline::timer(Instant::now().into(), LIMIT));
        let mut deadline = Deadline::new(sleep.as_mut(), LIMIT);
        let result = probe(wire, &mut deadline).await;
        assert!(!deadline.has_passed(), "it waited for a server that had said all: {result:?}");
        result.map_err(|trouble| match trouble {
            Trouble::Failure(fault) => (fault.phase, false),
            Trouble::Local(fault) => (fault.phase, true),
        })
    })
}

/// Cut in all ways, which must come to the same; then with a reset behind it.
pub(super) fn alike(
    says: &[u8],
    probe: impl AsyncFn(Wire, &mut Deadline<'_>) -> Result<String, Trouble>,
) -> Kind {
    let once = |cut, end| run(says, cut, end, async |wire, deadline| probe(wire, deadline).await);
    let whole = once(Cut::Whole, End::Closed);
    for cut in Cut::ALL.into_iter().filter(|_| says.len() <= FEW) {
        assert_eq!(once(cut, End::Closed), whole, "cut {cut:?}");
    }
    let _which_may_be_a_failure = once(Cut::Whole, End::Reset);
    whole
}

/// The same again and again: what bounds a run is its own.
pub(super) fn endless(says: &[u8]) -> Vec<u8> {
    says.iter().copied().cycle().take(if says.is_empty() { 0 } else { ENDLESS }).collect()
}
