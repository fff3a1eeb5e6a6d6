//! `active_when = { … }`: what must be there for a service to be in the table.

use std::net::IpAddr;

use super::common::interface;
use super::keys::{Scope, unknown_key};
use super::{At, Field, Value, only_one};
use crate::config::context::Context;
use crate::config::diagnostics::{Finding, Place};
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{ActiveWhen, AddressGate, Whose};

const REMEDY: &str = "write active_when = { address_present = true }, { address_present = \"192.0.2.10\" } or { file = \"/run/lvsd/active\" }";

/// `None` inside: "always", against a gate in `[defaults]`.
pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Option<ActiveWhen>> {
    if value.node.is_str() {
        return value::parsed(cx, value, |text| match text {
            "always" => Ok(None),
            other => Err(Wrong::new(format!("{} is no condition", quote(other))).remedy(REMEDY)),
        });
    }
    let section = value::table(cx, value, REMEDY)?;
    let mut interface_name: Field<String> = Field::Unset;
    let mut conditions: Vec<(Place, Field<ActiveWhen>)> = Vec::new();
    let (mut file, mut misspelt) = (None, false);
    for (key, value) in section.entries() {
        match key.name {
            "address_present" => {
                let whose = value.field(cx, |cx, v| {
                    let gate = AddressGate { whose: whose(cx, v)?, interface: None };
                    Some(ActiveWhen::Address(gate))
                });
                conditions.push((key.place, whose));
            }
            "file" => {
                file = Some(key.place);
                let path = value.field(cx, |cx, v| {
                    let path = value::line(cx, v)?;
                    Some(ActiveWhen::File(cx.resolve(&path, v.place)))
                });
                conditions.push((key.place, path));
            }
            "interface" => interface_name = value.field(cx, interface),
            _ => {
                misspelt = true;
                unknown_key(cx, Scope::ActiveWhen, key);
            }
        }
    }
    if conditions.is_empty() {
        // A key that is not known is most likely the one that is missing.
        if !misspelt {
            let finding = Finding::error(value.place, "`active_when` wants a condition");
            cx.push_missing(finding.remedy(REMEDY));
        }
        return None;
    }
    if let (Some(file), Some(place), 1) = (file, interface_name.place(), conditions.len()) {
        let finding = Finding::error(place, "`interface` says where an address must be, not a file");
        cx.push(finding.label(file, "this is the condition").remedy("remove it"));
        return None;
    }
    let condition = only_one(cx, value.place, "`address_present` and `file`", conditions)?;
    Some(Some(match condition {
        ActiveWhen::Address(gate) => {
            ActiveWhen::Address(AddressGate { interface: interface_name.sound()?, ..gate })
        }
        ActiveWhen::File(path) => ActiveWhen::File(path),
    }))
}

fn whose(cx: &mut Context<'_>, value: Value<'_>) -> Option<Whose> {
    if value.node.is_bool() {
        if value::boolean(cx, value)? {
            return Some(Whose::Own);
        }
        let finding = Finding::error(value.place, "an address that must not be there is no condition");
        cx.push(finding.remedy("write true, an address or a list of addresses; or active_when = \"always\""));
        return None;
    }
    if !value.node.is_str() && !value.node.is_array() {
        let remedy = "write true for each service's own address, or \"192.0.2.10\", or a list";
        return value::wrong_type(cx, value, "true, an address or a list of addresses", remedy);
    }
    let addresses: Vec<At<IpAddr>> = value::one_or_more(cx, value, value::ip)?;
    if addresses.is_empty() {
        let finding =
            Finding::error(value.place, "the list of addresses is empty: nothing would ever be active");
        cx.push(finding.remedy("write at least one, or true for each service's own address"));
        return None;
    }
    Some(Whose::AnyOf(addresses.into_iter().map(|at| at.value).collect()))
}
