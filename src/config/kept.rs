//! What one reading leaves to the next: the virtual servers that it made, by the text that they were made of.
//!
//! A virtual server follows from its own text, the directory of its file and all that stands around the virtual
//! servers, unless it looks at something else: those that do are not kept, nor those that anything is to be
//! said about. Holds no text, and keeps no virtual server alive: one that is in force nowhere is forgotten.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Weak};

use super::sources::{File, digest};
use crate::engine::model::{CheckKind, Config, Timing, VirtualServer};

/// A text could be made to collide with another under anything weaker.
type Digest = [u8; 32];

/// What is known of the reading before. By default that is nothing.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Of all that stands around the virtual servers.
    common: Digest,
    /// In the order of their digests, which all differ.
    known: Vec<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    digest: Digest,
    server: Weak<VirtualServer>,
    is_named: bool,
    uses: Arc<Uses>,
}

/// A virtual server that need not be read again.
pub(super) struct Again {
    pub(super) server: Arc<VirtualServer>,
    /// Its name is written; else it depends on the others.
    pub(super) is_named: bool,
    pub(super) uses: Arc<Uses>,
}

/// What a virtual server shares with others. Most of them share the same.
#[derive(Debug)]
pub(super) struct Uses {
    /// Names of the checks that it names.
    pub(super) checks: Box<[Box<str>]>,
    /// In the order of its real servers.
    kinds: Box<[Weak<CheckKind>]>,
    timings: Box<[Weak<Timing>]>,
}

/// One reading, after another.
pub(super) struct Reading {
    common: Digest,
    /// Of each piece, in the order in which they are read.
    pieces: std::vec::IntoIter<(Digest, Option<Again>)>,
    /// Of each virtual server, in their order; the digest of those that can be kept.
    done: Vec<(Option<Digest>, bool, Arc<Uses>)>,
    /// Every one so far, once.
    uses: HashSet<Arc<Uses>>,
}

impl Kept {
    fn find(&self, digest: &Digest) -> Option<Again> {
        let at = self.known.binary_search_by(|known| known.digest.cmp(digest)).ok()?;
        let known = self.known.get(at)?;
        let server = known.server.upgrade()?;
        Some(Again { server, is_named: known.is_named, uses: Arc::clone(&known.uses) })
    }
}

impl Uses {
    pub(super) fn new<'a>(server: &VirtualServer, checks: impl Iterator<Item = &'a str>) -> Self {
        let mut checks: Vec<Box<str>> = checks.map(Box::from).collect();
        checks.sort_unstable();
        let all = || server.real_servers.iter().flat_map(|server| &server.checks);
        Self {
            checks: checks.into_boxed_slice(),
            kinds: distinct(all().map(|check| &check.probe.kind)),
            timings: distinct(all().map(|check| &check.timing)),
        }
    }

    fn kinds(&self) -> impl Iterator<Item = Arc<CheckKind>> {
        self.kinds.iter().filter_map(Weak::upgrade)
    }

    fn timings(&self) -> impl Iterator<Item = Arc<Timing>> {
        self.timings.iter().filter_map(Weak::upgrade)
    }

    fn addresses(&self) -> impl Iterator<Item = usize> {
        let kinds = self.kinds.iter().map(|kind| kind.as_ptr().addr());
        kinds.chain(self.timings.iter().map(|timing| timing.as_ptr().addr()))
    }
}

/// Of the very same things, not of equal ones.
impl PartialEq for Uses {
    fn eq(&self, other: &Self) -> bool {
        self.checks == other.checks
            && self.kinds.len() == other.kinds.len()
            && self.addresses().eq(other.addresses())
    }
}

impl Eq for Uses {}

impl Hash for Uses {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.checks.hash(state);
        self.addresses().for_each(|address| address.hash(state));
    }
}

/// Every kind of check of `config`, once, in their order.
pub(super) fn kinds(config: &Config) -> Vec<Arc<CheckKind>> {
    let servers = config.virtual_servers.iter().flat_map(|v| &v.real_servers);
    let kinds = distinct(servers.flat_map(|server| &server.checks).map(|check| &check.probe.kind));
    kinds.iter().filter_map(Weak::upgrade).collect()
}

fn distinct<'a, T: 'a>(all: impl Iterator<Item = &'a Arc<T>>) -> Box<[Weak<T>]> {
    let mut found: Vec<Weak<T>> = Vec::new();
    let mut seen = HashSet::new();
    for one in all {
        // Neighbours mostly have the same.
        if found.last().is_none_or(|last| last.as_ptr() != Arc::as_ptr(one)) && seen.insert(Arc::as_ptr(one))
        {
            found.push(Arc::downgrade(one));
        }
    }
    found.into_boxed_slice()
}

impl Reading {
    /// `common`: what stands around all virtual servers, file by file. `pieces`: the virtual servers, each with
    /// the directory of its file.
    pub(super) fn new<'a>(
        before: &Kept,
        common: impl Iterator<Item = (&'a File, &'a str)>,
        pieces: impl Iterator<Item = (&'a Path, &'a str)>,
    ) -> Self {
        let common = digest(common.flat_map(|(file, rest)| {
            [file.path().as_bytes(), file.directory().as_os_str().as_bytes(), rest.as_bytes()]
        }));
        let is_known = common == before.common;
        let find = |(directory, text): (&Path, &str)| {
            let digest = digest([directory.as_os_str().as_bytes(), text.as_bytes()]);
            (digest, before.find(&digest).filter(|_| is_known))
        };
        let pieces: Vec<_> = pieces.map(find).collect();
        let mut reading = Self {
            common,
            done: Vec::with_capacity(pieces.len()),
            pieces: pieces.into_iter(),
            uses: HashSet::new(),
        };
        for again in reading.pieces.as_slice().iter().filter_map(|(_, again)| again.as_ref()) {
            reading.uses.insert(Arc::clone(&again.uses));
        }
        reading
    }

    /// Of everything that need not be read again: equal ones are to stay one allocation.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Arc<CheckKind>> {
        self.uses.iter().flat_map(|uses| uses.kinds())
    }

    pub(super) fn timings(&self) -> impl Iterator<Item = Arc<Timing>> {
        self.uses.iter().flat_map(|uses| uses.timings())
    }

    /// The next piece: its digest, and what is known of it.
    pub(super) fn next_piece(&mut self) -> Option<(Digest, Option<Again>)> {
        self.pieces.next()
    }

    /// The next virtual server has been made. `digest`: it can be kept, by that.
    pub(super) fn note(&mut self, digest: Option<Digest>, is_named: bool, uses: Arc<Uses>) {
        let uses = match self.uses.get(&uses) {
            Some(same) => Arc::clone(same),
            None => {
                self.uses.insert(Arc::clone(&uses));
                uses
            }
        };
        self.done.push((digest, is_named, uses));
    }

    /// Every kind of check of what was read, once, in their order.
    pub(super) fn all_kinds(&self) -> Vec<Arc<CheckKind>> {
        let (mut kinds, mut seen_uses, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        for (_, _, uses) in &self.done {
            if seen_uses.insert(Arc::as_ptr(uses)) {
                kinds.extend(uses.kinds().filter(|kind| seen.insert(Arc::as_ptr(kind))));
            }
        }
        kinds
    }

    pub(super) fn keep(self, config: &Config) -> Kept {
        let mut known = Vec::with_capacity(self.done.len());
        for ((digest, is_named, uses), server) in self.done.into_iter().zip(&config.virtual_servers) {
            let Some(digest) = digest else { continue };
            known.push(Known { digest, server: Arc::downgrade(server), is_named, uses });
        }
        known.sort_unstable_by_key(|known| known.digest);
        known.shrink_to_fit();
        Kept { common: self.common, known }
    }
}

#[cfg(test)]
mod tests;
