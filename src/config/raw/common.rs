//! Options that every check has, and that may stand further out for all checks in there.

use std::net::IpAddr;
use std::time::Duration;

use super::Field;
use crate::config::context::{Context, Key, Value};
use crate::config::text::{Wrong, quote};
use crate::config::value;
use crate::engine::model::{Mode, OnLocalError};

/// The shortest period, deadline or pause: below it a check would only keep the machine busy.
const MINIMUM: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, Default)]
pub(in crate::config) struct CommonOptions {
    pub(in crate::config) delay_loop: Field<Duration>,
    pub(in crate::config) timeout: Field<Duration>,
    pub(in crate::config) retry: Field<u32>,
    pub(in crate::config) delay_before_retry: Field<Duration>,
    pub(in crate::config) rise: Field<u32>,
    pub(in crate::config) warmup: Field<Duration>,
    pub(in crate::config) alpha: Field<bool>,
    pub(in crate::config) connect_ip: Field<IpAddr>,
    pub(in crate::config) connect_port: Field<u16>,
    pub(in crate::config) bind_ip: Field<IpAddr>,
    pub(in crate::config) bind_port: Field<u16>,
    pub(in crate::config) bind_if: Field<String>,
    pub(in crate::config) on_local_error: Field<OnLocalError>,
    pub(in crate::config) mode: Field<Mode>,
}

impl CommonOptions {
    /// `false` if it is no common option.
    pub(super) fn read_key(&mut self, cx: &mut Context<'_>, key: Key<'_>, value: Value<'_>) -> bool {
        let pause = |cx: &mut Context<'_>, v: Value<'_>| value::duration(cx, v, Duration::ZERO);
        let period = |cx: &mut Context<'_>, v: Value<'_>| value::duration(cx, v, MINIMUM);
        match key.name {
            "delay_loop" => self.delay_loop = value.field(cx, period),
            "timeout" => self.timeout = value.field(cx, period),
            "retry" => self.retry = value.field(cx, value::count),
            "delay_before_retry" => self.delay_before_retry = value.field(cx, pause),
            "rise" => self.rise = value.field(cx, value::positive),
            "warmup" => self.warmup = value.field(cx, pause),
            "alpha" => self.alpha = value.field(cx, value::boolean),
            "connect_ip" => self.connect_ip = value.field(cx, value::ip),
            "connect_port" => self.connect_port = value.field(cx, value::port),
            "bind_ip" => self.bind_ip = value.field(cx, value::ip),
            "bind_port" => self.bind_port = value.field(cx, value::port),
            "bind_if" => self.bind_if = value.field(cx, interface),
            "on_local_error" => {
                let words = [("ignore", OnLocalError::Ignore), ("fail", OnLocalError::Fail)];
                self.on_local_error = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            "mode" => {
                let words = [("enforce", Mode::Enforce), ("observe", Mode::Observe)];
                self.mode = value.field(cx, |cx, v| value::word(cx, v, &words));
            }
            _ => return false,
        }
        true
    }

    /// Key by key, the nearest wins.
    #[must_use]
    pub(in crate::config) fn or(&self, outer: &Self) -> Self {
        Self {
            delay_loop: self.delay_loop.or(&outer.delay_loop),
            timeout: self.timeout.or(&outer.timeout),
            retry: self.retry.or(&outer.retry),
            delay_before_retry: self.delay_before_retry.or(&outer.delay_before_retry),
            rise: self.rise.or(&outer.rise),
            warmup: self.warmup.or(&outer.warmup),
            alpha: self.alpha.or(&outer.alpha),
            connect_ip: self.connect_ip.or(&outer.connect_ip),
            connect_port: self.connect_port.or(&outer.connect_port),
            bind_ip: self.bind_ip.or(&outer.bind_ip),
            bind_port: self.bind_port.or(&outer.bind_port),
            bind_if: self.bind_if.or(&outer.bind_if),
            on_local_error: self.on_local_error.or(&outer.on_local_error),
            mode: self.mode.or(&outer.mode),
        }
    }
}

/// The name of a network device, as the kernel allows them.
pub(super) fn interface(cx: &mut Context<'_>, value: Value<'_>) -> Option<String> {
    value::parsed(cx, value, |name| {
        let fits = (1..=15).contains(&name.len())
            && !matches!(name, "." | "..")
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        match fits {
            true => Ok(name.to_owned()),
            false => Err(Wrong::new(format!("{} is not the name of a network device", quote(name)))
                .remedy("write 1 to 15 characters, as `ip link` shows them")),
        }
    })
}
