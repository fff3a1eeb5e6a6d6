//! How many random cases are tried, from which seed, and what is said of them.
//!
//! `LVSD_MODEL_STEPS` says how many steps the engine and the model take side by side, `LVSD_MODEL_SEED` what
//! they are made from, `LVSD_MODEL_CASE` which case alone is tried; `LVSD_ENGINE_CASES` how often each
//! property is. `./test model` sets them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::panic;
use std::sync::Once;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config as Runs, RngAlgorithm, TestCaseError, TestRng, TestRunner};

const DEFAULT_STEPS: u64 = 9_000;
const DEFAULT_CASES: u64 = 300;

/// What was compared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: BTreeMap<&'static str, u64>,
    pub(crate) tables: u64,
    pub(crate) notifications: u64,
    /// Plans, and the operations in them: the table was looked at after each of these.
    pub(crate) plans: u64,
    pub(crate) operations: u64,
}

impl Counts {
    pub(crate) fn step(&mut self, kind: &'static str) {
        *self.steps.entry(kind).or_default() += 1;
    }

    pub(crate) fn add(&mut self, more: &Self) {
        let Self { steps, tables, notifications, plans, operations } = more;
        for (kind, count) in steps {
            *self.steps.entry(kind).or_default() += count;
        }
        self.tables += tables;
        self.notifications += notifications;
        self.plans += plans;
        self.operations += operations;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: u64 = self.steps.values().sum();
        write!(
            f,
            "{steps} steps, {} tables compared, {} notifications compared, {} plans written one operation at a time, {} in all\nmodel: steps:",
            self.tables, self.notifications, self.plans, self.operations
        )?;
        self.steps.iter().try_for_each(|(kind, count)| write!(f, " {kind} {count}"))
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Of all that is random here.
fn seed() -> u64 {
    number("LVSD_MODEL_SEED").unwrap_or_else(|| u64::from(std::process::id()))
}

/// The same numbers for the same case of the same seed, whatever was tried before.
fn runner(cases: u64, seed: u64, case: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&case.to_le_bytes());
    let runs = Runs {
        cases: u32::try_from(cases).unwrap(),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        max_shrink_time: 120_000,
        ..Runs::default()
    };
    TestRunner::new_with_rng(runs, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Plays cases until there were as many steps as are asked for.
pub(crate) fn hold_for_steps<S: Strategy>(runs: S, play: impl Fn(S::Value) -> Result<Counts, TestCaseError>) {
    let (seed, only) = (seed(), number("LVSD_MODEL_CASE"));
    let asked = number("LVSD_MODEL_STEPS").unwrap_or(DEFAULT_STEPS);
    println!("model: seed {seed}");
    let (mut sum, mut cases) = (Counts::default(), 0);
    while cases == 0 || (only.is_none() && sum.steps.values().sum::<u64>() < asked) {
        let case = only.unwrap_or(cases);
        let mut runner = runner(1, seed, case);
        let tree = runs.new_tree(&mut runner).unwrap();
        let counts = RefCell::new(Counts::default());
        let held = quietly(|| {
            runner.run_one(tree, |run| {
                *counts.borrow_mut() = play(run)?;
                Ok(())
            })
        });
        if let Err(error) = held {
            panic!("{error}\nat {}\nonce more: ./test model {asked} {seed} {case}", place());
        }
        sum.add(&counts.into_inner());
        cases += 1;
    }
    println!("model: {cases} cases, {sum}\nmodel: once more: ./test model {asked} {seed}");
}

/// Holds `property` in as many cases as are asked for, or that part of them.
pub(crate) fn hold<S: Strategy>(
    part: u32,
    cases: S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let asked = number("LVSD_ENGINE_CASES").unwrap_or(DEFAULT_CASES) / u64::from(part);
    let seed = seed();
    let held = quietly(|| runner(asked, seed, 0).run(&cases, property));
    if let Err(error) = held {
        panic!("{error}\nat {}\nseed {seed}", place());
    }
    println!("model: {asked} cases: {}", std::thread::current().name().unwrap_or_default());
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    /// Where this thread panicked last.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

fn place() -> String {
    PLACE.with_borrow(String::clone)
}

/// While a case is made smaller it fails a thousand times: only what is left of it is shown.
fn quietly<T>(run: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(ToString::to_string).unwrap_or_default());
            if !QUIET.get() {
                before(info);
            }
        }));
    });
    QUIET.set(true);
    let result = run();
    QUIET.set(false);
    result
}
