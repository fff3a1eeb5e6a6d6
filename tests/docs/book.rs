//! The book as data: its pages, and the marked blocks in them. Judges nothing.
//!
//! Marks stand behind the language of a block. TOML, with nothing behind it, is a whole file;
//!
//! | mark | |
//! |---|---|
//! | `/etc/…` | a whole file, of this name on the director, where the page is tried out |
//! | `pool` | keys of one virtual server |
//! | `server` | keys of one real server |
//! | `plus` | tables that lack nothing but a virtual server |
//! | `wrong` | a whole file that is refused |
//!
//! A `console` block with the mark `lab` is typed, line by line, on a real machine by `tests/systemd`; one with the mark
//! `source` too, in a tree in which lvsd is built already. `router`, and BIRD's files with the marks `bird director` and
//! `bird router`, are what `tests/daemon/two_directors.rs` runs. `shell.rs` knows of every other shell block why it is not run.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// `guide/checks.md`
    pub(crate) name: String,
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// In the page, from 1.
    pub(crate) line: usize,
    pub(crate) language: String,
    pub(crate) marks: Vec<String>,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn read(root: &Path, name: &str) -> Self {
        let path = root.join("docs/src").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name: name.to_owned(), text }
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (line, number) in self.text.lines().zip(1..) {
            match (open.as_mut(), line.strip_prefix("```")) {
                (None, Some(info)) => {
                    let mut words = info.split_whitespace().map(str::to_owned);
                    let (language, text) = (words.next().unwrap_or_default(), String::new());
                    open = Some(Block { line: number, language, marks: words.collect(), text });
                }
                (Some(_), Some("")) => blocks.extend(open.take()),
                (Some(block), _) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: the block of line {:?} has no end", self.name, open.map(|b| b.line));
        blocks
    }

    /// Without what stands in blocks.
    pub(crate) fn prose(&self) -> String {
        let mut inside = false;
        let mut lines = Vec::new();
        for line in self.text.lines() {
            if line.starts_with("```") {
                inside = !inside;
            } else if !inside {
                lines.push(line);
            }
        }
        lines.join("\n")
    }
}

impl Block {
    pub(crate) fn has(&self, mark: &str) -> bool {
        self.marks.iter().any(|word| word == mark)
    }
}

/// All pages, by name.
pub(crate) fn pages(root: &Path) -> Vec<Page> {
    let source = root.join("docs/src");
    let mut names = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(source.join(&folder)).expect("the book") {
            let entry = entry.expect("an entry");
            let name = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(name);
            } else if name.extension().is_some_and(|extension| extension == "md") {
                names.push(name.display().to_string());
            }
        }
    }
    names.sort();
    names.iter().map(|name| Page::read(root, name)).collect()
}
