//! Datagrams in answer to the `udp` check, for fuzzing.

use std::sync::LazyLock;

use super::*;
use crate::engine::model::Pattern;

static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let regex = |text: &str| Some(ReplyPattern::Regex(Pattern::new_compiled(text.to_owned())));
    let nibbles = vec![Some(4), None, Some(0), Some(15), None];
    let udps = [
        Udp { require_reply: true, ..Udp::default() },
        Udp { reply: regex("(?s-u)^.(ok|\\xff+)+$"), ..Udp::default() },
        Udp { reply: Some(ReplyPattern::Nibbles(nibbles)), min_reply: Some(2), ..Udp::default() },
        Udp { min_reply: Some(3), max_reply: Some(7), ..Udp::default() },
    ];
    udps.iter().filter_map(|udp| Plan::new(udp).ok()).collect()
});

pub(crate) fn datagram(says: &[u8]) {
    assert_eq!(PLANS.len(), 4);
    for wanted in PLANS.iter().filter_map(|plan| plan.wanted.as_ref()) {
        let why = wanted.mismatch(says);
        assert_eq!(why, wanted.mismatch(says));
        let most = wanted.at_most.map_or(usize::MAX, usize::from);
        assert!(why.is_some() || says.len() <= most);
        // In words, as a reason quotes it.
        assert!(quoted(says).len() < 1000);
    }
}
