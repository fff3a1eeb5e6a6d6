//! Mistakes and suspicions about a configuration, each with its place and its remedy.
//!
//! A [`Diagnostic`] carries the source line it is about, so it can be stored, sent and shown
//! without the file. What is found while loading is a [`Finding`]; [`Findings::finish`] makes
//! the one from the other. Nothing here knows any rule of the configuration.

mod finding;
mod render;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub(super) use finding::{Finding, Findings, Place};

/// More than this many are counted, not shown.
pub const MAX_SHOWN: usize = 50;

/// In the order of the files; at most [`MAX_SHOWN`], errors before warnings when there are more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostics {
    shown: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    Error,
    Warning,
}

/// One mistake (or suspicion).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Lower case, no full stop.
    pub message: String,
    pub spot: Spot,
    /// Other places that have to do with it: where the same thing was said first.
    pub labels: Vec<Label>,
    /// What to write instead.
    pub remedy: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    pub spot: Spot,
    pub text: String,
}

/// A place in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// As given on the command line, or as an include reached it.
    pub path: String,
    /// `None` if the file could not be read at all.
    pub line: Option<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// In characters, from 1.
    pub column: usize,
    /// The text of the line, cut around the place if it is very long.
    pub text: String,
    /// Bytes of `text` that are meant.
    pub highlight: Range<usize>,
}

/// How to render for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    Plain,
    /// ANSI colours, for terminals.
    Colour,
}

impl Diagnostics {
    /// A file that cannot be read; there is no line to show.
    pub(super) fn unreadable(path: &str, message: String, remedy: Option<String>) -> Self {
        let spot = Spot { path: path.to_owned(), line: None };
        let diagnostic = Diagnostic { severity: Severity::Error, message, spot, labels: Vec::new(), remedy };
        Self { shown: vec![diagnostic], errors: 1, warnings: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.errors == 0 && self.warnings == 0
    }

    /// All of them, also those that are not shown.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.shown.iter()
    }

    /// For people: each with its source line, a caret and the remedy, and an empty line in between. Ends without
    /// a line break.
    pub fn render(&self, palette: Palette) -> String {
        render::full(self, palette)
    }

    /// For logs: `path:line:col: error: message`, one line each.
    pub fn lines(&self) -> Vec<String> {
        render::lines(self)
    }

    fn hidden(&self) -> usize {
        (self.errors + self.warnings).saturating_sub(self.shown.len())
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The plain rendering.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Palette::Plain))
    }
}

impl std::error::Error for Diagnostics {}

impl Severity {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// `lvsd.toml:3:11`
impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => write!(f, "{}:{}:{}", self.path, line.number, line.column),
            None => f.write_str(&self.path),
        }
    }
}

/// The line for logs.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render::line(self))
    }
}
