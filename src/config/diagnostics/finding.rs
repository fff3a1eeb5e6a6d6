//! What loading finds, by byte position; and how it becomes diagnostics.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Diagnostic, Diagnostics, Label, Line, MAX_SHOWN, Severity, Spot};
use crate::config::conceal;
use crate::config::sources::File;

/// Findings beyond this many are only counted, so that a file full of mistakes costs little.
const MAX_KEPT: usize = 5_000;

/// A source line up to this many bytes is shown whole.
const MAX_LINE: usize = 160;

/// Of a longer one, the characters shown on either side of a place.
const MAX_AROUND: usize = 60;

/// Bytes of one place that are underlined.
const MAX_HIGHLIGHT: usize = 100;

/// In the place of a secret, however long that is.
const COVER: &str = "…";

/// Bytes of one of the files that were read. Kept small: every value has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::config) struct Place {
    pub(in crate::config) file: u32,
    pub(in crate::config) start: u32,
    pub(in crate::config) end: u32,
}

impl Place {
    /// Somewhere in a text that was not read again.
    pub(in crate::config) const UNREAD: Self = Self { file: u32::MAX, start: 0, end: 0 };
}

#[derive(Clone, Debug)]
pub(in crate::config) struct Finding {
    severity: Severity,
    place: Place,
    message: String,
    labels: Vec<(Place, String)>,
    remedy: Option<String>,
}

impl Finding {
    pub(in crate::config) fn error(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place, message: message.into(), labels: Vec::new(), remedy: None }
    }

    pub(in crate::config) fn warning(place: Place, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, message) }
    }

    pub(in crate::config) fn file(&self) -> u32 {
        self.place.file
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        std::iter::once(self.place).chain(self.labels.iter().map(|(place, _)| *place))
    }

    #[must_use]
    pub(in crate::config) fn label(mut self, place: Place, text: impl Into<String>) -> Self {
        self.labels.push((place, text.into()));
        self
    }

    #[must_use]
    pub(in crate::config) fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedy = Some(text.into());
        self
    }
}

#[derive(Debug, Default)]
pub(in crate::config) struct Findings {
    kept: Vec<Finding>,
    /// What is kept: one inherited value can be wrong for thousands of servers.
    seen: HashSet<(Place, String)>,
    /// Errors and warnings that were not kept.
    errors: usize,
    warnings: usize,
    /// All of them, repetitions as well.
    pushed: usize,
    /// One of them cannot be shown.
    is_vague: bool,
}

impl Findings {
    pub(in crate::config) fn push(&mut self, finding: Finding) {
        self.pushed += 1;
        self.is_vague |= finding.places().any(|place| place == Place::UNREAD);
        let key = (finding.place, finding.message.clone());
        match finding.severity {
            _ if self.seen.contains(&key) => {}
            _ if self.kept.len() < MAX_KEPT => {
                self.seen.insert(key);
                self.kept.push(finding);
            }
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
        }
    }

    pub(in crate::config) fn pushed(&self) -> usize {
        self.pushed
    }

    /// One of them is about [`Place::UNREAD`].
    pub(in crate::config) fn is_vague(&self) -> bool {
        self.is_vague
    }

    pub(in crate::config) fn has_errors(&self) -> bool {
        self.errors > 0 || self.kept.iter().any(|f| f.severity == Severity::Error)
    }

    /// Sorted by place, without repetitions, at most [`MAX_SHOWN`]; lines looked up in `files`.
    pub(in crate::config) fn finish(mut self, files: &[File]) -> Diagnostics {
        self.kept.sort_by_key(|f| (f.severity, f.place));
        let kept_errors = self.kept.iter().filter(|f| f.severity == Severity::Error).count();
        let errors = self.errors + kept_errors;
        let warnings = self.warnings + (self.kept.len() - kept_errors);
        self.kept.truncate(MAX_SHOWN);
        self.kept.sort_by_key(|f| (f.place, f.severity));
        let mut shown_files = Shown { files, secrets: BTreeMap::new() };
        let shown = self.kept.into_iter().map(|f| shown_files.resolve(f)).collect();
        Diagnostics { shown, errors, warnings }
    }
}

/// The files as they may be shown.
struct Shown<'a> {
    files: &'a [File],
    /// By file: where secrets are. Of those that anything is shown of.
    secrets: BTreeMap<u32, Vec<Range<usize>>>,
}

impl Shown<'_> {
    fn resolve(&mut self, finding: Finding) -> Diagnostic {
        let Finding { severity, place, message, labels, remedy } = finding;
        let (spot, hidden) = self.spot(place);
        let label = |(place, text): (Place, String)| {
            let (spot, hidden) = self.spot(place);
            Label { spot, text: hidden.words(text) }
        };
        let labels = labels.into_iter().map(label).collect();
        // A remedy has examples of its own.
        let remedy = remedy.map(|text| Hidden { is_about: false, ..hidden.clone() }.words(text));
        Diagnostic { severity, message: hidden.words(message), spot, labels, remedy }
    }

    /// Clamps: places can come from another process with its sources.
    fn spot(&mut self, place: Place) -> (Spot, Hidden) {
        let Some(file) = self.files.get(place.file as usize) else {
            return (Spot { path: "?".to_owned(), line: None }, Hidden::default());
        };
        let text = file.text();
        let start = boundary(text, place.start as usize);
        let end = boundary(text, place.end as usize).max(start);
        let before = text.get(..start).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let rest = text.get(line_start..).unwrap_or_default();
        let line_end = line_start + rest.find('\n').unwrap_or(rest.len());
        let number = 1 + before.bytes().filter(|b| *b == b'\n').count();
        let column = 1 + before.get(line_start..).unwrap_or_default().chars().count();
        let secrets = self.secrets.entry(place.file).or_insert_with(|| conceal::ranges(text));
        let hidden = Hidden::around(text, secrets, line_start..line_end.max(end), start..end.max(start + 1));
        // A value that goes on over several lines is shown by its first.
        let end = boundary(text, end.min(line_end).min(start + MAX_HIGHLIGHT)).max(start);
        let (from, to) = match line_end - line_start {
            0..=MAX_LINE => (line_start, line_end),
            _ => (back(text, start, line_start), forth(text, end, line_end)),
        };
        let (shown, highlight) = cover(text, from..to, start..end, secrets);
        let shown = shown.trim_end_matches('\r').to_owned();
        let highlight = highlight.start.min(shown.len())..highlight.end.min(shown.len());
        (
            Spot {
                path: file.path().to_owned(),
                line: Some(Line { number, column, text: shown, highlight }),
            },
            hidden,
        )
    }
}

/// What must not be said of a place.
#[derive(Clone, Default)]
struct Hidden {
    /// All secrets of its lines.
    secrets: String,
    /// The place itself is one.
    is_about: bool,
}

impl Hidden {
    fn around(text: &str, secrets: &[Range<usize>], lines: Range<usize>, place: Range<usize>) -> Self {
        let touches =
            |one: &Range<usize>, other: &Range<usize>| one.start < other.end && other.start < one.end;
        let near = secrets.iter().filter(|secret| touches(secret, &lines));
        Self {
            secrets: near.filter_map(|secret| text.get(secret.clone())).collect::<Vec<_>>().join("\n"),
            is_about: secrets.iter().any(|secret| touches(secret, &place)),
        }
    }

    fn words(&self, text: String) -> String {
        if self.secrets.is_empty() { text } else { conceal::words(&text, &self.secrets, self.is_about) }
    }
}

/// `range` of `text` with `…` for each secret in it, and where `place` is then.
fn cover(
    text: &str,
    range: Range<usize>,
    place: Range<usize>,
    secrets: &[Range<usize>],
) -> (String, Range<usize>) {
    let mut shown = String::new();
    let (mut start, mut end) = (None, None);
    let mut at = range.start;
    let inside = secrets.iter().map(|s| s.start.max(range.start)..s.end.min(range.end));
    for secret in inside.filter(|s| s.start < s.end).chain(std::iter::once(range.end..range.end)) {
        let plain = at..secret.start;
        if start.is_none() && place.start < plain.end {
            start = Some(shown.len() + place.start.saturating_sub(plain.start));
        }
        if end.is_none() && place.end <= plain.end {
            end = Some(shown.len() + place.end.saturating_sub(plain.start));
        }
        shown.push_str(text.get(plain).unwrap_or_default());
        if secret.is_empty() {
            break;
        }
        start = start.or((place.start < secret.end).then_some(shown.len()));
        shown.push_str(COVER);
        end = end.or((place.end <= secret.end).then_some(shown.len()));
        at = secret.end;
    }
    let start = start.unwrap_or(shown.len());
    let end = end.unwrap_or(shown.len()).max(start);
    (shown, start..end)
}

fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Up to [`MAX_AROUND`] characters before `at`, not beyond `line_start`.
fn back(text: &str, at: usize, line_start: usize) -> usize {
    let line = text.get(line_start..at).unwrap_or_default();
    line.char_indices().rev().take(MAX_AROUND).last().map_or(at, |(i, _)| line_start + i)
}

fn forth(text: &str, at: usize, line_end: usize) -> usize {
    let line = text.get(at..line_end).unwrap_or_default();
    line.char_indices().nth(MAX_AROUND).map_or(line_end, |(i, _)| at + i)
}
