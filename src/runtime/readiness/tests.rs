//! Which dependency is not ready, and when it comes to be.

use std::collections::BTreeSet;

use super::*;
use crate::engine::model::Drift;
use crate::ipvs::{Dump, Memory, Observed, RequestError};
use crate::runtime::kernel::{Beginning, Writer};
use crate::runtime::testing::within;

fn failing(dependencies: &Dependencies) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (ready, failing) = runtime.block_on(dependencies.aggregator.evaluate());
    assert_eq!(ready, failing.is_empty());
    failing
}

fn writer(dump: impl Dump + 'static, drift_interval: Duration) -> Writer {
    let beginning = Beginning {
        observed: Observed::default(),
        owned: BTreeSet::new(),
        drift: Drift::Repair,
        drift_interval,
    };
    let (reports, _) = tokio::sync::mpsc::channel(64);
    Writer::spawn(Box::new(Memory::default()), Box::new(dump), beginning, reports).unwrap()
}

#[test]
fn what_is_not_installed_yet_is_not_ready() {
    let dependencies = Dependencies::new();
    assert_eq!(failing(&dependencies), ["ipvs", "config", "first-sync", "probes", "self-test"]);
    dependencies.install_config();
    assert_eq!(failing(&dependencies), ["ipvs", "first-sync", "probes", "self-test"]);
    dependencies.install_vitals();
    assert_eq!(failing(&dependencies), ["ipvs", "first-sync"]);
    dependencies.vitals.note_first_sync();
    assert_eq!(failing(&dependencies), ["ipvs"]);
    let writer = writer(Memory::default(), Duration::from_secs(1000));
    dependencies.install_kernel(writer.answers());
    assert_eq!(failing(&dependencies), [""; 0]);
}

#[test]
fn each_result_is_mirrored() {
    let dependencies = Dependencies::new();
    assert_eq!(dependencies.results(), []);
    dependencies.install_config();
    failing(&dependencies);
    let results = dependencies.results();
    let up: Vec<&str> = results.iter().filter(|(_, up)| *up).map(|(name, _)| name.as_str()).collect();
    assert_eq!((results.len(), up), (5, vec!["config"]));
    assert!(dependencies.answers().is_none());
}

#[test]
fn an_overdue_check_is_not_ready_until_it_has_been_started() {
    let dependencies = Dependencies::new();
    dependencies.install_vitals();
    dependencies.vitals.note_first_sync();
    for (late, wanted) in [(0, 2), (2000, 2), (2001, 3), (u64::MAX, 3), (1, 2)] {
        dependencies.vitals.note_lateness(Duration::from_millis(late));
        assert_eq!(failing(&dependencies).len(), wanted, "{late} ms: {:?}", failing(&dependencies));
    }
}

#[test]
fn frozen_verdicts_are_not_ready_and_no_reason_to_be_restarted() {
    let dependencies = Dependencies::new();
    dependencies.install_vitals();
    dependencies.vitals.note_first_sync();
    dependencies.vitals.note_frozen(true);
    assert_eq!(failing(&dependencies), ["ipvs", "config", "self-test"]);
    dependencies.heartbeat.beat();
    assert!(dependencies.aggregator.is_alive());
    dependencies.vitals.note_frozen(false);
    assert_eq!(failing(&dependencies), ["ipvs", "config"]);
}

#[test]
fn a_table_that_the_kernel_has_refused_as_a_whole_is_not_ready() {
    let dependencies = Dependencies::new();
    dependencies.install_vitals();
    dependencies.vitals.note_first_sync();
    for (barred, failed) in [(true, true), (false, false), (true, true)] {
        dependencies.vitals.note_barred(barred);
        assert_eq!(failing(&dependencies).contains(&"first-sync".to_owned()), failed);
    }
}

/// A netlink that has stopped answering.
struct Mute;

impl Dump for Mute {
    fn dump(&mut self) -> Result<Observed, RequestError> {
        let reason = crate::ipvs::Loss::Deadline(Duration::from_secs(5)).into();
        Err(RequestError { request: "dump the ipvs table", reason })
    }
}

#[test]
fn a_kernel_that_has_not_answered_for_two_intervals_is_not_ready() {
    let dependencies = Dependencies::new();
    dependencies.install_config();
    dependencies.install_vitals();
    dependencies.vitals.note_first_sync();
    let writer = writer(Mute, Duration::from_millis(20));
    dependencies.install_kernel(writer.answers());
    assert_eq!(failing(&dependencies), [""; 0], "it has answered at the start");
    within("not ready", || (failing(&dependencies) == ["ipvs"]).then_some(()));
    assert!(dependencies.aggregator.is_alive(), "that is no reason to be restarted");
}
