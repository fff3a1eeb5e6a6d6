//! Files with a number, for fuzzing.

use super::*;

pub(crate) fn content(text: &[u8]) {
    let found = number(text);
    assert_eq!(found, number(text));
    if let Some(found) = found {
        // Written as it was understood, it is the same number.
        assert_eq!(number(found.to_string().as_bytes()), Some(found));
    }
    let content = found.map_or(Content::NoNumber, Content::Number);
    for (weight, reverse) in [(0, false), (0, true), (1, false), (253, true), (-253, false)] {
        let file = TrackedFile { path: "/run/number".into(), weight, reverse };
        if let Ok((_, WeightChange::Delta(delta))) = judge(content, &file) {
            assert!(delta > FAULT && delta <= i64::from(i32::MAX));
        }
    }
}
