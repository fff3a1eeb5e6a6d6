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
mod kept;
mod log_filter;
mod lower;
pub mod manual;
mod pem;
mod permission;
mod pieces;
mod raw;
pub mod schema;
mod secret;
mod sources;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod value;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

pub use diagnostics::{Diagnostic, Diagnostics, Label, Line, MAX_SHOWN, Palette, Severity, Spot};
pub use kept::Kept;
pub use log_filter::check_log_filter;
pub use sources::Sources;

use crate::engine::model::{CheckKind, Config};
use context::{Context, Doors, Origin, Section};
use kept::Reading;
use pem::{PemReader, ReadFile};
use pieces::Pieces;
use raw::Root;

/// A configuration without errors.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Diagnostics,
}

/// The same, and what it takes to know it again.
#[derive(Clone, Debug)]
pub struct LoadedAfter {
    pub loaded: Loaded,
    pub kept: Kept,
    /// Every kind of its checks, once, in their order.
    pub kinds: Vec<Arc<CheckKind>>,
}

/// Validates the whole. On failure the diagnostics hold every error, and the warnings with them.
pub fn load(sources: &Sources) -> Result<Loaded, Diagnostics> {
    load_with(sources, &pem::read_file, &secret::judge)
}

/// What [`load`] comes to, at the cost of what is not as it was `before`: a virtual server whose text and
/// whose surroundings are the same is the same allocation.
pub fn load_after(sources: &Sources, before: &Kept) -> Result<LoadedAfter, Diagnostics> {
    load_after_with(sources, before, &pem::read_file, &secret::judge)
}

/// All files that loading these sources looks at: theirs, and those with certificates, keys and secrets. Absolute.
pub fn files(sources: &Sources) -> BTreeSet<PathBuf> {
    let named = sources.paths().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    let seen = RefCell::new(named.collect::<BTreeSet<PathBuf>>());
    let note = |path: &Path| {
        seen.borrow_mut().insert(path.to_owned());
    };
    let read = |path: &Path| {
        note(path);
        pem::read_file(path)
    };
    let judge = |path: &Path| {
        note(path);
        secret::judge(path)
    };
    // What is wrong with them is for who loads them to say.
    let _its_own = load_with(sources, &read, &judge);
    seen.into_inner()
}

/// The bytes of a file with certificates or keys that a configuration names, within the bounds of loading one.
pub fn read_pem(path: &Path) -> Result<Vec<u8>, String> {
    pem::read_file(path).map_err(|unusable| unusable.why)
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

fn load_after_with(
    sources: &Sources,
    before: &Kept,
    read_pem: ReadFile<'_>,
    secrets: secret::Judge<'_>,
) -> Result<LoadedAfter, Diagnostics> {
    if let Some(loaded) = load_new_pieces(sources, before, read_pem, secrets) {
        return Ok(loaded);
    }
    // What is wrong is said as if nothing were known.
    let loaded = load_whole(sources, read_pem, secrets)?;
    let kinds = kept::kinds(&loaded.config);
    Ok(LoadedAfter { loaded, kept: Kept::default(), kinds })
}

/// A configuration without mistakes, one virtual server of its text at a time: the values of all of them
/// at once are several times as large as what is made of them. `None`: this is for [`load_whole`] to judge.
fn load_in_pieces(sources: &Sources, read_pem: ReadFile<'_>, secrets: secret::Judge<'_>) -> Option<Loaded> {
    let pieces = cut(sources)?;
    let rests = parse_rests(&pieces)?;
    let cx = Context::new(sources.files(), Doors { pem: PemReader::new(read_pem), secrets });
    read_pieces(cx, &pieces, &rests, None)
}

/// The same, of the virtual servers that are not known.
fn load_new_pieces(
    sources: &Sources,
    before: &Kept,
    read_pem: ReadFile<'_>,
    secrets: secret::Judge<'_>,
) -> Option<LoadedAfter> {
    let files = sources.files();
    let pieces = cut(sources)?;
    let rests = parse_rests(&pieces)?;
    // A file that has virtual servers only may come and go.
    let says_more = |index: usize, rest: &DeTable<'_>| index == 0 || !rest.is_empty();
    let common = files.iter().zip(&pieces).zip(&rests).enumerate();
    let common = common.filter(|(index, (_, rest))| says_more(*index, rest));
    let virtual_servers = files
        .iter()
        .zip(&pieces)
        .flat_map(|(file, pieces)| pieces.virtual_servers().map(|(_, text)| (file.directory(), text)));
    let mut reading =
        Reading::new(before, common.map(|(_, ((file, pieces), _))| (file, pieces.rest())), virtual_servers);
    let mut cx = Context::new(files, Doors { pem: PemReader::new(read_pem), secrets });
    cx.share(reading.kinds());
    let loaded = read_pieces(cx, &pieces, &rests, Some(&mut reading))?;
    let kinds = reading.all_kinds();
    let kept = reading.keep(&loaded.config);
    Some(LoadedAfter { loaded, kept, kinds })
}

fn cut(sources: &Sources) -> Option<Vec<Pieces<'_>>> {
    let is_whole = sources.problems().next().is_none();
    is_whole.then(|| sources.files().iter().map(|file| Pieces::cut(file.text())).collect())
}

fn parse_rests<'a>(pieces: &'a [Pieces<'_>]) -> Option<Vec<DeTable<'a>>> {
    pieces.iter().map(Pieces::parse_rest).collect()
}

fn read_pieces(
    mut cx: Context<'_>,
    pieces: &[Pieces<'_>],
    rests: &[DeTable<'_>],
    mut reading: Option<&mut Reading>,
) -> Option<Loaded> {
    let mut root = Root::default();
    for ((pieces, rest), index) in pieces.iter().zip(rests).zip(0..) {
        root.read_file(&mut cx, Section::root(rest, index, pieces.origin_of_rest()));
    }
    let mut all = lower::Lowering::new(&mut cx, &root);
    if let Some(reading) = &reading {
        all.share(reading.timings());
    }
    for (pieces, index) in pieces.iter().zip(0..) {
        for (base, text) in pieces.virtual_servers() {
            let reading = reading.as_deref_mut();
            read_piece(&mut cx, &mut all, (index, Origin::At(base)), text, reading)?;
        }
    }
    let config = all.finish(&mut cx);
    let is_good = !cx.findings.has_errors() && !cx.findings.is_vague();
    is_good.then(|| Loaded { config, warnings: cx.findings.finish(cx.files) })
}

/// `None`: it is not what it looks like.
fn read_piece(
    cx: &mut Context<'_>,
    all: &mut lower::Lowering<'_>,
    (file, origin): (u32, Origin<'_>),
    text: &str,
    mut reading: Option<&mut Reading>,
) -> Option<()> {
    let known = reading.as_deref_mut().and_then(Reading::next_piece);
    let (digest, again) = known.map_or((None, None), |(digest, again)| (Some(digest), again));
    if let (Some(reading), Some(again)) = (reading.as_deref_mut(), again) {
        all.add_again(cx, &again);
        reading.note(digest, again.is_named, again.uses);
        return Some(());
    }
    let before = cx.traces();
    let table = pieces::parse_virtual_server(text)?;
    let mut root = Root::default();
    root.read_file(cx, Section::root(&table, file, origin));
    for vs in &root.virtual_servers {
        all.add(cx, vs);
        if let (Some(reading), Some((is_named, uses))) = (reading.as_deref_mut(), all.last()) {
            let is_plain = root.virtual_servers.len() == 1 && cx.traces() == before;
            reading.note(digest.filter(|_| is_plain), is_named, uses);
        }
    }
    Some(())
}

/// All mistakes of all files.
fn load_whole(
    sources: &Sources,
    read_pem: ReadFile<'_>,
    secrets: secret::Judge<'_>,
) -> Result<Loaded, Diagnostics> {
    let files = sources.files();
    let mut cx = Context::new(files, Doors { pem: PemReader::new(read_pem), secrets });
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
