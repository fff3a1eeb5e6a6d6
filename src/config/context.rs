//! What reading and lowering share: values with their places, and the findings so far.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::diagnostics::{Finding, Findings, Place};
use super::pem::PemReader;
use super::secret::Judge;
use super::sources::File;
use crate::engine::model::CheckKind;

/// Passed through everything; holds no rule.
pub(super) struct Context<'a> {
    pub(super) files: &'a [File],
    pub(super) findings: Findings,
    doors: Doors<'a>,
    /// Uses of the doors so far.
    looks: usize,
    /// Every check kind so far: equal ones are one allocation.
    kinds: HashSet<Arc<CheckKind>>,
    /// Files whose broken lines were taken out: what seems to be missing there may be there.
    pub(super) with_gaps: HashSet<u32>,
}

/// All that loading can look at beside the text of the files. It may be another thing the next time.
pub(super) struct Doors<'a> {
    pub(super) pem: PemReader<'a>,
    pub(super) secrets: Judge<'a>,
}

/// How much has been found and looked at so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traces {
    findings: usize,
    looks: usize,
}

impl<'a> Context<'a> {
    pub(super) fn new(files: &'a [File], doors: Doors<'a>) -> Self {
        let (findings, kinds, with_gaps) = (Findings::default(), HashSet::new(), HashSet::new());
        Self { files, findings, doors, looks: 0, kinds, with_gaps }
    }

    /// The only way to them, so that every look is counted.
    pub(super) fn doors(&mut self) -> &mut Doors<'a> {
        self.looks += 1;
        &mut self.doors
    }

    /// Equal before and after something that only its text and what was passed to it can have influenced, and
    /// that nothing is to be said about.
    pub(super) fn traces(&self) -> Traces {
        Traces { findings: self.findings.pushed(), looks: self.looks }
    }

    pub(super) fn push(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Something that should be there is not.
    pub(super) fn push_missing(&mut self, finding: Finding) {
        if !self.with_gaps.contains(&finding.file()) {
            self.push(finding);
        }
    }

    /// Kinds that are there already.
    pub(super) fn share(&mut self, kinds: impl Iterator<Item = Arc<CheckKind>>) {
        self.kinds.extend(kinds);
    }

    pub(super) fn intern(&mut self, kind: CheckKind) -> Arc<CheckKind> {
        if let Some(known) = self.kinds.get(&kind) {
            return Arc::clone(known);
        }
        let kind = Arc::new(kind);
        self.kinds.insert(Arc::clone(&kind));
        kind
    }

    /// The same for people: as short as the path of that file was given.
    pub(super) fn shown(&self, path: &str, place: Place) -> String {
        let file = self.files.get(place.file as usize);
        let base = file.and_then(|file| Path::new(file.path()).parent());
        base.map_or(PathBuf::from(path), |base| base.join(path)).display().to_string()
    }

    /// Relative paths start from the directory of the file that names them.
    pub(super) fn resolve(&self, path: &str, place: Place) -> PathBuf {
        match self.files.get(place.file as usize) {
            Some(file) => file.directory().join(path),
            None => PathBuf::from(path),
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// What a file says about one key.
#[derive(Clone, Debug, Default)]
pub(super) enum Field<T> {
    #[default]
    Unset,
    /// Written, but wrong: reported already, so rules that need it say nothing.
    Broken,
    Set(At<T>),
}

impl<T> Field<T> {
    pub(super) fn get(&self) -> Option<&At<T>> {
        match self {
            Self::Set(at) => Some(at),
            Self::Unset | Self::Broken => None,
        }
    }

    pub(super) fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::Broken)
    }

    /// For a whole that is no good without this part: `None` if it is broken.
    pub(super) fn sound(self) -> Option<Option<T>> {
        match self {
            Self::Unset => Some(None),
            Self::Broken => None,
            Self::Set(at) => Some(Some(at.value)),
        }
    }

    pub(super) fn place(&self) -> Option<Place> {
        self.get().map(|at| at.place)
    }

    /// Written, with whatever value.
    pub(super) fn is_written(&self) -> bool {
        !self.is_unset()
    }
}

impl<T: Clone> Field<T> {
    pub(super) fn value(&self) -> Option<T> {
        self.get().map(|at| at.value.clone())
    }

    pub(super) fn value_or(&self, default: T) -> T {
        self.value().unwrap_or(default)
    }

    /// The nearest wins: `self` if it is written, else `outer`.
    #[must_use]
    pub(super) fn or(&self, outer: &Self) -> Self {
        match self {
            Self::Unset => outer.clone(),
            Self::Broken | Self::Set(_) => self.clone(),
        }
    }
}

/// A table of a file.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    pub(super) place: Place,
    origin: Origin<'a>,
}

/// Where in its file a text stands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
    /// All of it, from there on.
    At(usize),
    /// In parts: where each begins in the text, and where in the file.
    Parts(&'a [(usize, usize)]),
}

impl Origin<'_> {
    fn in_file(self, at: usize) -> usize {
        match self {
            Self::At(base) => base + at,
            Self::Parts(parts) => {
                let after = parts.partition_point(|(begin, _)| *begin <= at);
                let part = after.checked_sub(1).and_then(|index| parts.get(index));
                part.map_or(at, |(begin, base)| base + (at - begin))
            }
        }
    }
}

/// A key of a table.
#[derive(Clone, Copy)]
pub(super) struct Key<'a> {
    pub(super) name: &'a str,
    pub(super) place: Place,
}

/// The value of a key, or one of its elements.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) node: &'a DeValue<'a>,
    pub(super) place: Place,
    /// Of the key, for messages.
    pub(super) key: &'a str,
    origin: Origin<'a>,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a DeTable<'a>, file: u32, origin: Origin<'a>) -> Self {
        Self { table, place: Place { file, start: 0, end: 0 }, origin }
    }

    /// `table` is what the value is.
    pub(super) fn of(table: &'a DeTable<'a>, value: Value<'a>) -> Self {
        Self { table, place: value.place, origin: value.origin }
    }

    pub(super) fn entries(self) -> impl Iterator<Item = (Key<'a>, Value<'a>)> {
        let (file, origin) = (self.place.file, self.origin);
        self.table.iter().map(move |(key, value)| {
            let name: &str = key.get_ref().as_ref();
            let key = Key { name, place: place(file, origin, key.span()) };
            let place = place(file, origin, value.span());
            (key, Value { node: value.get_ref(), place, key: name, origin })
        })
    }
}

impl<'a> Value<'a> {
    /// An element of this array.
    pub(super) fn element(self, node: &'a toml::Spanned<DeValue<'a>>) -> Self {
        Self { node: node.get_ref(), place: place(self.place.file, self.origin, node.span()), ..self }
    }

    /// Reads with `reader`, which reports what is wrong and then gives nothing.
    pub(super) fn field<T>(
        self,
        cx: &mut Context<'_>,
        reader: impl FnOnce(&mut Context<'_>, Value<'a>) -> Option<T>,
    ) -> Field<T> {
        match reader(cx, self) {
            Some(value) => Field::Set(At { value, place: self.place }),
            None => Field::Broken,
        }
    }
}

fn place(file: u32, origin: Origin<'_>, span: std::ops::Range<usize>) -> Place {
    let bound = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    // Where the next part begins is not where this one ends.
    let end = match span.end.checked_sub(1) {
        Some(last) if last >= span.start => origin.in_file(last) + 1,
        Some(_) | None => origin.in_file(span.end),
    };
    Place { file, start: bound(origin.in_file(span.start)), end: bound(end) }
}
