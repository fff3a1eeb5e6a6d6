//! `lvsd import`: whole files and their TOML as snapshots, each keyword and what became of it, and
//! files that nobody would write.

#![cfg(test)]

#[path = "import/generated.rs"]
mod generated;
#[path = "import/keywords.rs"]
mod keywords;
#[path = "import/samples.rs"]
mod samples;

use std::path::{Path, PathBuf};

use lvsd::config::import::{Disk, Format, Imported, Options, Reader, import};
use lvsd::config::{self, Sources};

/// One file in memory; whatever it includes is not there.
struct Memory<'a>(&'a [u8]);

impl Reader for Memory<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        if path == Path::new("keepalived.conf") {
            Ok(self.0.to_vec())
        } else {
            Err("no such file".to_owned())
        }
    }

    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>, String> {
        Ok(vec![pattern.to_owned()])
    }
}

fn keepalived(text: &[u8]) -> Imported {
    let options = Options { from: Some(Format::Keepalived), config_id: Some("lab".to_owned()) };
    import(Path::new("keepalived.conf"), &options, &Memory(text)).expect("it can be read")
}

/// What `lvsd check` says of it, if anything but warnings.
fn mistakes(toml: &str) -> Option<String> {
    config::load(&Sources::from_text("lvsd.toml", Path::new("/etc/lvsd"), toml))
        .err()
        .map(|all| all.to_string())
}

/// The notes, one a line, and the TOML.
fn shown(imported: &Imported) -> String {
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    format!("{notes}---\n{}", imported.toml)
}

fn from_disk(path: &Path, options: &Options) -> Imported {
    import(path, options, &Disk).expect("it can be read")
}
