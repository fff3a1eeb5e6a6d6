//! keepalived.conf.

use super::Source;
use super::document::Document;
use super::notes::Notes;

pub(super) fn read(source: &Source<'_>, notes: &mut Notes) -> Document {
    let _ = notes.add_file(source.shown.clone());
    let _ = (source.path, source.text, source.options, source.reader);
    Document::default()
}
