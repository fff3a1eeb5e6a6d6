//! Tests on a real IPVS table. `./test kernel` runs them, in a guest where this machine's own
//! kernel has no IPVS; each makes network name spaces of its own.

#[cfg(test)]
mod addresses;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the tests of the book, which use the rest of it")]
#[path = "../docs/book.rs"]
mod book;
#[cfg(test)]
#[path = "../daemon/mod.rs"]
mod daemon;
#[cfg(test)]
mod ipvs;
#[cfg(test)]
#[path = "../lab/mod.rs"]
mod lab;
#[cfg(test)]
#[path = "../lab/tests.rs"]
mod lab_tests;
#[cfg(test)]
mod peers;
#[cfg(test)]
#[path = "../metrics/promtool.rs"]
mod promtool;
#[cfg(test)]
mod side_by_side;
