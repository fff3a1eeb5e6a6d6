//! Replies to webhooks, for fuzzing.

use super::*;
use crate::engine::model::{Endpoint, Secret};
use crate::net::fuzzing::{Cut, End, Memory, block_on};

pub(crate) fn reply(says: &[u8]) {
    let server = Endpoint { host: "hooks.example.org".to_owned(), port: 80 };
    let (authority, path) = (server.host.clone(), Secret("/hook".to_owned()));
    let url = WebhookUrl { server, tls: None, authority, path };
    for (cut, end) in [(Cut::Whole, End::Closed), (Cut::Uneven, End::Reset)] {
        let url = url.clone();
        block_on(async {
            let wire = Wire::memory(Memory::once_asked(says, cut, end), usize::MAX);
            let request = Request::post("/hook").header(header::HOST, &url.authority);
            let Ok(request) = request.body(Full::new(Bytes::from_static(b"{}"))) else { unreachable!() };
            let Ok((sender, driver)) = driven(wire).await else { return };
            let open = Open { url, sender, _driver: driver };
            match Client::default().exchange(open, request).await {
                Ok(Answer::Taken) => {}
                Ok(Answer::Again { why, .. } | Answer::Refused(why)) | Err(why) => {
                    assert!(!why.contains(['\r', '\n']), "not one line of a log: {why:?}");
                }
            }
        });
    }
}
