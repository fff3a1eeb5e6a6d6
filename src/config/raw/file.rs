//! `file = { path = "…" }`.

use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::Context;
use crate::config::defaults;
use crate::config::diagnostics::Finding;
use crate::config::value;
use crate::engine::model::{CheckKind, TrackedFile};

const REMEDY: &str = "write file = { path = \"/path/to/file\" }";

pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<CheckKind> {
    let section = value::table(cx, value, REMEDY)?;
    let (mut path, mut weight, mut reverse) = (Field::Unset, Field::Unset, Field::Unset);
    for (key, value) in section.entries() {
        match key.name {
            "path" => {
                path = value.field(cx, |cx, v| value::line(cx, v).map(|path| cx.resolve(&path, v.place)))
            }
            // keepalived's range: -2147483648 is how a file says fault.
            "weight" => {
                weight = value.field(cx, |cx, v| value::integer(cx, v, -2_147_483_647..=2_147_483_647))
            }
            "reverse" => reverse = value.field(cx, value::boolean),
            _ => unknown_key(cx, Scope::File, key),
        }
    }
    if path.is_unset() {
        cx.push_missing(Finding::error(value.place, "`file` wants `path`").remedy(REMEDY));
    }
    Some(CheckKind::File(TrackedFile {
        path: path.sound()??,
        weight: weight.sound()?.unwrap_or(defaults::FILE_WEIGHT),
        reverse: reverse.sound()?.unwrap_or(false),
    }))
}
