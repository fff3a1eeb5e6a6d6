//! `lvsd import`: another program's configuration to lvsd.toml, with a note for all that it could
//! not take along.
//!
//! Pure: files come from a [`Reader`], nothing is printed. Each format has its reader (`keepalived`,
//! `ldirectord`) that fills a `document::Document`; `write` makes TOML of it. What comes out
//! is always accepted by [`super::load`].

mod detect;
mod document;
mod files;
mod keepalived;
mod ldirectord;
mod notes;
mod write;

use std::path::{Path, PathBuf};

pub use detect::Format;
pub use files::Disk;
pub use notes::{Note, Weight};

/// The only way to the file system.
pub trait Reader {
    /// The bytes of a regular file, or why not.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// The files that a pattern with `*`, `?` and `[…]` matches, sorted; the pattern itself where there are none of these.
    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>, String>;
}

/// What the command line says besides the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `None`: seen from the text.
    pub from: Option<Format>,
    /// keepalived's `-i`: which `@` lines count. Default there: the host's name up to its first dot.
    pub config_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub toml: String,
    /// In the order of the files.
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read {path}: {why}")]
    Unreadable { path: String, why: String },
    #[error(
        "{path} is neither keepalived.conf nor ldirectord.cf; --from keepalived or --from ldirectord reads it as one"
    )]
    Unknown { path: String },
    #[error("{path} is TOML already")]
    Toml { path: String },
}

impl Imported {
    /// Whether something that the other program did is not in the result.
    pub fn leaves_out(&self) -> bool {
        self.notes.iter().any(|note| note.weight == Weight::NotCarried)
    }
}

/// What a format's reader gets.
struct Source<'a> {
    path: &'a Path,
    /// The path as notes show it.
    shown: String,
    text: &'a str,
    options: &'a Options,
    reader: &'a dyn Reader,
}

pub fn import(path: &Path, options: &Options, reader: &dyn Reader) -> Result<Imported, ImportError> {
    let shown = path.display().to_string();
    let bytes = reader.read(path).map_err(|why| ImportError::Unreadable { path: shown.clone(), why })?;
    // keepalived and ldirectord take any bytes in comments and strings.
    let text = String::from_utf8_lossy(&bytes);
    let format = match options.from {
        Some(format) => format,
        None => detect::format(&text).ok_or_else(|| detect::refusal(&text, &shown))?,
    };
    let mut notes = notes::Notes::default();
    let source = Source { path, shown, text: &text, options, reader };
    let document = match format {
        Format::Keepalived => keepalived::read(&source, &mut notes),
        Format::Ldirectord => ldirectord::read(&source, &mut notes),
    };
    let main = notes.main().to_owned();
    let notes = notes.into_sorted();
    let mut toml = write::to_toml(&document);
    write::append_missing(&mut toml, &notes, &main);
    Ok(Imported { toml, notes })
}
