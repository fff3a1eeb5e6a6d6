//! libFuzzer's entry: one program for all targets, so that it is built once. `LVSD_FUZZ_TARGET` names the
//! one to run; without it, the names are printed.

#![no_main]

use std::alloc::System;
use std::sync::OnceLock;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use lvsd::fuzzing::{TARGETS, Target};

/// Bytes that one input may make lvsd hold beyond what it held before.
const MEMORY: usize = 96 << 20;

/// Beyond its limit it fails, which ends the program and leaves the input.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        let _cannot_be_below_what_is_held = ALLOCATOR.set_limit(ALLOCATOR.allocated() + MEMORY);
        (target.run)(data);
        let _cannot_be_below_what_is_held = ALLOCATOR.set_limit(usize::MAX);
    }
});

fn choose() {
    let name = std::env::var("LVSD_FUZZ_TARGET").unwrap_or_default();
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => drop(TARGET.set(*target)),
        None => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            std::process::exit(if name.is_empty() { 0 } else { 64 });
        }
    }
}
