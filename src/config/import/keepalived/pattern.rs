//! From a pattern of PCRE2 to one of the regex crate. Pure text.

use crate::engine::model::Pattern;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) text: String,
    /// Options that change what matches, and have no counterpart.
    pub(super) ignored: Vec<String>,
}

/// Options with a flag of their own.
const FLAGS: [(&str, char); 5] =
    [("caseless", 'i'), ("multiline", 'm'), ("dotall", 's'), ("extended", 'x'), ("ungreedy", 'U')];

/// Options that make a pattern faster or safer, or that the regex crate always has.
const WITHOUT_EFFECT: [&str; 12] = [
    "utf",
    "ucp",
    "never_utf",
    "never_ucp",
    "never_backslash_c",
    "no_auto_capture",
    "no_auto_possess",
    "no_dotstar_anchor",
    "no_start_optimize",
    "no_utf_check",
    "auto_callout",
    "use_offset_limit",
];

/// Why it cannot be said with the regex crate, as an error.
pub(super) fn translate(text: &str, options: &[String]) -> Result<Translated, String> {
    let has = |name: &str| options.iter().any(|option| option.eq_ignore_ascii_case(name));
    let mut flags: String = FLAGS.iter().filter(|(name, _)| has(name)).map(|(_, flag)| flag).collect();
    if !flags.is_empty() {
        flags = format!("(?{flags})");
    }
    let known = |option: &String| {
        let option = option.to_ascii_lowercase();
        FLAGS.iter().any(|(name, _)| *name == option)
            || WITHOUT_EFFECT.contains(&option.as_str())
            || ["dollar_endonly", "anchored", "endanchored"].contains(&option.as_str())
    };
    let ignored = options.iter().filter(|option| !known(option)).cloned().collect();
    let at_line_ends =
        has("multiline") || text.contains("(?m") || text.contains("(?s") || has("dollar_endonly");
    let mut body = if at_line_ends { text.to_owned() } else { end_of_text(text) };
    if has("anchored") {
        body = format!("^(?:{body})");
    }
    if has("endanchored") {
        body = format!("(?:{body})\\z");
    }
    let text = format!("{flags}{body}");
    match regex::bytes::RegexBuilder::new(&text).size_limit(Pattern::SIZE_LIMIT).build() {
        Ok(_) => Ok(Translated { text, ignored }),
        Err(regex::Error::CompiledTooBig(_)) => Err("it is too large once compiled".to_owned()),
        Err(why) => {
            let why = why.to_string();
            let reason = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!("the regex crate cannot take it: {reason}"))
        }
    }
}

/// In PCRE2 `$` and `\Z` are also before a line break that ends the text, as most bodies have one.
fn end_of_text(text: &str) -> String {
    const END: &str = "(?:\\n?\\z)";
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars();
    let mut class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('Z') if !class => out.push_str(END),
                Some(next) => out.extend([c, next]),
                None => out.push(c),
            },
            '[' if !class => {
                class = true;
                out.push(c);
                // A bracket that comes first is one of the class.
                let mut rest = chars.clone();
                let mut first = rest.next();
                if first == Some('^') {
                    out.push('^');
                    chars.next();
                    first = rest.next();
                }
                if first == Some(']') {
                    out.push_str("\\]");
                    chars.next();
                }
            }
            // The regex crate has sets in sets, PCRE2 has not.
            '[' if class && !chars.as_str().starts_with(':') => out.push_str("\\["),
            ']' if class => {
                class = out.ends_with(':') && chars.as_str().contains(']');
                out.push(c);
            }
            '$' if !class => out.push_str(END),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, options: &[&str], body: &str) -> bool {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let text = translate(pattern, &options).unwrap().text;
        regex::bytes::Regex::new(&text).unwrap().is_match(body.as_bytes())
    }

    #[test]
    fn as_pcre_would() {
        assert!(matches("ok$", &[], "is ok\n"));
        assert!(!matches("ok$", &["dollar_endonly"], "is ok\n"));
        assert!(!matches("ok$", &[], "ok\nno\n"));
        assert!(matches("ok$", &["multiline"], "ok\nno\n"));
        assert!(matches("OK", &["caseless"], "ok"));
        assert!(matches("^a.b\\Z", &["dotall"], "a\nb\n"));
        assert!(matches("[$]5", &[], "$5"));
        assert!(matches("[]a]", &[], "]"));
        assert!(matches("[[:digit:]]x", &[], "7x"));
        assert!(matches("a[[b]c", &[], "a[c"));
        assert!(matches("\\$5", &[], "$5"));
        assert!(matches("b", &["anchored"], "b") && !matches("b", &["anchored"], "ab"));
    }

    #[test]
    fn what_cannot_be_said() {
        for pattern in ["(?=a)", "(a)\\1", "(", "a{1000}{1000}{1000}"] {
            assert!(translate(pattern, &[]).is_err(), "{pattern}");
        }
        assert_eq!(translate("a", &["firstline".to_owned()]).unwrap().ignored, ["firstline"]);
    }

    proptest! {
        #[test]
        fn nothing_panics(pattern in "[a$\\\\\\[\\]^:(){}0-9Z?]{0,30}") {
            drop(translate(&pattern, &[]));
        }
    }
}
