//! The counts that are committed: reading, writing, comparing. Runs nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions/baseline.txt");

/// Growth, in percent, that fails.
const BOUND: u64 = 10;

/// The same where another compiler than the baseline's made the program: its own changes are in it.
const OTHER_COMPILER: u64 = 30;

const RENEW: &str = "cargo bench --profile counts --bench instructions -- --renew";

const HEAD: &str = "# Instructions of each case of benches/instructions, as callgrind counts them. Written by\n\
                    #   cargo bench --profile counts --bench instructions -- --renew\n";

pub(crate) struct Baseline {
    compiler: String,
    counts: BTreeMap<String, u64>,
}

/// Which compiler, and for which processor: counts of others are others.
fn compiler() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("run rustc --version")?;
    let version = String::from_utf8_lossy(&output.stdout);
    Ok(format!("{} for {}", version.trim(), std::env::consts::ARCH))
}

impl Baseline {
    pub(crate) fn new(counts: &[(&'static str, u64)]) -> Result<Self> {
        let counts = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Ok(Self { compiler: compiler()?, counts })
    }

    pub(crate) fn read() -> Result<Self> {
        let text = std::fs::read_to_string(FILE).with_context(|| format!("read {FILE}"))?;
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let compiler = lines.next().context("the baseline is empty")?.to_owned();
        let mut counts = BTreeMap::new();
        for line in lines {
            let (name, count) =
                line.split_once(' ').with_context(|| format!("not a name and a count: {line}"))?;
            let count = count.trim().parse().with_context(|| format!("not a count: {line}"))?;
            counts.insert(name.to_owned(), count);
        }
        Ok(Self { compiler, counts })
    }

    pub(crate) fn write(&self) -> Result<()> {
        let mut text = format!("{HEAD}{}\n", self.compiler);
        for (name, count) in &self.counts {
            writeln!(text, "{name:<24} {count:>12}")?;
        }
        std::fs::write(FILE, text).with_context(|| format!("write {FILE}"))
    }

    /// Prints a line for each case. How many have grown too much?
    pub(crate) fn compare(&self, counts: &[(&'static str, u64)]) -> Result<usize> {
        let present = compiler()?;
        let bound = if present == self.compiler {
            BOUND
        } else {
            println!("the baseline is of {}, this is {present}:", self.compiler);
            println!("up to {OTHER_COMPILER} % more may be the compiler's. Renew it: {RENEW}");
            OTHER_COMPILER
        };
        let mut broken = 0;
        for (name, count) in counts {
            let Some(before) = self.counts.get(*name) else {
                bail!("{name} is not in the baseline; renew it: {RENEW}");
            };
            let change = percent(*before, *count);
            let verdict = if *count > before + before * bound / 100 {
                broken += 1;
                format!("  GREW by more than {bound} %")
            } else if before * 100 > count * (100 + BOUND) {
                format!("  less than before: renew the baseline ({RENEW})")
            } else {
                String::new()
            };
            println!("{name:<24} {count:>12}  {change:>+6.1} %{verdict}");
        }
        if broken > 0 {
            println!("If the growth is worth it, say why in the commit and renew the baseline: {RENEW}");
        }
        Ok(broken)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(before: u64, now: u64) -> f64 {
    (now as f64 / before as f64 - 1.0) * 100.0
}
