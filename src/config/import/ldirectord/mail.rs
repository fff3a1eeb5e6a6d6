//! `emailalert` and what belongs to it, as `[daemon.notify.mail]`: lvsd has one for all virtual servers.

use super::lines::Directive;
use crate::config::import::document::{Document, Table};
use crate::config::import::notes::Notes;
use crate::config::raw::{endpoint, mailbox};

/// Below a virtual server.
pub(super) const ONCE: &str =
    "mail is set up once for all virtual servers, as [daemon.notify.mail]: name the receivers there";

/// The program `mail` of ldirectord's machine made one of its user.
const SENDER: &str = "root@localhost";
/// Without `smtp` ldirectord gives its mail to the machine's own mail server.
const SERVER: &str = "localhost";

pub(super) fn is_about_mail(key: &str) -> bool {
    matches!(key, "emailalert" | "emailalertfrom" | "emailalertfreq" | "emailalertstatus" | "smtp")
}

/// Those of the file.
pub(super) fn read(directives: &[Directive], document: &mut Document, notes: &mut Notes) {
    let (mut receivers, mut from, mut server) = (None, None, None);
    let mut is_wanted = true;
    for directive in directives {
        let text = directive.unquoted().trim();
        let done = match directive.key.as_str() {
            "emailalert" => self::receivers(text).map(|all| receivers = Some((directive, all))),
            "emailalertfrom" => match mailbox(text) {
                Ok(sender) => {
                    from = Some(sender);
                    Ok(())
                }
                Err(_) => Err("it is no mail address"),
            },
            "smtp" => match endpoint(text) {
                Ok(_) => {
                    server = Some(text.to_owned());
                    Ok(())
                }
                Err(_) => Err("it names no mail server"),
            },
            "emailalertfreq" if directive.number() == Some(0) => Ok(()),
            "emailalertfreq" => {
                Err("lvsd tells of each change once; for reminders let Prometheus watch /metrics")
            }
            "emailalertstatus" => status(text).map(|wanted| is_wanted = wanted),
            _ => Ok(()),
        };
        if let Err(why) = done {
            document.heading.push(notes.not_carried(directive.at, &directive.key, why));
        }
    }
    let Some((directive, to)) = receivers else {
        let why = "there is no emailalert, without which there is no mail";
        let idle = directives.iter().filter(|one| matches!(one.key.as_str(), "emailalertfrom" | "smtp"));
        idle.for_each(|one| notes.remark(one.at, &one.key, why));
        return;
    };
    if !is_wanted {
        notes.remark(directive.at, "emailalert", "emailalertstatus turns it off");
        return;
    }
    let mut mail = Table::default();
    if server.is_none() {
        let why = "without `smtp` ldirectord gives its mail to this machine's mail server: lvsd wants one to listen";
        notes.remark(directive.at, "emailalert", why);
        mail.comment(why);
    }
    mail.set("server", server.as_deref().unwrap_or(SERVER));
    if from.is_none() {
        let why = "without `emailalertfrom` the mail server makes the sender: write your own";
        notes.remark(directive.at, "emailalert", why);
        mail.comment(why);
    }
    mail.set("from", from.as_deref().unwrap_or(SENDER));
    mail.set("to", to);
    // ldirectord knows no quorum.
    mail.set("events", vec!["real_server_up", "real_server_down"]);
    let mut notify = Table::default();
    notify.set("mail", mail);
    document.daemon.set("notify", notify);
}

fn receivers(text: &str) -> Result<Vec<String>, &'static str> {
    let all: Result<Vec<String>, _> = text.split(',').map(|one| mailbox(one.trim())).collect();
    all.map_err(|_| "not all of it are mail addresses")
}

/// Whether servers that change while the daemon runs are told of.
fn status(text: &str) -> Result<bool, &'static str> {
    let mut words = text.split(',').map(str::trim);
    if words.clone().any(|word| matches!(word, "all" | "running")) {
        return Ok(true);
    }
    if words.clone().all(|word| word == "none") {
        return Ok(false);
    }
    if words.all(|word| matches!(word, "none" | "starting" | "stopping" | "reloading")) {
        return Err("lvsd does not tell starting, stopping and reloading apart: all changes are told of");
    }
    Err("it is none of all, none, starting, running, stopping and reloading")
}
