//! ldirectord.cf.

use super::Source;
use super::document::Document;
use super::notes::{At, Notes};

pub(super) fn read(source: &Source<'_>, notes: &mut Notes) -> Document {
    let file = notes.add_file(source.shown.clone());
    let comment = notes.not_carried(At { file, line: 1 }, "ldirectord.cf", "this format is not read yet");
    Document { heading: vec![comment], ..Document::default() }
}
