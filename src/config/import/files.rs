//! The files of an import, from the disk.

use std::path::{Path, PathBuf};

use super::Reader;
use crate::config::pem;

/// Files of one pattern.
const MAX_FILES: usize = 4_096;

/// Regular files only, and none above a few megabytes.
#[derive(Clone, Copy, Debug)]
pub struct Disk;

impl Reader for Disk {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        pem::read_file(path).map_err(|unusable| unusable.why)
    }

    fn matching(&self, pattern: &Path) -> Result<Vec<PathBuf>, String> {
        let Some(text) = pattern.to_str() else { return Err(format!("{} is not UTF-8", pattern.display())) };
        if !text.contains(['*', '?', '[']) {
            return Ok(vec![pattern.to_owned()]);
        }
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let paths =
            glob::glob_with(text, options).map_err(|why| format!("{text} is not a pattern: {}", why.msg))?;
        // What cannot be looked into is as good as not there, as for glob(3).
        Ok(paths.filter_map(Result::ok).take(MAX_FILES).collect())
    }
}
