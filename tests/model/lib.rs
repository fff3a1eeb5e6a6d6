//! The pure part of lvsd as a crate of its own: the same files, built with optimisation in half a minute
//! where all of lvsd would take many, so that `./test model` can take a million steps.

#[path = "../../src/engine/mod.rs"]
pub mod engine;
#[path = "../../src/ipvs/mod.rs"]
pub mod ipvs;
