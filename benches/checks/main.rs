//! What one check costs this process, beside the same done by hand: processor time and system calls.
//!
//! ```text
//! cargo bench --bench checks                    processor time of tcp, http and https
//! cargo bench --bench checks -- tcp             of one of them
//! cargo bench --profile counts --bench checks -- --calls         system calls per check, counted by strace
//! ```
//!
//! Both sides run in this process by turns, against a server in another one; each turn's processor time is
//! taken from getrusage(2), and the cheapest turn of each side counts, so that other work on the machine
//! matters little. Ratios are printed and not judged, since they still depend on what else runs; counts of
//! system calls do not, and more than the bound fails.

mod by_hand;
mod calls;
mod ours;
mod server;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};

use server::Server;

/// Checks in one turn, and turns of each side.
const TURN: usize = 2000;
const TURNS: usize = 12;
/// Runs at once, where there are any at once.
const AT_ONCE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Http,
    Https,
}

impl Protocol {
    const ALL: [(&str, Self, f64); 3] =
        [("tcp", Self::Tcp, 1.15), ("http", Self::Http, 1.45), ("https", Self::Https, 1.1)];

    fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.iter().find(|(known, _, _)| *known == name);
        found.map(|(_, protocol, _)| *protocol).with_context(|| format!("no such protocol: {name}"))
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, protocol, _)| *protocol == self).map_or("", |(name, _, _)| name)
    }

    /// A handshake takes ten times what anything else does.
    fn checks(self) -> usize {
        if self == Self::Https { TURN / 10 } else { TURN }
    }
}

fn main() -> ExitCode {
    // cargo adds the last one.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["--serve", name, folder] => Protocol::named(name).and_then(|p| server::serve(p, folder.as_ref())),
        ["--run", name, address, folder, count] => run_only(name, address, folder, count),
        ["--calls"] => calls::count(),
        [] => Protocol::ALL.iter().try_for_each(|(_, protocol, bound)| compare(*protocol, *bound)),
        names => names.iter().try_for_each(|name| {
            let protocol = Protocol::named(name)?;
            let bound = Protocol::ALL.iter().find(|(_, p, _)| *p == protocol).map_or(0.0, |(_, _, b)| *b);
            compare(protocol, bound)
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("checks: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks and nothing else, for strace.
fn run_only(name: &str, address: &str, folder: &str, count: &str) -> Result<()> {
    let mut side = ours::Side::new(Protocol::named(name)?, address.parse()?, folder.as_ref())?;
    side.run(count.parse()?)
}

fn compare(protocol: Protocol, bound: f64) -> Result<()> {
    let server = Server::start(protocol)?;
    let mut ours = ours::Side::new(protocol, server.address, server.folder())?;
    let mut by_hand = by_hand::Side::new(protocol, server.address, server.folder())?;
    let count = protocol.checks();
    let (mut least_ours, mut least_by_hand) = (Duration::MAX, Duration::MAX);
    let mut ratios = Vec::new();
    for _ in 0..TURNS {
        let reference = cost(|| by_hand.run(count))?;
        let cost = cost(|| ours.run(count))?;
        least_ours = least_ours.min(cost);
        least_by_hand = least_by_hand.min(reference);
        ratios.push(cost.as_secs_f64() / reference.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(TURNS / 2).copied().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let each = |total: Duration| total.as_secs_f64() * 1e6 / count as f64;
    let ratio = least_ours.as_secs_f64() / least_by_hand.as_secs_f64();
    println!(
        "{:<5} {:7.1} us of processor time a check, by hand {:7.1}: {ratio:.2} x (median of turns {median:.2} x), \
         wanted at most {bound} x",
        protocol.name(),
        each(least_ours),
        each(least_by_hand),
    );
    Ok(())
}

/// Processor time of this process, its own and the kernel's for it.
fn cost(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let before = used()?;
    work()?;
    used()?.checked_sub(before).context("processor time went backwards")
}

fn used() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros =
        [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() * 1_000_000 + time.tv_usec());
    Ok(Duration::from_micros(u64::try_from(micros.iter().sum::<i64>())?))
}

/// A runtime as the daemon's is.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("make a runtime")
}

/// As much of `total` as worker `n` does.
pub(crate) fn share(total: usize, n: usize) -> usize {
    total / AT_ONCE + usize::from(n < total % AT_ONCE)
}

pub(crate) fn ensure_loopback(address: SocketAddr) -> Result<()> {
    if address.ip().is_loopback() { Ok(()) } else { bail!("{address} is not this machine") }
}
