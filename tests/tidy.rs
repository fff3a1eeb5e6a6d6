//! The house rules that a program can check. Each is a small function from a file to its
//! complaints, and each has a test that shows that it can fail.

#![cfg(test)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use regex::Regex;

/// A rule: what a file of this path and text does wrong, one line for each mistake.
type Rule = fn(&str, &str) -> Vec<String>;

/// The top modules, and what each may name of the others by `crate::`.
const ARROWS: [(&str, &[&str]); 16] = [
    ("engine", &[]),
    ("anew", &[]),
    ("addresses", &["anew"]),
    ("config", &["engine"]),
    ("ipvs", &["engine"]),
    ("doctor", &["engine"]),
    ("process", &[]),
    ("net", &["engine"]),
    ("checks", &["engine", "anew", "process", "net"]),
    ("health", &["engine"]),
    ("notify", &["engine", "anew", "process", "net"]),
    ("shown", &[]),
    ("control", &["engine", "shown"]),
    ("telemetry", &["engine", "anew", "shown"]),
    ("runtime", RUNTIME),
    ("fuzzing", &["engine", "addresses", "config", "ipvs", "checks", "notify", "control", "runtime"]),
];
#[rustfmt::skip]
const RUNTIME: &[&str] = &[
    "engine", "anew", "addresses", "process", "net", "config", "ipvs", "checks", "health", "notify", "control", "telemetry",
];
/// Parts of a module that others may name; without an entry, all of it.
const DOORS: [(&str, &str, &[&str]); 1] = [("ipvs", "engine", &["model", "table"])];
/// Files about 300 lines: what is far beyond has two subjects.
const LINES: usize = 420;
/// Files with more lines than that, how many they may have, and why they are one subject.
const LONGER: [(&str, usize, &str); 2] = [
    ("src/engine/model.rs", 800, "one list of types, read from top to bottom"),
    ("tests/engine/model.rs", 560, "one reference model, to be compared with the engine as a whole"),
];
const UNSAFE_CODE: &str = r"\bunsafe\s*(\{|fn|impl|trait|extern)";

#[test]
fn the_tree_keeps_the_rules() {
    let files = files(&["src", "tests", "benches", "examples", "fuzz/src"], &["rs"]);
    assert!(files.len() > 20, "too few files found: {}", files.len());
    let rules: [Rule; 11] = [
        core_is_pure,
        arrows_point_down,
        begins_with_its_purpose,
        is_not_too_long,
        is_safe,
        expects_instead_of_allowing,
        has_no_bare_bool,
        has_no_get_names,
        words_errors_for_a_chain,
        says_nothing_of_how_it_was_made,
        names_no_place_of_a_developer,
    ];
    let mut wrong: Vec<String> =
        files.iter().flat_map(|(path, text)| rules.iter().flat_map(|rule| rule(path, text))).collect();
    for (path, text) in
        self::files(&["systemd", "config", "docs", ".ci", "tests/lab", "packaging", "fuzz"], &[])
    {
        wrong.extend(says_nothing_of_how_it_was_made(&path, &text));
        wrong.extend(names_no_place_of_a_developer(&path, &text));
    }
    let manifests = ["Cargo.toml", "fuzz/Cargo.toml"];
    wrong.extend(manifests.iter().flat_map(|file| explains_each_dependency(file, &read(file))));
    wrong.extend(explains_each_directive("systemd/lvsd.service", &read("systemd/lvsd.service")));
    for page in ["README.md", "CONTRIBUTING.md", "Dockerfile", "demo", "test", "deny.toml", "Cargo.toml"] {
        wrong.extend(says_nothing_of_how_it_was_made(page, &read(page)));
        wrong.extend(names_no_place_of_a_developer(page, &read(page)));
    }
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn unsafe_stands_nowhere() {
    let files = files(&["src"], &["rs"]);
    let found: Vec<String> = files.iter().flat_map(|(path, text)| is_safe(path, text)).collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(read("Cargo.toml").contains("unsafe_code = \"deny\""), "the compiler is told to deny it");
}

// -- rules ----------------------------------------------------------------------------------

/// Logic takes time and results as arguments: a test of it needs neither clock nor socket.
fn core_is_pure(path: &str, text: &str) -> Vec<String> {
    let (engine, config) = (path.starts_with("src/engine/"), path.starts_with("src/config/"));
    // Tests of the configuration read real files of every kind.
    if !engine && (!config || path.contains("/tests")) {
        return Vec::new();
    }
    let everywhere = r"\btokio\b|\bInstant\b|\bSystemTime\b|\b(Tcp|Udp|Unix)(Stream|Listener|Socket|Datagram)\b|\bsocket2\b|\bneli\b|\bnix::(sys|time|unistd)\b|\bthread\b";
    let engine_only =
        r"\bstd::(fs|env|io|process)\b|\bprintln!|\beprintln!|\bnix\b|\brand\b|\bHashMap\b|\bHashSet\b";
    // What the configuration looks at beside its files, it has to look at through `Context::doors`.
    let is_door =
        ["sources", "pem", "secret", "permission"].iter().any(|door| path == format!("src/config/{door}.rs"));
    let disk = r"\bstd::(fs|env)\b|\bOpenOptions\b|\.(metadata|exists|is_file|is_dir|canonicalize)\(";
    // Who may not read a file, for the words that say so.
    let is_who = path == "src/config/permission.rs";
    let everywhere = if is_who { everywhere.replace("|unistd", "") } else { everywhere.to_owned() };
    let pattern = if is_door { everywhere } else { format!("{everywhere}|{disk}") };
    let mut wrong = find(path, text, &pattern, "the core has no clock, socket, runtime, thread or disk");
    if engine {
        wrong.extend(find(
            path,
            text,
            engine_only,
            "the engine reads no files, prints nothing and has an order in all",
        ));
    }
    wrong
}

/// Siblings know nothing of each other, so each can be read, tested and replaced alone.
fn arrows_point_down(path: &str, text: &str) -> Vec<String> {
    let Some(rest) = path.strip_prefix("src/") else { return Vec::new() };
    let own = rest.split(['/', '.']).next().unwrap_or_default();
    let Some((_, allowed)) = ARROWS.iter().find(|(module, _)| *module == own) else { return Vec::new() };
    // How many `super::` lead from this file to the crate; `mod.rs` is its folder.
    let depth = rest.trim_end_matches("/mod.rs").matches('/').count() + 1;
    let mut wrong = Vec::new();
    for (line, code) in lines_of_code(text) {
        for (names, climbs) in crate_paths(&code) {
            for name in names {
                let mut parts = name.split("::");
                let (module, part) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let sibling = ARROWS.iter().any(|(one, _)| *one == module) && module != own;
                let outside = climbs.is_none_or(|climbs| climbs >= depth) && sibling;
                let door = DOORS.iter().find(|(from, to, _)| *from == own && *to == module);
                let shut = door.is_some_and(|(_, _, parts)| !part.starts_with('{') && !parts.contains(&part));
                if outside && (!allowed.contains(&module) || shut) {
                    wrong.push(format!("{path}:{line}: {own} must not name {name}"));
                }
            }
        }
    }
    wrong
}

/// A reader learns first what a file owns and must not do.
fn begins_with_its_purpose(path: &str, text: &str) -> Vec<String> {
    let begins = text.starts_with("//! ");
    if begins { Vec::new() } else { vec![format!("{path}:1: begins with what it owns, as `//! …`")] }
}

fn is_not_too_long(path: &str, text: &str) -> Vec<String> {
    let bound = LONGER.iter().find(|(file, _, _)| *file == path).map_or(LINES, |(_, bound, _)| *bound);
    let count = text.lines().count();
    if count <= bound { Vec::new() } else { vec![format!("{path}: {count} lines, at most {bound}")] }
}

fn is_safe(path: &str, text: &str) -> Vec<String> {
    find(path, text, UNSAFE_CODE, "no unsafe here")
}

/// An `allow` stays when its cause has gone; an `expect` then complains.
fn expects_instead_of_allowing(path: &str, text: &str) -> Vec<String> {
    find(path, text, r"#!?\[\s*(cfg_attr\(.*,\s*)?allow\(", "#[expect(…, reason = \"…\")] instead of allow")
}

/// `f(true)` says nothing where it is called.
fn has_no_bare_bool(path: &str, text: &str) -> Vec<String> {
    if !path.starts_with("src/") {
        return Vec::new();
    }
    let code = lines_of_code(text).map(|(_, code)| code + "\n").collect::<String>();
    let signature = regex(r"pub (?:const |async )*fn (\w+)(?:<[^(]*>)?\(([^{;]*?)\)\s*(?:->|\{|where)");
    let bare = regex(r":\s*bool\s*(,|$)");
    let functions = signature.captures_iter(&code).filter(|function| bare.is_match(&function[2]));
    functions.map(|function| format!("{path}: pub fn {} takes a bare bool", &function[1])).collect()
}

fn has_no_get_names(path: &str, text: &str) -> Vec<String> {
    find(path, text, r"\bfn get_\w+", "a getter is named for what it returns")
}

/// Errors are joined with `: ` into one line: lower case, no full stop.
fn words_errors_for_a_chain(path: &str, text: &str) -> Vec<String> {
    let message = regex(r#"#\[error\(\s*"((?:[^"\\]|\\.)*)""#);
    // A name in capitals (TLS, HTTP) may come first.
    let word = regex(r"^[A-Z][a-z]");
    let bad = |text: &str| word.is_match(text) || text.ends_with(['.', '!']);
    let found = message.captures_iter(text).filter(|found| bad(&found[1]));
    found.map(|found| format!("{path}: an error is lower case without a full stop: {}", &found[1])).collect()
}

/// The files are about lvsd, not about who wrote them where.
fn says_nothing_of_how_it_was_made(path: &str, text: &str) -> Vec<String> {
    // Cut in two, so that this file keeps its own rule.
    let words = [
        "sub-?age\u{6e}ts?",
        "age\u{6e}tic",
        "workpl\u{61}ce",
        "worktr\u{65}e",
        "clau\u{64}e",
        "chat ?b\u{6f}t",
        "languag\u{65} model",
        "the \u{63}eo",
        "brie\u{66}\\.md",
        "this sessi\u{6f}n",
        "(previous|earlier|later) sessi\u{6f}n",
    ];
    find_in_lines(
        path,
        text,
        &format!(r"(?i)\b({})\b", words.join("|")),
        "is about lvsd, not about its making",
    )
}

/// A clone works anywhere.
fn names_no_place_of_a_developer(path: &str, text: &str) -> Vec<String> {
    let places = ["/w\u{6f}rk/", "/ho\u{6d}e/\\w+/", "artifact-?regi\u{73}try", "index\\.crates\\.i\u{6f}/"];
    find_in_lines(path, text, &places.join("|"), "a place that other machines do not have")
}

/// A dependency is a decision; the reason stands where it is declared.
fn explains_each_dependency(path: &str, text: &str) -> Vec<String> {
    let (mut wrong, mut section, mut before) = (Vec::new(), String::new(), "");
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if section.contains("dependencies")
            && line.contains('=')
            && !before.starts_with("# ")
            && !line.starts_with('#')
        {
            wrong.push(format!("{path}:{}: a dependency without its reason: {line}", number + 1));
        }
        before = line;
    }
    wrong
}

/// Every setting of the unit stands below a reason, alone or with those that share it.
fn explains_each_directive(path: &str, text: &str) -> Vec<String> {
    let (mut wrong, mut explained) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let directive = line.contains('=') && !line.starts_with('#');
        let plain = ["Description=", "Documentation=", "WantedBy="].iter().any(|name| line.starts_with(name));
        if directive && !plain && !explained {
            wrong.push(format!("{path}:{}: a directive without a reason: {line}", number + 1));
        }
        explained = line.starts_with("# ") && !line.starts_with("# --") || directive && explained;
    }
    wrong
}

// -- reading --------------------------------------------------------------------------------

/// Compiled once: that is what takes the time here.
fn regex(pattern: &str) -> Regex {
    static KNOWN: Mutex<BTreeMap<String, Regex>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("no panic holds it");
    known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).expect("a regex")).clone()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Text files below these folders with one of these extensions (or any), by path, in order.
fn files(folders: &[&str], extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting: Vec<_> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = waiting.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.map(|entry| entry.expect("a folder can be read").path()) {
            let extension = entry.extension().and_then(|text| text.to_str()).unwrap_or_default();
            if entry.is_dir() {
                waiting.push(entry);
            } else if extensions.is_empty() || extensions.contains(&extension) {
                let path = entry.strip_prefix(root()).expect("below the root").display().to_string();
                found.extend(fs::read_to_string(&entry).ok().map(|text| (path, text)));
            }
        }
    }
    found.sort();
    found
}

/// Complaints about code, comments and the contents of strings left out.
fn find(path: &str, text: &str, pattern: &str, rule: &str) -> Vec<String> {
    let pattern = regex(pattern);
    let found = lines_of_code(text).filter(|(_, code)| pattern.is_match(code));
    found.map(|(line, code)| format!("{path}:{line}: {rule}: {}", code.trim())).collect()
}

/// Complaints about whole lines.
fn find_in_lines(path: &str, text: &str, pattern: &str, rule: &str) -> Vec<String> {
    let pattern = regex(pattern);
    let found = text.lines().enumerate().filter(|(_, line)| pattern.is_match(line));
    found.map(|(number, line)| format!("{path}:{}: {rule}: {}", number + 1, line.trim())).collect()
}

/// Numbered lines without comments and without what stands between quotes on one line.
fn lines_of_code(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let quoted = regex(r#"'"'|"(?:[^"\\]|\\.)*""#);
    text.lines().enumerate().map(move |(number, line)| {
        let code = quoted.replace_all(line, "\"\"");
        (number + 1, code.split("//").next().unwrap_or_default().to_owned())
    })
}

/// What a line names of the crate: the paths after `crate::` or after so many `super::`, those
/// in braces each by itself.
fn crate_paths(code: &str) -> Vec<(Vec<String>, Option<usize>)> {
    let start = regex(r"\bcrate::|(?:\bsuper::)+");
    let path = regex(r"^\w+(::(\w+|\{))?");
    let name = |text: &str| path.find(text.trim()).map(|found| found.as_str().to_owned());
    let each = start.find_iter(code).map(|found| {
        let rest = code.get(found.end()..).unwrap_or_default();
        let climbs = found.as_str().starts_with("super").then(|| found.as_str().matches("super").count());
        match rest.strip_prefix('{') {
            Some(group) => (group.split(',').filter_map(name).collect(), climbs),
            None => (name(rest).into_iter().collect(), climbs),
        }
    });
    each.collect()
}

// -- each rule can fail ---------------------------------------------------------------------

/// A rule, a path and a text, and whether the rule is broken there.
const PROOFS: [(Rule, &str, &str, Verdict); 50] = [
    (core_is_pure, "src/engine/a.rs", "use std::time::Duration;", Kept),
    (core_is_pure, "src/engine/a.rs", "use std::time::Instant;", Broken),
    (core_is_pure, "src/engine/a.rs", "// not Instant::now()", Kept),
    (core_is_pure, "src/engine/a.rs", "use std::net::IpAddr;", Kept),
    (core_is_pure, "src/engine/a.rs", "use std::net::TcpStream;", Broken),
    (core_is_pure, "src/engine/a.rs", "let text = std::fs::read(path);", Broken),
    (core_is_pure, "src/engine/a.rs", "let map = HashMap::new();", Broken),
    (core_is_pure, "src/config/pem.rs", "let text = std::fs::read(path);", Kept),
    (core_is_pure, "src/config/permission.rs", "use nix::unistd::geteuid;", Kept),
    (core_is_pure, "src/config/pem.rs", "use nix::unistd::geteuid;", Broken),
    (core_is_pure, "src/config/a.rs", "if path.exists() {", Broken),
    (core_is_pure, "src/config/a.rs", "tokio::spawn(f);", Broken),
    (core_is_pure, "src/config/a.rs", "use nix::fcntl::OFlag;", Kept),
    (core_is_pure, "src/config/a.rs", "use nix::sys::socket::connect;", Broken),
    (core_is_pure, "src/checks/a.rs", "tokio::spawn(f);", Kept),
    (arrows_point_down, "src/checks/a.rs", "use crate::engine::model::Check;", Kept),
    (arrows_point_down, "src/checks/a.rs", "use crate::config::load;", Broken),
    (arrows_point_down, "src/checks/a.rs", "use crate::{engine, ipvs};", Broken),
    (arrows_point_down, "src/checks/a.rs", "use super::config;", Kept),
    (arrows_point_down, "src/checks/a.rs", "use super::super::config::load;", Broken),
    (arrows_point_down, "src/checks/mod.rs", "use super::config::load;", Broken),
    (arrows_point_down, "src/checks.rs", "use super::config::load;", Broken),
    (arrows_point_down, "src/engine/a.rs", "use crate::config::load;", Broken),
    (arrows_point_down, "src/ipvs/a.rs", "use crate::engine::{model, table};", Kept),
    (arrows_point_down, "src/ipvs/a.rs", "use crate::engine::table::Table;", Kept),
    (arrows_point_down, "src/ipvs/a.rs", "use crate::engine::snapshot::Snapshot;", Broken),
    (arrows_point_down, "src/runtime/a.rs", "use crate::config::load;", Kept),
    (begins_with_its_purpose, "src/a.rs", "//! Owns all.\n", Kept),
    (begins_with_its_purpose, "src/a.rs", "use std::fs;\n", Broken),
    (is_safe, "src/a.rs", "#![forbid(unsafe_code)]", Kept),
    (is_safe, "src/a.rs", "unsafe { f() }", Broken),
    (expects_instead_of_allowing, "src/a.rs", "#[expect(dead_code, reason = \"\")]", Kept),
    (expects_instead_of_allowing, "src/a.rs", "#[allow(dead_code)]", Broken),
    (expects_instead_of_allowing, "src/a.rs", "#![cfg_attr(test, allow(dead_code))]", Broken),
    (has_no_bare_bool, "src/a.rs", "pub fn f(now: Time) -> bool {", Kept),
    (has_no_bare_bool, "src/a.rs", "fn f(fast: bool) {", Kept),
    (has_no_bare_bool, "src/a.rs", "pub fn f(now: Time, fast: bool) {", Broken),
    (has_no_bare_bool, "src/a.rs", "pub async fn f(\n    fast: bool,\n) -> u8 {", Broken),
    (has_no_get_names, "src/a.rs", "fn get_weight(&self) -> u32 {", Broken),
    (words_errors_for_a_chain, "src/a.rs", "#[error(\"cannot read {path}\")]", Kept),
    (words_errors_for_a_chain, "src/a.rs", "#[error(\"TLS handshake\")]", Kept),
    (words_errors_for_a_chain, "src/a.rs", "#[error(\"Cannot read\")]", Broken),
    (words_errors_for_a_chain, "src/a.rs", "#[error(\"cannot read.\")]", Broken),
    (says_nothing_of_how_it_was_made, "a", "User-Agent: lvsd, a TLS session", Kept),
    (says_nothing_of_how_it_was_made, "a", "as seen in a previous sessi\u{6f}n", Broken),
    (names_no_place_of_a_developer, "a", "/w\u{6f}rk/shared", Broken),
    (explains_each_dependency, "a", "[dependencies]\n# Errors.\nanyhow = \"1\"", Kept),
    (explains_each_dependency, "a", "[dependencies]\nanyhow = \"1\"", Broken),
    (explains_each_directive, "a", "[Service]\n# Why.\nUser=a\nGroup=a", Kept),
    (explains_each_directive, "a", "[Service]\n# Why.\nUser=a\n\nGroup=a", Broken),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Kept,
    Broken,
}
use Verdict::{Broken, Kept};

#[test]
fn each_rule_finds_what_it_is_for() {
    for (rule, path, text, verdict) in PROOFS {
        let found = rule(path, text);
        assert_eq!(if found.is_empty() { Kept } else { Broken }, verdict, "{path}: {text}: {found:?}");
    }
}

#[test]
fn a_file_has_a_length_that_it_may_have() {
    assert!(is_not_too_long("src/a.rs", &"\n".repeat(LINES)).is_empty());
    assert!(!is_not_too_long("src/a.rs", &"\n".repeat(LINES + 1)).is_empty());
    for (path, bound, reason) in LONGER {
        let count = read(path).lines().count();
        assert!(count > LINES && count <= bound, "{path}: {count} lines, no exception needed ({reason})");
    }
}
