//! Small words that several answers share.

use std::time::Duration;

pub(super) use crate::shown::{clean, plain_json};

/// `1st`, `2nd`, `3rd`, `11th`
pub(super) fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        (_, _) => "th",
    };
    format!("{number}{ending}")
}

/// `0.4ms`, `120ms`, `2.5s`
pub(super) fn latency(latency: Duration) -> String {
    let millis = latency.as_secs_f64() * 1000.0;
    match millis {
        small if small < 10.0 => format!("{small:.1}ms"),
        medium if medium < 1000.0 => format!("{medium:.0}ms"),
        large => format!("{:.1}s", large / 1000.0),
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::moves_others;

    #[test]
    fn numbers_are_words() {
        let said: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 113].map(ordinal).into();
        assert_eq!(said, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "113th"]);
        let said: Vec<String> =
            [412, 9_949, 120_400, 2_500_000].map(Duration::from_micros).map(latency).into();
        assert_eq!(said, ["0.4ms", "9.9ms", "120ms", "2.5s"]);
    }

    #[test]
    fn what_moves_a_terminal_or_its_text_is_not_shown() {
        let cases = [
            ("a\x1b[31m\nb\x07\x7f\u{9b}31m", "a?[31m?b???31m"),
            ("up \u{202e}nwod\u{202c}", "up ?nwod?"),
            ("a\u{2066}b\u{2069}\u{200f}\u{61c}", "a?b???"),
            ("\u{feff}x\u{200b}y\u{2028}z\u{e0041}", "?x?y?z?"),
            ("Ärger: שלום – 満員 → 5", "Ärger: שלום – 満員 → 5"),
        ];
        for (text, shown) in cases {
            assert_eq!(clean(text), shown);
            let json = plain_json(&serde_json::to_string(text).expect("a text"));
            assert!(!json.contains(moves_others), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }
}
