//! `headers = { … }` of an http check.

use super::{At, Value};
use crate::config::context::Context;
use crate::config::diagnostics::Finding;
use crate::config::text::{Wrong, quote};
use crate::config::value;

/// Written by lvsd itself: a second one would make the request ambiguous.
const OWN: [(&str, &str); 4] = [
    ("host", "write `virtualhost`"),
    ("content-length", "remove it; it follows from `request_body`"),
    ("transfer-encoding", "remove it; `request_body` is sent with its length"),
    ("connection", "remove it; each check closes its connection"),
];

/// In the order of the file; a list of values is one header each.
pub(super) fn read(cx: &mut Context<'_>, value: Value<'_>) -> Option<Vec<(String, String)>> {
    let section = value::table(cx, value, "write headers = { Accept = \"text/html\" }")?;
    let mut headers: Vec<At<(String, String)>> = Vec::new();
    let mut all_good = true;
    for (key, value) in section.entries() {
        if let Some(wrong) = wrong_name(key.name) {
            let finding = Finding::error(key.place, wrong.message);
            cx.push(finding.remedy(wrong.remedy.unwrap_or_default()));
            all_good = false;
            continue;
        }
        match value::one_or_more(cx, value, |cx, v| value::parsed(cx, v, header_value)) {
            Some(values) => headers.extend(
                values.into_iter().map(|at| At { value: (key.name.to_owned(), at.value), place: at.place }),
            ),
            None => all_good = false,
        }
    }
    headers.sort_by_key(|header| header.place);
    all_good.then(|| headers.into_iter().map(|header| header.value).collect())
}

/// RFC 9110 section 5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn wrong_name(name: &str) -> Option<Wrong> {
    if name.is_empty() || !name.bytes().all(is_token) {
        let wrong = Wrong::new(format!("{} is not the name of a header", quote(name)));
        return Some(wrong.remedy("write letters, digits and `-`"));
    }
    let own = OWN.iter().find(|(own, _)| name.eq_ignore_ascii_case(own));
    own.map(|(_, remedy)| {
        Wrong::new(format!("the header {} is written by lvsd", quote(name))).remedy(*remedy)
    })
}

/// RFC 9110 section 5.5; above all no line breaks, which would begin another header.
pub(super) fn header_value(text: &str) -> Result<String, Wrong> {
    let plain = text.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f));
    match plain && text.trim() == text {
        true => Ok(text.to_owned()),
        false => Err(Wrong::new(format!("{} cannot be the value of a header", quote(text)))
            .remedy("write one line without control characters and without spaces around it")),
    }
}
