//! Texts in the form that a protocol or lvsd.toml takes them.

use std::net::IpAddr;

/// As it can stand in a request.
pub(super) fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii_graphic() && byte != b'#' {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(super) fn is_host(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]~%".contains(&b))
}

pub(super) fn is_dns_name(text: &str) -> bool {
    let bare = text.strip_suffix('.').unwrap_or(text);
    bare.len() <= 253
        && bare.split('.').all(|label| (1..=63).contains(&label.len()))
        && bare.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}

/// A pattern that stands for itself alone: an address, or a name.
pub(super) fn literal(pattern: &str) -> Option<String> {
    let bare = pattern.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
    let plain = bare.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    let bare = bare.parse::<IpAddr>().map_or(bare, |address| address.to_string());
    plain.then_some(bare)
}

pub(super) fn imap_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
