//! A check: common options and exactly one kind. A new kind is an arm in [`Check::read`] and a
//! file beside this one.

use std::sync::Arc;

use toml::de::DeValue;

use super::keys::{Scope, unknown_key};
use super::{
    At, CommonOptions, Field, Section, Value, dns, file, grpc, http, only_one, ping, script, smtp, tcp, udp,
};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::text::one_of;
use crate::config::value;
use crate::engine::model::CheckKind;

/// The keys that say what is checked, as messages write them.
const KINDS: [&str; 9] =
    ["`tcp`", "`http`", "`dns`", "`smtp`", "`udp`", "`ping`", "`script`", "`file`", "`grpc`"];

#[derive(Clone, Debug)]
pub(in crate::config) struct Check {
    pub(in crate::config) common: CommonOptions,
    /// SO_MARK of its packets; cannot stand further out, where it is a service's mark.
    pub(in crate::config) fwmark: Field<u32>,
    /// `None`: what was wrong with it is reported.
    pub(in crate::config) kind: Option<Arc<CheckKind>>,
}

/// What `check` refers to.
#[derive(Clone, Debug)]
pub(in crate::config) enum CheckRef {
    Named(String),
    Inline(Arc<Check>),
}

impl Check {
    pub(super) fn read(cx: &mut Context<'_>, section: Section<'_>) -> Self {
        let mut common = CommonOptions::default();
        let mut fwmark = Field::Unset;
        let mut kinds = Vec::new();
        // A kind that is not supported is reported as such, not as no kind.
        let mut unsupported = false;
        for (key, value) in section.entries() {
            match key.name {
                "tcp" => kinds.push((key.place, value.field(cx, tcp::read))),
                "http" => kinds.push((key.place, value.field(cx, http::read))),
                "smtp" => kinds.push((key.place, value.field(cx, smtp::read))),
                "grpc" => kinds.push((key.place, value.field(cx, grpc::read))),
                "dns" => kinds.push((key.place, value.field(cx, dns::read))),
                "udp" => kinds.push((key.place, value.field(cx, udp::read))),
                "ping" => kinds.push((key.place, value.field(cx, ping::read))),
                "script" => kinds.push((key.place, value.field(cx, script::read))),
                "file" => kinds.push((key.place, value.field(cx, file::read))),
                "fwmark" => fwmark = value.field(cx, value::count),
                _ if common.read_key(cx, key, value) => {}
                _ => {
                    unsupported |= value.node.is_table();
                    unknown_key(cx, Scope::Check, key);
                }
            }
        }
        let kind = match kinds.is_empty() && unsupported {
            true => None,
            false => only_one(cx, section.place, &one_of(KINDS), kinds),
        };
        Self { common, fwmark, kind: kind.map(|kind| cx.intern(kind)) }
    }
}

/// A name, a table, or a list of either. An empty list is no check, and meant.
pub(super) fn check_list(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<At<CheckRef>>> {
    value::one_or_more(cx, value, |cx, v| match v.node {
        DeValue::String(name) => Some(CheckRef::Named(name.to_string())),
        DeValue::Table(table) => Some(CheckRef::Inline(Arc::new(Check::read(cx, Section::of(table, v))))),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => {
            let remedy = "write check = \"NAME\" of a [check.NAME], or check = { tcp = {} }";
            cx.push(Finding::error(v.place, "`check` wants names or tables").remedy(remedy));
            None
        }
    })
}
