//! Tests on a real IPVS table. `./test kernel` runs them, in a guest where this machine's own
//! kernel has no IPVS; each makes network name spaces of its own.

#[cfg(test)]
mod addresses;
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
