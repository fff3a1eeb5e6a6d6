//! Lines of the control socket, for fuzzing: requests that the daemon gets, and what clients get.

use super::protocol::{self, Reply, Request};
use super::stream::Item;

/// The sources of a plan go on to where they are lowered.
pub(crate) fn request(line: &[u8]) -> Option<serde_json::Value> {
    let request = protocol::decode_request(line).ok()?;
    if let Request::Plan { sources } = request {
        return Some(sources);
    }
    let encoded = protocol::encode_request(&request).unwrap_or_default();
    let again = protocol::decode_request(&encoded);
    assert!(again.as_ref().is_ok_and(|again| *again == request), "{request:?} came back as {again:?}");
    None
}

/// One line as the client reads it.
pub(crate) fn reply(line: &[u8]) {
    if let Ok(reply) = serde_json::from_slice::<Reply>(line) {
        let encoded = protocol::encode_reply(&reply).unwrap_or_default();
        let again = serde_json::from_slice::<Reply>(&encoded).map(|again| (again.ok, again.text));
        assert!(again.is_ok_and(|again| again == (reply.ok, reply.text)));
    }
    drop(serde_json::from_slice::<Item>(line));
}
