//! The daemon as a service of a whole machine, with the real unit. `./test systemd` boots a
//! Debian with systemd and journald and runs these in it, one after the other.

#[cfg(test)]
#[path = "../packages/assets.rs"]
mod assets;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the tests of the book, which use the rest of it")]
#[path = "../docs/book.rs"]
mod book;
#[cfg(test)]
mod confined;
#[cfg(test)]
mod guide;
#[cfg(test)]
#[expect(dead_code, reason = "shared with the kernel tests, which use the rest of it")]
#[path = "../lab/mod.rs"]
mod lab;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod package;
#[cfg(test)]
mod segments;
#[cfg(test)]
mod service;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../faults/watch.rs"]
mod watch;
