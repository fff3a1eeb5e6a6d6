//! Rows about checks that succeed: what they cost, how many there can be, and when they come.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::NamedTempFile;

use crate::figure::{Bench, Bound};
use crate::lab::wait::{pause, within};
use crate::programs::{Arrivals, Daemon, Responders, Shape, reference, space};

/// How far from the interval the time between two checks of a server was, in milliseconds.
pub(crate) struct Off {
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

pub(crate) fn off(arrivals: &Arrivals, interval: f64) -> Off {
    let (mut last, mut off) = (BTreeMap::new(), Vec::new());
    for &(time, server) in arrivals {
        if let Some(before) = last.insert(server, time) {
            off.push(((time - before - interval) * 1e3).abs());
        }
    }
    off.sort_by(f64::total_cmp);
    let p99 = off.get((off.len() * 99 / 100).min(off.len().saturating_sub(1)));
    Off { p99: p99.copied().unwrap_or(f64::NAN), max: off.last().copied().unwrap_or(f64::NAN) }
}

/// The fullest 10 ms in relation to what an even spread would put there.
fn fullest(arrivals: &Arrivals) -> f64 {
    let mut slots: BTreeMap<i64, f64> = BTreeMap::new();
    for (time, _) in arrivals {
        *slots.entry((time * 100.0).floor() as i64).or_default() += 1.0;
    }
    slots.values().copied().fold(0.0, f64::max)
}

pub(crate) fn tcp(bench: &mut Bench) {
    cost(bench, "tcp", [1.6, 0.85, 10.0], Some(9.0));
}

pub(crate) fn http(bench: &mut Bench) {
    cost(bench, "http", [1.6, 0.75, 20.0], None);
}

fn cost(bench: &mut Bench, kind: &'static str, [cpu, rate, late]: [f64; 3], calls: Option<f64>) {
    let (space, seconds) = (space(), bench.scale(8, 2));
    let mut responders = Responders::start(&space, kind, 5000);
    let same = reference(&space, "checks", &format!("{kind} 1000 1000 {seconds}"));
    let ceiling = reference(&space, "checks", &format!("{kind} 5000 0 {seconds}"));
    let ceiling_rate = ceiling[0] / ceiling[2];

    let at_a_thousand = Shape::new(25, 40).checked(kind, 1.0);
    let daemon = warm(&space, at_a_thousand, 1.0);
    let [_, per_check, _] = window(&daemon, &mut responders, seconds);
    bench.ratio(
        &format!("{kind}: CPU per 1,000 checks at 1,000/s, s"),
        per_check * 1e3,
        same[3] / same[0] * 1e3,
        &Bound::Most(cpu),
    );
    let counted = system_calls(&daemon, &mut responders, seconds);
    bench.plain(&format!("{kind}: system calls a check"), counted, &calls.map_or(Bound::Told, Bound::Most));
    drop(daemon);

    let daemon = warm(&space, Shape::new(125, 40).checked(kind, 1.0), 3.0);
    let [reached, _, _] = window(&daemon, &mut responders, seconds);
    bench.ratio(
        &format!("{kind}: most checks a second / closed loop"),
        reached,
        ceiling_rate,
        &Bound::Least(rate),
    );
    drop(daemon);

    let interval = (2000.0 / (ceiling_rate / 2.0) * 1e3).round() / 1e3;
    responders.tell("clear");
    let milliseconds = interval * 1e3;
    reference(&space, "checks", &format!("{kind} 2000 {milliseconds} {}", (interval * 3.5).ceil()));
    let ideal = off(&responders.arrivals(), interval);
    let daemon = warm(&space, Shape::new(50, 40).checked(kind, interval), interval);
    responders.tell("clear");
    pause(Duration::from_secs_f64(interval * bench.scale(6.0, 2.5)));
    let reached = off(&responders.arrivals(), interval);
    drop(daemon);
    let what = format!("{kind}: period off at half of the ceiling, p99, ms");
    bench.beside(&what, reached.p99, ideal.p99, &Bound::Most(late));
}

/// A daemon that has checked each server at least once.
fn warm(space: &crate::lab::net::Space, shape: Shape, more: f64) -> Daemon {
    let daemon = Daemon::start(space, shape);
    daemon.wait_for("READY=1");
    pause(Duration::from_secs_f64(shape.interval + 1.0 + more));
    daemon
}

/// Checks a second, CPU seconds a check, and the seconds of the window.
fn window(daemon: &Daemon, responders: &mut Responders, seconds: u64) -> [f64; 3] {
    let ((began, _), before) = (responders.tell("clear"), daemon.cpu());
    pause(Duration::from_secs(seconds));
    let (after, (end, arrivals)) = (daemon.cpu(), responders.tell("count"));
    [arrivals / (end - began), (after - before) / arrivals.max(1.0), end - began]
}

/// strace counts what passes between its attaching and its end, so arrivals are counted over the same time.
fn system_calls(daemon: &Daemon, responders: &mut Responders, seconds: u64) -> f64 {
    let summary = NamedTempFile::new().expect("a file");
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(summary.path()).args(["-p", &daemon.pid().to_string()]);
    let mut strace = command.stderr(Stdio::null()).spawn().expect("tests/lab/install bench installs strace");
    within(Duration::from_secs(10), "strace follows every thread", || daemon.is_traced().then_some(()));
    responders.tell("clear");
    pause(Duration::from_secs(seconds));
    kill(Pid::from_raw(i32::try_from(strace.id()).expect("a process number")), Signal::SIGINT).expect("ours");
    strace.wait().expect("a child of ours");
    let (_, arrivals) = responders.tell("count");
    let text = std::fs::read_to_string(summary.path()).expect("strace wrote it");
    let total = text.lines().find(|line| line.ends_with(" total")).expect("strace -c ends with a total");
    // % time, seconds, usecs/call, calls, errors, total
    let calls: f64 =
        total.split_whitespace().nth(3).and_then(|word| word.parse().ok()).expect("a number of calls");
    calls / arrivals
}

pub(crate) fn memory(bench: &mut Bench) {
    for (kind, most) in [("tcp", 16.0), ("http", 24.0)] {
        let (space, shape) = (space(), bench.scale(Shape::new(256, 40), Shape::new(32, 40)));
        let _responders = Responders::start(&space, kind, shape.total());
        let interval = bench.scale(10.0, 1.0);
        let daemon = warm(&space, shape.checked(kind, interval), interval);
        bench.plain(
            &format!("{kind}: resident memory, {} checks, MB", shape.total()),
            daemon.resident("VmRSS"),
            &Bound::Most(most),
        );
        bench.plain("  of it not from files, MB", daemon.resident("RssAnon"), &Bound::Told);
    }
}

/// Stopped for two seconds, all that was due meanwhile is due at once; a period later it must be spread as before.
pub(crate) fn stall(bench: &mut Bench) {
    let (space, interval) = (space(), bench.scale(5.0, 2.0));
    let mut responders = Responders::start(&space, "tcp", 1000);
    let daemon = warm(&space, Shape::new(25, 40).checked("tcp", interval), 0.0);
    let spread = |responders: &mut Responders| {
        responders.tell("clear");
        pause(Duration::from_secs_f64(interval));
        fullest(&responders.arrivals())
    };
    let before = spread(&mut responders);
    daemon.signal(Signal::SIGSTOP);
    pause(Duration::from_secs(2));
    daemon.signal(Signal::SIGCONT);
    pause(Duration::from_secs_f64(interval));
    let after = spread(&mut responders);
    bench.ratio("fullest 10 ms, a period after a stop of 2 s / before", after, before, &Bound::Most(1.5));
}
