//! `grpc-status` and `grpc-message`: in the trailers, or in the headers of a reply without a body.

use http::HeaderMap;

use crate::checks::fault::{EXCERPT, quoted};

/// The codes of gRPC, by number.
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// What to make of the codes that a health service is known to answer with.
fn meaning(code: usize) -> &'static str {
    match code {
        5 => ": the server does not know this service",
        12 => ": the server has no health service",
        _ => "",
    }
}

/// `None`: there is no `grpc-status`. `Err`: why the call failed.
pub(super) fn of(headers: &HeaderMap) -> Option<Result<(), String>> {
    let status = headers.get("grpc-status")?.as_bytes();
    let number = std::str::from_utf8(status).ok().and_then(|text| text.parse::<usize>().ok());
    let Some((code, name)) = number.and_then(|code| NAMES.get(code).map(|name| (code, name))) else {
        return Some(Err(format!("grpc-status {} is not known", quoted(status))));
    };
    if code == 0 {
        return Some(Ok(()));
    }
    let message = headers.get("grpc-message").map(|text| decoded(text.as_bytes())).unwrap_or_default();
    let message = if message.is_empty() { String::new() } else { format!(", {}", quoted(&message)) };
    Some(Err(format!("grpc-status {code} ({name}){}{message}", meaning(code))))
}

/// `%20` and the like; what is no escape stands as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let hex = |digit: Option<&u8>| digit.and_then(|digit| char::from(*digit).to_digit(16));
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first().filter(|_| out.len() <= EXCERPT) {
        let escape = match first {
            b'%' => hex(behind.first()).zip(hex(behind.get(1))),
            _ => None,
        };
        match escape.and_then(|(high, low)| u8::try_from(high << 4 | low).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(status: &[u8], message: Option<&[u8]>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from_bytes(status).unwrap());
        if let Some(message) = message {
            headers.insert("grpc-message", HeaderValue::from_bytes(message).unwrap());
        }
        headers
    }

    #[test]
    fn statuses_in_words() {
        type Case = (&'static [u8], Option<&'static [u8]>, &'static str);
        let cases: [Case; 6] = [
            (b"5", None, "grpc-status 5 (NOT_FOUND): the server does not know this service"),
            (b"12", Some(b"x"), "grpc-status 12 (UNIMPLEMENTED): the server has no health service, \"x\""),
            (b"14", Some(b"not%20now%0A%zz%2"), "grpc-status 14 (UNAVAILABLE), \"not now\\n%zz%2\""),
            (b"17", None, "grpc-status \"17\" is not known"),
            (b"-1", None, "grpc-status \"-1\" is not known"),
            (b"\xff", None, "grpc-status \"\\xff\" is not known"),
        ];
        for (status, message, wanted) in cases {
            assert_eq!(of(&headers(status, message)), Some(Err(wanted.to_owned())));
        }
        assert_eq!(of(&headers(b"0", Some(b"x"))), Some(Ok(())));
        assert_eq!(of(&HeaderMap::new()), None);
        let long = of(&headers(b"2", Some(&[b'x'; 4000]))).unwrap().unwrap_err();
        assert!(long.len() < 200, "{long}");
    }
}
