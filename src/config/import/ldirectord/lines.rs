//! The text of ldirectord.cf as directives: a virtual server's are indented below it. Knows
//! nothing of what they mean.

use crate::config::import::notes::{At, Notes};

/// No line of a real file comes near; what is longer is no configuration.
const LONGEST: usize = 16_384;

/// `key = value`
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) at: At,
    pub(super) key: String,
    pub(super) value: String,
}

#[derive(Debug)]
pub(super) struct Virtual {
    pub(super) head: Directive,
    pub(super) is_v6: bool,
    pub(super) directives: Vec<Directive>,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) globals: Vec<Directive>,
    pub(super) virtuals: Vec<Virtual>,
}

impl Directive {
    /// What stands between the first and the last quote, or all of it.
    pub(super) fn unquoted(&self) -> &str {
        let inner = self.value.strip_prefix('"').and_then(|rest| rest.rsplit_once('"'));
        inner.map_or(&self.value, |(inner, _)| inner)
    }

    /// The first digits, as ldirectord looks for them.
    pub(super) fn number(&self) -> Option<u64> {
        let start = self.value.find(|c: char| c.is_ascii_digit())?;
        let digits = self.value.get(start..)?;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some(digits.get(..end)?.parse().unwrap_or(u64::MAX))
    }

    pub(super) fn yes_or_no(&self) -> Option<bool> {
        match self.value.split_whitespace().next()? {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }
}

pub(super) fn read(text: &str, file: u32, notes: &mut Notes) -> Lines {
    let mut lines = Lines::default();
    // Whether ldirectord still reads indented lines as part of the last virtual server.
    let mut inside = false;
    for (raw, number) in text.trim_start_matches('\u{feff}').lines().zip(1_u32..) {
        let at = At { file, line: number };
        let line = without_comment(raw);
        if raw.len() > LONGEST {
            notes.not_carried(at, "line", format!("it is longer than {LONGEST} bytes"));
            continue;
        }
        if line.trim().is_empty() {
            inside &= raw.trim_start().starts_with('#');
            continue;
        }
        let indented = line.starts_with([' ', '\t']);
        let directive = directive(line.trim(), at);
        match (indented, lines.virtuals.last_mut()) {
            (true, Some(last)) => {
                if !inside || spaces(line) < 4 {
                    let why = "ldirectord reads this line only without an empty line above and with four spaces or a tab before it; read as part of the virtual server above";
                    notes.remark(at, &directive.key, why);
                }
                last.directives.push(directive);
            }
            (true, None) => {
                notes.not_carried(at, &directive.key, "indented, but there is no virtual server above");
            }
            (false, _) if matches!(directive.key.as_str(), "virtual" | "virtual6") => {
                let is_v6 = directive.key == "virtual6";
                lines.virtuals.push(Virtual { head: directive, is_v6, directives: Vec::new() });
                inside = true;
            }
            (false, _) => {
                inside = false;
                lines.globals.push(directive);
            }
        }
    }
    lines
}

fn directive(line: &str, at: At) -> Directive {
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    Directive { at, key: key.trim().to_owned(), value: value.trim().to_owned() }
}

/// Below a virtual server ldirectord cuts at any `#`, in quotes as well, and then refuses what is left
/// of the line: quotes protect it here.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (place, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return line.get(..place).unwrap_or_default(),
            _ => {}
        }
    }
    line
}

fn spaces(line: &str) -> usize {
    let blank = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    blank.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}
