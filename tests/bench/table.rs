//! Rows about the table as a whole: start, stop, reload and reading.

use crate::figure::{Bench, Bound};
use crate::lab::wait::pause;
use crate::programs::{Daemon, Responders, Shape, Tap, clear, least, reference, space, table, wait};
use std::time::Duration;

fn usual(bench: &Bench) -> Shape {
    bench.scale(Shape::new(256, 40), Shape::new(32, 20))
}

pub(crate) fn start_and_stop(bench: &mut Bench) {
    let (space, shape, times) = (space(), usual(bench), bench.scale(5, 1));
    let (mut complete, mut netlink, mut withdrawn) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    let (mut floor, mut batch) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..times {
        floor = floor.min(least(&space, 1, &shape.words("floor")));
        batch = batch.min(least(&space, 1, &shape.words("batch")));
        let mut daemon = Daemon::start(&space, shape);
        let (first, all) = wait(&space, shape.total());
        complete = complete.min(all - daemon.began);
        netlink = netlink.min(all - first);
        daemon.wait_for("READY=1");
        withdrawn = withdrawn.min(daemon.stop().0);
    }
    bench.ratio("start to complete table, s / floor", complete, floor, &Bound::Most(0.7));
    bench.ratio("  of it first service to last server, s / batches", netlink, batch, &Bound::Most(3.0));
    bench.ratio("SIGTERM to empty table, s / floor", withdrawn, floor, &Bound::Most(0.5));
}

pub(crate) fn alpha(bench: &mut Bench) {
    let (space, mut shape) = (space(), usual(bench).checked("tcp", 1.0));
    shape.more = "alpha = true";
    let _responders = Responders::start(&space, "tcp", shape.total());
    let (mut complete, mut floor) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..bench.scale(3, 1) {
        floor = floor.min(least(&space, 1, &shape.words("floor")));
        let daemon = Daemon::start(&space, shape);
        complete = complete.min(wait(&space, shape.total()).1 - daemon.began);
    }
    bench.ratio(
        "start to complete table, each server checked first, s / floor",
        complete,
        floor,
        &Bound::Most(4.0),
    );
    // What so many checks take by themselves, with nothing to write and nothing to remember.
    let closed = reference(&space, "checks", &format!("tcp {} 0 {}", shape.total(), bench.scale(8, 2)));
    let checks = shape.total() as f64 * closed[2] / closed[0];
    bench.ratio("  the same, s / as many checks in the closed loop", complete, checks, &Bound::Told);
}

pub(crate) fn one_wide_service(bench: &mut Bench) {
    let (space, mut shape) = (space(), bench.scale(Shape::new(1, 10_000), Shape::new(1, 1000)));
    shape.scheduler = "wrr";
    let (mut complete, mut netlink, mut batch) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..bench.scale(3, 1) {
        batch = batch.min(least(&space, 1, &shape.words("batch")));
        let tap = Tap::start(&space);
        let daemon = Daemon::start(&space, shape);
        complete = complete.min(wait(&space, shape.total()).1 - daemon.began);
        netlink = netlink.min(tap.stop().span);
    }
    bench.ratio("one wrr service, start to complete, s / batches", complete, batch, &Bound::Told);
    bench.ratio("  of it first request to last answer, s / batches", netlink, batch, &Bound::Most(1.15));
}

pub(crate) fn mh(bench: &mut Bench) {
    let (space, mut shape) = (space(), bench.scale(Shape::new(100, 40), Shape::new(2, 50)));
    shape.scheduler = "mh";
    let (mut netlink, mut late) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..bench.scale(3, 1) {
        late = late.min(least(&space, 1, &shape.words("late")));
        let tap = Tap::start(&space);
        let daemon = Daemon::start(&space, shape);
        // The edit to mh comes after the last server: all is written when the daemon is ready.
        daemon.wait_for("READY=1");
        netlink = netlink.min(tap.stop().span);
    }
    bench.ratio(
        "mh services, first request to last answer, s / under rr, one edit",
        netlink,
        late,
        &Bound::Most(1.0),
    );
}

pub(crate) fn reload_one_change(bench: &mut Bench) {
    // So long that the checks leave a slow guest most of its time: what is measured is the reload.
    let (space, shape) = (space(), usual(bench).checked("tcp", bench.scale(30.0, 2.0)));
    let mut responders = Responders::start(&space, "tcp", shape.total());
    let floor = least(&space, bench.scale(3, 1), &shape.words("floor"));
    let daemon = Daemon::start_without(&space, shape, 1);
    wait(&space, shape.total() - 1);
    daemon.wait_for("READY=1");
    let period = Duration::from_secs_f64(shape.interval);
    pause(period + Duration::from_secs(1));
    responders.tell("clear");
    pause(period);
    daemon.configure(shape, 0);
    let (tap, cpu) = (Tap::start(&space), daemon.cpu());
    let began = crate::programs::now();
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    let applied = wait(&space, shape.total()).1 - began;
    daemon.wait_for("READY=1");
    let cpu = daemon.cpu() - cpu;
    let writes = tap.stop().writes;
    pause(period + Duration::from_secs(1));
    // The new server's first check comes before its turn, so that it is soon known.
    let mut arrivals = responders.arrivals();
    arrivals.retain(|(_, server)| *server + 1 < shape.total());
    let late = crate::checks::off(&arrivals, shape.interval);
    bench.ratio("SIGHUP, one server more, to table, s / floor", applied, floor, &Bound::Most(0.2));
    bench.plain("  requests that write", writes, &Bound::Most(1.0));
    bench.plain("  CPU until READY, s", cpu, &Bound::Told);
    if !bench.quick {
        bench.plain("  most that a period was off around it, ms", late.max, &Bound::Told);
    }
}

pub(crate) fn reload_unchanged(bench: &mut Bench) {
    let (space, shape) = (space(), bench.scale(Shape::new(5000, 4), Shape::new(100, 4)));
    let daemon = Daemon::start(&space, shape);
    daemon.wait_for("READY=1");
    let (mut check, mut reload) = (f64::INFINITY, f64::INFINITY);
    let tap = Tap::start(&space);
    for _ in 0..bench.scale(3, 1) {
        check = check.min(daemon.check_seconds());
        reload = reload.min(daemon.reload());
    }
    bench.ratio("SIGHUP, 5,000 services, unchanged, s / lvsd check", reload, check, &Bound::Most(3.0));
    bench.plain("  requests that write", tap.stop().writes, &Bound::Most(0.0));
}

pub(crate) fn dump(bench: &mut Bench) {
    let (space, shape) = (space(), usual(bench));
    let daemon = Daemon::start(&space, shape);
    daemon.wait_for("READY=1");
    let (mut raw, mut lvsd) = (f64::INFINITY, f64::INFINITY);
    // The audit of the table comes by itself every 10 s, the default of drift_interval.
    for _ in 0..bench.scale(3, 1) {
        let tap = Tap::start(&space);
        table(&space, "dump");
        raw = raw.min(tap.stop().dump);
        let tap = Tap::start(&space);
        pause(Duration::from_millis(10_500));
        let seen = tap.stop().dump;
        if seen > 0.0 {
            lvsd = lvsd.min(seen);
        }
    }
    clear(&space);
    bench.ratio(
        "audit of the whole table, first request to last answer, s / raw",
        lvsd,
        raw,
        &Bound::Most(1.5),
    );
}
