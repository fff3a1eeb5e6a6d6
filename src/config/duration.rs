//! Durations as people write them, exactly: nothing is rounded, nothing is clamped.

use std::num::NonZeroU32;
use std::time::Duration;

use super::text::{Wrong, quote};

const REMEDY: &str = "write \"6s\", \"500ms\", \"1m30s\" or a number of seconds";

/// Longer ones are mistakes, and far from any overflow.
const MAXIMUM: Duration = Duration::from_secs(366 * 86_400);

const NANOS: u128 = 1_000_000_000;

/// From the longest to the shortest, the order in which they are written.
const UNITS: [(&str, u128); 5] =
    [("d", 86_400 * NANOS), ("h", 3_600 * NANOS), ("m", 60 * NANOS), ("s", NANOS), ("ms", NANOS / 1_000)];

/// `500ms`, `6s`, `1m30s`, `2h`, `1d`, `0.5s`
pub(super) fn parse(text: &str) -> Result<Duration, Wrong> {
    let refuse = || Wrong::new(format!("{} is not a duration", quote(text))).remedy(REMEDY);
    if text.starts_with('-') {
        return Err(negative(text));
    }
    if text.contains(',') {
        return Err(Wrong::new(format!("{} is not a duration", quote(text)))
            .remedy("a fraction is written with a point: \"0.8s\""));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(Wrong::new(format!("{} has no unit", quote(text)))
            .remedy(format!("write \"{text}s\", or the number without quotes for seconds")));
    }
    let mut rest = text;
    let mut total: u128 = 0;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        // Taking from the same iterator refuses a unit twice and units out of order.
        let (_, nanos) = units.find(|(name, _)| *name == unit).ok_or_else(refuse)?;
        total = total.saturating_add(scaled(number, *nanos).ok_or_else(refuse)?);
        rest = after;
    }
    if text.is_empty() { Err(refuse()) } else { bounded(total) }
}

/// A number of seconds as TOML writes integers and floats.
pub(super) fn seconds(number: &str) -> Result<Duration, Wrong> {
    if number.starts_with('-') {
        return Err(negative(number));
    }
    let plain = number.trim_start_matches('+');
    if let Some(nanos) = scaled(plain, NANOS) {
        return bounded(nanos);
    }
    // inf, nan, or an exponent.
    let float: f64 = plain.parse().unwrap_or(f64::NAN);
    match Duration::try_from_secs_f64(float) {
        Ok(duration) if duration <= MAXIMUM => Ok(duration),
        Ok(_) => Err(too_long()),
        Err(_) => Err(Wrong::new(format!("{number} is not a duration")).remedy(REMEDY)),
    }
}

pub(super) fn at_least(duration: Duration, minimum: Duration) -> Result<Duration, Wrong> {
    if duration >= minimum {
        return Ok(duration);
    }
    let least = format!("at least {}", show(minimum));
    Err(Wrong::new(format!("{} is too short", show(duration))).remedy(format!("write {least}")))
}

/// The kernel keeps whole seconds, and takes 0 for "not set".
pub(super) fn whole_seconds(duration: Duration, maximum: u32) -> Result<NonZeroU32, Wrong> {
    let remedy = format!("write whole seconds from 1s to {maximum}s; the kernel keeps no fractions");
    let seconds = u32::try_from(duration.as_secs()).ok().and_then(NonZeroU32::new);
    match seconds.filter(|s| s.get() <= maximum && duration.subsec_nanos() == 0) {
        Some(seconds) => Ok(seconds),
        None => Err(Wrong::new(format!("{} is not possible", show(duration))).remedy(remedy)),
    }
}

/// `500ms`, `6s`, `90.5s`
pub(super) fn show(duration: Duration) -> String {
    if duration.is_zero() { "0s".to_owned() } else { format!("{duration:?}") }
}

fn negative(text: &str) -> Wrong {
    Wrong::new(format!("{text} is negative")).remedy(REMEDY)
}

fn too_long() -> Wrong {
    Wrong::new("longer than a year").remedy("write at most \"366d\"")
}

fn bounded(nanos: u128) -> Result<Duration, Wrong> {
    let seconds = u64::try_from(nanos / NANOS).map_err(|_| too_long())?;
    let rest = u32::try_from(nanos % NANOS).unwrap_or(0);
    let duration = Duration::new(seconds, rest);
    if duration <= MAXIMUM { Ok(duration) } else { Err(too_long()) }
}

/// Digits with at most one point, times `unit`. `None` for anything else, and for fractions of a
/// nanosecond: they would have to be rounded.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits =
        |text: &str| !text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? }.checked_mul(unit)?;
    if parts % scale != 0 {
        return None;
    }
    whole.parse::<u128>().ok()?.checked_mul(unit)?.checked_add(parts / scale)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write() {
        let millis = |text| parse(text).map(|d| d.as_millis()).ok();
        for (text, wanted) in [
            ("500ms", 500),
            ("6s", 6_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0.5s", 500),
            ("1.5m", 90_000),
            ("0s", 0),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(millis(text), Some(wanted), "{text}");
        }
        assert_eq!(seconds("0.3"), Ok(Duration::from_millis(300)));
        assert_eq!(seconds("+2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("2e-1"), Ok(Duration::from_millis(200)));
        assert_eq!(parse("0.0000001s"), Ok(Duration::from_nanos(100)));
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "s",
            "6",
            "0,8",
            "0,8s",
            "-1s",
            "1s1s",
            "1s1m",
            "1 s",
            "1.2.3s",
            ".5s",
            "5.s",
            "1S",
            "1us",
            "ms",
            "inf",
            "367d",
            "99999999999999999999d",
            "0.0000000001s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for number in ["-1", "-0.1", "nan", "inf", "-inf", "1e30", "32000000"] {
            assert!(seconds(number).is_err(), "{number}");
        }
    }

    #[test]
    fn the_kernel_keeps_whole_seconds() {
        let whole = |text| whole_seconds(parse(text).unwrap(), 100).map(NonZeroU32::get).ok();
        assert_eq!(whole("1m"), Some(60));
        assert_eq!(whole("100s"), Some(100));
        assert_eq!(whole("0s"), None);
        assert_eq!(whole("101s"), None);
        assert_eq!(whole("1500ms"), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,40}") {
            drop(parse(&text));
            drop(seconds(&text));
        }

        #[test]
        fn milliseconds_are_exact(millis in 0_u64..31_000_000_000) {
            let wanted = Ok(Duration::from_millis(millis));
            prop_assert_eq!(parse(&format!("{millis}ms")), wanted.clone());
            prop_assert_eq!(parse(&format!("{}.{:03}s", millis / 1_000, millis % 1_000)), wanted.clone());
            prop_assert_eq!(seconds(&format!("{}.{:03}", millis / 1_000, millis % 1_000)), wanted);
        }
    }
}
