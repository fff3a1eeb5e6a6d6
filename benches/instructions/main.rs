//! How many instructions the pure parts of lvsd take, counted by callgrind and held against
//! `baseline.txt`: the same on a busy machine as on an idle one. Owns running and comparing; what is
//! counted stands in `cases`.
//!
//! ```text
//! cargo bench --profile counts --bench instructions              all cases
//! cargo bench --profile counts --bench instructions -- NAME …    those whose names have one of these in them
//! cargo bench --profile counts --bench instructions -- --renew   all, and baseline.txt written anew
//! ```
//!
//! Each case runs in a process of its own under valgrind, which counts only what is done within
//! [`measured`]: this program is both sides.

mod baseline;
mod cases;
mod inputs;
mod reply;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};

use baseline::Baseline;
use cases::{BOUNDS, CASES};

const USAGE: &str = "cargo bench --profile counts --bench instructions -- [--renew] [NAME …]";

/// Callgrind counts from its beginning to its end; a symbol of this name is what it is told.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn main() -> ExitCode {
    // cargo adds the last one.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["--case", name] => run_case(name).map(|()| true),
        ["--renew"] => count(&[]).and_then(|counts| renew(&counts)),
        names if names.iter().any(|name| name.starts_with('-')) => Err(anyhow::anyhow!("usage: {USAGE}")),
        names => count(names).and_then(|counts| compare(&counts)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("instructions: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

/// The inner side: one case, once.
fn run_case(name: &str) -> Result<()> {
    let (_, case) = CASES.iter().find(|(known, _)| *known == name).context("no such case")?;
    let mut work = case().with_context(|| format!("make {name} ready"))?;
    let mut said = None;
    measured(&mut || said = Some(work()));
    match said {
        Some(Ok(())) => Ok(()),
        Some(Err(problem)) => Err(problem.context(name.to_owned())),
        None => bail!("{name} did not run"),
    }
}

/// Instructions of each case whose name fits, in the order of the list.
fn count(names: &[&str]) -> Result<Vec<(&'static str, u64)>> {
    let fits = |name: &str| names.is_empty() || names.iter().any(|wanted| name.contains(wanted));
    let wanted: Vec<&'static str> = CASES.iter().map(|(name, _)| *name).filter(|name| fits(name)).collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut counted = Vec::new();
        while let Some(name) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            counted.push((*name, under_callgrind(name)));
        }
        counted
    };
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counted = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    if counted.len() < wanted.len() {
        bail!("{} of {} cases were counted", counted.len(), wanted.len());
    }
    counted.sort_by_key(|(name, _)| wanted.iter().position(|wanted| wanted == name));
    counted.into_iter().map(|(name, instructions)| Ok((name, instructions?))).collect()
}

fn under_callgrind(name: &str) -> Result<u64> {
    let folder = tempfile::tempdir().context("make a folder for callgrind")?;
    let counts = folder.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*instructions*measured*", "--error-exitcode=3"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(std::env::current_exe().context("find this program")?)
        .args(["--case", name])
        .output()
        .context("run valgrind (`tests/lab/install bench` installs it)")?;
    if !output.status.success() {
        bail!("{name} under valgrind: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    total(&counts).with_context(|| format!("what callgrind says of {name}"))
}

/// The line with the sum over the whole program.
fn total(counts: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(counts)?;
    let line = text.lines().find_map(|line| line.strip_prefix("summary:")).context("no summary")?;
    let total = line.split_whitespace().next().context("an empty summary")?.parse()?;
    if total == 0 {
        bail!("nothing was counted: is there a symbol named \"measured\"?");
    }
    Ok(total)
}

fn renew(counts: &[(&'static str, u64)]) -> Result<bool> {
    let baseline = Baseline::new(counts)?;
    baseline.write()?;
    let kept = ratios(counts);
    println!("{} counts written to {}", counts.len(), baseline::FILE);
    Ok(kept == 0)
}

fn compare(counts: &[(&'static str, u64)]) -> Result<bool> {
    let broken = Baseline::read()?.compare(counts)? + ratios(counts);
    let passed = counts.len().saturating_sub(broken);
    // As cargo's own tests end, for whoever adds up.
    let word = if broken == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {broken} failed;");
    Ok(broken == 0)
}

/// Prints how many times its reference each case takes, as far as both were counted. How many take more than
/// they may?
fn ratios(counts: &[(&'static str, u64)]) -> usize {
    let of = |name: &str| counts.iter().find(|(counted, _)| *counted == name).map(|(_, count)| *count);
    let mut broken = 0;
    for (name, reference, bound) in BOUNDS {
        let (Some(count), Some(base)) = (of(name), of(reference)) else { continue };
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = count as f64 / base as f64;
        let verdict = if ratio <= bound { "" } else { "  TOO MUCH" };
        println!("{name} is {ratio:.2} x {reference}, at most {bound}{verdict}");
        broken += usize::from(ratio > bound);
    }
    broken
}
