//! What an import has to say: which line, which word, why.

use std::fmt;

/// A file that is wrong in every line says so this often; the rest is counted.
const MAX_NOTES: usize = 2_000;

/// What a note means for who runs the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Something that the other program did is not in the result.
    NotCarried,
    /// It is there, but not quite as it was, or it was no use there either.
    Remark,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub file: String,
    /// From 1; 0 is the file as a whole.
    pub line: u32,
    /// The keyword, as written.
    pub what: String,
    pub why: String,
    pub weight: Weight,
}

impl Note {
    /// As it stands in the TOML that was made of the file `main`: that one needs no name.
    pub(super) fn comment(&self, main: &str) -> String {
        let place = match self.file.as_str() {
            file if file == main => format!("line {}", self.line),
            file => format!("{file}:{}", self.line),
        };
        format!("not carried: {} ({place}): {}", self.what, self.why)
    }
}

/// `file:line: keyword: reason`
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: ", self.file, self.line, self.what)?;
        match self.weight {
            Weight::NotCarried => write!(f, "not carried: {}", self.why),
            Weight::Remark => write!(f, "{}", self.why),
        }
    }
}

/// Where something stands in the files that are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    /// Index of [`Notes::add_file`].
    pub(super) file: u32,
    pub(super) line: u32,
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    files: Vec<String>,
    all: Vec<(At, Note)>,
    more: usize,
}

impl Notes {
    /// The index of this file in [`At`].
    pub(super) fn add_file(&mut self, shown: String) -> u32 {
        self.files.push(clean(&shown));
        u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
    }

    pub(super) fn file(&self, at: At) -> &str {
        self.files.get(usize::try_from(at.file).unwrap_or(usize::MAX)).map_or("", String::as_str)
    }

    /// The file that includes the others.
    pub(super) fn main(&self) -> &str {
        self.files.first().map_or("", String::as_str)
    }

    /// Says that something is left out. What is returned is the comment for the TOML.
    pub(super) fn not_carried(&mut self, at: At, what: &str, why: impl Into<String>) -> String {
        let why = why.into();
        self.push(at, what, why.clone(), Weight::NotCarried);
        let file = self.file(at).to_owned();
        let note = Note { file, line: at.line, what: clean(what), why, weight: Weight::NotCarried };
        note.comment(self.main())
    }

    pub(super) fn remark(&mut self, at: At, what: &str, why: impl Into<String>) {
        self.push(at, what, why.into(), Weight::Remark);
    }

    fn push(&mut self, at: At, what: &str, why: String, weight: Weight) {
        if self.all.len() >= MAX_NOTES {
            self.more += 1;
            return;
        }
        let note = Note { file: self.file(at).to_owned(), line: at.line, what: clean(what), why, weight };
        if !self.all.iter().rev().take(8).any(|(_, known)| *known == note) {
            self.all.push((at, note));
        }
    }

    pub(super) fn into_sorted(mut self) -> Vec<Note> {
        self.all.sort_by_key(|(at, _)| *at);
        let last = self.more.checked_sub(1).map(|_| Note {
            file: self.files.first().cloned().unwrap_or_default(),
            line: 0,
            what: "import".to_owned(),
            why: format!("{} more notes are not shown", self.more),
            weight: Weight::NotCarried,
        });
        self.all.into_iter().map(|(_, note)| note).chain(last).collect()
    }
}

/// In one line of a terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(80).collect()
}
