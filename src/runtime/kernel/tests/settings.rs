//! Time-outs and sync daemons: set, tried again, set anew after the kernel was gone, never in the way.

use std::num::NonZeroU32;

use super::*;
use crate::engine::model::SyncRole;
use crate::runtime::testing::within;

fn timeouts(tcp: u32) -> Timeouts {
    Timeouts { tcp: NonZeroU32::new(tcp), ..Timeouts::default() }
}

fn sync(role: SyncRole) -> Sync {
    Sync { role, interface: "eth0".into(), id: 1, max_length: None, group: None, port: None, ttl: None }
}

fn running(kernel: &Faulty) -> Vec<SyncRole> {
    kernel.memory.clone().sync_daemons().unwrap().iter().map(|daemon| daemon.role).collect()
}

fn tcp_timeout(kernel: &Faulty) -> u32 {
    kernel.memory.clone().timeouts().unwrap().tcp.unwrap().get()
}

#[test]
fn settings_are_set_before_they_are_answered() {
    let mut rig = Rig::new();
    let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: Some(sync(SyncRole::Both)) });
    rig.answer(ticket);
    assert_eq!(tcp_timeout(&rig.kernel), 77);
    assert_eq!(running(&rig.kernel), [SyncRole::Master, SyncRole::Backup]);
    // Sync daemons that do what is wanted are left alone, others replaced, unwanted ones stopped.
    let ticket = rig.writer.set(Settings { timeouts: timeouts(78), sync: Some(sync(SyncRole::Master)) });
    rig.answer(ticket);
    assert_eq!((tcp_timeout(&rig.kernel), running(&rig.kernel)), (78, vec![SyncRole::Master]));
    let ticket = rig.writer.set(Settings::default());
    rig.answer(ticket);
    assert_eq!((tcp_timeout(&rig.kernel), running(&rig.kernel)), (78, vec![]));
}

#[test]
fn sync_daemons_of_others_are_left_alone() {
    let mut rig = Rig::new();
    rig.kernel.memory.clone().start_sync(&sync(SyncRole::Backup)).unwrap();
    let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: None });
    rig.answer(ticket);
    assert_eq!(running(&rig.kernel), [SyncRole::Backup]);
}

#[test]
fn settings_that_fail_are_tried_until_they_are_set() {
    let mut rig = Rig::new();
    rig.kernel.faults().settings_fail = true;
    let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: None });
    rig.answer(ticket);
    for _ in 0..3 {
        rig.hear("they fail", |report| matches!(report, Report::Failed(_)));
    }
    assert_eq!(tcp_timeout(&rig.kernel), 900);
    rig.kernel.faults().settings_fail = false;
    within("they are set", || (tcp_timeout(&rig.kernel) == 77).then_some(()));
}

#[test]
fn settings_that_fail_are_not_tried_at_every_wish() {
    let mut rig = Rig::new();
    rig.kernel.faults().settings_fail = true;
    let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: None });
    rig.answer(ticket);
    for weight in 0..500 {
        rig.written(WEB, Some(web(weight)));
    }
    let tries = rig.kernel.faults().settings;
    assert!(tries < 100, "{tries} tries");
}

#[test]
fn settings_that_fail_do_not_delay_the_recovery_of_the_table() {
    let mut rig = Rig::new();
    rig.kernel.faults().settings_fail = true;
    for weight in 0..20 {
        let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: None });
        rig.answer(ticket);
        rig.written(WEB, Some(web(weight)));
    }
    rig.by_hand(removal(WEB));
    assert_eq!(rig.written(WEB, Some(web(99))), []);
    assert_eq!(rig.table(), table([(tcp(WEB), web(99))]));
}

#[test]
fn a_kernel_that_was_gone_is_set_anew() {
    let mut rig = Rig::with(Table::default(), &[], Drift::Repair, Duration::from_millis(20));
    let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: None });
    rig.answer(ticket);
    rig.kernel.faults().dumps_fail = true;
    rig.hear("a dump fails", |report| matches!(report, Report::Failed(_)));
    rig.kernel.memory.clone().set_timeouts(&timeouts(900)).unwrap();
    rig.kernel.faults().dumps_fail = false;
    within("they are set", || (tcp_timeout(&rig.kernel) == 77).then_some(()));
}

#[test]
fn a_sync_daemon_that_came_up_alone_is_stopped_with_the_rest() {
    let mut rig = Rig::new();
    rig.kernel.faults().backup_fails = true;
    let ticket = rig.writer.set(Settings { timeouts: timeouts(77), sync: Some(sync(SyncRole::Both)) });
    rig.answer(ticket);
    assert_eq!(running(&rig.kernel), [SyncRole::Master]);
    let ended = rig.stop(Stop::Withdraw(timeouts(900)));
    assert_eq!(running(&ended.kernel), []);
}
