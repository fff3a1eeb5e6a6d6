//! One event with the fields of its spans, as plain values of bounded size.

use std::error::Error;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};

/// Bytes of one value; a configuration's diagnostics fit.
pub(super) const MAX_VALUE: usize = 16 * 1024;
/// Fields of one record, its spans' included.
const MAX_FIELDS: usize = 48;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Signed(number) => number.fmt(f),
            Self::Unsigned(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Bool(bool) => bool.fmt(f),
        }
    }
}

/// In the order recorded, outermost span first; a field recorded again replaces its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) named: Vec<(&'static str, Value)>,
}

impl Fields {
    pub(super) fn add(&mut self, name: &'static str, value: Value) {
        if let Some(known) = self.named.iter_mut().find(|(known, _)| *known == name) {
            known.1 = value;
        } else if self.named.len() < MAX_FIELDS {
            self.named.push((name, value));
        }
    }

    fn add_text(&mut self, name: &'static str, value: fmt::Arguments<'_>) {
        let text = bounded(value);
        if name == "message" {
            self.message = text;
        } else {
            self.add(name, Value::Text(text));
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field.name(), format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field.name(), format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add_text(field.name(), format_args!("{}", Chain(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), Value::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), Value::Float(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), Value::Bool(value));
    }
}

/// What we were doing, and why it failed, and why that failed.
struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

fn bounded(value: fmt::Arguments<'_>) -> String {
    let mut writer = Bounded { text: String::new(), cut: 0 };
    let _infallible = writer.write_fmt(value);
    if writer.cut > 0 {
        let _infallible = write!(writer.text, "… ({} bytes cut)", writer.cut);
    }
    writer.text
}

/// Stops storing at [`MAX_VALUE`], however much is written.
struct Bounded {
    text: String,
    cut: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = if self.cut > 0 { 0 } else { MAX_VALUE.saturating_sub(self.text.len()) };
        let fits = part.floor_char_boundary(room);
        let (kept, cut) = part.split_at(fits);
        self.text.push_str(kept);
        self.cut += cut.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_at_a_character_and_say_so() {
        assert_eq!(bounded(format_args!("{}", "a".repeat(MAX_VALUE))).len(), MAX_VALUE);
        let cut = bounded(format_args!("{}{}", "ä".repeat(MAX_VALUE / 2), "ö"));
        assert!(cut.ends_with("ä… (2 bytes cut)"), "{}", &cut[cut.len() - 40..]);
        let cut = bounded(format_args!("x{}", "ä".repeat(MAX_VALUE)));
        assert!(cut.ends_with(&format!("… ({} bytes cut)", MAX_VALUE + 2)));
    }

    #[test]
    fn errors_show_their_reasons() {
        #[derive(Debug, thiserror::Error)]
        #[error("reading the state file")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::Error::other("disk on fire"));
        assert_eq!(Chain(&error).to_string(), "reading the state file: disk on fire");
    }

    #[test]
    fn fields_replace_and_are_bounded() {
        let mut fields = Fields::default();
        fields.add("a", Value::Signed(-1));
        fields.add("b", Value::Bool(true));
        fields.add("a", Value::Unsigned(2));
        assert_eq!(fields.named, [("a", Value::Unsigned(2)), ("b", Value::Bool(true))]);
        let names: Vec<&'static str> =
            (0..100).map(|n| &*Box::leak(n.to_string().into_boxed_str())).collect();
        for name in names {
            fields.add(name, Value::Bool(false));
        }
        assert_eq!(fields.named.len(), MAX_FIELDS);
    }
}
