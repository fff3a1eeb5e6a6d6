//! `script = { argv = […] }`.

use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{CheckKind, Script};

const REMEDY: &str = "write script = { argv = [\"/path/to/program\", \"argument\"] }";

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, REMEDY)?;
    let (mut argv, mut user, mut dynamic_weight) = (Field::Unset, Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "argv" => argv = value.field(cx, value::argv),
            "user" => user = value.field(cx, self::user),
            "dynamic_weight" => dynamic_weight = value.field(cx, value::boolean),
            _ => unknown_key(cx, Scope::Script, key),
        }
    }
    if argv.is_unset() {
        cx.push_missing(Finding::error(value.place, "`script` wants `argv`").remedy(REMEDY));
    }
    Some(CheckKind::Script(Script {
        argv: argv.sound()??,
        user: user.sound()?,
        dynamic_weight: dynamic_weight.sound()?.unwrap_or(false),
    }))
}

/// Whether there is such a user shows when the script runs: the file may be for another machine.
pub(super) fn user(cx: &mut Context<'_>, value: Value<'_>) -> Option<String> {
    value::parsed(cx, value, |name| {
        let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, ':' | '/');
        match !name.is_empty() && name.len() <= 256 && name.chars().all(is_plain) {
            true => Ok(name.to_owned()),
            false => Err(Wrong::new(format!("{} is not the name of a user", quote(name)))
                .remedy("write the name alone, as in \"nobody\"")),
        }
    })
}
