//! Where a redirect leads: always to the same server, perhaps under another host name and path.

use super::request::Scheme;
use crate::checks::fault::quoted;
use crate::engine::model::shown_url;

/// Redirects that are followed before a server is taken to send us in circles.
pub(super) const MOST: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Unset: the host that was asked.
    pub(super) host: Option<String>,
    /// With its query, as it goes into a request line.
    pub(super) path: String,
}

/// Does this status send the client elsewhere?
pub(super) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// RFC 3986 section 5.2, as far as HTTP needs it. The error is the reason of a failure.
pub(super) fn resolve(location: &[u8], scheme: Scheme, path: &str) -> Result<Place, String> {
    let text = encoded(location.trim_ascii());
    let reference = text.split('#').next().unwrap_or_default();
    let (host, rest) = match reference.split_once("://") {
        Some((other, rest)) if !other.is_empty() && other.bytes().all(is_of_scheme) => {
            if !other.eq_ignore_ascii_case(scheme.name()) {
                // Servers that send everybody to https repeat our own query, and may add a session of theirs.
                let shown = shown_url(&String::from_utf8_lossy(location));
                return Err(format!("redirect to {} leaves {}", quoted(shown.as_bytes()), scheme.name()));
            }
            authority(rest)
        }
        Some(_) | None => match reference.strip_prefix("//") {
            Some(rest) => authority(rest),
            None => (None, reference),
        },
    };
    let at_root = host.is_some() && !rest.starts_with('/');
    let joined = match rest.bytes().next() {
        _ if at_root => format!("/{rest}"),
        Some(b'/') => rest.to_owned(),
        Some(b'?') => format!("{}{rest}", before_query(path)),
        None => path.to_owned(),
        Some(_) => {
            let directory = before_query(path).rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{directory}/{rest}")
        }
    };
    Ok(Place { host, path: without_dots(&joined) })
}

fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// `user@host:80/path` → the host with its port, and what follows.
fn authority(text: &str) -> (Option<String>, &str) {
    let end = text.find(['/', '?']).unwrap_or(text.len());
    let (authority, rest) = text.split_at(end);
    let host = authority.rsplit('@').next().unwrap_or_default();
    ((!host.is_empty()).then(|| host.to_owned()), rest)
}

fn before_query(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

/// Section 5.2.4: `/a/./b/../c?q` → `/a/c?q`.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path, None),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    let mut clean = format!("/{}", kept.join("/"));
    if let Some(query) = query {
        clean.push('?');
        clean.push_str(query);
    }
    clean
}

/// Everything that a request line cannot carry, percent-encoded: no server can put a header of
/// its own into our next request.
pub(super) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0x21..=0x7e => text.push(char::from(*byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_location_leads() {
        let cases: &[(&str, Option<&str>, &str)] = &[
            ("/login?next=%2F#top", None, "/login?next=%2F"),
            ("http://b.example/x", Some("b.example"), "/x"),
            ("HTTP://b.example:8080", Some("b.example:8080"), "/"),
            ("http://u:p@b.example?q", Some("b.example"), "/?q"),
            ("//[2001:db8::1]:81/x", Some("[2001:db8::1]:81"), "/x"),
            ("c", None, "/a/c"),
            ("../c/./d", None, "/c/d"),
            ("../../../c", None, "/c"),
            (".", None, "/a/"),
            ("?q=1", None, "/a/b?q=1"),
            ("", None, "/a/b?old=1"),
            ("/login?next=http://c.example/", None, "/login?next=http://c.example/"),
            ("/a b\r\nX: 1\u{fc}", None, "/a%20b%0D%0AX:%201%C3%BC"),
        ];
        for (location, host, path) in cases {
            let wanted = Place { host: host.map(str::to_owned), path: (*path).to_owned() };
            assert_eq!(resolve(location.as_bytes(), Scheme::Http, "/a/b?old=1"), Ok(wanted), "{location}");
        }
    }

    #[test]
    fn another_scheme_is_not_followed() {
        let reason = "redirect to \"https://b.example/\" leaves http";
        assert_eq!(resolve(b"https://b.example/", Scheme::Http, "/"), Err(reason.to_owned()));
        let reason = "redirect to \"https://\u{2026}@b.example/a;\u{2026}?\u{2026}\" leaves http";
        let location = b"https://u:p@b.example/a;jsessionid=1?q#f";
        assert_eq!(resolve(location, Scheme::Http, "/"), Err(reason.to_owned()));
        assert!(resolve(b"ftp://b.example/", Scheme::Https, "/").is_err());
        assert!(resolve(b"https://b.example/", Scheme::Https, "/").is_ok());
    }
}
