//! `/metrics` of a real daemon, and the alerts and dashboard that are made for it, judged by Prometheus's own
//! tool.

#![cfg(test)]

mod dashboard;
mod exposition;
mod page;
mod promtool;
mod rules;
#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "these tests need a part of it")]
mod support;
