//! Rows about checks that fail: from a death to the table, one by one and in crowds.

use std::time::Duration;

use crate::checks::off;
use crate::figure::{Bench, Bound};
use crate::lab::wait::pause;
use crate::programs::{Daemon, Responders, Shape, Tap, clear, reference, space, table, wait};

/// From the reset on the wire to the kernel's answer, by the kernel's own times.
pub(crate) fn verdict(bench: &mut Bench) {
    let (space, shape) = (space(), Shape::new(1, 10).checked("tcp", 0.5));
    let mut responders = Responders::start(&space, "tcp", 10);
    table(&space, "floor 1 1 rr");
    let one = table(&space, "one 500");
    clear(&space);
    let daemon = Daemon::start(&space, shape);
    daemon.wait_for("READY=1");
    wait(&space, 10);
    let tap = Tap::start(&space);
    for server in 0..bench.scale(9, 3) {
        responders.tell(&format!("close {server} {}", server + 1));
        wait(&space, 9 - server);
    }
    let wire = tap.stop();
    drop(daemon);
    bench.ratio("reset to acknowledged write, median, s / one request", wire.median, one, &Bound::Most(3.0));
}

pub(crate) fn half_dies(bench: &mut Bench) {
    let (space, shape) = (space(), bench.scale(Shape::new(250, 40), Shape::new(10, 40)).checked("tcp", 5.0));
    let mut responders = Responders::start(&space, "tcp", shape.total());
    table(&space, &shape.words("floor"));
    let batch = table(&space, &format!("remove {} {} 0.5", shape.services, shape.servers));
    clear(&space);
    let daemon = Daemon::start(&space, shape);
    daemon.wait_for("READY=1");
    wait(&space, shape.total());
    pause(Duration::from_secs(6));
    let tap = Tap::start(&space);
    for service in 0..shape.services {
        let first = service * shape.servers;
        responders.tell(&format!("close {first} {}", first + shape.servers / 2));
    }
    wait(&space, shape.total() / 2);
    let wire = tap.stop();
    drop(daemon);
    bench.ratio(
        "half of the servers die: last reset to last answer, s / batches",
        wire.lag,
        batch,
        &Bound::Most(2.0),
    );
    bench.plain("  requests that write", wire.writes, &Bound::Told);
}

pub(crate) fn black_holes(bench: &mut Bench) {
    let (space, seconds) = (space(), bench.scale(20, 4));
    let mut late = [0.0; 2];
    let mut responders = Responders::start(&space, "tcp", 100);
    for (holes, late) in [0, bench.scale(3000, 300)].into_iter().zip(&mut late) {
        let mut shape = Shape::new(10, 10).checked("tcp", 1.0);
        shape.holes = holes;
        let daemon = Daemon::start(&space, shape);
        daemon.wait_for("READY=1");
        // All holes have failed once, so that what follows is the steady state.
        pause(Duration::from_secs(6));
        responders.tell("clear");
        pause(Duration::from_secs(seconds));
        *late = off(&responders.arrivals(), 1.0).p99;
    }
    let [alone, beside] = late;
    bench.beside(
        "period off beside 3,000 black holes, p99, ms (alone beside it)",
        beside,
        alone,
        &Bound::Most(alone + 5.0),
    );
}

/// The ideal of fixed polling is half of the interval on average, the interval at most.
pub(crate) fn failover(bench: &mut Bench) {
    let cases =
        [("tcp", Shape::new(2, 5), 1.0), ("http", Shape::new(2, 5), 1.0), ("tcp", Shape::new(125, 40), 5.0)];
    for (kind, shape, interval) in cases.into_iter().take(bench.scale(3, 2)) {
        let (space, shape) = (space(), shape.checked(kind, interval));
        let mut responders = Responders::start(&space, kind, shape.total());
        let daemon = Daemon::start(&space, shape);
        daemon.wait_for("READY=1");
        wait(&space, shape.total());
        pause(Duration::from_secs_f64(interval + 1.0));
        let (down, up) = if kind == "http" { ("fail", "ok") } else { ("close", "open") };
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for turn in 0..bench.scale(12, 3) {
            let server = turn * 7919 % shape.total();
            pause(Duration::from_secs_f64(0.137 * interval * (turn % 7) as f64));
            let (failed, _) = responders.tell(&format!("{down} {server} {}", server + 1));
            out.push((wait(&space, shape.total() - 1).1 - failed) / interval);
            pause(Duration::from_secs_f64(0.091 * interval * (turn % 11) as f64));
            let (restored, _) = responders.tell(&format!("{up} {server} {}", server + 1));
            back.push((wait(&space, shape.total()).1 - restored) / interval);
        }
        let name = format!("{kind}, {} checks", shape.total());
        let mean = out.iter().sum::<f64>() / out.len() as f64;
        let most = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        bench.plain(&format!("{name}: death to table, mean, intervals"), mean, &Bound::Most(0.65));
        bench.plain(&format!("{name}: death to table, most, intervals"), most(&out), &Bound::Most(1.1));
        bench.plain(&format!("{name}: recovery to table, most, intervals"), most(&back), &Bound::Most(1.1));
        drop(daemon);
        reference(&space, "table", "clear");
    }
}
