//! What the kernel does that the kernel tests cannot show here: handles, settings, dumps. That
//! the errors are the kernel's is shown by running the same operations on both, in
//! `tests/kernel/ipvs`.

use super::*;
use crate::ipvs::testing::{attributes, destination, nat, service, table, tcp};

#[test]
fn clones_share_one_table() {
    let mut writer = Memory::default();
    let mut reader = writer.clone();
    let web = tcp("192.0.2.10:80");
    let add = Operation::AddService { service: web, attributes: attributes("rr") };
    assert_eq!(writer.apply(&[add]), [Ok(())]);
    assert_eq!(reader.dump().unwrap().table, table([(web, service("rr", &[]))]));
}

#[test]
fn a_table_that_was_read_does_not_change() {
    let web = tcp("192.0.2.10:80");
    let before = table([(web, service("rr", &[("198.51.100.1:80", 1)]))]);
    let mut memory = Memory::with_table(before.clone());
    let seen = memory.dump().unwrap();
    let id = destination("198.51.100.1:80");
    assert!(seen.counters.len() == 1 && seen.counters.get(&(web, id)).is_some());
    let remove = Operation::RemoveDestination { service: web, destination: id };
    assert_eq!(memory.apply(&[remove]), [Ok(())]);
    assert_eq!(seen.table, before);
    assert_eq!(memory.table(), table([(web, service("rr", &[]))]));
}

#[test]
fn a_refused_operation_changes_nothing_and_stops_nothing() {
    let web = tcp("192.0.2.10:80");
    let id = destination("198.51.100.1:80");
    let mut memory = Memory::default();
    let operations = [
        Operation::AddDestination { service: web, destination: id, record: nat(1) },
        Operation::AddService { service: web, attributes: attributes("rr") },
        Operation::AddDestination { service: web, destination: id, record: nat(u32::MAX) },
        Operation::AddDestination { service: web, destination: id, record: nat(2) },
    ];
    let results = memory.apply(&operations);
    let errnos: Vec<Option<Errno>> =
        results.iter().map(|r| r.as_ref().err().and_then(|e| e.errno())).collect();
    assert_eq!(errnos, [Some(Errno::ESRCH), None, Some(Errno::ERANGE), None]);
    assert_eq!(memory.table(), table([(web, service("rr", &[("198.51.100.1:80", 2)]))]));
}

#[test]
fn unset_timeouts_stay() {
    let mut memory = Memory::default();
    let before = memory.timeouts().unwrap();
    let change = Timeouts { udp: NonZeroU32::new(7), ..Timeouts::default() };
    memory.set_timeouts(&change).unwrap();
    assert_eq!(memory.timeouts(), Ok(Timeouts { udp: NonZeroU32::new(7), ..before }));
}

#[test]
fn sync_daemons_come_and_go() {
    let mut memory = Memory::default();
    let sync = Sync {
        role: SyncRole::Both,
        interface: "eth0".to_owned(),
        id: 1,
        max_length: Some(500),
        group: None,
        port: None,
        ttl: None,
    };
    memory.start_sync(&sync).unwrap();
    let running = memory.sync_daemons().unwrap();
    assert!(crate::ipvs::sync_is_running(&sync, &running), "{running:?}");
    let error = memory.start_sync(&sync).unwrap_err();
    assert_eq!(error.reason, Reason::Refused(Errno::EEXIST));
    memory.stop_sync(SyncRole::Master).unwrap();
    assert_eq!(memory.sync_daemons().unwrap().len(), 1);
    memory.stop_sync(SyncRole::Both).unwrap();
    assert_eq!(memory.sync_daemons(), Ok(vec![]));
}
