//! The book in `docs/`: what it shows is taken by lvsd, what is made from the program is up to date, and
//! its links lead somewhere. What it has typed on a director is typed by `tests/systemd`.

#![cfg(test)]

mod book;
mod documents;
mod examples;
mod generated;
mod links;
mod log;
mod shell;
mod threats;

use std::path::Path;

use book::Page;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<Page> {
    let pages = book::pages(root());
    assert!(pages.len() > 20, "{} pages", pages.len());
    pages
}
