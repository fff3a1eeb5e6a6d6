//! Words, numbers, times and switches of a keepalived.conf line, read as leniently as keepalived
//! reads them. Pure text.

use std::time::Duration;

/// What a reader made of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read<T> {
    Good(T),
    /// keepalived takes this, and complains.
    Odd(T, String),
    /// keepalived ignores the line.
    Bad(String),
}

/// Whether keepalived goes on with what it could read of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Garbage {
    Tolerated,
    Refused,
}

/// Blanks separate, double quotes hold together, nothing escapes. `false`: a quote is never closed, and
/// what stands after it is lost.
pub(super) fn split(text: &str) -> (Vec<String>, bool) {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let Some((word, after)) = quoted.split_once('"') else { return (words, false) };
            words.push(word.to_owned());
            rest = after;
        } else {
            let end = rest.find(|c: char| blank(c) || c == '"').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            words.push(word.to_owned());
            rest = after;
        }
        rest = rest.trim_start_matches(blank);
    }
    (words, true)
}

pub(super) fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{b}' | '\u{c}' | '\r' | '\n')
}

/// What backslashes mean between quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// `\n`, `\x41`, `\101`, `\cA` and the like.
    Read,
    /// Kept, with what follows them.
    Kept,
}

/// As the script keywords and `regex` split: both kinds of quotes, also inside a word. `None`: a quote
/// is never closed, or a backslash is the last character.
pub(super) fn split_quoted(text: &str, escapes: Escapes) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| blank(*c)).is_some() {}
        if chars.peek().is_none() {
            return Some(words);
        }
        let mut word = String::new();
        let mut quote = None;
        while let Some(c) = chars.peek().copied() {
            if quote.is_none() && blank(c) {
                break;
            }
            chars.next();
            match c {
                '\\' => match escapes {
                    Escapes::Read => word.push(escape(&mut chars)?),
                    Escapes::Kept => word.extend(['\\', chars.next()?]),
                },
                '"' | '\'' if quote == Some(c) => quote = None,
                '"' | '\'' if quote.is_none() => quote = Some(c),
                c => word.push(c),
            }
        }
        if quote.is_some() {
            return None;
        }
        words.push(word);
    }
}

fn escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    let first = chars.next()?;
    let code = match first {
        'x' if chars.peek().is_some_and(char::is_ascii_hexdigit) => digits(chars, 16, 2, 0),
        '0'..='7' => digits(chars, 8, 2, first.to_digit(8).unwrap_or(0)),
        'c' if chars.peek().is_some() => chars.next().map_or(0, |c| u32::from(c) & 0x1f),
        'a' => 7,
        'b' => 8,
        'E' => 27,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        other => return Some(other),
    };
    char::from_u32(code & 0xff)
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: u32, start: u32) -> u32 {
    let mut value = start;
    for _ in 0..most {
        let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
        value = value * radix + digit;
        chars.next();
    }
    value
}

/// As strtoul and the range test after it.
pub(super) fn number(word: &str, low: i64, high: i64, garbage: Garbage) -> Read<i64> {
    let text = word.trim_start_matches(blank);
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (figures, rest) = unsigned.split_at(end);
    // Without any figure it is 0, and the whole word is garbage.
    let value = if figures.is_empty() { Some(0) } else { figures.parse::<i64>().ok() };
    let value = value.map(|value| if negative { -value } else { value });
    let range = || Read::Bad(format!("{} is not from {low} to {high}", shown(word)));
    let Some(value) = value.filter(|value| (low..=high).contains(value)) else { return range() };
    if figures.is_empty() || !rest.is_empty() {
        return match garbage {
            Garbage::Tolerated => {
                Read::Odd(value, format!("{} is no number; keepalived takes it for {value}", shown(word)))
            }
            Garbage::Refused => Read::Bad(format!("{} is no number", shown(word))),
        };
    }
    Read::Good(value)
}

/// Seconds with up to six decimals. `high`: in microseconds.
pub(super) fn timer(word: &str, low: u64, high: u64) -> Read<Duration> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let figures = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !figures(whole) || !figures(fraction) || word.is_empty() || word == "." {
        // The zeros that keepalived appends come after the garbage: 5s is five microseconds there.
        return Read::Bad(format!("{} is no number of seconds", shown(word)));
    }
    let (kept, rest) = fraction.split_at(fraction.len().min(6));
    let round_up = u64::from(rest.starts_with(['5', '6', '7', '8', '9']));
    let whole = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
    let part = format!("{kept:0<6}").parse::<u64>().unwrap_or(0) + round_up;
    let micros = whole.and_then(|whole| whole.checked_mul(1_000_000)?.checked_add(part));
    match micros.filter(|micros| (low..=high).contains(micros)) {
        None => Read::Bad(format!("{} is out of range", shown(word))),
        Some(micros) if rest.is_empty() => Read::Good(Duration::from_micros(micros)),
        Some(micros) => Read::Odd(
            Duration::from_micros(micros),
            format!("{} has more than six decimals and is rounded", shown(word)),
        ),
    }
}

/// Lower case only; a keyword alone is on.
pub(super) fn switch(word: Option<&str>) -> Read<bool> {
    match word {
        None | Some("on" | "true" | "yes") => Read::Good(true),
        Some("off" | "false" | "no") => Read::Good(false),
        Some(other) => Read::Bad(format!("{} is neither on nor off", shown(other))),
    }
}

/// In a sentence.
pub(super) fn shown(word: &str) -> String {
    crate::config::text::quote(word)
}

/// `None`: there is something else than digits in it, or nothing. An odd digit before a blank is a whole byte. `X` is any
/// digit where `wild`, and becomes `?`.
pub(super) fn hex(text: &str, wild: Wild) -> Option<String> {
    let mut out: Vec<String> = Vec::new();
    let half = |c: char| match c {
        'x' | 'X' if wild == Wild::Allowed => Some('?'),
        c if c.is_ascii_hexdigit() => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
        let Some(first) = chars.next() else { break };
        let first = half(first)?;
        match chars.next_if(|c| *c != ' ') {
            Some(second) => out.push(format!("{first}{}", half(second)?)),
            None => out.push(format!("0{first}")),
        }
    }
    if out.is_empty() { None } else { Some(out.join(" ")) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wild {
    Allowed,
    Refused,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_and_quotes() {
        let words = |text: &str| split(text).0;
        assert_eq!(words("a  \"b c\"d\te"), ["a", "b c", "d", "e"]);
        assert_eq!(words("x\"y\"\"\""), ["x", "y", ""]);
        assert_eq!(split("a \"b"), (vec!["a".to_owned()], false));
        let quoted = |text: &str| split_quoted(text, Escapes::Read);
        let all = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            quoted(r#"up '/bin/a b' "c\td" e\ f g"h"i"#),
            all(&["up", "/bin/a b", "c\td", "e f", "ghi"])
        );
        assert_eq!(quoted(r"\x41\101\cA\q"), all(&["AA\u{1}q"]));
        assert_eq!(quoted("'a"), None);
        assert_eq!(quoted("a\\"), None);
        assert_eq!(split_quoted(r#"a\d "b\"c""#, Escapes::Kept), all(&[r"a\d", r#"b\"c"#]));
    }

    #[test]
    fn numbers() {
        let read = |word: &str| number(word, 0, 100, Garbage::Tolerated);
        assert_eq!(read("7"), Read::Good(7));
        assert_eq!(read("  7"), Read::Good(7));
        assert!(matches!(read("7x"), Read::Odd(7, _)));
        assert!(matches!(read("x"), Read::Odd(0, _)));
        for bad in ["101", "-1", "99999999999999999999999"] {
            assert!(matches!(read(bad), Read::Bad(_)), "{bad}");
        }
        assert!(matches!(number("7x", 0, 100, Garbage::Refused), Read::Bad(_)));
        assert_eq!(number("-5", -254, 254, Garbage::Refused), Read::Good(-5));
    }

    #[test]
    fn timers() {
        let read = |word: &str| timer(word, 1, u64::MAX);
        assert_eq!(read("5"), Read::Good(Duration::from_secs(5)));
        assert_eq!(read("0.25"), Read::Good(Duration::from_millis(250)));
        assert_eq!(read(".5"), Read::Good(Duration::from_millis(500)));
        assert!(matches!(read("0.1234567"), Read::Odd(d, _) if d == Duration::from_micros(123_457)));
        for bad in ["0", "-1", "5s", "", ".", "1.2.3", "99999999999999999999"] {
            assert!(matches!(read(bad), Read::Bad(_)), "{bad}");
        }
    }

    #[test]
    fn bytes() {
        assert_eq!(hex("1 2a3 X0", Wild::Allowed).as_deref(), Some("01 2a 03 ?0"));
        assert_eq!(hex("X0", Wild::Refused), None);
        assert_eq!(hex("", Wild::Allowed), None);
        assert_eq!(hex("zz", Wild::Allowed), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(?s).{0,60}") {
            drop(split(&text));
            drop(split_quoted(&text, Escapes::Read));
            drop(split_quoted(&text, Escapes::Kept));
            drop(number(&text, i64::MIN, i64::MAX, Garbage::Tolerated));
            drop(timer(&text, 0, u64::MAX));
            drop(hex(&text, Wild::Allowed));
        }
    }
}
