//! What checkers refer to: `track_file` blocks, and the client certificate of the `SSL` block.

use std::collections::BTreeMap;

use super::reading::Reading;
use super::tree::{self, Statement};
use super::words::{Garbage, shown};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrackedFile {
    pub(super) path: String,
    pub(super) weight: i64,
    pub(super) reverse: bool,
}

/// Those that are defined above.
#[derive(Debug, Default)]
pub(super) struct Files(BTreeMap<String, TrackedFile>);

impl Files {
    pub(super) fn file(&self, name: &str) -> Option<&TrackedFile> {
        self.0.get(name)
    }

    pub(super) fn read(&mut self, reading: &mut Reading<'_>, statement: &Statement) {
        let Some(name) = reading.word(statement) else { return };
        let (mut path, mut weight, mut reverse) = (None, 1, false);
        for line in statement.inner() {
            match line.keyword() {
                "file" if path.is_none() => path = reading.word(line),
                "file" => reading.notes.remark(
                    line.at,
                    "file",
                    "there is one already; keepalived ignores the second",
                ),
                "weight" => {
                    weight = reading.number(line, -254, 254, Garbage::Tolerated).unwrap_or(1);
                    reverse |= line.words().get(2).is_some_and(|word| word == "reverse");
                }
                "init_file" => {
                    let why = "lvsd does not write the file; one that is missing counts as 0";
                    reading.notes.not_carried(line.at, "init_file", why);
                }
                _ => tree::unknown(reading.notes, line, "track_file"),
            }
        }
        let fits = |path: &String| !path.is_empty() && !path.contains(char::is_control);
        match path.filter(fits) {
            Some(path) => {
                let file = TrackedFile { path, weight, reverse };
                self.0.entry(name).or_insert(file);
            }
            None => {
                let why = format!("{} names no file", shown(&name));
                reading.notes.not_carried(statement.at, statement.keyword(), why);
            }
        }
    }
}

/// Paths, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    pub(super) ca: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

impl Certificates {
    pub(super) fn read(&mut self, reading: &mut Reading<'_>, statement: &Statement) {
        for line in statement.inner() {
            match line.keyword() {
                "ca" => self.ca = reading.word(line),
                "certificate" => self.certificate = reading.word(line),
                "key" => self.key = reading.word(line),
                "password" => {
                    let why = "lvsd reads keys without a password only";
                    reading.notes.not_carried(line.at, "password", why);
                }
                _ => tree::unknown(reading.notes, line, "SSL"),
            }
        }
    }
}
