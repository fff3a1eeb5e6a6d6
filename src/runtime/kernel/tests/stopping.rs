//! The end: withdrawn or kept, in whatever state it finds the kernel.

use std::num::NonZeroU32;

use nix::errno::Errno;

use super::faulty::Door;
use super::*;
use crate::engine::model::SyncRole;

fn original() -> Timeouts {
    Timeouts { tcp: NonZeroU32::new(900), tcp_fin: NonZeroU32::new(120), udp: NonZeroU32::new(300) }
}

/// A rig that has a service, a time-out and a sync daemon of ours beside a foreign service.
fn busy() -> (Rig, Table) {
    let foreign = table([(tcp("192.0.2.99:25"), service("rr", &[(FIRST, 5)]))]);
    let mut rig = Rig::with(foreign.clone(), &[], Drift::Repair, NEVER);
    let sync = Sync {
        role: SyncRole::Both,
        interface: "eth0".into(),
        id: 1,
        max_length: None,
        group: None,
        port: None,
        ttl: None,
    };
    let timeouts = Timeouts { tcp: NonZeroU32::new(77), ..Timeouts::default() };
    rig.writer.set(Settings { timeouts, sync: Some(sync) });
    rig.written(WEB, Some(web(3)));
    rig.written(OTHER, Some(web(1)));
    (rig, foreign)
}

fn is_settled(heard: &[Report], last: Ticket) -> bool {
    let of_last = heard.iter().rev().find_map(|report| match report {
        Report::Written { ticket, settled, .. } if *ticket >= last => Some(*settled),
        Report::Written { .. } | Report::Drifted(_) | Report::Failed(_) | Report::Recovered => None,
    });
    of_last.expect("the stop is answered")
}

#[test]
fn withdraw_removes_what_is_ours_and_puts_settings_back() {
    let (rig, foreign) = busy();
    let ended = rig.stop(Stop::Withdraw(original()));
    assert!(is_settled(&ended.heard, ended.last));
    assert_eq!(ended.kernel.memory.table(), foreign);
    let mut kernel = ended.kernel.memory.clone();
    assert_eq!(kernel.timeouts(), Ok(original()));
    assert_eq!(kernel.sync_daemons(), Ok(vec![]));
}

#[test]
fn keep_leaves_everything_and_asks_nothing() {
    let (rig, _) = busy();
    let (before, asked) = (rig.table(), rig.kernel.asked().len());
    let ended = rig.stop(Stop::Keep);
    assert!(is_settled(&ended.heard, ended.last));
    assert_eq!(ended.kernel.memory.table(), before);
    assert_eq!(ended.kernel.asked().len(), asked);
    let mut kernel = ended.kernel.memory.clone();
    assert_eq!(kernel.timeouts().unwrap().tcp, NonZeroU32::new(77));
    assert_eq!(kernel.sync_daemons().unwrap().len(), 2);
}

#[test]
fn with_keep_what_there_was_to_do_is_done_first() {
    let (mut rig, _) = busy();
    rig.kernel.shut(Door::Apply);
    rig.want(WEB, Some(web(4)));
    rig.kernel.await_caller(Door::Apply);
    rig.want(WEB, Some(web(5)));
    let kernel = rig.kernel.clone();
    let opener = std::thread::spawn(move || kernel.open(Door::Apply));
    let ended = rig.stop(Stop::Keep);
    opener.join().unwrap();
    assert_eq!(ended.kernel.memory.table().services[&tcp(WEB)], web(5));
}

#[test]
fn withdraw_tries_what_was_held_and_says_what_is_left() {
    let (mut rig, _) = busy();
    rig.kernel.faults().refused.insert(tcp(WEB), (Errno::EBUSY, usize::MAX));
    rig.written(WEB, Some(web(4)));
    let ended = rig.stop(Stop::Withdraw(original()));
    assert!(!is_settled(&ended.heard, ended.last));
    let left = ended.kernel.memory.table();
    assert!(left.services.contains_key(&tcp(WEB)) && !left.services.contains_key(&tcp(OTHER)));
}

#[test]
fn withdraw_looks_for_services_that_came_without_an_answer() {
    let (mut rig, foreign) = busy();
    rig.kernel.faults().unheard = 1;
    rig.kernel.shut(Door::Dump);
    rig.written("192.0.2.12:80", Some(web(1)));
    let kernel = rig.kernel.clone();
    let opener = std::thread::spawn(move || {
        kernel.await_caller(Door::Dump);
        kernel.open(Door::Dump);
    });
    let ended = rig.stop(Stop::Withdraw(original()));
    opener.join().unwrap();
    assert_eq!(ended.kernel.memory.table(), foreign);
    assert!(is_settled(&ended.heard, ended.last));
}

#[test]
fn withdraw_gets_over_a_hand_that_was_there_first() {
    let (rig, foreign) = busy();
    rig.by_hand(removal(WEB));
    let ended = rig.stop(Stop::Withdraw(original()));
    assert_eq!(ended.kernel.memory.table(), foreign);
    assert!(is_settled(&ended.heard, ended.last));
}

#[test]
fn withdraw_from_a_mute_kernel_ends_and_says_that_all_is_left() {
    let (rig, _) = busy();
    let before = rig.table();
    {
        let mut faults = rig.kernel.faults();
        (faults.mute, faults.dumps_fail, faults.settings_fail) = (true, true, true);
    }
    let ended = rig.stop(Stop::Withdraw(original()));
    assert!(!is_settled(&ended.heard, ended.last));
    assert_eq!(ended.kernel.memory.table(), before);
    assert!(ended.heard.iter().any(|report| matches!(report, Report::Failed(_))));
}

struct Breaks;

impl Dump for Breaks {
    fn dump(&mut self) -> Result<Observed, RequestError> {
        panic!("as it should")
    }
}

/// Which is how the supervisor learns of it.
#[test]
fn the_writer_ends_when_the_reader_breaks_off() {
    let (sender, mut reports) = mpsc::channel(1);
    let beginning = Beginning {
        observed: Observed::default(),
        owned: BTreeSet::new(),
        drift: Drift::Repair,
        drift_interval: Duration::from_millis(1),
    };
    let writer = Writer::spawn(Box::new(Memory::default()), Box::new(Breaks), beginning, sender).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let next = runtime.block_on(async { tokio::time::timeout(SOON, reports.recv()).await });
    assert!(matches!(next, Ok(None)), "{next:?}");
    writer.join();
}
