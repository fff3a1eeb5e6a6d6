//! The mirror of the files: every key read into its type, with its place, before any default.
//!
//! Each table has one function that matches on its keys. What is wrong with one value is
//! reported here; what is wrong between values is for [`super::lower`].

mod access;
mod active_when;
mod announce;
mod check;
mod common;
mod daemon;
mod dns;
mod down_rate;
mod file;
mod forwarding;
mod grpc;
mod headers;
mod http;
pub(super) mod keys;
mod notify;
mod notify_mail;
mod notify_webhook;
mod ping;
mod script;
mod self_test;
mod smtp;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;
mod udp;
mod virtual_server;

use std::collections::BTreeMap;

pub(super) use announce::Announce;
pub(super) use check::{Check, CheckRef};
pub(super) use common::CommonOptions;
pub(super) use daemon::{Daemon, Sync, log as log_filter};
pub(super) use forwarding::{ForwardingOptions, LbKind, TunnelKind, TunnelOptions};
pub(super) use keys::{is_key, is_root_key};
pub(super) use notify_mail::{endpoint, mailbox};
pub(super) use self_test::SelfTest;
pub(super) use virtual_server::{Netmask, PoolOptions, RealServer, SorryServer, VirtualServer};

use super::context::{At, Context, Field, Section, Value};
use super::diagnostics::{Finding, Place};
use super::text::quote;
use super::value;
use keys::{Scope, unknown_key};

/// All files as they are.
#[derive(Default)]
pub(super) struct Root<'a> {
    pub(super) daemon: Daemon,
    pub(super) defaults: Defaults,
    /// By name; the key's place is where the check is defined.
    pub(super) checks: BTreeMap<&'a str, At<Check>>,
    pub(super) virtual_servers: Vec<VirtualServer<'a>>,
}

/// `[defaults]`
#[derive(Default)]
pub(super) struct Defaults {
    pub(super) pool: PoolOptions,
    pub(super) common: CommonOptions,
}

impl<'a> Root<'a> {
    /// One file after the other; file 0 is the main one.
    pub(super) fn read_file(&mut self, cx: &mut Context<'_>, section: Section<'a>) {
        let is_main = section.place.file == 0;
        for (key, value) in section.entries() {
            match key.name {
                "include" if is_main => include(cx, value),
                "daemon" if is_main => self.daemon = Daemon::read(cx, value),
                "defaults" if is_main => self.defaults = Defaults::read(cx, value),
                "include" | "daemon" | "defaults" => {
                    let message = format!("`{}` can only stand in the main file", key.name);
                    let remedy = "move it to the file that includes this one";
                    cx.push(Finding::error(key.place, message).remedy(remedy));
                }
                "check" => self.read_checks(cx, value),
                "virtual_server" => self.read_virtual_servers(cx, value),
                _ => unknown_key(cx, Scope::Root, key),
            }
        }
    }

    /// Lowering reads the real servers one by one; where it does not come to that, this does.
    pub(super) fn read_real_servers(&self, cx: &mut Context<'_>) {
        for vs in &self.virtual_servers {
            for section in vs.real_servers.get().map_or(&[][..], |list| &list.value) {
                let _judged = RealServer::read(cx, *section);
            }
        }
    }

    fn read_checks(&mut self, cx: &mut Context<'_>, value: Value<'a>) {
        let Some(section) = value::table(cx, value, "write [check.NAME]") else { return };
        for (name, value) in section.entries() {
            let Some(check) = value::table(cx, value, "write [check.NAME]") else { continue };
            let check = Check::read(cx, check);
            if let Some(first) = self.checks.get(name.name) {
                let message = format!("there are two checks named {}", quote(name.name));
                let finding = Finding::error(name.place, message).label(first.place, "first here");
                cx.push(finding.remedy("give one of them another name"));
                continue;
            }
            self.checks.insert(name.name, At { value: check, place: name.place });
        }
    }

    fn read_virtual_servers(&mut self, cx: &mut Context<'_>, value: Value<'a>) {
        for section in tables(cx, value, "write [[virtual_server]]").unwrap_or_default() {
            let virtual_server = VirtualServer::read(cx, section);
            self.virtual_servers.push(virtual_server);
        }
    }
}

impl Defaults {
    fn read(cx: &mut Context<'_>, value: Value<'_>) -> Self {
        let mut defaults = Self::default();
        let Some(section) = value::table(cx, value, "write [defaults]") else { return defaults };
        for (key, value) in section.entries() {
            if !defaults.pool.read_key(cx, key, value) && !defaults.common.read_key(cx, key, value) {
                unknown_key(cx, Scope::Defaults, key);
            }
        }
        defaults
    }
}

/// What it names was read by [`super::Sources::read`]; here only its form is judged.
fn include(cx: &mut Context<'_>, value: Value<'_>) {
    let _patterns: Option<Vec<At<&str>>> = value::one_or_more(cx, value, value::string);
}

/// An array of tables.
fn tables<'a>(cx: &mut Context<'_>, value: Value<'a>, remedy: &str) -> Option<Vec<Section<'a>>> {
    if !value.node.is_array() {
        return value::wrong_type(cx, value, "tables", remedy);
    }
    // The good ones are read also beside a wrong one.
    let sections = value::list(cx, value, |cx, element| Some(value::table(cx, element, remedy)))?;
    Some(sections.into_iter().filter_map(|section| section.value).collect())
}

/// Exactly one key of a table that means one of several things.
fn only_one<T>(cx: &mut Context<'_>, place: Place, what: &str, found: Vec<(Place, Field<T>)>) -> Option<T> {
    if let [(first, _), (second, _), ..] = found.as_slice() {
        let finding = Finding::error(*second, format!("only one of {what} is possible"));
        cx.push(finding.label(*first, "the other one").remedy("keep one of them"));
        return None;
    }
    match found.into_iter().next() {
        Some((_, Field::Set(at))) => Some(at.value),
        Some((_, Field::Broken | Field::Unset)) => None,
        None => {
            let finding = Finding::error(place, format!("{what} is missing here"));
            cx.push_missing(finding.remedy("write one of them"));
            None
        }
    }
}
