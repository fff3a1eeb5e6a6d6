//! One reader per type of value: what a key accepts, and what to write instead.
//!
//! A reader reports what is wrong and then gives `None`. No reader knows where its key stands.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::address;
use super::context::{At, Context, Section, Value};
use super::diagnostics::Finding;
use super::duration;
use super::text::{Wrong, closest, one_of, quote};
use crate::engine::model::{Argv, Portion};

pub(super) fn wrong_type<T>(cx: &mut Context<'_>, value: Value<'_>, wanted: &str, remedy: &str) -> Option<T> {
    let article = match value.node.type_str() {
        found @ ("array" | "integer") => format!("an {found}"),
        found => format!("a {found}"),
    };
    let finding = Finding::error(value.place, format!("`{}` wants {wanted}, not {article}", value.key));
    cx.push(finding.remedy(remedy));
    None
}

pub(super) fn wrong<T>(cx: &mut Context<'_>, value: Value<'_>, wrong: Wrong) -> Option<T> {
    let finding = Finding::error(value.place, format!("`{}`: {}", value.key, wrong.message));
    cx.push(match wrong.remedy {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    });
    None
}

pub(super) fn string<'a>(cx: &mut Context<'_>, value: Value<'a>) -> Option<&'a str> {
    match value.node {
        DeValue::String(text) => Some(text.as_ref()),
        DeValue::Integer(_) | DeValue::Float(_) => wrong_type(cx, value, "a string", "put it in quotes"),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            wrong_type(cx, value, "a string", "write a text in quotes")
        }
    }
}

/// A string that `parse` takes.
pub(super) fn parsed<T>(
    cx: &mut Context<'_>,
    value: Value<'_>,
    parse: impl FnOnce(&str) -> Result<T, Wrong>,
) -> Option<T> {
    let text = string(cx, value)?;
    match parse(text) {
        Ok(parsed) => Some(parsed),
        Err(why) => wrong(cx, value, why),
    }
}

/// A string that is not empty and has no control characters.
pub(super) fn line(cx: &mut Context<'_>, value: Value<'_>) -> Option<String> {
    parsed(cx, value, |text| match text {
        "" => Err(Wrong::new("must not be empty").remedy("write a value, or remove the line")),
        _ if text.contains(char::is_control) => {
            Err(Wrong::new("must not have control characters").remedy("write it in one line"))
        }
        _ => Ok(text.to_owned()),
    })
}

pub(super) fn boolean(cx: &mut Context<'_>, value: Value<'_>) -> Option<bool> {
    match value.node {
        DeValue::Boolean(boolean) => Some(*boolean),
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => {
            wrong_type(cx, value, "true or false", "write true or false, without quotes")
        }
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            wrong_type(cx, value, "true or false", "write true or false")
        }
    }
}

/// An integer of `range`.
pub(super) fn integer<T: TryFrom<i128>>(
    cx: &mut Context<'_>,
    value: Value<'_>,
    range: RangeInclusive<i128>,
) -> Option<T> {
    let DeValue::Integer(integer) = value.node else {
        let remedy = if value.node.is_str() { "write it without quotes" } else { "write a whole number" };
        return wrong_type(cx, value, "an integer", remedy);
    };
    let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
    let in_range = number.filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
    if in_range.is_none() {
        let (low, high) = range.into_inner();
        let message = format!("`{}` is {integer}, out of range", value.key);
        cx.push(Finding::error(value.place, message).remedy(format!("write a number from {low} to {high}")));
    }
    in_range
}

pub(super) fn port(cx: &mut Context<'_>, value: Value<'_>) -> Option<u16> {
    integer(cx, value, 1..=65_535)
}

pub(super) fn count(cx: &mut Context<'_>, value: Value<'_>) -> Option<u32> {
    integer(cx, value, 0..=i128::from(u32::MAX))
}

pub(super) fn positive(cx: &mut Context<'_>, value: Value<'_>) -> Option<u32> {
    integer(cx, value, 1..=i128::from(u32::MAX))
}

/// A share as in `"25%"`, or a number.
pub(super) fn portion(cx: &mut Context<'_>, value: Value<'_>) -> Option<Portion> {
    if value.node.is_integer() {
        return count(cx, value).map(Portion::Count);
    }
    parsed(cx, value, |text| {
        let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        match digits.and_then(|digits| digits.parse::<u8>().ok()).filter(|percent| *percent <= 100) {
            Some(percent) => Ok(Portion::Share(percent)),
            None => Err(Wrong::new(format!("{} is neither a share nor a number", quote(text)))
                .remedy("write a share as in \"25%\", or a number of real servers as in 10")),
        }
    })
}

/// A duration, at least `minimum`.
pub(super) fn duration(cx: &mut Context<'_>, value: Value<'_>, minimum: Duration) -> Option<Duration> {
    let parsed = match value.node {
        DeValue::String(text) => duration::parse(text),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => duration::seconds(&number.to_string()),
            Err(_) => duration::seconds(number.as_str()),
        },
        DeValue::Float(number) => duration::seconds(number.as_str()),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            return wrong_type(
                cx,
                value,
                "a duration",
                "write \"6s\", \"500ms\", \"1m30s\" or a number of seconds",
            );
        }
    };
    match parsed.and_then(|parsed| duration::at_least(parsed, minimum)) {
        Ok(duration) => Some(duration),
        Err(why) => wrong(cx, value, why),
    }
}

/// A duration in whole seconds from 1 to `maximum`, as the kernel keeps it.
pub(super) fn whole_seconds(
    cx: &mut Context<'_>,
    value: Value<'_>,
    maximum: u32,
) -> Option<std::num::NonZeroU32> {
    let exact = duration(cx, value, Duration::ZERO)?;
    match duration::whole_seconds(exact, maximum) {
        Ok(seconds) => Some(seconds),
        Err(why) => wrong(cx, value, why),
    }
}

/// One of a closed list of words.
pub(super) fn word<T: Copy>(cx: &mut Context<'_>, value: Value<'_>, words: &[(&str, T)]) -> Option<T> {
    let text = string(cx, value)?;
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
        return Some(*meaning);
    }
    let names = || words.iter().map(|(word, _)| *word);
    let remedy = match closest(text, names()) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!("write {}", one_of(names())),
    };
    wrong(cx, value, Wrong::new(format!("{} is not known", quote(text))).remedy(remedy))
}

pub(super) fn ip(cx: &mut Context<'_>, value: Value<'_>) -> Option<IpAddr> {
    parsed(cx, value, address::parse_ip)
}

pub(super) fn table<'a>(cx: &mut Context<'_>, value: Value<'a>, remedy: &str) -> Option<Section<'a>> {
    match value.node {
        DeValue::Table(table) => Some(Section::of(table, value)),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => wrong_type(cx, value, "a table", remedy),
    }
}

/// Every element of a list by `reader`. All of them are read, also after a wrong one.
pub(super) fn list<'a, T>(
    cx: &mut Context<'_>,
    value: Value<'a>,
    reader: impl FnMut(&mut Context<'_>, Value<'a>) -> Option<T>,
) -> Option<Vec<At<T>>> {
    match value.node {
        DeValue::Array(_) => one_or_more(cx, value, reader),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => wrong_type(cx, value, "a list", "put it in brackets: [ … ]"),
    }
}

/// A list, or a single element without brackets.
pub(super) fn one_or_more<'a, T>(
    cx: &mut Context<'_>,
    value: Value<'a>,
    mut reader: impl FnMut(&mut Context<'_>, Value<'a>) -> Option<T>,
) -> Option<Vec<At<T>>> {
    let DeValue::Array(array) = value.node else {
        return reader(cx, value).map(|one| vec![At { value: one, place: value.place }]);
    };
    let mut all = Vec::with_capacity(array.len());
    for element in array.iter() {
        let element = value.element(element);
        all.push(reader(cx, element).map(|one| At { value: one, place: element.place }));
    }
    all.into_iter().collect()
}

/// A program and its arguments.
pub(super) fn argv(cx: &mut Context<'_>, value: Value<'_>) -> Option<Argv> {
    const REMEDY: &str = "write [\"/path/to/program\", \"argument\"]; no shell reads it";
    if !value.node.is_array() {
        return wrong_type(cx, value, "a list", REMEDY);
    }
    let words = list(cx, value, |cx, element| {
        parsed(cx, element, |text| match text.contains('\0') {
            true => Err(Wrong::new("must not have NUL characters").remedy("remove \\u0000")),
            false => Ok(text.to_owned()),
        })
    })?;
    let mut words = words.into_iter();
    let Some(program) = words.next() else {
        return wrong(cx, value, Wrong::new("names no program").remedy(REMEDY));
    };
    if !program.value.starts_with('/') {
        let message = format!("{} is not a full path", quote(&program.value));
        cx.push(Finding::error(program.place, format!("`{}`: {message}", value.key)).remedy(REMEDY));
        return None;
    }
    Some(Argv { program: PathBuf::from(program.value), arguments: words.map(|word| word.value).collect() })
}
