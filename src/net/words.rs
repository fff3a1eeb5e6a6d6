//! Words for errors of sockets and of other libraries.

use std::io;

use nix::errno::Errno;

/// `connection refused (ECONNREFUSED)`
pub(crate) fn explain(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) if errno != Errno::UnknownErrno => {
            format!("{} ({errno:?})", uncapitalised(errno.desc()))
        }
        _ => uncapitalised(&error.to_string()),
    }
}

/// Sentences of other libraries in the middle of ours.
pub(crate) fn uncapitalised(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        // An abbreviation such as `TLS` stays as it is.
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain([second]).chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_carry_the_name_of_their_errno() {
        let cases = [
            (Errno::ECONNREFUSED, "connection refused (ECONNREFUSED)"),
            (Errno::EHOSTUNREACH, "no route to host (EHOSTUNREACH)"),
            (Errno::ETIMEDOUT, "connection timed out (ETIMEDOUT)"),
            (Errno::EADDRNOTAVAIL, "cannot assign requested address (EADDRNOTAVAIL)"),
        ];
        for (errno, words) in cases {
            assert_eq!(explain(&io::Error::from_raw_os_error(errno as i32)), words);
        }
        assert_eq!(explain(&io::Error::other("TLS is off")), "TLS is off");
        assert_eq!(explain(&io::Error::other("Bad news")), "bad news");
    }
}
