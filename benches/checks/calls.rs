//! System calls per check, from two runs under strace: what they have in common is not the checks'.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Protocol;
use super::server::Server;

const FEW: usize = 200;
const MANY: usize = 1200;

/// The most that one check may take.
const BOUNDS: [(Protocol, f64); 2] = [(Protocol::Tcp, 9.0), (Protocol::Http, 9.0)];

pub(crate) fn count() -> Result<()> {
    let mut broken = 0;
    for (protocol, bound) in BOUNDS {
        let server = Server::start(protocol)?;
        let (few, many) = (under_strace(protocol, &server, FEW)?, under_strace(protocol, &server, MANY)?);
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let per_check = |few: u64, many: u64| (many as f64 - few as f64) / (MANY - FEW) as f64;
        let total = |counts: &[(String, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
        let each = per_check(total(&few), total(&many));
        let verdict = if each <= bound { "" } else { "  TOO MANY" };
        println!("{:<5} {each:.2} system calls a check, at most {bound}{verdict}", protocol.name());
        for (name, count) in &many {
            let before = few.iter().find(|(other, _)| other == name).map_or(0, |(_, count)| *count);
            let each = per_check(before, *count);
            if each >= 0.01 {
                println!("      {each:6.2} {name}");
            }
        }
        broken += usize::from(each > bound);
    }
    let passed = BOUNDS.len() - broken;
    println!("test result: {}. {passed} passed; {broken} failed;", if broken == 0 { "ok" } else { "FAILED" });
    if broken > 0 {
        bail!("{broken} kinds of checks take too many system calls");
    }
    Ok(())
}

fn under_strace(protocol: Protocol, server: &Server, checks: usize) -> Result<Vec<(String, u64)>> {
    let folder = tempfile::tempdir()?;
    let summary = folder.path().join("summary");
    let output = Command::new("strace")
        .args(["-f", "-c", "-U", "calls,name", "-o"])
        .arg(&summary)
        .arg(std::env::current_exe()?)
        .args(["--run", protocol.name(), &server.address.to_string()])
        .arg(server.folder())
        .arg(checks.to_string())
        .output()
        .context("run strace (`tests/lab/install bench` installs it)")?;
    if !output.status.success() {
        bail!(
            "{} under strace: {}\n{}",
            protocol.name(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    read(&summary)
}

/// Lines of a count and a name, below a heading and above a total.
fn read(summary: &Path) -> Result<Vec<(String, u64)>> {
    let text = std::fs::read_to_string(summary)?;
    let mut counts = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [count, name] = words.as_slice()
            && *name != "total"
            && let Ok(count) = count.parse()
        {
            counts.push(((*name).to_owned(), count));
        }
    }
    if counts.is_empty() {
        bail!("strace counted nothing");
    }
    Ok(counts)
}
