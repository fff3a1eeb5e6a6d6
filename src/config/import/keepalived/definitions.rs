//! `$NAME=value` and its uses. Pure text: what is built in comes as a value as well.

use std::collections::BTreeMap;

use super::lines::LINE_MAXIMUM;

/// Each use may bring in further ones; a definition may even name itself.
const MAX_REPLACEMENTS: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    known: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    first: String,
    /// Of a definition with several lines, those after the first.
    more: Vec<String>,
    multiline: bool,
}

/// A line after its definitions were put in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Replaced {
    pub(super) text: String,
    pub(super) changed: bool,
    /// The lines that follow, of each definition with several lines in turn.
    pub(super) following: Vec<Vec<String>>,
    /// It would have become too long, and was left as it was from there on.
    pub(super) too_long: bool,
    /// Built-in names that have no value here.
    pub(super) unknown: Vec<String>,
}

impl Definitions {
    pub(super) fn set(&mut self, name: &str, value: &str) {
        let value = Value { first: value.to_owned(), more: Vec::new(), multiline: false };
        self.known.insert(name.to_owned(), value);
    }

    pub(super) fn set_lines(&mut self, name: &str, mut lines: Vec<String>) {
        let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
        self.known.insert(name.to_owned(), Value { first, more: lines, multiline: true });
    }

    /// `${…}` anywhere; `$NAME` before a blank, a comma, a closing parenthesis or the end.
    pub(super) fn replace(&self, text: &str) -> Replaced {
        let mut replaced = Replaced { text: text.to_owned(), ..Replaced::default() };
        let mut from = 0;
        for _ in 0..MAX_REPLACEMENTS {
            let rest = replaced.text.get(from..).unwrap_or_default();
            let Some(dollar) = rest.find('$').map(|at| from + at) else { return replaced };
            let after = replaced.text.get(dollar + 1..).unwrap_or_default();
            let Some(usage) = Usage::parse(after) else {
                from = dollar + 1;
                continue;
            };
            let at_end = after.len() == usage.length;
            let Some(value) = self.value(&usage, at_end, &mut replaced.unknown) else {
                from = dollar + 1;
                continue;
            };
            if replaced.text.len() + value.first.len() - usage.length > LINE_MAXIMUM {
                replaced.too_long = true;
                return replaced;
            }
            replaced.text.replace_range(dollar..=dollar + usage.length, &value.first);
            replaced.changed = true;
            if value.multiline {
                replaced.following.push(value.more);
            }
            if value.first.trim_start_matches([' ', '\t']).starts_with('~') {
                return replaced;
            }
            from = dollar;
        }
        replaced.too_long = true;
        replaced
    }

    fn value(&self, usage: &Usage<'_>, at_end: bool, unknown: &mut Vec<String>) -> Option<Value> {
        let plain = |first: &str| Value { first: first.to_owned(), more: Vec::new(), multiline: false };
        if let Some(value) = self.known.get(usage.name) {
            return (usage.parameters.is_none() && (at_end || !value.multiline)).then(|| value.clone());
        }
        match (usage.name, usage.parameters) {
            ("_HASH", None) => Some(plain("#")),
            ("_BANG", None) => Some(plain("!")),
            // Whatever the other machine or run would have had.
            ("_INSTANCE", None) | ("_ENV", Some(_)) => {
                unknown.push(usage.name.to_owned());
                Some(plain(""))
            }
            ("_RANDOM", parameters) => {
                unknown.push(usage.name.to_owned());
                let lowest = parameters.and_then(|text| text.split_whitespace().next()).unwrap_or("0");
                let is_number = lowest.bytes().all(|b| b.is_ascii_digit());
                is_number.then(|| plain(lowest))
            }
            _ => None,
        }
    }
}

/// What stands after a `$`.
struct Usage<'t> {
    name: &'t str,
    parameters: Option<&'t str>,
    /// Bytes, with braces.
    length: usize,
}

impl<'t> Usage<'t> {
    fn parse(after: &'t str) -> Option<Self> {
        let (braces, text) = match after.strip_prefix('{') {
            Some(text) => (true, text),
            None => (false, after),
        };
        let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        if !braces {
            let ends = rest.is_empty() || rest.starts_with([' ', '\t', ',', ')']);
            return ends.then_some(Self { name, parameters: None, length: name.len() });
        }
        let (inner, _) = rest.split_once('}')?;
        let parameters = inner.trim_start_matches([' ', '\t']);
        let fits = parameters.chars().all(|c| is_name(c) || c == ' ' || c == '\t');
        if !fits || inner.ends_with([' ', '\t']) {
            return None;
        }
        let parameters = Some(parameters).filter(|text| !text.is_empty());
        Some(Self { name, parameters, length: name.len() + inner.len() + 2 })
    }
}

/// The name and the value of `$NAME=value`.
pub(super) fn definition(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix('$')?.split_once('=')?;
    let good =
        !name.is_empty() && name.chars().all(is_name) && !name.starts_with(|c: char| c.is_ascii_digit());
    good.then_some((name, value.trim_start_matches([' ', '\t'])))
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_replaced() {
        let mut known = Definitions::default();
        known.set("A", "one");
        known.set("B", "<${A}>");
        known.set("LOOP", "${LOOP}");
        known.set("GROW", "${GROW}${GROW}x");
        known.set_lines("M", vec!["first".to_owned(), "second".to_owned()]);
        let text = |line: &str| known.replace(line).text;
        assert_eq!(text("$A b"), "one b");
        assert_eq!(text("x${A}y"), "xoney");
        assert_eq!(text("$B,$A)"), "<one>,one)");
        for same in ["$Ab", "$A.b", "$C", "$", "${A", "${A }", "${ A}", "$1", "a$"] {
            assert_eq!(text(same), same);
        }
        assert_eq!(text("${_HASH}${_BANG}"), "#!");
        assert_eq!(known.replace("x $M").following, [vec!["second".to_owned()]]);
        assert_eq!(text("$M x"), "$M x", "several lines are the last thing of theirs");
        assert!(known.replace("$LOOP").too_long);
        assert!(known.replace("$GROW").too_long);
        assert_eq!(known.replace("${_ENV HOME}").unknown, ["_ENV"]);
        assert_eq!(text("${_RANDOM 5 9}"), "5");
    }

    #[test]
    fn definitions() {
        assert_eq!(definition("$A= b c"), Some(("A", "b c")));
        assert_eq!(definition("$A_1="), Some(("A_1", "")));
        for none in ["$A =b", "A=b", "$1=b", "$=b", "$A"] {
            assert_eq!(definition(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(a in "[$A{}x ]{0,12}", b in "[$B{}ü ]{0,12}", line in "[$AB{}_ ü,)]{0,40}") {
            let mut known = Definitions::default();
            known.set("A", &a);
            known.set("B", &b);
            let replaced = known.replace(&line);
            prop_assert!(replaced.text.len() <= LINE_MAXIMUM.max(line.len()));
        }
    }
}
