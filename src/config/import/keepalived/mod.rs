//! keepalived.conf: what its health checking would do, as a document. Where lvsd does it otherwise, a comment
//! or a note says so.
//!
//! `lines` are what keepalived's parser sees, `tree` their blocks; `virtual_server`, `real_server` and `checker` read them as
//! keepalived does, in their order; `emit` and `checks` say the same in lvsd's words.

mod checker;
mod checks;
mod definitions;
mod emit;
mod globals;
mod group;
mod http;
mod include;
mod lines;
mod mail;
mod merging;
mod model;
mod pattern;
mod reading;
mod real_server;
mod scheduling;
mod scripts;
mod sequence;
mod services;
#[cfg(test)]
mod tests;
mod tracking;
mod tree;
mod virtual_server;
mod words;

use std::collections::BTreeSet;
use std::path::Path;

use self::emit::Emitting;
use self::globals::Globals;
use self::group::Groups;
pub(super) use self::include::WORDS as INCLUDES;
use self::model::{CheckerKind, VirtualServer};
use self::reading::Reading;
use self::services::Taken;
use self::tracking::{Certificates, Files};
use self::words::shown;
use super::Source;
use super::document::{Document, Table};
use super::notes::{At, Notes};
use crate::config::pem::{Pem, PemReader};

pub(super) fn read(source: &Source<'_>, notes: &mut Notes) -> Document {
    let config_id = source.options.config_id.as_deref();
    let lines =
        lines::Lines::new(source.path, source.shown.clone(), source.text, config_id, source.reader, notes);
    let statements = tree::read(lines);
    let reading = &mut Reading { notes };
    let mut groups = Groups::default();
    // A group can stand below those who use it.
    for statement in statements.iter().filter(|statement| statement.keyword() == "virtual_server_group") {
        groups.read(reading, statement);
    }
    let (mut globals, mut files) = (Globals::default(), Files::default());
    let mut certificates = None;
    let mut servers = Vec::new();
    for statement in &statements {
        match statement.keyword() {
            "virtual_server_group" => {}
            "virtual_server" => servers.extend(virtual_server::read(reading, &files, statement)),
            "global_defs" => globals.read(reading, statement),
            "track_file" | "vrrp_track_file" => files.read(reading, statement),
            "SSL" => {
                let (at, all) = certificates.get_or_insert((statement.at, Certificates::default()));
                *at = statement.at;
                all.read(reading, statement);
            }
            _ if globals::outermost(reading, statement) => {}
            _ => tree::unknown(reading.notes, statement, "the outermost level"),
        }
    }
    let servers = merging::merge(reading, servers);
    let certificates = usable(reading, source, certificates);
    document(reading, source, &mut globals, &groups, &certificates, &servers)
}

fn document(
    reading: &mut Reading<'_>,
    source: &Source<'_>,
    globals: &mut Globals,
    groups: &Groups,
    certificates: &Certificates,
    servers: &[VirtualServer],
) -> Document {
    let script_user = scripts::common_user(globals, servers);
    let mut notify = Table::default();
    notify.set_if("script_user", script_user.clone());
    if let (Some(user), Some(at)) = (&script_user, globals.script_user_at) {
        let why = format!(
            "{}: the service of the package is no root and cannot become another user, so that no notification would \
             be sent; leave script_user out, or see `lvsd doctor`",
            shown(user)
        );
        reading.notes.remark(at, "script_user", why);
    }
    notify.extend(&globals.notify);
    for command in &globals.scripts {
        scripts::other_user(reading, &mut globals.lost, script_user.as_deref(), command);
    }
    let told = globals.mail.told(reading, servers);
    notify.set_if("mail", told.table.clone());
    let globals = &*globals;
    let mut emitting = Emitting {
        globals,
        groups,
        certificates,
        taken: Taken::default(),
        names: BTreeSet::new(),
        told,
        script_user: script_user.as_deref(),
        mixes_families: false,
    };
    let mut document = Document { heading: heading(source, servers), ..Document::default() };
    for vs in servers {
        document.virtual_servers.extend(emit::virtual_server(reading, &mut emitting, vs));
    }
    if let Some(name) = &globals.name {
        document.daemon.set("name", name.as_str());
    }
    globals.lost.iter().for_each(|line| document.daemon.comment(line.as_str()));
    if !globals.timeouts.is_empty() {
        document.daemon.set("timeouts", globals.timeouts.clone());
    }
    if !notify.is_empty() {
        document.daemon.set("notify", notify);
    }
    match &globals.sync {
        Some((at, _)) if emitting.mixes_families => {
            let why = "the kernel's sync daemon excludes tunnels from one family to the other";
            let comment = reading.notes.not_carried(*at, "lvs_sync_daemon", why);
            document.daemon.comment(comment);
        }
        Some((_, sync)) => document.daemon.set("sync", sync.clone()),
        None => {}
    }
    document
}

/// What differs by design, as far as this file has it.
fn heading(source: &Source<'_>, servers: &[VirtualServer]) -> Vec<String> {
    let checkers = || servers.iter().flat_map(|vs| &vs.servers).flat_map(|rs| &rs.checkers);
    let has = |wanted: fn(&CheckerKind) -> bool| checkers().any(|checker| wanted(&checker.kind));
    let mut lines = vec![
        format!("Made by `lvsd import` from {}. What lvsd does otherwise, and means to:", source.shown),
        "- `timeout` is one deadline for a whole check; keepalived's connect_timeout is for each of its steps.".to_owned(),
        "- `delay_loop` is from start to start; keepalived's is from the end of a check to the start of the next.".to_owned(),
        "- `warmup` spreads the first checks over the delay_loop, as keepalived does; a shorter one finds dead servers sooner.".to_owned(),
    ];
    if has(|kind| matches!(kind, CheckerKind::Http(_))) {
        lines.push("- A reply of more than 1 MiB fails an http check: see `max_body`.".to_owned());
    }
    if has(|kind| matches!(kind, CheckerKind::Udp(_))) {
        lines.push(
            "- A udp check that wants no reply pings the host first; keepalived takes silence for health."
                .to_owned(),
        );
    }
    if has(|kind| matches!(kind, CheckerKind::Udp(options) if options.value("payload").is_none())) {
        lines.push(
            "- A udp check without `payload` sends an empty datagram; keepalived sends 32 bytes of its own."
                .to_owned(),
        );
    }
    if servers.iter().any(|vs| vs.ha_suspend.is_some()) {
        lines.push("- While the address of `active_when` is elsewhere a service is not in the table, and its checks go on; keepalived leaves the table and stops the checks.".to_owned());
    }
    if has(|kind| matches!(kind, CheckerKind::Smtp(_))) {
        lines.push("- The first result after the start decides at once; keepalived gives a new smtp check all its tries.".to_owned());
    }
    if has(|kind| matches!(kind, CheckerKind::Misc { .. })) {
        lines.push("- A script that cannot run is a failure, and so are exit status 126 and 127; keepalived takes them for success.".to_owned());
        lines.push(
            "- Without `user` a script runs as lvsd's own user; keepalived takes keepalived_script, or root."
                .to_owned(),
        );
    }
    lines
}

/// What lvsd can load: it looks at these files before it takes a configuration.
fn usable(
    reading: &mut Reading<'_>,
    source: &Source<'_>,
    certificates: Option<(At, Certificates)>,
) -> Certificates {
    let Some((at, mut certificates)) = certificates else { return Certificates::default() };
    let read = |path: &Path| Ok(source.reader.read(path)?);
    let mut pem = PemReader::new(&read);
    let mut problem = |path: &Option<String>, wanted: Pem, what: &str| {
        let Some(path) = path else { return Some(format!("there is no {what}")) };
        if !path.starts_with('/') {
            return Some(format!("{path} is no full path"));
        }
        pem.check(Path::new(path), wanted).err().map(|why| format!("{path}: {}", why.why))
    };
    let certificate = problem(&certificates.certificate, Pem::Certificates, "certificate");
    let key = problem(&certificates.key, Pem::Key, "key");
    if let Some(why) = certificate.or(key) {
        if certificates.certificate.is_some() || certificates.key.is_some() {
            let why = format!("lvsd needs the client's certificate and key here and now: {why}");
            reading.notes.not_carried(at, "SSL", why);
        }
        (certificates.certificate, certificates.key) = (None, None);
    }
    if certificates.ca.is_some() {
        reading.notes.remark(
            at,
            "ca",
            "keepalived reads it and verifies nothing; see the comments at the checks",
        );
    }
    certificates
}
