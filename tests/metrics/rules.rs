//! The alerts in packaging/prometheus: Prometheus takes them, they fire when they should, and they ask for
//! metrics that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::page::{Page, metrics_named_in, unknown};
use crate::promtool::promtool;
use crate::support::Place;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/prometheus")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).expect("it is part of the tree")
}

#[test]
fn prometheus_takes_the_rules() {
    let said = promtool(&folder(), "check rules lvsd.rules.yml", "");
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn the_rules_fire_when_they_should() {
    let said = promtool(&folder(), "test rules lvsd.test.yml", "");
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn every_alert_has_a_case_that_fires() {
    let alerts = |text: &str, pattern: &str| {
        let pattern = Regex::new(pattern).expect("a pattern");
        pattern.captures_iter(text).map(|found| found[1].to_owned()).collect::<BTreeSet<_>>()
    };
    let defined = alerts(&read("lvsd.rules.yml"), r"(?m)^ +- alert: (\w+)$");
    assert!(defined.len() > 15, "{defined:?}");
    let fired =
        alerts(&read("lvsd.test.yml"), r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels");
    assert_eq!(fired, defined);
}

#[test]
fn the_rules_ask_for_metrics_that_there_are() {
    let place = Place::new("http = \"127.0.0.1:0\"\n");
    let daemon = place.start();
    let page = Page::new(&daemon.page("/metrics").1);
    for file in ["lvsd.rules.yml", "lvsd.test.yml"] {
        let names = metrics_named_in(&read(file));
        assert!(names.len() > 15, "{names:?}");
        assert_eq!(unknown(&names, &page), [""; 0], "{file}");
    }
}
