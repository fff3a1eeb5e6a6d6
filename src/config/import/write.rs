//! A [`Document`] as TOML text: quoting, order, comments, checks named once. Decides nothing about
//! what an import means.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::document::{Check, Document, Item, Table, Value, VirtualServer};
use super::notes::{Note, Weight};
use crate::config::defaults;

/// Above this an inline check is hard to read, and gets a section of its own.
const INLINE: usize = 72;

/// Comments are for people: what is longer than that is no comment.
const COMMENT: usize = 400;

pub(super) fn to_toml(document: &Document) -> String {
    let mut out = String::new();
    comments(&mut out, document.heading.iter().map(String::as_str));
    daemon(&mut out, &document.daemon);
    if !document.defaults.is_empty() {
        header(&mut out, "[defaults]");
        table(&mut out, &document.defaults);
    }
    let checks = Names::new(document);
    for check in &checks.named {
        header(&mut out, &format!("[check.{}]", key(&check.name)));
        comments(&mut out, check.comments.iter().map(String::as_str));
        table(&mut out, &check.common);
        let _ = writeln!(out, "{} = {}", check.kind, inline_table(&check.options));
    }
    for (vs, lists) in document.virtual_servers.iter().zip(&checks.lists) {
        virtual_server(&mut out, vs, lists, &checks);
    }
    if !document.closing.is_empty() {
        out.push('\n');
        comments(&mut out, document.closing.iter().map(String::as_str));
    }
    out
}

fn daemon(out: &mut String, daemon: &Table) {
    if daemon.items().iter().any(|item| !is_section(item)) {
        header(out, "[daemon]");
    }
    daemon.items().iter().filter(|item| !is_section(item)).for_each(|item| line(out, item));
    sections(out, "daemon", daemon);
}

/// Tables in `outer` as sections of their own.
fn sections(out: &mut String, outer: &str, table: &Table) {
    for (name, value) in table.pairs() {
        let Value::Table(section) = value else { continue };
        let name = format!("{outer}.{name}");
        if section.items().iter().any(|item| !is_section(item)) {
            header(out, &format!("[{name}]"));
            section.items().iter().filter(|item| !is_section(item)).for_each(|item| line(out, item));
        }
        sections(out, &name, section);
    }
}

fn is_section(item: &Item) -> bool {
    matches!(item, Item::Pair(_, Value::Table(_)))
}

fn virtual_server(out: &mut String, vs: &VirtualServer, lists: &[Vec<Check>], names: &Names) {
    out.push('\n');
    comments(out, vs.above.iter().map(String::as_str));
    out.push_str("[[virtual_server]]\n");
    table(out, &vs.keys);
    table(out, &vs.common);
    // What all servers have stands once, above them.
    let first = lists.first().filter(|first| lists.iter().all(|list| same(list, first)));
    if let Some(list) = first {
        check_list(out, list, names);
    }
    for (rs, list) in vs.real_servers.iter().zip(lists) {
        out.push('\n');
        comments(out, rs.above.iter().map(String::as_str));
        out.push_str("[[virtual_server.real_server]]\n");
        table(out, &rs.keys);
        table(out, &rs.common);
        if first.is_none() {
            check_list(out, list, names);
        }
    }
}

fn check_list(out: &mut String, list: &[Check], names: &Names) {
    let reference = |check: &Check| match names.name(check) {
        Some(name) => quoted(name),
        None => inline_check(check),
    };
    let inline = list.iter().filter(|check| names.name(check).is_none());
    let said: BTreeSet<&str> = inline.flat_map(|check| check.comments.iter().map(String::as_str)).collect();
    comments(out, said.into_iter());
    let _ = match list {
        [one] => writeln!(out, "check = {}", reference(one)),
        _ => writeln!(out, "check = [{}]", list.iter().map(reference).collect::<Vec<_>>().join(", ")),
    };
}

/// Which checks are written as `[check.NAME]`, and every list of checks without what is inherited.
struct Names {
    named: Vec<Check>,
    by_text: BTreeMap<String, String>,
    lists: Vec<Vec<Vec<Check>>>,
}

impl Names {
    fn new(document: &Document) -> Self {
        let lists: Vec<Vec<Vec<Check>>> = document
            .virtual_servers
            .iter()
            .map(|vs| {
                let of_server = |rs: &super::document::RealServer| {
                    let outer = [&rs.common, &vs.common, &document.defaults];
                    rs.checks.iter().map(|check| without_inherited(check, &outer)).collect()
                };
                vs.real_servers.iter().map(of_server).collect()
            })
            .collect();
        let mut names = Self { named: Vec::new(), by_text: BTreeMap::new(), lists: Vec::new() };
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        for list in lists.iter().flat_map(|lists| distinct(lists)) {
            list.iter().for_each(|check| *uses.entry(inline_check(check)).or_default() += 1);
        }
        let mut taken = BTreeSet::new();
        for check in lists.iter().flatten().flatten() {
            let text = inline_check(check);
            let is_long = text.chars().count() > INLINE;
            let is_shared = uses.get(&text).is_some_and(|uses| *uses > 1) && !check.options.is_empty();
            if !is_long && !is_shared {
                continue;
            }
            if let Some(name) = names.by_text.get(&text) {
                // Each use may have its own remarks.
                if let Some(known) = names.named.iter_mut().rev().find(|known| known.name == *name) {
                    let new = check.comments.iter().filter(|new| !known.comments.contains(new));
                    let new: Vec<String> = new.take(COMMENTS_MERGED).cloned().collect();
                    known.comments.extend(new);
                    known.comments.truncate(COMMENTS_MERGED);
                }
                continue;
            }
            let name = unique(&mut taken, &check.name);
            names.by_text.insert(text, name.clone());
            names.named.push(Check { name, ..check.clone() });
        }
        Self { lists, ..names }
    }

    fn name(&self, check: &Check) -> Option<&str> {
        self.by_text.get(&inline_check(check)).map(String::as_str)
    }
}

/// Remarks above one named check.
const COMMENTS_MERGED: usize = 20;

/// A list that all servers of a pool have is written once.
fn distinct(lists: &[Vec<Check>]) -> &[Vec<Check>] {
    match lists.first() {
        Some(first) if lists.iter().all(|list| same(list, first)) => lists.get(..1).unwrap_or_default(),
        Some(_) | None => lists,
    }
}

/// Remarks do not make checks different.
fn same(one: &[Check], other: &[Check]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.kind == other.kind && one.options == other.options && one.common == other.common
        })
}

fn unique(taken: &mut BTreeSet<String>, wish: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let clean: String = wish.chars().map(|c| if fits(c) { c } else { '-' }).take(60).collect();
    let clean = if clean.is_empty() { "check".to_owned() } else { clean };
    let numbered = |n: u32| if n == 1 { clean.clone() } else { format!("{clean}-{n}") };
    let free = (1..=u32::MAX).map(numbered).find(|name| !taken.contains(name)).unwrap_or(clean.clone());
    taken.insert(free.clone());
    free
}

/// `outer`: from the nearest to the farthest.
fn without_inherited(check: &Check, outer: &[&Table]) -> Check {
    let mut common = Table::default();
    for item in check.common.items() {
        match item {
            Item::Pair(key, value) => {
                let inherited = outer.iter().find_map(|table| table.value(key).cloned());
                if inherited.or_else(|| built_in(key)).as_ref() != Some(value) {
                    common.set(key, value.clone());
                }
            }
            Item::Comment(text) => common.comment(text.clone()),
        }
    }
    Check { common, ..check.clone() }
}

/// What lvsd does when nobody says anything.
fn built_in(key: &str) -> Option<Value> {
    match key {
        "delay_loop" => Some(defaults::DELAY_LOOP.into()),
        "timeout" => Some(defaults::TIMEOUT.into()),
        "retry" => Some(defaults::RETRY.into()),
        "delay_before_retry" => Some(defaults::DELAY_BEFORE_RETRY.into()),
        "rise" => Some(defaults::RISE.into()),
        "alpha" => Some(false.into()),
        "on_local_error" => Some("ignore".into()),
        "mode" => Some("enforce".into()),
        _ => None,
    }
}

fn header(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text);
    out.push('\n');
}

fn table(out: &mut String, table: &Table) {
    table.items().iter().for_each(|item| line(out, item));
}

fn line(out: &mut String, item: &Item) {
    match item {
        Item::Comment(text) => comments(out, std::iter::once(text.as_str())),
        Item::Pair(name, value) => {
            let _ = writeln!(out, "{} = {}", key(name), inline(value));
        }
    }
}

/// One line each, whatever is in them.
fn comments<'a>(out: &mut String, lines: impl Iterator<Item = &'a str>) {
    for text in lines {
        out.push_str(&comment(text));
        out.push('\n');
    }
}

fn comment(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(COMMENT);
    format!("# {}", clean.collect::<String>()).trim_end().to_owned()
}

/// What is not carried and has no place in the TOML stands at its end.
pub(super) fn append_missing(toml: &mut String, notes: &[Note], main: &str) {
    let said: BTreeSet<&str> = toml.lines().filter(|line| line.starts_with("# not carried")).collect();
    let left_out = notes.iter().filter(|note| note.weight == Weight::NotCarried);
    let missing =
        left_out.map(|note| comment(&note.comment(main))).filter(|line| !said.contains(line.as_str()));
    let missing: String = missing.map(|line| line + "\n").collect();
    if !missing.is_empty() {
        toml.push('\n');
        toml.push_str(&missing);
    }
}

fn inline_check(check: &Check) -> String {
    let mut whole = String::from("{ ");
    let _ = write!(whole, "{} = {}", check.kind, inline_table(&check.options));
    for (name, value) in check.common.pairs() {
        let _ = write!(whole, ", {} = {}", key(name), inline(value));
    }
    whole.push_str(" }");
    whole
}

fn inline(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::List(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => inline_table(table),
    }
}

fn inline_table(table: &Table) -> String {
    let pairs: Vec<String> =
        table.pairs().map(|(name, value)| format!("{} = {}", key(name), inline(value))).collect();
    if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if bare { name.to_owned() } else { quoted(name) }
}

/// In single quotes where that saves the reader escapes, as in patterns.
fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_control() && c != '\'';
    if text.contains(['\\', '"']) && text.chars().all(plain) {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
