//! `[daemon.self_test]`

use std::net::SocketAddr;
use std::time::Duration;

use toml::de::DeValue;

use super::keys::{Scope, unknown_key};
use super::{Field, Value};
use crate::config::context::{At, Context};
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::value;

/// The loop turns once in a second: less would be chance.
const LATENESS_MINIMUM: Duration = Duration::from_secs(1);

/// More often than this the canaries would be a load for each other.
const INTERVAL_MINIMUM: Duration = Duration::from_millis(100);

const TIMEOUT_MINIMUM: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(in crate::config) struct SelfTest {
    /// `None`: off.
    pub(in crate::config) max_lateness: Field<Option<Duration>>,
    /// Percent; `None`: off.
    pub(in crate::config) local_errors: Field<Option<u8>>,
    pub(in crate::config) canary: Field<Vec<SocketAddr>>,
    pub(in crate::config) canary_interval: Field<Duration>,
    pub(in crate::config) canary_timeout: Field<Duration>,
}

impl SelfTest {
    pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Self {
        let mut test = Self::default();
        let Some(section) = value::table(cx, value, "write [daemon.self_test]") else { return test };
        for (key, value) in section.entries() {
            match key.name {
                "max_lateness" => {
                    test.max_lateness = value.field(cx, |cx, v| {
                        unless_off(cx, v, |cx, v| value::duration(cx, v, LATENESS_MINIMUM))
                    });
                }
                "local_errors" => {
                    test.local_errors =
                        value.field(cx, |cx, v| unless_off(cx, v, |cx, v| value::parsed(cx, v, share)));
                }
                "canary" => test.canary = value.field(cx, canaries),
                "canary_interval" => {
                    test.canary_interval = value.field(cx, |cx, v| value::duration(cx, v, INTERVAL_MINIMUM));
                }
                "canary_timeout" => {
                    test.canary_timeout = value.field(cx, |cx, v| value::duration(cx, v, TIMEOUT_MINIMUM));
                }
                _ => unknown_key(cx, Scope::SelfTest, key),
            }
        }
        test
    }
}

/// `Some(None)` for "off".
fn unless_off<'a, T>(
    cx: &mut Context<'_>,
    value: Value<'a>,
    read: impl FnOnce(&mut Context<'_>, Value<'a>) -> Option<T>,
) -> Option<Option<T>> {
    match value.node {
        DeValue::String(text) if text == "off" => Some(None),
        _ => read(cx, value).map(Some),
    }
}

fn share(text: &str) -> Result<u8, Wrong> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse::<u8>().ok()).filter(|percent| (1..=100).contains(percent)) {
        Some(percent) => Ok(percent),
        None => Err(Wrong::new(format!("{} is not a share", quote(text)))
            .remedy("write one from \"1%\" to \"100%\", or \"off\"")),
    }
}

fn canaries(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<SocketAddr>> {
    let list: Vec<At<SocketAddr>> = value::one_or_more(cx, value, |cx, v| value::parsed(cx, v, canary))?;
    let mut canaries = Vec::new();
    for At { value: address, place } in list {
        if canaries.contains(&address) {
            let finding = Finding::error(place, format!("the canary {address} is there twice"));
            cx.push(finding.remedy("write each once"));
            continue;
        }
        if address.ip().is_loopback() {
            let finding =
                Finding::warning(place, format!("the canary {address} is this host itself: it is not asked"));
            cx.push(
                finding.remedy("write one that answers only while the network is there, such as the gateway"),
            );
        }
        canaries.push(address);
    }
    Some(canaries)
}

/// An address, since a name service that is gone would make every canary silent.
fn canary(text: &str) -> Result<SocketAddr, Wrong> {
    let address: Option<SocketAddr> = text.parse().ok();
    address.filter(|address| address.port() != 0 && !address.ip().is_unspecified()).ok_or_else(|| {
        Wrong::new(format!("{} is not an address with a port", quote(text)))
            .remedy("write \"192.0.2.1:22\" or \"[2001:db8::1]:22\"")
    })
}
