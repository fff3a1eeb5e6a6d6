//! A large table, installed, dumped and changed; every entry compared with ipvsadm's.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lvsd::ipvs::{Kernel, Memory, Operation, plan, plan_services};

use super::{add, add_service, apply, dump, edit, in_name_space, nat, saved, tcp};

/// 256 services with 40 destinations each.
fn wanted(scheduler: &str) -> (Vec<Operation>, Memory) {
    let mut operations = Vec::new();
    for s in 0..256 {
        let service = tcp(&format!("192.0.2.{}:{}", s % 200 + 1, s / 200 + 80));
        operations.push(add_service(service, scheduler));
        operations.extend((1..=40).map(|d| add(service, &format!("10.0.{s}.{d}:80"), nat(d))));
    }
    let mut memory = Memory::default();
    for result in memory.apply(&operations) {
        result.unwrap();
    }
    (operations, memory)
}

fn timed<T>(what: &str, f: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let value = f();
    let took: Duration = started.elapsed();
    println!("{what}: {:.1} ms", took.as_secs_f64() * 1e3);
    value
}

#[test]
fn a_table_of_256_by_40_is_installed_and_dumped_whole() {
    in_name_space(|| {
        let (_, memory) = wanted("wrr");
        let planned = plan(&dump().table, &memory.table(), &BTreeSet::new());
        assert_eq!(planned.len(), 256 * 41);
        timed("install 256 x 40", || apply(&planned));
        let observed = timed("dump 256 x 40", dump);
        assert_eq!(observed.table, memory.table());
        assert_eq!(observed.counters.len(), 256 * 40);
        let mut printed: Vec<String> = planned.iter().map(ToString::to_string).collect();
        printed.sort();
        assert_eq!(saved(), printed);
        // A second plan writes nothing; one change writes one operation.
        assert_eq!(plan(&observed.table, &memory.table(), &BTreeSet::new()), []);
        let web = tcp("192.0.2.7:80");
        let change = edit(web, "10.0.6.3:80", nat(0));
        let mut memory = memory;
        memory.apply(std::slice::from_ref(&change));
        let one = plan_services(&observed.table, &memory.table(), &BTreeSet::new(), [web].iter());
        assert_eq!(one, [change]);
        apply(&one);
        assert_eq!(dump().table, memory.table());
    });
}

#[test]
fn a_table_of_maglev_services_is_installed_whole() {
    in_name_space(|| {
        let (_, memory) = wanted("mh");
        let planned = plan(&dump().table, &memory.table(), &BTreeSet::new());
        assert_eq!(planned.len(), 256 * 42);
        timed("install 256 x 40 mh", || apply(&planned));
        assert_eq!(dump().table, memory.table());
        assert!(saved().iter().filter(|line| line.ends_with("-s mh")).count() == 256);
    });
}
