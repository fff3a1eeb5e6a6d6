//! Tests on a real IPVS table. `./test kernel` runs them, in a guest where this machine's own
//! kernel has no IPVS; each makes network name spaces of its own.

#[path = "../daemon/mod.rs"]
mod daemon;
#[path = "../lab/mod.rs"]
mod lab;
#[path = "../lab/tests.rs"]
mod lab_tests;
