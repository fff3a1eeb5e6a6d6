//! `~SEQ` and `~LST`: one line that stands for many. Pure text.

/// A name for each value of a round, and the text that the rounds repeat. The rounds are made one at a time: their number is
/// whatever the file says.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    names: Vec<String>,
    values: Values,
    text: String,
}

#[derive(Clone, Debug)]
enum Values {
    Numbers { next: Option<i64>, step: i64, last: i64, base: Base },
    Lists(std::vec::IntoIter<Vec<String>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Decimal,
    Hexadecimal,
}

/// Definitions to make, and the line to read with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) definitions: Vec<(String, String)>,
    pub(super) line: String,
}

impl Sequence {
    /// `None`: keepalived calls it invalid and drops the line. `replace` puts in definitions.
    pub(super) fn parse(line: &str, replace: impl FnOnce(&str) -> String) -> Option<Self> {
        if let Some(rest) = line.strip_prefix("~SEQ") {
            return numbers(rest, replace);
        }
        lists(line.strip_prefix("~LST")?)
    }

    pub(super) fn next_round(&mut self) -> Option<Round> {
        let values = match &mut self.values {
            Values::Numbers { next, step, last, base } => {
                let value = (*next)?;
                let following = value.checked_add(*step);
                *next = following.filter(|next| if *step > 0 { next <= last } else { next >= last });
                vec![match base {
                    Base::Decimal => value.to_string(),
                    Base::Hexadecimal => format!("{value:x}"),
                }]
            }
            Values::Lists(lists) => lists.next()?,
        };
        let values = values.into_iter().chain(std::iter::repeat(String::new()));
        Some(Round { definitions: self.names.iter().cloned().zip(values).collect(), line: self.text.clone() })
    }
}

/// `(var, [start, [step,]] end) text`
fn numbers(rest: &str, replace: impl FnOnce(&str) -> String) -> Option<Sequence> {
    let (base, rest) = match rest.strip_prefix('x') {
        Some(rest) => (Base::Hexadecimal, rest),
        None => (Base::Decimal, rest),
    };
    let inner = trim(rest).strip_prefix('(')?;
    let (name, after) = inner.split_once(',')?;
    let name = name.trim_matches([' ', '\t']);
    if name.is_empty() || name.contains([' ', '\t', ')', '{']) {
        return None;
    }
    let (parameters, text) = after.split_once(')')?;
    let parameters = replace(parameters);
    let values: Option<Vec<i64>> = parameters.split(',').map(|word| integer(word.trim())).collect();
    let (start, step, last) = match values?.as_slice() {
        [end] => (if *end < 0 { -1 } else { 1 }, if *end < 1 { -1 } else { 1 }, *end),
        [start, end] => (*start, if start <= end { 1 } else { -1 }, *end),
        [start, step, end] => (*start, *step, *end),
        _ => return None,
    };
    let backwards = (start < last && step < 0) || (start > last && step > 0);
    let negative = base == Base::Hexadecimal && (start < 0 || last < 0);
    if step == 0 || backwards || negative {
        return None;
    }
    let values = Values::Numbers { next: Some(start), step, last, base };
    Some(Sequence { names: vec![name.to_owned()], values, text: trim(text).to_owned() })
}

/// As strtol with base 0.
fn integer(word: &str) -> Option<i64> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let lower = digits.to_ascii_lowercase();
    let value = match lower.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None if lower.len() > 1 && lower.starts_with('0') => i64::from_str_radix(&lower, 8),
        None => lower.parse(),
    };
    value.ok().filter(|value| *value >= 0).map(|value| value * sign)
}

/// `(var, v1, v2, …) text` or `({a, b}, {1, 2}, {3, 4}, …) text`
fn lists(rest: &str) -> Option<Sequence> {
    let mut rest = trim(trim(rest).strip_prefix('(')?);
    let names = group(&mut rest)?;
    if names.iter().any(String::is_empty) {
        return None;
    }
    let mut all = Vec::new();
    while let Some(after) = rest.strip_prefix(',') {
        rest = trim(after);
        let values = group(&mut rest)?;
        if values.len() > names.len() {
            return None;
        }
        all.push(values);
    }
    let text = trim(rest.strip_prefix(')')?).to_owned();
    if all.is_empty() { None } else { Some(Sequence { names, values: Values::Lists(all.into_iter()), text }) }
}

/// One word, or several in braces; `rest` then begins at the comma or parenthesis after it.
fn group(rest: &mut &str) -> Option<Vec<String>> {
    let (words, after) = match rest.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => rest.split_at(rest.find([',', ')'])?),
    };
    *rest = trim(after);
    let words: Vec<String> = words.split(',').map(|word| word.trim_matches([' ', '\t']).to_owned()).collect();
    // A word with a blank in it is no word.
    if words.iter().any(|word| word.contains([' ', '\t', ')'])) { None } else { Some(words) }
}

fn trim(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rounds(line: &str) -> Option<Vec<String>> {
        let mut sequence = Sequence::parse(line, str::to_owned)?;
        let mut all = Vec::new();
        while let Some(round) = sequence.next_round() {
            let definitions: Vec<String> =
                round.definitions.iter().map(|(name, value)| format!("{name}={value}")).collect();
            all.push(format!("{} | {}", definitions.join(" "), round.line));
        }
        Some(all)
    }

    #[test]
    fn numbers() {
        let all = |line: &str| rounds(line).unwrap_or_default().join("; ");
        assert_eq!(all("~SEQ(x, 3) a $x"), "x=1 | a $x; x=2 | a $x; x=3 | a $x");
        assert_eq!(all("~SEQ(x,3,1) a"), "x=3 | a; x=2 | a; x=1 | a");
        assert_eq!(all("~SEQ (x, 1, 3, 8) a"), "x=1 | a; x=4 | a; x=7 | a");
        assert_eq!(all("~SEQx(x, 9, 0xb) a"), "x=9 | a; x=a | a; x=b | a");
        assert_eq!(all("~SEQ(x, -2) a"), "x=-1 | a; x=-2 | a");
        assert_eq!(all("~SEQ(x, 2, 2)"), "x=2 | ");
        for bad in [
            "~SEQ(x)",
            "~SEQ(,1) a",
            "~SEQ(x,1,0,2) a",
            "~SEQ(x,1,-1,2) a",
            "~SEQx(x,-1) a",
            "~SEQ x",
            "~SEQ(x,a)",
        ] {
            assert_eq!(rounds(bad), None, "{bad}");
        }
        let mut huge =
            Sequence::parse("~SEQ(x, 9223372036854775806, 1, 9223372036854775807) a", str::to_owned).unwrap();
        assert!(huge.next_round().is_some() && huge.next_round().is_some() && huge.next_round().is_none());
    }

    #[test]
    fn lists() {
        let all = |line: &str| rounds(line).unwrap_or_default().join("; ");
        assert_eq!(all("~LST(x, a, b) t"), "x=a | t; x=b | t");
        assert_eq!(all("~LST({x, y}, {1, 2}, {3}) t"), "x=1 y=2 | t; x=3 y= | t");
        for bad in ["~LST(x) t", "~LST({x}, {1,2}) t", "~LST(x, a", "~LST", "~LST({x, 1) t"] {
            assert_eq!(rounds(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(kind in "~(SEQx?|LST)", rest in "[ (){},x0-9a-]{0,30}") {
            if let Some(mut sequence) = Sequence::parse(&format!("{kind}{rest}"), str::to_owned) {
                for _ in 0..10 {
                    sequence.next_round();
                }
            }
        }
    }
}
