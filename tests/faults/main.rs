//! The daemon while everything around it breaks: a table that is looked at all the while, and
//! connections that are counted. `./test faults` runs these in a guest, one after the other; with
//! LVSD_FAULTS=long they take their time.

#[cfg(test)]
mod clients;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod disk;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the kernel tests, which use the rest of it")]
#[path = "../lab/mod.rs"]
mod lab;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod netlink;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the kernel tests, which use the rest of it")]
#[path = "../daemon/process.rs"]
mod process;
#[cfg(test)]
mod receivers;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod shim;
#[cfg(test)]
mod soak;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod world;
