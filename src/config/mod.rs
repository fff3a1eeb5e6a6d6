//! The configuration: TOML files to [`Config`], every mistake at once with its place.
//!
//! [`Sources`] is the text, read once; [`load`] makes the configuration from it. Reads no clock
//! and opens nothing but the files: the sources, the PEM files that TLS
//! names, and the files that hold secrets. The
//! steps are `syntax` → `raw` (the mirror of the files) → `lower` (what it means).

mod address;
mod conceal;
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
mod pieces;
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
use context::{Context, Origin, Section};
use pem::{PemReader, ReadFile};
use pieces::Pieces;
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
    match load_in_pieces(sources, read_pem, secrets) {
        Some(loaded) => Ok(loaded),
        None => load_whole(sources, read_pem, secrets),
    }
}

/// A configuration without mistakes, one virtual server of its text at a time: the values of all of them
/// at once are several times as large as what is made of them. `None`: this is for [`load_whole`] to judge.
fn load_in_pieces(sources: &Sources, read_pem: ReadFile<'_>, secrets: secret::Judge<'_>) -> Option<Loaded> {
    if sources.problems().next().is_some() {
        return None;
    }
    let files = sources.files();
    let mut cx = Context::new(files, PemReader::new(read_pem), secrets);
    let pieces: Vec<Pieces<'_>> = files.iter().map(|file| Pieces::cut(file.text())).collect();
    let parsed: Vec<DeTable<'_>> = pieces.iter().map(Pieces::parse_rest).collect::<Option<_>>()?;
    let mut root = Root::default();
    for ((pieces, rest), index) in pieces.iter().zip(&parsed).zip(0..) {
        root.read_file(&mut cx, Section::root(rest, index, pieces.origin_of_rest()));
    }
    let mut all = lower::Lowering::new(&mut cx, &root);
    for (pieces, index) in pieces.iter().zip(0..) {
        for (base, text) in pieces.virtual_servers() {
            let table = pieces::parse_virtual_server(text)?;
            let mut one = Root::default();
            one.read_file(&mut cx, Section::root(&table, index, Origin::At(base)));
            one.virtual_servers.iter().for_each(|vs| all.add(&mut cx, vs));
        }
    }
    let config = all.finish(&mut cx);
    (!cx.findings.has_errors()).then(|| Loaded { config, warnings: cx.findings.finish(files) })
}

/// All mistakes of all files.
fn load_whole(
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
        root.read_file(&mut cx, Section::root(table.as_ref().unwrap_or(rest), index, Origin::At(0)));
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
