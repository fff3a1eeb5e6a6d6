//! The status page of a real daemon in a real browser. `./test web` runs it.

#![cfg(test)]

mod backends;
mod driver;
mod page;
mod speed;
#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "these tests need a part of it")]
mod support;
mod viewers;
