//! ldirectord.cf: its lines (`lines`), what they say (`settings`, `servers`), and the checks that
//! ldirectord makes of it (`checks`, `services`, `bytes`) as lvsd's.

mod address;
mod bytes;
mod checks;
mod kernel;
mod lines;
mod mail;
mod pool;
mod servers;
mod services;
mod settings;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use super::Source;
use super::document::Document;
use super::notes::Notes;
use settings::Global;

/// What ldirectord does without being told, and lvsd does not.
const HEADING: [&str; 3] = [
    "From ldirectord.cf. Where ldirectord's defaults are not lvsd's, they are written out: a server is down until its",
    "first good check (alpha), one failure is enough (retry = 0), the scheduler is wrr.",
    "lvsd also looks at its configuration only when it is told to: systemctl reload lvsd.",
];

pub(super) fn read(source: &Source<'_>, notes: &mut Notes) -> Document {
    let file = notes.add_file(source.shown.clone());
    let lines = lines::read(source.text, file, notes);
    let mut document = Document { heading: HEADING.map(str::to_owned).to_vec(), ..Document::default() };
    let global = Global::read(&lines.globals, &mut document, notes);
    document.defaults.set("alpha", true);
    document.defaults.set("delay_loop", settings::seconds(global.knobs.interval()));
    document.defaults.set("delay_before_retry", settings::seconds(global.knobs.interval()));
    document.defaults.set("retry", global.knobs.failures() - 1);
    let mut taken = pool::Taken::default();
    let mut names = BTreeSet::new();
    for written in &lines.virtuals {
        match pool::read(written, &global, &mut taken, &mut names, notes) {
            Ok(vs) => document.virtual_servers.push(vs),
            Err(comment) if document.closing.len() < pool::MOST_COMMENTS => document.closing.push(comment),
            Err(_) => {}
        }
    }
    mail::read(&lines.globals, &mut document, notes);
    settings::stop(&lines, &global, &mut document, notes);
    document
}
