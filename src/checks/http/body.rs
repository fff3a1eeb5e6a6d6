//! Does a body have what a URL's check wants? Fed with its parts, keeps no more than that takes.

use md5::Md5;
use memchr::memmem::Finder;
use regex::bytes::Regex;
use sha2::{Digest as _, Sha256};

use crate::checks::fault::{EXCERPT, quoted};
use crate::checks::prepare::{PrepareError, compile};
use crate::engine::model::{BodyRule, Digest};

/// What is wanted of a body, made once.
#[derive(Debug)]
pub(super) struct Wanted {
    rule: Option<Rule>,
    digest: Option<Digest>,
    /// Bytes that are read before the body is called too long.
    limit: u64,
}

#[derive(Debug)]
enum Rule {
    Contains(Box<Finder<'static>>),
    Matches(Regex),
    MatchesNot(Regex),
}

impl Wanted {
    /// `None` if the body does not matter.
    pub(super) fn new(
        rule: Option<&BodyRule>,
        digest: Option<&Digest>,
        limit: u64,
    ) -> Result<Option<Self>, PrepareError> {
        let rule = match rule {
            None => None,
            Some(BodyRule::Contains(bytes)) => {
                Some(Rule::Contains(Box::new(Finder::new(bytes).into_owned())))
            }
            Some(BodyRule::Regex(pattern)) => Some(Rule::Matches(compile(pattern)?)),
            Some(BodyRule::NotRegex(pattern)) => Some(Rule::MatchesNot(compile(pattern)?)),
        };
        if rule.is_none() && digest.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { rule, digest: digest.cloned(), limit }))
    }
}

/// A body being read.
pub(super) struct Body<'w> {
    wanted: &'w Wanted,
    read: u64,
    /// All of it for a pattern, the end of it for a search, the beginning for neither.
    kept: Vec<u8>,
    opening: Vec<u8>,
    found: bool,
    hash: Option<Hash>,
}

/// A digest in the making, and what it is to be.
enum Hash {
    Md5(Box<Md5>, [u8; 16]),
    Sha256(Box<Sha256>, [u8; 32]),
}

impl Hash {
    fn new(wanted: &Digest) -> Self {
        match wanted {
            Digest::Md5(wanted) => Self::Md5(Box::default(), *wanted),
            Digest::Sha256(wanted) => Self::Sha256(Box::default(), *wanted),
        }
    }

    fn update(&mut self, part: &[u8]) {
        match self {
            Self::Md5(hash, _) => hash.update(part),
            Self::Sha256(hash, _) => hash.update(part),
        }
    }

    fn finish(self) -> Result<(), String> {
        match self {
            Self::Md5(hash, wanted) => compare("md5", &hash.finalize(), &wanted),
            Self::Sha256(hash, wanted) => compare("sha256", &hash.finalize(), &wanted),
        }
    }
}

fn compare(algorithm: &str, got: &[u8], wanted: &[u8]) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("the body's digest is {algorithm}:{}, wanted {algorithm}:{}", hex(got), hex(wanted)))
}

/// Whether the rest of a body can still change the verdict.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Undecided,
    /// The body is as wanted.
    Satisfied,
}

impl<'w> Body<'w> {
    pub(super) fn new(wanted: &'w Wanted) -> Self {
        let hash = wanted.digest.as_ref().map(Hash::new);
        Self { wanted, read: 0, kept: Vec::new(), opening: Vec::new(), found: false, hash }
    }

    /// The error is the reason of a failure.
    pub(super) fn take(&mut self, part: &[u8]) -> Result<Progress, String> {
        let room = usize::try_from(self.wanted.limit - self.read).unwrap_or(usize::MAX);
        let within = part.get(..room).unwrap_or(part);
        self.read += within.len() as u64;
        self.open_with(within);
        if let Some(hash) = &mut self.hash {
            hash.update(within);
        }
        match &self.wanted.rule {
            Some(Rule::Contains(finder)) if !self.found => self.search(finder, within),
            Some(Rule::Matches(_) | Rule::MatchesNot(_)) => self.kept.extend_from_slice(within),
            Some(Rule::Contains(_)) | None => {}
        }
        if self.found && self.hash.is_none() {
            return Ok(Progress::Satisfied);
        }
        if within.len() < part.len() {
            return Err(match &self.wanted.rule {
                Some(Rule::Contains(finder)) if !self.found => {
                    format!(
                        "the first {} bytes of the body do not contain {}",
                        self.read,
                        quoted(finder.needle())
                    )
                }
                Some(_) | None => format!("the body is longer than max_body, {} bytes", self.wanted.limit),
            });
        }
        Ok(Progress::Undecided)
    }

    /// The body is complete. The error is the reason of a failure.
    pub(super) fn finish(mut self) -> Result<(), String> {
        let read = format!("(read {} bytes: {})", self.read, self.excerpt());
        match &self.wanted.rule {
            Some(Rule::Contains(finder)) if !self.found && !finder.needle().is_empty() => {
                return Err(format!("the body does not contain {} {read}", quoted(finder.needle())));
            }
            Some(Rule::Matches(pattern)) if !pattern.is_match(&self.kept) => {
                return Err(format!(
                    "the body does not match {} {read}",
                    quoted(pattern.as_str().as_bytes())
                ));
            }
            Some(Rule::MatchesNot(pattern)) => {
                if let Some(found) = pattern.find(&self.kept) {
                    return Err(format!(
                        "the body matches {} with {} {read}",
                        quoted(pattern.as_str().as_bytes()),
                        quoted(found.as_bytes())
                    ));
                }
            }
            Some(Rule::Contains(_) | Rule::Matches(_)) | None => {}
        }
        match self.hash.take() {
            Some(hash) => hash.finish().map_err(|reason| format!("{reason} {read}")),
            None => Ok(()),
        }
    }

    /// What came, for a reason that ends elsewhere.
    pub(super) fn so_far(&self) -> String {
        format!("read {} bytes of the body: {}", self.read, self.excerpt())
    }

    fn open_with(&mut self, part: &[u8]) {
        // One more than is shown, so that what is cut is seen to be.
        let room = (EXCERPT + 1).saturating_sub(self.opening.len());
        self.opening.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    fn excerpt(&self) -> String {
        quoted(&self.opening)
    }

    /// Searches a part, with as much of the parts before it as a match may begin in.
    fn search(&mut self, finder: &Finder<'_>, part: &[u8]) {
        let overlap = finder.needle().len().saturating_sub(1);
        if finder.find(part).is_some() {
            self.found = true;
            return;
        }
        let joint = self.kept.len();
        self.kept.extend_from_slice(part.get(..overlap).unwrap_or(part));
        if joint > 0 && finder.find(&self.kept).is_some() {
            self.found = true;
            return;
        }
        if part.len() >= overlap {
            self.kept.clear();
            self.kept.extend_from_slice(part.get(part.len() - overlap..).unwrap_or_default());
        } else {
            let surplus = self.kept.len().saturating_sub(overlap);
            self.kept.drain(..surplus);
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
