//! The parts of the reference that are made from the program: keys, commands, exit codes. `LVSD_UPDATE_DOCS=1
//! cargo test --test docs` writes them anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::CommandFactory;
use lvsd::config::documented::{self, Role, Section};
use lvsd::control::cli::Cli;
use serde_json::Value;

use super::book::Page;
use super::root;

const BEGIN: &str = "<!-- begin: made by tests/docs -->\n";
const END: &str = "<!-- end -->";

/// Compares the made part of a page with what it should be, or writes it.
fn is_made_of(name: &str, wanted: &str) {
    let page = Page::read(root(), name);
    let (head, rest) = page.text.split_once(BEGIN).expect("a mark where the part begins");
    let (part, tail) = rest.split_once(END).expect("a mark where it ends");
    if std::env::var("LVSD_UPDATE_DOCS").is_ok_and(|update| update == "1") {
        let text = format!("{head}{BEGIN}{wanted}{END}{tail}");
        std::fs::write(root().join("docs/src").join(name), text).expect("the tree can be written");
    } else {
        assert!(part == wanted, "{name}: LVSD_UPDATE_DOCS=1 cargo test --test docs writes it anew");
    }
}

#[test]
fn the_keys_are_those_of_the_commented_file() {
    let sections = documented::sections(documented::TEXT);
    let made: String = sections.iter().enumerate().map(|(number, section)| keys(number, section)).collect();
    is_made_of("reference/configuration.md", &made);
}

fn keys(number: usize, section: &Section) -> String {
    let mut text = String::new();
    let title = if number == 0 { "At the top of the file" } else { &section.title };
    let title = if number == 0 { title.to_owned() } else { format!("`{title}`") };
    // Writing to a text cannot fail.
    let _ = write!(text, "\n## {title}\n\n");
    // How that file is written says nothing of this page.
    let of_the_file = |remark: &[String]| remark.iter().any(|line| line.contains("Every key that there is"));
    for remark in section.remarks.iter().filter(|remark| !of_the_file(remark)) {
        if remark.iter().any(|line| line.starts_with(' ')) {
            let _ = write!(text, "```text\n{}\n```\n\n", remark.join("\n"));
        } else {
            let _ = write!(text, "{}\n\n", escaped(&remark.join(" ")));
        }
    }
    for entry in &section.entries {
        for key in &entry.keys {
            let role = match key.role {
                Role::Default => "default",
                Role::Example => "example",
            };
            let _ = writeln!(text, "- `{}` ({role})", key.text);
        }
        let says = if entry.says.is_empty() { "See above." } else { &entry.says };
        let _ = write!(text, "\n  {}\n\n", escaped(says));
    }
    text
}

/// So that Markdown shows what was written; code stays as it is.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(number, part)| {
        if number % 2 == 1 {
            part.to_owned()
        } else {
            part.replace('<', "\\<").replace('*', "\\*").replace('_', "\\_")
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

/// The schema is made from the loader's own lists of keys.
#[test]
fn every_key_that_the_loader_takes_is_in_the_reference() {
    let page = Page::read(root(), "reference/configuration.md").text.replace('\\', "");
    let schema = lvsd::config::schema::schema();
    let mut keys = BTreeSet::new();
    properties(&schema, &mut keys);
    assert!(keys.len() > 100, "{} keys", keys.len());
    let missing: Vec<_> = keys.iter().filter(|key| !page.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn properties(value: &Value, into: &mut BTreeSet<String>) {
    if let Some(table) = value.get("properties").and_then(Value::as_object) {
        into.extend(table.keys().cloned());
    }
    match value {
        Value::Object(table) => table.values().for_each(|value| properties(value, into)),
        Value::Array(list) => list.iter().for_each(|value| properties(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_commands_are_those_of_the_program() {
    let mut program = Cli::command().term_width(100);
    program.build();
    let mut text =
        format!("\n## `lvsd`\n\n```text\n{}\n```\n", program.render_long_help().to_string().trim_end());
    for command in program.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        let name = command.get_name().to_owned();
        let help = command.render_long_help().to_string();
        let _ = write!(text, "\n## `lvsd {name}`\n\n```text\n{}\n```\n", trimmed(&help));
    }
    is_made_of("reference/commands.md", &text);
}

fn trimmed(help: &str) -> String {
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// What the plays of `tests/kernel/side_by_side` know: why lvsd's table is not keepalived's.
#[test]
fn the_differences_from_keepalived_are_those_of_the_plays() {
    let folder = root().join("tests/kernel/side_by_side/plays");
    let entries = std::fs::read_dir(folder).expect("the plays").map(|entry| entry.expect("an entry").path());
    let mut plays: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "play")).collect();
    plays.sort();
    let mut reasons: Vec<(String, String)> = Vec::new();
    for path in plays {
        let (text, name) =
            (std::fs::read_to_string(&path).expect("a play"), path.file_stem().expect("a name"));
        for reason in text.lines().filter_map(|line| line.strip_prefix("because ")) {
            // What follows from a difference that has been told.
            let is_told = reason.starts_with("it was ") || reasons.iter().any(|(told, _)| told == reason);
            if !is_told {
                reasons.push((reason.to_owned(), name.to_string_lossy().into_owned()));
            }
        }
    }
    assert!(reasons.len() > 5, "{} differences", reasons.len());
    let rows: String =
        reasons.iter().map(|(reason, play)| format!("| {} | `{play}` |\n", escaped(reason))).collect();
    is_made_of("guide/migrate.md", &format!("| keepalived, unlike lvsd | play |\n|---|---|\n{rows}"));
}

/// A command that the guide tells of exists.
#[test]
fn every_command_in_the_book_is_one() {
    let mut program = Cli::command();
    program.build();
    let names: BTreeSet<_> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let used = regex::Regex::new(r"(?m)(?:[#$] |`)lvsd ([a-z][a-z-]+)").expect("a pattern");
    let mut count = 0;
    for page in super::pages().iter().filter(|page| page.name != "reference/commands.md") {
        for found in used.captures_iter(&page.text) {
            count += 1;
            assert!(names.contains(&found[1]), "{}: lvsd {} is no command", page.name, &found[1]);
        }
    }
    assert!(count > 50, "{count} commands");
}

/// Metrics that the guide tells of are in the catalogue, as `reference/metrics.md` is.
#[test]
fn every_metric_in_the_book_is_one() {
    let catalogue = Page::read(root(), "reference/metrics.md").text;
    let used = regex::Regex::new(r"\blvsd_[a-z_]*[a-z]\b").expect("a pattern");
    for page in super::pages() {
        for found in
            used.find_iter(&page.text).filter(|found| !page.text[found.end()..].starts_with(['.', '*']))
        {
            let name = found.as_str();
            let name =
                ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(catalogue.contains(&format!("`{name}`")), "{}: {name} is no metric", page.name);
        }
    }
}

#[test]
fn every_exit_code_is_explained() {
    let page = Page::read(root(), "reference/exit-codes.md").text;
    let known: Vec<u8> =
        (0..=u8::MAX).filter(|code| lvsd::control::ExitCode::try_from(*code).is_ok()).collect();
    assert!(known.len() > 4);
    for code in known {
        assert!(page.contains(&format!("| {code} |")), "exit code {code}");
    }
}
