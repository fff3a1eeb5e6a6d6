//! The text of a file, cut before its virtual servers, so that few of them are a tree of values at one time.
//!
//! Cuts at lines and knows no TOML: a line that looks like a header may stand in a text over several lines. A
//! cut is right if what is before it is TOML by itself: an open text or list is not. So whoever parses every
//! piece knows, and takes the file as a whole if one of them is not TOML, or not what its header says.

use std::borrow::Cow;

use memchr::memmem;
use toml::de::DeTable;

use super::context::Origin;

const HEADER: &str = "[[virtual_server]]";

/// What belongs to the virtual server before it.
const BELOW: [&str; 2] = ["[virtual_server.", "[[virtual_server."];

#[derive(Debug)]
pub(super) struct Pieces<'a> {
    /// Everything else, in one.
    rest: Cow<'a, str>,
    /// Where each part of that begins in it, and where in the file.
    parts: Vec<(usize, usize)>,
    /// Each with its place.
    virtual_servers: Vec<(usize, &'a str)>,
}

impl<'a> Pieces<'a> {
    pub(super) fn cut(text: &'a str) -> Self {
        let mut pieces = Self { rest: Cow::Borrowed(""), parts: Vec::new(), virtual_servers: Vec::new() };
        let (mut start, mut is_virtual_server) = (0, false);
        let lines = memmem::find_iter(text.as_bytes(), "\n[").map(|at| at + 1);
        let first = text.starts_with('[').then_some(0);
        for at in first.into_iter().chain(lines) {
            let line = text.get(at..).unwrap_or_default();
            if BELOW.iter().any(|below| line.starts_with(below)) {
                continue;
            }
            let begins = line.starts_with(HEADER);
            if begins || is_virtual_server {
                pieces.push(text, start..at, is_virtual_server);
                (start, is_virtual_server) = (at, begins);
            }
        }
        pieces.push(text, start..text.len(), is_virtual_server);
        pieces
    }

    fn push(&mut self, text: &'a str, range: std::ops::Range<usize>, is_virtual_server: bool) {
        let start = range.start;
        let Some(piece) = text.get(range).filter(|piece| !piece.is_empty()) else { return };
        if is_virtual_server {
            self.virtual_servers.push((start, piece));
            return;
        }
        self.parts.push((self.rest.len(), start));
        // Copies nothing as long as there is one.
        self.rest += piece;
    }

    /// `None`: some of it is not TOML, or has virtual servers all the same.
    pub(super) fn parse_rest(&self) -> Option<DeTable<'_>> {
        // What is left open by one part could be closed by the next.
        if self.parts.len() > 1 && !self.parts().all(|part| DeTable::parse(part).is_ok()) {
            return None;
        }
        let table = DeTable::parse(&self.rest).ok()?.into_inner();
        (!table.contains_key("virtual_server")).then_some(table)
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        let ends = self.parts.iter().skip(1).map(|(begin, _)| *begin).chain([self.rest.len()]);
        self.parts.iter().zip(ends).map(|((begin, _), end)| self.rest.get(*begin..end).unwrap_or_default())
    }

    pub(super) fn rest(&self) -> &str {
        &self.rest
    }

    pub(super) fn origin_of_rest(&self) -> Origin<'_> {
        Origin::Parts(&self.parts)
    }

    pub(super) fn virtual_servers(&self) -> impl Iterator<Item = (usize, &'a str)> {
        self.virtual_servers.iter().copied()
    }
}

/// `None`: it is not TOML, or has something else beside.
pub(super) fn parse_virtual_server(text: &str) -> Option<DeTable<'_>> {
    let table = DeTable::parse(text).ok()?.into_inner();
    (table.len() == 1 && table.contains_key("virtual_server")).then_some(table)
}

#[cfg(test)]
mod tests;
