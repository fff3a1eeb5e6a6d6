//! The files of a configuration, read once into memory.
//!
//! Everything after this works on what was read here, so that what is validated is what is
//! loaded. Owns reading and includes; knows nothing of any other key.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::diagnostics::{Diagnostics, Finding, Place};
use super::permission::Unusable;
use super::syntax;
use super::text::quote;

/// All files together. A hundred thousand real servers take a tenth of this.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FILES: usize = 4_096;

/// A configuration as text: the main file first, then its includes in order.
///
/// Can be sent to another process: nothing in it refers to the file system but the directories
/// that relative paths inside the files start from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    files: Vec<File>,
    /// What went wrong with includes; reported together with all other mistakes.
    problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct File {
    path: String,
    /// Absolute: what relative paths in this file start from.
    directory: PathBuf,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Problem {
    place: Place,
    message: String,
    remedy: Option<String>,
}

impl Sources {
    /// Reads `path` and what it includes. Fails only if `path` itself cannot be read; the rest
    /// is reported by [`super::load`], with everything else.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        let shown = path.display().to_string();
        let mut budget = MAX_BYTES;
        let main = read_file(path, shown.clone(), &mut budget).map_err(|why| {
            Diagnostics::unreadable(&shown, format!("cannot read the configuration: {}", why.why), why.remedy)
        })?;
        let mut reader = Includes { files: Vec::new(), problems: Vec::new(), budget, seen: HashSet::new() };
        reader.seen.extend(path.canonicalize());
        let patterns = syntax::include_patterns(&main.file.text);
        reader.push(main);
        for (pattern, span) in patterns {
            let place = Place { file: 0, start: span.0, end: span.1 };
            reader.include(path, &pattern, place);
        }
        Ok(Self { files: reader.files, problems: reader.problems })
    }

    /// One file that is in memory already. Relative paths in it start from `directory`.
    pub fn from_text(path: &str, directory: &Path, text: &str) -> Self {
        let file = File { path: path.to_owned(), directory: directory.to_owned(), text: text.to_owned() };
        Self { files: vec![file], problems: Vec::new() }
    }

    /// The files as shown in diagnostics, the main file first.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    /// The same for the same texts: directors that share a configuration show one number. The first 16
    /// digits of a SHA-256.
    pub fn digest(&self) -> String {
        let digest = digest(self.files.iter().map(|file| file.text.as_bytes()));
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = Finding> {
        self.problems.iter().map(|problem| {
            let finding = Finding::error(problem.place, problem.message.clone());
            match &problem.remedy {
                Some(remedy) => finding.remedy(remedy.clone()),
                None => finding,
            }
        })
    }
}

/// A SHA-256 of texts: those that begin or end elsewhere have another one.
pub(super) fn digest<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

impl File {
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// The main file alone, if it can be read.
pub(super) fn read_main(path: &Path) -> Option<File> {
    let mut budget = MAX_BYTES;
    read_file(path, path.display().to_string(), &mut budget).ok().map(|read| read.file)
}

struct Includes {
    files: Vec<File>,
    problems: Vec<Problem>,
    budget: u64,
    /// Canonical paths, so that two patterns, or the main file's own directory, read nothing twice.
    seen: HashSet<PathBuf>,
}

impl Includes {
    fn include(&mut self, main: &Path, pattern: &str, place: Place) {
        let base = main.parent().unwrap_or(Path::new(""));
        if pattern.is_empty() || pattern.contains("**") {
            let message = format!("{} is not a pattern of files", quote(pattern));
            return self.problem(place, message, Some("write a path or, for a directory, \"conf.d/*.toml\""));
        }
        if !pattern.contains(['*', '?', '[']) {
            return self.file(&base.join(pattern), place);
        }
        let full = match Path::new(pattern).is_absolute() {
            true => pattern.to_owned(),
            false => match base.to_str() {
                Some("") => pattern.to_owned(),
                Some(base) => format!("{}/{pattern}", glob::Pattern::escape(base)),
                None => return self.problem(place, "the directory's name is not UTF-8".to_owned(), None),
            },
        };
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            // Editors keep their backup and lock files under such names.
            require_literal_leading_dot: true,
        };
        match glob::glob_with(&full, options) {
            Ok(paths) => {
                for path in paths.take(MAX_FILES + 1) {
                    match path {
                        Ok(path) => self.file(&path, place),
                        Err(why) => {
                            let unusable = Unusable::unread(why.path(), why.error());
                            let message = format!("cannot read {}: {}", why.path().display(), unusable.why);
                            self.problem(place, message, unusable.remedy.as_deref());
                        }
                    }
                }
            }
            Err(why) => {
                let message = format!("{} is not a pattern: {}", quote(pattern), why.msg);
                self.problem(place, message, Some("write a pattern as \"conf.d/*.toml\""));
            }
        }
    }

    fn file(&mut self, path: &Path, place: Place) {
        if path.canonicalize().is_ok_and(|canonical| !self.seen.insert(canonical)) {
            return;
        }
        if self.files.len() >= MAX_FILES {
            return self.problem(place, format!("more than {MAX_FILES} files"), None);
        }
        let shown = path.display().to_string();
        match read_file(path, shown.clone(), &mut self.budget) {
            Ok(read) => self.push(read),
            Err(why) => {
                let other =
                    "name a file that exists, or write a pattern: one that matches nothing is no mistake";
                let remedy = why.remedy.unwrap_or_else(|| other.to_owned());
                self.problem(place, format!("cannot read {shown}: {}", why.why), Some(&remedy));
            }
        }
    }

    fn push(&mut self, read: ReadFile) {
        if let Some(at) = read.not_utf8_at {
            let index = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
            let place = Place { file: index, start: at, end: at + 3 };
            self.problem(place, "the file is not UTF-8 from here on".to_owned(), None);
        }
        self.files.push(read.file);
    }

    fn problem(&mut self, place: Place, message: String, remedy: Option<&str>) {
        // Of one pattern, the first few say enough.
        if self.problems.len() < MAX_FILES {
            self.problems.push(Problem { place, message, remedy: remedy.map(str::to_owned) });
        }
    }
}

struct ReadFile {
    file: File,
    not_utf8_at: Option<u32>,
}

/// `budget`: the bytes that may still be read, of all files together.
fn read_file(path: &Path, shown: String, budget: &mut u64) -> Result<ReadFile, Unusable> {
    // A FIFO without a writer must not stop a reload: O_NONBLOCK, then look at what it is.
    let open = fs::OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let unread = |why: std::io::Error| Unusable::unread(path, &why);
    let file = open.map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if metadata.is_dir() {
        return Err("it is a directory".into());
    }
    if !metadata.is_file() {
        return Err("it is not a regular file".into());
    }
    // At once: what grows is copied again and again.
    let expected = usize::try_from(metadata.len().min(*budget)).unwrap_or_default();
    let mut bytes = Vec::with_capacity(expected);
    file.take(*budget + 1).read_to_end(&mut bytes).map_err(unread)?;
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    *budget = budget
        .checked_sub(size)
        .ok_or_else(|| format!("the configuration is larger than {} MiB", MAX_BYTES >> 20))?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let directory = std::path::absolute(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
        .map_err(|why| why.to_string())?;
    let (text, not_utf8_at) = match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(why) => {
            let at = why.utf8_error().valid_up_to();
            (String::from_utf8_lossy(why.as_bytes()).into_owned(), u32::try_from(at).ok())
        }
    };
    Ok(ReadFile { file: File { path: shown, directory, text }, not_utf8_at })
}
