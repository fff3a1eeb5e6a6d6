//! `lvsd::ipvs` against the kernel, its results read with ipvsadm.
//!
//! Every test has a network name space of its own, on a thread of its own: IPVS tables are per
//! name space, and a flushed table is slow to fill again.

mod errors;
mod loss;
mod operations;
mod scale;
mod settings;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use lvsd::engine::model::{Family, Forwarding, Mark, Protocol, Scheduler};
use lvsd::engine::table::{Destination, DestinationId, ServiceAttributes, ServiceFlags, ServiceId};
use lvsd::ipvs::{Dump, Dumper, Kernel, Netlink, Observed, Operation, Options};
use nix::sched::{CloneFlags, unshare};

/// Runs a test in a fresh name space. There must be an address up: without one the kernel takes
/// every destination for a broadcast address and refuses it.
fn in_name_space(test: impl FnOnce() + Send) {
    assert!(Path::new("/proc/net/ip_vs").exists(), "this kernel has no ip_vs: run the tests in the lab");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("root can make a network name space");
            run("ip", "link set lo up");
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs a program that must succeed; its standard output.
fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The table as `ipvsadm -Sn` has it, sorted. ipvsadm takes the kernel's list of services as it comes, and from
/// a list of several answers the kernel leaves one out when another test ends meanwhile and takes its services
/// along (`Dumper` asks twice for the same reason). So this counts when two readings agree.
fn saved() -> Vec<String> {
    let read = || sorted(run("ipvsadm", "-Sn").lines());
    let mut last = read();
    for _ in 0..10 {
        let next = read();
        if next == last {
            return next;
        }
        last = next;
    }
    panic!("ipvsadm never said the same twice: {} lines the last time", last.len());
}

fn sorted<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> =
        lines.into_iter().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines
}

fn netlink() -> Netlink {
    Netlink::open(Options::default()).unwrap()
}

fn dump() -> Observed {
    Dumper::open(Options::default()).unwrap().dump().unwrap()
}

/// All of them must succeed.
fn apply(operations: &[Operation]) {
    let results = netlink().apply(operations);
    assert_eq!(results.len(), operations.len());
    for result in results {
        result.unwrap();
    }
}

fn service(protocol: Protocol, text: &str) -> ServiceId {
    let address: SocketAddr = text.parse().unwrap();
    ServiceId::Address { protocol, address: address.ip(), port: address.port() }
}

fn tcp(text: &str) -> ServiceId {
    service(Protocol::Tcp, text)
}

fn fwmark(mark: u32, family: Family) -> ServiceId {
    ServiceId::Mark { family, mark: Mark::new(mark).unwrap() }
}

fn destination(text: &str) -> DestinationId {
    let address: SocketAddr = text.parse().unwrap();
    DestinationId { address: address.ip(), port: address.port() }
}

fn nat(weight: u32) -> Destination {
    via(Forwarding::Nat, weight)
}

fn via(forwarding: Forwarding, weight: u32) -> Destination {
    Destination { forwarding, weight, upper_threshold: 0, lower_threshold: 0 }
}

/// Without persistence, the netmask of full length for the service's family.
fn attributes(scheduler: &str, family: Family) -> ServiceAttributes {
    ServiceAttributes {
        scheduler: Scheduler::new(scheduler).unwrap(),
        flags: ServiceFlags::default(),
        persistence: None,
        netmask: family.bits(),
        persistence_engine: None,
    }
}

fn add_service(service: ServiceId, scheduler: &str) -> Operation {
    Operation::AddService { service, attributes: attributes(scheduler, service.family()) }
}

fn add(service: ServiceId, destination_text: &str, record: Destination) -> Operation {
    Operation::AddDestination { service, destination: destination(destination_text), record }
}

fn edit(service: ServiceId, destination_text: &str, record: Destination) -> Operation {
    Operation::EditDestination { service, destination: destination(destination_text), record }
}

fn remove(service: ServiceId, destination_text: &str) -> Operation {
    Operation::RemoveDestination { service, destination: destination(destination_text) }
}
