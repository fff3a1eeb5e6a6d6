//! The configuration: TOML files to [`Config`], every mistake at once with its place.
//!
//! [`Sources`] is the text, read once; [`load`] makes the configuration from it. Reads no clock
//! and opens nothing but the files: the sources, the PEM files that TLS
//! names, and the files that hold secrets. The
//! steps are `syntax` → `raw` (the mirror of the files) → `lower` (what it means).

mod address;
mod context;
pub mod defaults;
mod diagnostics;
pub mod documented;
mod duration;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub mod import;
mod lower;
pub mod manual;
mod pem;
mod raw;
pub mod schema;
mod secret;
mod sources;
mod syntax;
/// Would `daemon.log` take this filter? If not, why, and what to write instead.
pub fn check_log_filter(filter: &str) -> Result<(), String> {
    raw::log_filter(filter).map(drop).map_err(|wrong| match wrong.remedy {
        Some(remedy) => format!("{}: {remedy}", wrong.message),
        None => wrong.message,
    })
}

#[cfg(test)]
mod tests;
mod text;
mod value;

use std::path::{Path, PathBuf};

use toml::de::DeTable;

pub use diagnostics::{Diagnostic, Diagnostics, Label, Line, MAX_SHOWN, Palette, Severity, Spot};
pub use sources::Sources;

use crate::engine::model::Config;
use context::{Context, Section};
use pem::{PemReader, ReadFile};
use raw::Root;

/// A configuration without errors.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Diagnostics,
}

/// Validates the whole. On failure the diagnostics hold every error, and the warnings with them.
pub fn load(sources: &Sources) -> Result<Loaded, Diagnostics> {
    load_with(sources, &pem::read_file, &secret::judge)
}

/// Where the daemon of this configuration listens, for clients: `daemon.control_socket` of a
/// file that may be wrong anywhere else, or the default.
pub fn control_socket(path: &Path) -> PathBuf {
    let written = sources::read_main(path)
        .and_then(|file| syntax::control_socket(file.text()).map(|socket| file.directory().join(socket)));
    written.unwrap_or_else(|| PathBuf::from(defaults::CONTROL_SOCKET))
}

/// `read_pem` and `secrets` are the only ways to the file system.
fn load_with(
    sources: &Sources,
    read_pem: ReadFile<'_>,
    secrets: secret::Judge<'_>,
) -> Result<Loaded, Diagnostics> {
    let files = sources.files();
    let mut cx = Context::new(files, PemReader::new(read_pem), secrets);
    sources.problems().for_each(|problem| cx.push(problem));
    let mut parsed = Vec::with_capacity(files.len());
    let mut repaired = Vec::with_capacity(files.len());
    for (file, index) in files.iter().zip(0..) {
        match DeTable::parse(file.text()) {
            Ok(table) => {
                parsed.push(Some(table.into_inner()));
                repaired.push(String::new());
            }
            Err(_) => {
                syntax::report(file.text(), index, &mut cx.findings);
                cx.with_gaps.insert(index);
                parsed.push(None);
                repaired.push(syntax::repair(file.text()).unwrap_or_default());
            }
        }
    }
    // Rules between values would speak of what a broken line has taken away, or of a file that
    // is not there; those about single values still hold.
    let is_whole = !cx.findings.has_errors();
    let rest: Vec<DeTable<'_>> = repaired
        .iter()
        .map(|text| DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default())
        .collect();
    let mut root = Root::default();
    for ((table, rest), index) in parsed.iter().zip(&rest).zip(0..) {
        root.read_file(&mut cx, Section::root(table.as_ref().unwrap_or(rest), index));
    }
    let config = if is_whole {
        Some(lower::lower(&mut cx, &root))
    } else {
        root.read_real_servers(&mut cx);
        None
    };
    let has_errors = cx.findings.has_errors();
    let diagnostics = cx.findings.finish(files);
    match config {
        Some(config) if !has_errors => Ok(Loaded { config, warnings: diagnostics }),
        Some(_) | None => Err(diagnostics),
    }
}
