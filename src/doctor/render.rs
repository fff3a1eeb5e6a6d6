//! Findings for people and for programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Finding, Lasting, Level};

/// Columns of text; commands are never broken.
const WIDTH: usize = 80;
const INDENT: &str = "        ";

/// Faults and advice with all there is to say, then what is right in a line each.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        match finding.level {
            Level::Ok => _ = writeln!(text, "{:<8}{}", finding.level.name(), finding.found),
            Level::Fault | Level::Advice => text.push_str(&detailed(finding)),
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (faults, advice) = (count(Level::Fault), count(Level::Advice));
    let plural = if faults == 1 { "" } else { "s" };
    _ = writeln!(text, "{faults} fault{plural}, {advice} advice, {} ok", count(Level::Ok));
    text
}

fn detailed(finding: &Finding) -> String {
    let mut text = format!("{:<8}{}\n", finding.level.name(), finding.found);
    _ = writeln!(text, "{INDENT}see: {}", finding.source);
    if !finding.virtual_servers.is_empty() {
        text.push_str(&wrapped(&format!("for: {}", finding.virtual_servers.join(", "))));
    }
    text.push_str(&wrapped(&finding.why));
    for command in &finding.remedy.commands {
        _ = writeln!(text, "{INDENT}  # {command}");
    }
    let mut file = "";
    for Lasting { file: one, line } in &finding.remedy.lasting {
        if *one != file {
            _ = writeln!(text, "{INDENT}to keep it, in {one}:");
            file = one;
        }
        _ = writeln!(text, "{INDENT}  {line}");
    }
    text.push('\n');
    text
}

fn wrapped(words: &str) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for word in words.split_whitespace() {
        if !line.is_empty() && INDENT.len() + line.chars().count() + 1 + word.chars().count() > WIDTH {
            _ = writeln!(text, "{INDENT}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        _ = writeln!(text, "{INDENT}{line}");
    }
    text
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    faults: usize,
    advice: usize,
    findings: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    level: &'a str,
    rule: &'a str,
    found: &'a str,
    source: &'a str,
    why: &'a str,
    virtual_servers: &'a [String],
    commands: &'a [String],
    lasting: Vec<Line<'a>>,
}

impl<'a> Item<'a> {
    fn new(finding: &'a Finding) -> Self {
        let Finding { level, rule, found, source, why, virtual_servers, remedy } = finding;
        let lasting = remedy.lasting.iter().map(|one| Line { file: one.file, line: &one.line }).collect();
        let commands = &remedy.commands;
        Self { level: level.name(), rule, found, source, why, virtual_servers, commands, lasting }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    line: &'a str,
}

/// Version 1, one line.
pub fn json(findings: &[Finding]) -> Result<String, serde_json::Error> {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let items = findings.iter().map(Item::new).collect();
    let report =
        Report { version: 1, faults: count(Level::Fault), advice: count(Level::Advice), findings: items };
    serde_json::to_string(&report).map(|text| text + "\n")
}
