//! The settings of ldirectord.cf: those that may stand on top and below a virtual server, and
//! those of the top alone.

use std::time::Duration;

use super::lines::{Directive, Lines};
use super::mail;
use crate::config::import::document::Document;
use crate::config::import::notes::Notes;

/// lvsd's longest period is little more.
const YEAR: u64 = 365 * 86_400;

const REFUSED: &str = "ldirectord refuses this line, too";

/// Of a virtual server, else of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Knobs {
    pub(super) checktimeout: Option<u64>,
    pub(super) negotiatetimeout: Option<u64>,
    pub(super) checkinterval: Option<u64>,
    pub(super) checkcount: Option<u64>,
    pub(super) failurecount: Option<u64>,
    pub(super) quiescent: Option<bool>,
    pub(super) cleanstop: Option<bool>,
    pub(super) fallbackcommand: Option<Directive>,
}

/// What a virtual server has to know of the rest of the file.
#[derive(Debug, Default)]
pub(super) struct Global {
    pub(super) knobs: Knobs,
    pub(super) fallback: Option<Directive>,
    pub(super) fallback6: Option<Directive>,
    pub(super) maintenance: Option<Directive>,
    pub(super) forks: bool,
}

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count.clamp(1, YEAR))
}

impl Knobs {
    /// `Some` if it is one of these; `Some(Err)` says what is wrong with it.
    pub(super) fn read(&mut self, directive: &Directive) -> Option<Result<(), &'static str>> {
        let number = || directive.number().filter(|number| *number > 0);
        let (slot, found) = match directive.key.as_str() {
            "checktimeout" => (&mut self.checktimeout, number()),
            "negotiatetimeout" => (&mut self.negotiatetimeout, number()),
            "checkinterval" => (&mut self.checkinterval, number()),
            "checkcount" => (&mut self.checkcount, number()),
            "failurecount" => (&mut self.failurecount, number()),
            "quiescent" | "cleanstop" => {
                let Some(found) = directive.yes_or_no() else {
                    return Some(Err("neither \"yes\" nor \"no\""));
                };
                let slot =
                    if directive.key == "quiescent" { &mut self.quiescent } else { &mut self.cleanstop };
                *slot = Some(found);
                return Some(Ok(()));
            }
            "fallbackcommand" => {
                self.fallbackcommand = Some(directive.clone());
                return Some(Ok(()));
            }
            _ => return None,
        };
        if found.is_none() {
            return Some(Err("not a number above 0"));
        }
        *slot = found;
        Some(Ok(()))
    }

    pub(super) fn interval(&self) -> u64 {
        self.checkinterval.unwrap_or(10).clamp(1, YEAR)
    }

    /// In a row, until a server is down.
    pub(super) fn failures(&self) -> u32 {
        self.failurecount.map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX).max(1))
    }

    /// Each of the two time-outs stands in for the other where that is not set.
    pub(super) fn check_timeout(&self, outer: &Self) -> Duration {
        let own = self.checktimeout.or(self.negotiatetimeout);
        seconds(own.or(outer.checktimeout).or(outer.negotiatetimeout).unwrap_or(5))
    }

    pub(super) fn negotiate_timeout(&self, outer: &Self) -> Duration {
        let own = self.negotiatetimeout.or(self.checktimeout);
        seconds(own.or(outer.negotiatetimeout).or(outer.checktimeout).unwrap_or(30))
    }
}

impl Global {
    pub(super) fn read(directives: &[Directive], document: &mut Document, notes: &mut Notes) -> Self {
        let mut global = Self::default();
        for directive in directives {
            if let Some(comment) = global.directive(directive, notes)
                && document.heading.len() < super::pool::MOST_COMMENTS
            {
                document.heading.push(comment);
            }
        }
        if global.knobs.quiescent.is_none() {
            let text = "`quiescent` is not set: ldirectord's manual says that it is \"yes\" then, the program takes \"no\". So does this file: failed servers leave the table.";
            document.heading.push(text.to_owned());
        }
        global
    }

    /// A comment for the top of the result.
    fn directive(&mut self, directive: &Directive, notes: &mut Notes) -> Option<String> {
        if let Some(read) = self.knobs.read(directive) {
            let why = read.err()?;
            return Some(notes.not_carried(directive.at, &directive.key, why));
        }
        let why = match directive.key.as_str() {
            "fallback" => {
                self.fallback = Some(directive.clone());
                return None;
            }
            "fallback6" => {
                self.fallback6 = Some(directive.clone());
                return None;
            }
            "maintenancedir" if !directive.unquoted().starts_with('/') => "it is no full path",
            "maintenancedir" => {
                self.maintenance = Some(directive.clone());
                let why = "a program looks for the files of each server's address, with and without its port; host names are not looked up. `lvsd disable ADDRESS` does it without files";
                notes.remark(directive.at, "maintenancedir", why);
                return None;
            }
            "fork" => {
                self.forks = directive.yes_or_no() == Some(true);
                notes.remark(directive.at, "fork", "lvsd runs all checks side by side anyway");
                return None;
            }
            "supervised" => {
                notes.remark(
                    directive.at,
                    "supervised",
                    "lvsd always runs in the foreground, under systemd or any other supervisor",
                );
                return None;
            }
            "readdquiescent" => {
                notes.remark(
                    directive.at,
                    "readdquiescent",
                    "lvsd puts back what somebody takes out of the table; drift = \"warn\" only says so",
                );
                return None;
            }
            "autoreload" if directive.yes_or_no() == Some(false) => return None,
            "autoreload" => {
                "lvsd reads its file again when it is told to: `systemctl reload lvsd`, which also says what is wrong with it"
            }
            "callback" => "lvsd does not watch its file; copy it in the program that reloads lvsd",
            "execute" => "one lvsd does it all: import that file as well, and name the result in `include`",
            "logfile" => "lvsd logs to journald, or to its standard error",
            key if mail::is_about_mail(key) => return None,
            "timeout" | "connecttimeout" => {
                "ldirectord refuses it as well: it became checktimeout and negotiatetimeout"
            }
            _ => REFUSED,
        };
        Some(notes.not_carried(directive.at, &directive.key, why))
    }
}

/// `cleanstop`: of the daemon as a whole for lvsd.
pub(super) fn stop(lines: &Lines, global: &Global, document: &mut Document, notes: &mut Notes) {
    let of = |directive: &Directive| (directive.key == "cleanstop").then(|| directive.yes_or_no()).flatten();
    let outer = global.knobs.cleanstop.unwrap_or(true);
    let each = lines.virtuals.iter().map(|vs| vs.directives.iter().rev().find_map(of).unwrap_or(outer));
    let each: Vec<bool> = each.collect();
    let clean = each.first().copied().unwrap_or(outer);
    if !clean && each.iter().all(|one| !one) {
        document.daemon.set("on_stop", "keep");
        return;
    }
    if each.iter().any(|one| *one != clean) {
        let written = lines.virtuals.iter().flat_map(|vs| &vs.directives).find(|one| one.key == "cleanstop");
        if let Some(directive) = written {
            let why = "lvsd leaves or withdraws all of its services when it stops; here it withdraws them. For the others write on_stop = \"keep\" below [daemon], or run a second lvsd";
            document.heading.push(notes.not_carried(directive.at, "cleanstop", why));
        }
    }
}
