//! A mail server's replies, for fuzzing: up to STARTTLS in our words, then in lettre's.

use super::*;
use crate::net::fuzzing::{Cut, End, Memory, block_on};

impl Local for Memory {
    fn local(&self) -> Option<IpAddr> {
        None
    }
}

pub(crate) fn replies(says: &[u8]) {
    let mailbox = |text: &str| text.parse::<Mailbox>().ok();
    let to: Vec<Mailbox> = ["a@example.org", "b@example.org"].into_iter().filter_map(mailbox).collect();
    let Some(from) = mailbox("lvsd@example.org").filter(|_| to.len() == 2) else { unreachable!() };
    let now = to.iter().map(|to| (to.to_string(), to.clone())).collect();
    let mailboxes = Mailboxes { from, to, now };
    let credentials = Credentials::new("lvsd".to_owned(), "secret".to_owned());
    let bounded = |why: &str| {
        assert!(why.len() < 2000 && !why.contains(['\r', '\n']), "not one line of a log: {why:?}");
    };
    for (cut, end) in [(Cut::Whole, End::Closed), (Cut::Uneven, End::Closed), (Cut::Bytes, End::Reset)] {
        block_on(async {
            let mut stream = Memory::new(says, cut, end);
            if let Err(why) = start_tls(&mut stream).await {
                bounded(&why);
            }
            let wire = Wire::memory(Memory::new(says, cut, end), MAX_REPLIES);
            match talk(wire, Some(&credentials), &mailboxes, b"Subject: x\r\n\r\n.\r\n").await {
                Ok(sent) => sent.not_taken.iter().for_each(|one| bounded(&one.why)),
                Err(why) => bounded(&why),
            }
        });
    }
}
