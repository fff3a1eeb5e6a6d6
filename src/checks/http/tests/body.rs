//! The judge of bodies: parts in, verdict out.

use proptest::prelude::*;

use super::split;
use crate::checks::http::body::{Body, Progress, Wanted};
use crate::engine::model::{BodyRule, Digest, Pattern};

/// `Ok` says how many parts it took to be sure.
fn judge(
    rule: Option<BodyRule>,
    digest: Option<Digest>,
    limit: u64,
    parts: Vec<&[u8]>,
) -> Result<usize, String> {
    let wanted = Wanted::new(rule.as_ref(), digest.as_ref(), limit).unwrap().unwrap();
    let mut body = Body::new(&wanted);
    for (i, part) in parts.iter().enumerate() {
        if body.take(part)? == Progress::Satisfied {
            return Ok(i + 1);
        }
    }
    body.finish().map(|()| parts.len())
}

fn pattern(source: &str) -> Pattern {
    Pattern::new_compiled(source.to_owned())
}

#[test]
fn bodies_and_what_is_wanted_of_them() {
    let md5 = |hex: &str| {
        let mut bytes = [0; 16];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap();
        }
        Some(Digest::Md5(bytes))
    };
    let contains = |text: &str| Some(BodyRule::Contains(text.as_bytes().to_vec()));
    let regex = |text: &str| Some(BodyRule::Regex(pattern(text)));
    let not = |text: &str| Some(BodyRule::NotRegex(pattern(text)));
    let parts = || vec![b"status: o".as_slice(), b"k\nload: 3\n", b"end"];
    type Case = (Option<BodyRule>, Option<Digest>, Result<usize, &'static str>);
    let cases: Vec<Case> = vec![
        (contains("ok"), None, Ok(2)),
        (contains("status"), None, Ok(1)),
        (contains(""), None, Ok(1)),
        (
            contains("down"),
            None,
            Err("the body does not contain \"down\" (read 22 bytes: \"status: ok\\nload: 3\\nend\")"),
        ),
        (regex("load: [0-9]+"), None, Ok(3)),
        (regex(r"(?m)^end$"), None, Ok(3)),
        (
            regex("load: [4-9]"),
            None,
            Err("the body does not match \"load: [4-9]\" (read 22 bytes: \"status: ok\\nload: 3\\nend\")"),
        ),
        (not("error"), None, Ok(3)),
        (
            not("lo.d"),
            None,
            Err("the body matches \"lo.d\" with \"load\" (read 22 bytes: \"status: ok\\nload: 3\\nend\")"),
        ),
        (None, md5("5fd925bcc6c2308a3249124582d6aa91"), Ok(3)),
        (contains("ok"), md5("5fd925bcc6c2308a3249124582d6aa91"), Ok(3)),
        (
            contains("ok"),
            md5("00000000000000000000000000000000"),
            Err("the body's digest is md5:5fd925bcc6c2308a3249124582d6aa91, \
                 wanted md5:00000000000000000000000000000000 \
                 (read 22 bytes: \"status: ok\\nload: 3\\nend\")"),
        ),
    ];
    for (rule, digest, wanted) in cases {
        let case = format!("{rule:?} {digest:?}");
        assert_eq!(judge(rule, digest, 100, parts()), wanted.map_err(str::to_owned), "{case}");
    }
    let sha256 = [
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
        0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
    ];
    assert_eq!(judge(None, Some(Digest::Sha256(sha256)), 0, vec![]), Ok(0));
    assert_eq!(judge(contains(""), None, 0, vec![]), Ok(0));
}

#[test]
fn bodies_longer_than_allowed() {
    let contains = |text: &str| Some(BodyRule::Contains(text.as_bytes().to_vec()));
    let parts = || vec![b"0123".as_slice(), b"456789"];
    assert_eq!(judge(contains("34"), None, 5, parts()), Ok(2));
    let reason = "the first 5 bytes of the body do not contain \"45\"";
    assert_eq!(judge(contains("45"), None, 5, parts()), Err(reason.to_owned()));
    let reason = "the body is longer than max_body, 9 bytes";
    let regex = Some(BodyRule::Regex(pattern("0")));
    assert_eq!(judge(regex.clone(), None, 9, parts()), Err(reason.to_owned()));
    assert_eq!(judge(regex, None, 10, parts()), Ok(2));
}

proptest! {
    #[test]
    fn a_search_finds_what_is_there_however_it_is_split(
        body in proptest::collection::vec(proptest::sample::select(b"ab".to_vec()), 0..60),
        needle in proptest::collection::vec(proptest::sample::select(b"ab".to_vec()), 1..6),
        cuts in proptest::collection::vec(1..7_usize, 1..40),
    ) {
        let rule = BodyRule::Contains(needle.clone());
        let there = body.windows(needle.len()).any(|window| window == needle);
        prop_assert_eq!(judge(Some(rule), None, 1000, split(&body, &cuts)).is_ok(), there);
    }
}
