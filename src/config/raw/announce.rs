//! `announce = { interface = "lvs0" }`.

use super::common::interface;
use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::value;

const REMEDY: &str = "write announce = { interface = \"lvs0\" }, or announce = false for none";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::config) enum Announce {
    On(String),
    /// What `[defaults]` says is not for this virtual server.
    Off,
}

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Announce> {
    if value.node.as_bool() == Some(false) {
        return Some(Announce::Off);
    }
    let section = value::table(cx, value, REMEDY)?;
    let mut name = Field::Unset;
    for (key, value) in section.entries() {
        match key.name {
            "interface" => name = value.field(cx, interface),
            _ => unknown_key(cx, Scope::Announce, key),
        }
    }
    if name.is_unset() {
        let finding = Finding::error(section.place, "`announce` needs an interface");
        cx.push(finding.remedy(REMEDY));
    }
    name.value().map(Announce::On)
}
