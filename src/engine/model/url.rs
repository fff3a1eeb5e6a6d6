//! What of a URL may be shown. User and password, path parameters (`;jsessionid=…`), the query and the fragment
//! may each be the proof of who asks.

/// A URL, a path or the target of a redirect for people.
pub fn shown_url(url: &str) -> String {
    let (place, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let (scheme, authority, path) = parts(place);
    let mut shown = scheme.to_owned();
    shown.push_str(&match authority.rsplit_once('@') {
        Some((_user, host)) => format!("…@{host}"),
        None => authority.to_owned(),
    });
    let segments: Vec<String> = path
        .split('/')
        .map(|segment| match segment.split_once(';') {
            Some((name, _parameters)) => format!("{name};…"),
            None => segment.to_owned(),
        })
        .collect();
    shown.push_str(&segments.join("/"));
    if let Some(mark) = rest.chars().next() {
        shown.extend([mark, '…']);
    }
    shown
}

/// May this text, of which nobody knows what it is, hold what [`shown_url`] does not show? Regular expressions
/// have such characters too: a query or the like follows a path, or is `name=value`.
pub fn may_hold_a_secret(text: &str) -> bool {
    let follows = |mark: char| {
        text.match_indices(mark).any(|(at, _)| {
            let (before, after) =
                (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default());
            before.contains('/') || (after.contains('=') && after.starts_with(char::is_alphanumeric))
        })
    };
    let has_user = |behind: &str| {
        behind.split(['/', '?', '#', ' ']).next().is_some_and(|authority| authority.contains('@'))
    };
    ['?', ';', '#'].into_iter().any(follows) || text.split("//").skip(1).any(has_user)
}

/// `https://`, `user@host:80`, `/path`; the first two are empty where there is only a path.
fn parts(place: &str) -> (&str, &str, &str) {
    let is_scheme = |before: &str| before.is_empty() || before.ends_with(':');
    let Some((before, _)) = place.split_once("//").filter(|(before, _)| is_scheme(before)) else {
        return ("", "", place);
    };
    let (scheme, behind) = place.split_at(before.len() + 2);
    let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
    (scheme, authority, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_prove_who_asks_is_not_shown() {
        for (url, shown) in [
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("https://b.example:8443/a", "https://b.example:8443/a"),
            ("/?", "/?…"),
            ("/a?b=c#d", "/a?…"),
            ("/a#d?e", "/a#…"),
            ("http://b.example?q", "http://b.example?…"),
            ("http://alice:secret@b.example/x", "http://…@b.example/x"),
            ("//alice@b.example", "//…@b.example"),
            ("http://a@b@c.example/", "http://…@c.example/"),
            ("/a;jsessionid=1/b;v=2;w=3?q", "/a;…/b;…?…"),
            ("http://b.example/;x", "http://b.example/;…"),
            ("/a//b@c", "/a//b@c"),
            ("a/b@c", "a/b@c"),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
            assert!(shown_url(shown) == shown, "{shown} hides nothing more");
        }
    }

    #[test]
    fn a_text_with_such_a_part_is_known_wherever_it_stands() {
        let parts = ["/a?b", "/a;b", "/a#b", "x?y=z", "jsessionid;a=1", "http://u:p@h/", "//u@h"];
        for part in parts {
            assert!(may_hold_a_secret(part), "{part}");
            assert!(may_hold_a_secret(&format!("see {part} for more")), "{part}");
        }
        assert!(may_hold_a_secret("which? /health?k=8f3a"), "not the first of its kind");
        for plain in ["/a/b", "a?(=|b)", "(a|b);", "#", "ops@example.org", "http://h/a@b", "\\d+?", "a;b"] {
            assert!(!may_hold_a_secret(plain), "{plain}");
        }
    }
}
