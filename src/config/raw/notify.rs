//! `[daemon.notify]`: who is told of events.

use std::path::PathBuf;
use std::time::Duration;

use super::keys::{Scope, unknown_key};
use super::{Field, Value, daemon, notify_mail, notify_webhook, script};
use crate::config::context::Context;
use crate::config::value;
use crate::engine::model::{Argv, Mail, Webhook};

/// Less is no time for a program to start in.
const TIMEOUT_MINIMUM: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(in crate::config) struct Notify {
    pub(in crate::config) fifo: Field<PathBuf>,
    pub(in crate::config) script: Field<Argv>,
    pub(in crate::config) script_user: Field<String>,
    pub(in crate::config) script_timeout: Field<Duration>,
    pub(in crate::config) start: Field<Argv>,
    pub(in crate::config) stop: Field<Argv>,
    pub(in crate::config) mail: Field<Mail>,
    pub(in crate::config) webhook: Field<Vec<Webhook>>,
}

impl Notify {
    pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Self {
        let mut notify = Self::default();
        let Some(section) = value::table(cx, value, "write [daemon.notify]") else { return notify };
        for (key, value) in section.entries() {
            match key.name {
                "fifo" => notify.fifo = value.field(cx, daemon::path),
                "script" => notify.script = value.field(cx, value::argv),
                "script_user" => notify.script_user = value.field(cx, script::user),
                "script_timeout" => {
                    notify.script_timeout = value.field(cx, |cx, v| value::duration(cx, v, TIMEOUT_MINIMUM));
                }
                "start" => notify.start = value.field(cx, value::argv),
                "stop" => notify.stop = value.field(cx, value::argv),
                "mail" => notify.mail = value.field(cx, notify_mail::read),
                "webhook" => notify.webhook = value.field(cx, notify_webhook::read),
                _ => unknown_key(cx, Scope::Notify, key),
            }
        }
        notify
    }
}
