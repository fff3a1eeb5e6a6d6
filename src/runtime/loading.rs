//! Reading and validating a configuration, away from the supervisor's thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::pems::PemFiles;
use super::presence::{self, Unread};
use super::probes::PreparedKinds;
use super::readings;
use crate::checks::Scripts;
use crate::config::{self, Diagnostics, Kept, LoadedAfter, Palette, Sources};
use crate::engine::Readings;
use crate::engine::model::Config;

/// A configuration that can come into force.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) config: Arc<Config>,
    pub(super) warnings: Diagnostics,
    pub(super) kinds: PreparedKinds,
    /// Of the files it was read from.
    pub(super) digest: String,
    /// As they were when its checks were made of them.
    pub(super) pems: PemFiles,
    /// Of its files, where they have been read.
    pub(super) readings: Readings,
}

/// Why a configuration cannot come into force.
#[derive(Debug)]
pub(super) enum Refusal {
    Mistakes(Diagnostics),
    Unprepared(crate::checks::PrepareError),
    /// What it asks for cannot be read.
    Unread(Unread),
    /// The loader itself broke.
    Broken(String),
}

impl Refusal {
    /// Would a start refuse the file, too?
    pub(super) fn is_of_the_file(&self) -> bool {
        matches!(self, Self::Mistakes(_) | Self::Unprepared(_))
    }

    /// One line for each mistake, with its place.
    pub(super) fn lines(&self) -> Vec<String> {
        match self {
            Self::Mistakes(diagnostics) => diagnostics.lines(),
            Self::Unprepared(error) => vec![error.to_string()],
            Self::Unread(error) => vec![error.to_string()],
            Self::Broken(reason) => vec![format!("reading the configuration broke off: {reason}")],
        }
    }

    /// How many there are; warnings are no mistakes.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Mistakes(diagnostics) => diagnostics.error_count(),
            Self::Unprepared(_) | Self::Unread(_) | Self::Broken(_) => 1,
        }
    }

    /// For people: with source lines and carets.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Mistakes(diagnostics) => diagnostics.render(Palette::Plain),
            Self::Unprepared(_) | Self::Unread(_) | Self::Broken(_) => self.lines().join("\n"),
        }
    }
}

/// Reads one configuration after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Loader {
    /// What the scripts of all of them share.
    scripts: Scripts,
    /// Of the last one that was good.
    kept: Arc<Kept>,
}

impl Loader {
    /// Reads the file once, with everything that it includes; of the next one, only what is new will be
    /// lowered.
    pub(super) fn load(&mut self, path: &Path) -> Result<Ready, Refusal> {
        let sources = Sources::read(path).map_err(Refusal::Mistakes)?;
        let LoadedAfter { loaded, kept, kinds } =
            config::load_after(&sources, &self.kept).map_err(Refusal::Mistakes)?;
        let digest = sources.digest();
        drop(sources);
        // A file that is replaced between the two is told of once too often, and never too seldom.
        let pems = PemFiles::read(&loaded.config);
        let kinds = PreparedKinds::new(&kinds, &self.scripts).map_err(Refusal::Unprepared)?;
        self.kept = Arc::new(kept);
        let (config, warnings) = (Arc::new(loaded.config), loaded.warnings);
        Ok(Ready { config, warnings, kinds, digest, pems, readings: Readings::new() })
    }

    /// [`Loader::load`], and then a first look at what its checks and gates ask of this host. The loader that
    /// comes with it knows what was read.
    pub(super) async fn load_and_read(mut self, path: PathBuf) -> Result<(Ready, Self), Refusal> {
        let loading = tokio::task::spawn_blocking(move || self.load(&path).map(|ready| (ready, self)));
        let loaded = loading.await.unwrap_or_else(|panicked| Err(Refusal::Broken(panicked.to_string())));
        let (ready, loader) = loaded?;
        Ok((look(ready).await?, loader))
    }
}

/// What its checks and gates ask of this host now.
pub(super) async fn look(mut ready: Ready) -> Result<Ready, Refusal> {
    let (readings, presence) =
        tokio::join!(readings::take(&ready.config, &ready.kinds), presence::read(&ready.config));
    ready.readings = Readings { presence: presence.map_err(Refusal::Unread)?, ..readings };
    Ok(ready)
}
