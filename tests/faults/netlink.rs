//! Netlink that fails: sends, answers, refusals; and hands that edit the table meanwhile.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::lab::wait::{pause, until};
use crate::shim::{Fault, Shim};
use crate::world::{CONFIG, Moments, World, both, foreign, rounds};

const FAULTS: [(Fault, u32); 14] = [
    (Fault::SendFails(Errno::ENOBUFS), 2),
    (Fault::SendFails(Errno::EINTR), 2),
    (Fault::SendFails(Errno::EPERM), 3),
    (Fault::SendFails(Errno::ENOBUFS), 1),
    (Fault::ReceiveFails(Errno::ENOBUFS), 3),
    (Fault::ReceiveFails(Errno::EINTR), 2),
    (Fault::ReceiveFails(Errno::ENOBUFS), 1),
    (Fault::AnswerLost, 4),
    (Fault::AnswerLost, 1),
    (Fault::Refused(Errno::EPERM), 2),
    (Fault::Refused(Errno::ENOENT), 1),
    (Fault::Refused(Errno::EEXIST), 1),
    (Fault::Refused(Errno::ENOMEM), 2),
    (Fault::DumpInterrupted, 1),
];

#[test]
fn netlink_that_fails() {
    let world = World::new(CONFIG);
    let shim = Shim::new();
    let program = shim.program();
    let program = program.each_ref().map(String::as_str);
    let mut daemon = world.director.spawn_by(&program);
    daemon.wait_for("READY=1");
    let mut trial = world.trial("netlink: lost, refused, interrupted", both);
    for (fault, period) in FAULTS {
        shim.inject(fault, period);
        let mut weight = 3;
        for round in 0..rounds(3, 60) {
            weight = 4 + round % 7;
            world.weigh(CONFIG, weight);
            daemon.signal(Signal::SIGHUP);
            pause(Duration::from_millis(400));
        }
        until("it happened", || shim.injected() > 0);
        assert!(world.director.lvsd("status").status.success(), "{fault:?}: it answers");
        let injected = shim.heal();
        world.converges(weight);
        trial.survived(injected);
    }
    // A start among them, over the table of the daemon before.
    for (fault, period) in FAULTS.into_iter().filter(|(_, period)| *period > 1) {
        daemon.kill();
        shim.inject(fault, period);
        daemon = world.director.spawn_by(&program);
        pause(Duration::from_secs(1));
        trial.survived(shim.heal());
        daemon.wait_for("READY=1");
    }
    world.works(CONFIG, 5);
    trial.end();
}

/// Their edits are the only wrong tables, and do not last.
#[test]
fn hands_that_edit_against_it() {
    let world = World::new(CONFIG);
    let daemon = world.director.start();
    let mut trial = world.trial("ipvsadm edits against it", foreign);
    let mut moments = Moments::new();
    let edits = [
        "-e -t 192.0.2.10:80 -r 198.51.100.11:80 -m -w 9",
        "-a -t 192.0.2.10:80 -r 198.51.100.13:80 -m -w 0",
        "-E -t 192.0.2.10:80 -s rr",
        "-e -t 192.0.2.10:80 -r 198.51.100.12:80 -m -w 7",
        "-E -t 192.0.2.10:80 -s wrr -p 60",
        "-d -t 192.0.2.10:80 -r 198.51.100.12:80",
    ];
    for round in 0..rounds(18, 300) {
        let edit = edits[usize::try_from(round).expect("few") % edits.len()];
        world.network.director.ipvsadm(edit);
        if round % 3 == 0 {
            daemon.signal(Signal::SIGHUP);
        }
        pause(moments.below(Duration::from_millis(400)));
        world.converges(3);
        trial.survived(1);
    }
    world.works(CONFIG, 5);
    trial.end();
}
