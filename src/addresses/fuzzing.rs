//! Datagrams of rtnetlink, for fuzzing.

use super::codec::{Body, messages};

pub(crate) fn datagram(bytes: &[u8]) {
    let first: Vec<_> = messages(bytes).collect();
    assert!(first.len() <= bytes.len() / 16 + 1, "{} messages", first.len());
    assert_eq!(first, messages(bytes).collect::<Vec<_>>());
    for message in first.into_iter().flatten() {
        if let Body::Interface(interface) = message.body {
            assert!(!interface.name.contains('\0'), "{interface:?}");
        }
    }
}
