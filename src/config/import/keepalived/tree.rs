//! Lines to statements with their blocks. Knows no keyword: what a block means, and whether there should be
//! one, is for who reads the statement.

use super::lines::{Line, Lines};
use super::words;
use crate::config::import::notes::{At, Notes};

/// keepalived's own blocks are at most five deep.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    pub(super) at: At,
    /// Without the block.
    pub(super) text: String,
    pub(super) block: Option<Vec<Statement>>,
}

impl Statement {
    pub(super) fn words(&self) -> Vec<String> {
        words::split(&self.text).0
    }

    /// The first word.
    pub(super) fn keyword(&self) -> &str {
        let end = self.text.find(|c: char| words::blank(c) || c == '"').unwrap_or(self.text.len());
        self.text.get(..end).unwrap_or_default()
    }

    /// The word after the keyword.
    pub(super) fn value(&self) -> Option<String> {
        self.words().into_iter().nth(1)
    }

    pub(super) fn inner(&self) -> &[Statement] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// All statements of the outermost level.
pub(super) fn read(mut lines: Lines<'_>) -> Vec<Statement> {
    let mut outer: Vec<Vec<Statement>> = Vec::new();
    let mut level: Vec<Statement> = Vec::new();
    // The statement just read can still get a block.
    let mut fresh = false;
    while let Some(Line { at, text }) = lines.next_line() {
        match text.as_str() {
            "{" => {
                if !fresh {
                    lines.notes.not_carried(at, "{", "it opens no block, and what is in it is left out");
                    level.push(Statement { at, text: "{".to_owned(), block: None });
                }
                if outer.len() >= MAX_DEPTH {
                    lines.notes.not_carried(
                        at,
                        "{",
                        "blocks in blocks, too deep; nothing after this is read",
                    );
                    break;
                }
                outer.push(std::mem::take(&mut level));
                fresh = false;
            }
            "}" => {
                match outer.pop() {
                    Some(around) => close(&mut level, around),
                    None => lines.notes.remark(at, "}", "it closes no block, and is ignored"),
                }
                fresh = false;
            }
            _ => {
                if !words::split(&text).1 {
                    lines.notes.remark(at, "\"", "a quote is not closed: keepalived drops what is after it");
                }
                level.push(Statement { at, text, block: None });
                fresh = true;
            }
        }
    }
    // As keepalived, the end of the file closes what is open.
    if let Some(at) = outer.last().and_then(|around| around.last()).map(|statement| statement.at) {
        lines.notes.remark(at, "{", "this block is not closed");
    }
    while let Some(around) = outer.pop() {
        close(&mut level, around);
    }
    level
}

/// `level` becomes the block of the last statement around it.
fn close(level: &mut Vec<Statement>, mut around: Vec<Statement>) {
    let block = std::mem::take(level);
    if let Some(statement) = around.last_mut() {
        statement.block = Some(block);
    }
    // A brace of its own stands for nothing.
    if around.last().is_some_and(|statement| statement.text == "{") {
        around.pop();
    }
    *level = around;
}

/// A statement that nobody asked for, with the reason that fits most.
pub(super) fn unknown(notes: &mut Notes, statement: &Statement, place: &str) {
    let block = if statement.block.is_some() { ", nor what is in its block" } else { "" };
    notes.remark(
        statement.at,
        statement.keyword(),
        format!("keepalived knows no such keyword in {place}, and ignores it{block}"),
    );
}
