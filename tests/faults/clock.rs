//! Time that jumps, and a daemon that does not get any.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;

use crate::lab::wait::{output, pause};
use crate::world::{CONFIG, World, both, rounds};

/// Sets the guest's clock, never this machine's.
fn step(seconds: i64) {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").expect("there is one");
    assert!(cpu.contains("User Mode Linux"), "only in a guest: run `./test faults`");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let then = now.checked_add_signed(seconds).expect("after 1970");
    output(Command::new("date").args(["-s", &format!("@{then}")]));
}

#[test]
fn the_clock_steps_by_an_hour() {
    let world = World::new(CONFIG);
    let mut daemon = world.director.start();
    let mut trial = world.trial("clock steps of an hour", both);
    for round in 0..rounds(4, 40) {
        step(if round % 4 < 2 { 3600 } else { -3600 });
        pause(Duration::from_millis(500));
        world.works(CONFIG, 4 + round % 5);
        if round % 2 == 1 {
            daemon.kill();
            step(if round % 4 < 2 { 3600 } else { -3600 });
            daemon = world.director.start();
            step(if round % 4 < 2 { -3600 } else { 3600 });
        }
        trial.survived(1);
    }
    world.works(CONFIG, 5);
    trial.end();
}

/// Replies that came in time are not late because nobody looked at them: what stops is the daemon, not its servers.
#[test]
fn a_daemon_that_is_stopped_for_a_while() {
    let world = World::new(CONFIG);
    let daemon = world.director.start();
    let mut trial = world.trial("SIGSTOP for up to 5 s", both);
    for round in 0..rounds(3, 60) {
        daemon.signal(Signal::SIGSTOP);
        pause(Duration::from_millis([2500, 300, 5000][usize::try_from(round % 3).expect("small")]));
        daemon.signal(Signal::SIGCONT);
        world.works(CONFIG, 4 + round % 5);
        // A few more checks.
        pause(Duration::from_millis(600));
        trial.survived(1);
    }
    trial.end();
}
