//! Lost answers: a receive buffer that is too small for them, and what heals it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lvsd::ipvs::{Dump, Dumper, Kernel, Loss, Memory, Netlink, Operation, Options, Reason, plan};

use super::{add, add_service, apply, dump, in_name_space, nat, remove, saved, tcp};
use crate::lab::wait::pause;

fn tiny() -> Options {
    Options { deadline: Duration::from_secs(60), receive_buffer: Some(1) }
}

#[test]
fn lost_answers_leave_results_unknown_until_a_dump_heals() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        apply(&[add_service(web, "rr")]);
        let mut kernel = Netlink::open(tiny()).unwrap();
        // Each of the first hundred is refused with an answer, for which there is no room.
        let id = |n| format!("198.51.100.{n}:80");
        let mut operations: Vec<Operation> = (1..=100).map(|n| remove(web, &id(n))).collect();
        operations.extend((1..=100).map(|n| add(web, &id(n), nat(1))));
        let results = kernel.apply(&operations);
        assert_eq!(results.len(), 200);
        let unknown = |error: &lvsd::ipvs::OperationError| error.reason == Reason::Unknown(Loss::Overrun);
        let (first, second) = results.split_at(128);
        assert!(first.iter().flat_map(|r| r.as_ref().err()).any(unknown), "{results:?}");
        assert!(first.iter().all(|r| r.is_err()), "no success may be claimed after a loss: {results:?}");
        // What was not sent is reported as well, with nothing of it done.
        assert!(second.iter().all(|r| r.as_ref().is_err_and(unknown)), "{results:?}");
        assert_eq!(saved().len(), 1 + 28);
        // The next use works on a new socket, towards what is wanted.
        let mut wanted = Memory::default();
        for result in wanted.apply(&[&[add_service(web, "rr")], &operations[100..]].concat()) {
            result.unwrap();
        }
        let rest = plan(&dump().table, &wanted.table(), &BTreeSet::new());
        assert_eq!(rest.len(), 72);
        for result in kernel.apply(&rest) {
            result.unwrap();
        }
        assert_eq!(dump().table, wanted.table());
        assert_eq!(saved().len(), 101);
    });
}

/// A dump is paced by its reader: a small buffer makes it slow, not wrong.
#[test]
fn a_dump_needs_no_large_buffer() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        let mut operations = vec![add_service(web, "rr")];
        operations
            .extend((0..500).map(|n| add(web, &format!("10.1.{}.{}:80", n / 250, n % 250 + 1), nat(1))));
        apply(&operations);
        let observed = Dumper::open(tiny()).unwrap().dump().unwrap();
        assert_eq!(observed, dump());
        assert_eq!(observed.counters.len(), 500);
        assert_eq!(saved().len(), 501);
    });
}

#[test]
fn a_dump_survives_changes_underneath() {
    in_name_space(|| {
        let mut operations = Vec::new();
        for n in 1..=50 {
            let web = tcp(&format!("192.0.2.10:{n}"));
            operations.push(add_service(web, "rr"));
            operations.extend((1..=20).map(|m| add(web, &format!("198.51.100.{m}:80"), nat(1))));
        }
        apply(&operations);
        // A name space belongs to a thread: both sockets are opened on this one.
        let mut kernel = Netlink::open(Options::default()).unwrap();
        let mut dumper = Dumper::open(Options::default()).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let other = tcp("192.0.2.99:80");
                for _ in 0..100 {
                    let mut changes = vec![add_service(other, "rr")];
                    changes.extend((1..=20).map(|m| add(other, &format!("198.51.100.{m}:80"), nat(1))));
                    changes.push(Operation::RemoveService { service: other });
                    for result in kernel.apply(&changes) {
                        result.unwrap();
                    }
                }
            });
            while !writer.is_finished() {
                let observed = dumper.dump().unwrap();
                assert!((50..=51).contains(&observed.table.services.len()));
            }
            writer.join().unwrap();
        });
        let observed = dumper.dump().unwrap();
        assert_eq!((observed.table.services.len(), observed.counters.len()), (50, 1000));
    });
}

/// The kernel's dump counts the services of all name spaces, and leaves one of ours out when one of theirs
/// goes in the middle of it.
#[test]
fn a_dump_survives_changes_in_another_name_space() {
    in_name_space(|| {
        let services = (1..=100).map(|n| add_service(tcp(&format!("192.0.2.10:{n}")), "rr"));
        apply(&services.collect::<Vec<_>>());
        let mut dumper = Dumper::open(Options::default()).unwrap();
        let mut count = || dumper.dump().unwrap().table.services.len();
        assert_eq!(count(), 100);
        let stop = AtomicBool::new(false);
        let counts: Vec<usize> = std::thread::scope(|scope| {
            scope.spawn(|| in_name_space(|| come_and_go(&stop)));
            // One that has never looked is told what was added.
            let first_look = || {
                let mut dumper = Dumper::open(Options::default()).unwrap();
                dumper.expect((1..=100).map(|n| tcp(&format!("192.0.2.10:{n}"))).collect());
                dumper.dump().unwrap().table.services.len()
            };
            let counts = (0..200).flat_map(|_| [count(), first_look()]).collect();
            stop.store(true, Ordering::Relaxed);
            counts
        });
        let short = counts.iter().filter(|count| **count != 100).count();
        assert_eq!(short, 0, "{counts:?}");
        // What has really gone is missing.
        apply(&[Operation::RemoveService { service: tcp("192.0.2.10:50") }]);
        assert_eq!(count(), 99);
    });
}

/// One after the other with pauses, so that the dump is at another place each time.
fn come_and_go(stop: &AtomicBool) {
    let services: Vec<_> = (1..=100).map(|n| tcp(&format!("192.0.2.99:{n}"))).collect();
    while !stop.load(Ordering::Relaxed) {
        for service in &services {
            apply(&[add_service(*service, "rr")]);
        }
        for service in &services {
            pause(Duration::from_micros(100));
            apply(&[Operation::RemoveService { service: *service }]);
        }
    }
}
