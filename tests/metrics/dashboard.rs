//! The dashboard in packaging/grafana: its questions are PromQL, about metrics and labels that there are.

use std::collections::BTreeSet;
use std::fs;

use lvsd::telemetry::metrics::ALL;
use regex::Regex;
use serde_json::Value;

use crate::page::{Page, metrics_named_in, unknown};
use crate::promtool::promtool;
use crate::support::Place;

fn dashboard() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/grafana/lvsd.json");
    serde_json::from_str(&fs::read_to_string(path).expect("it is part of the tree")).expect("JSON")
}

/// Everything that it asks Prometheus, with what Grafana would put in for its variables.
fn questions(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| match value.as_str() {
                Some(text) if key == "expr" => vec![text.replace("$__rate_interval", "5m")],
                _ => questions(value),
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(questions).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[test]
fn its_questions_are_promql() {
    let questions = questions(&dashboard());
    assert!(questions.len() > 40, "{}", questions.len());
    let rules = questions.iter().enumerate().map(|(number, question)| {
        format!("      - record: question:{number}\n        expr: {}\n", Value::from(question.as_str()))
    });
    let text = format!("groups:\n  - name: dashboard\n    rules:\n{}", rules.collect::<String>());
    let place = Place::new("");
    place.write("questions.yml", &text);
    let said = promtool(&place.path(""), "check rules questions.yml", "");
    assert!(said.contains(&format!("SUCCESS: {} rules found", questions.len())), "{said}");
}

#[test]
fn it_asks_for_metrics_and_labels_that_there_are() {
    let place = Place::new("http = \"127.0.0.1:0\"\n");
    let daemon = place.start();
    let page = Page::new(&daemon.page("/metrics").1);
    let dashboard = dashboard();
    let names = metrics_named_in(&dashboard.to_string());
    assert!(names.len() > 40, "{names:?}");
    assert_eq!(unknown(&names, &page), [""; 0]);

    let of_metrics = ALL.iter().flat_map(|metric| metric.labels.iter().copied());
    let known: BTreeSet<&str> = of_metrics.chain(["job", "instance", "le"]).collect();
    let (grouped, selected) = (
        Regex::new(r"\b(?:by|on) \(([^)]*)\)").expect("a pattern"),
        Regex::new(r#"(\w+)(?:=~|!~|!=|=)""#).expect("a pattern"),
    );
    for question in questions(&dashboard) {
        let grouped = grouped.captures_iter(&question).map(|found| found[1].to_owned());
        let selected = selected.captures_iter(&question).map(|found| found[1].to_owned());
        for label in grouped.chain(selected).collect::<Vec<_>>().join(",").split(',').map(str::trim) {
            assert!(label.is_empty() || known.contains(label), "{label} in {question}");
        }
    }
}

#[test]
fn it_can_be_imported_with_whatever_the_data_source_is_called() {
    let dashboard = dashboard();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let panels = list(&dashboard["panels"]);
    let numbers: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("a number")).collect();
    assert_eq!(numbers.len(), panels.len(), "two panels have one number");

    let variables = list(&dashboard["templating"]["list"]);
    let names: BTreeSet<_> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    assert!(variables.iter().any(|v| v["name"] == "datasource" && v["type"] == "datasource"));
    let source = serde_json::json!({ "type": "prometheus", "uid": "${datasource}" });
    let asked = panels.iter().filter(|panel| panel["type"] != "row");
    for panel in asked {
        assert_eq!(panel["datasource"], source, "{}", panel["title"]);
        let targets = list(&panel["targets"]);
        let letters: BTreeSet<_> = targets.iter().filter_map(|target| target["refId"].as_str()).collect();
        assert!(!targets.is_empty() && letters.len() == targets.len(), "{}", panel["title"]);
    }
    for variable in variables.iter().filter(|variable| variable["type"] == "query") {
        assert_eq!(variable["datasource"], source, "{}", variable["name"]);
    }
    // A variable that is not defined stays as it is, and the question finds nothing.
    let used = Regex::new(r"\$\{?(\w+)").expect("a pattern");
    let text = dashboard.to_string();
    for name in used.captures_iter(&text).map(|found| found[1].to_owned()) {
        assert!(name.starts_with("__") || names.contains(name.as_str()), "${name} is no variable");
    }
}

#[test]
fn no_panel_stands_on_another_and_each_has_a_title() {
    let dashboard = dashboard();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("a list") {
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect("a number"));
        assert!(x + w <= 24, "{}", panel["title"]);
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{} stands on another", panel["title"]);
        }
    }
}
