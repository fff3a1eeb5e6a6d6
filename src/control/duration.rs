//! Durations as people write them on the command line: `90s`, `1m30s`, `2h`, or seconds.

use std::time::Duration;

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("a duration is a number of seconds or numbers with units, such as 90s, 1m30s or 2h")]
    Syntax,
    #[error("units go from large to small, each once: d, h, m, s, ms")]
    Order,
    #[error("a duration must be longer than 0")]
    Zero,
    #[error("no duration may be longer than 10000 days")]
    TooLong,
}

/// Large to small.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const MAX: Duration = Duration::from_secs(10_000 * 86_400);

/// Never zero: an order that ends at once is a mistake.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return bounded(number(text)?.checked_mul(1000));
    }
    let mut rest = text;
    let mut smallest = 0;
    let mut total: Option<u64> = Some(0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (value, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
        let (name, after) = after.split_at(letters);
        let value = number(value)?;
        let index = UNITS.iter().position(|(unit, _)| *unit == name).ok_or(DurationError::Syntax)?;
        if index < smallest {
            return Err(DurationError::Order);
        }
        smallest = index + 1;
        let factor = UNITS.get(index).map_or(0, |(_, factor)| *factor);
        total = total.zip(value.checked_mul(factor)).and_then(|(sum, part)| sum.checked_add(part));
        rest = after;
    }
    if smallest == 0 { Err(DurationError::Syntax) } else { bounded(total) }
}

fn number(digits: &str) -> Result<u64, DurationError> {
    if digits.is_empty() {
        return Err(DurationError::Syntax);
    }
    digits.parse().map_err(|_| DurationError::TooLong)
}

fn bounded(millis: Option<u64>) -> Result<Duration, DurationError> {
    match millis.map(Duration::from_millis) {
        Some(Duration::ZERO) => Err(DurationError::Zero),
        Some(duration) if duration <= MAX => Ok(duration),
        _ => Err(DurationError::TooLong),
    }
}

/// Rounded for people, two units at most: `2h`, `1m30s`, `850ms`.
pub fn display(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let Some(first) = UNITS.iter().position(|(_, factor)| millis >= *factor) else {
        return "0s".to_owned();
    };
    let mut left = millis;
    let mut out = String::new();
    for (name, factor) in UNITS.iter().skip(first).take(2).filter(|(name, _)| *name != "ms" || millis < 1000)
    {
        if left / factor > 0 {
            out += &format!("{}{name}", left / factor);
        }
        left %= factor;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_people_write() {
        let ok = [
            ("90", 90_000),
            ("90s", 90_000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("1d12h", 129_600_000),
            ("500ms", 500),
            ("1s500ms", 1500),
            (" 5m ", 300_000),
            ("1m90s", 150_000),
            ("10000d", 864_000_000_000),
        ];
        for (text, millis) in ok {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
        use DurationError::{Order, Syntax, TooLong, Zero};
        let wrong = [
            ("", Syntax),
            ("s", Syntax),
            ("5x", Syntax),
            ("5 m", Syntax),
            ("-5s", Syntax),
            ("1.5s", Syntax),
            ("0,8", Syntax),
            ("5M", Syntax),
            ("1m30", Syntax),
            ("30s1m", Order),
            ("1s1s", Order),
            ("0", Zero),
            ("0h0m", Zero),
            ("10001d", TooLong),
            ("99999999999999999999", TooLong),
            ("18446744073709551615", TooLong),
            ("9999999999999999h", TooLong),
        ];
        for (text, error) in wrong {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn displays_two_units_at_most() {
        let cases = [
            (0, "0s"),
            (1, "1ms"),
            (850, "850ms"),
            (1500, "1s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (3_601_000, "1h"),
            (90_061_000, "1d1h"),
        ];
        for (millis, text) in cases {
            assert_eq!(display(Duration::from_millis(millis)), text);
        }
    }
}
