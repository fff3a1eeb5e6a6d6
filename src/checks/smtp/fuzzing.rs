//! Replies to the `smtp` check, for fuzzing.

use super::*;
use crate::checks::fuzzing::{alike, endless, run};
use crate::net::fuzzing::{Cut, End};

pub(crate) fn replies(says: &[u8]) {
    let commands = Commands { ehlo: b"EHLO lvsd\r\n".to_vec(), helo: b"HELO lvsd\r\n".to_vec() };
    let _judged = alike(says, async |wire, deadline| greet(&commands, wire, deadline).await);
    // Whether something stands behind the reply to STARTTLS depends on what has arrived by then.
    let _judged = run(says, Cut::Uneven, End::Closed, async |wire, deadline| {
        let mut session = Session::new(Exchange::new(wire, &[], None));
        let greeting = session.greeted(&commands, deadline).await?;
        let ready = session.start_tls(&greeting, deadline).await;
        session.judged(ready, deadline).await.map(|()| String::new())
    });
    let _judged = run(&endless(says), Cut::Whole, End::Closed, async |wire, deadline| {
        greet(&commands, wire, deadline).await
    });
    // What is held of one reply is bounded, whatever comes.
    let mut replies = Replies::default();
    let mut whole = 0;
    for piece in says.chunks(97) {
        if replies.push(piece).is_err() {
            return;
        }
        while let Ok(Some(reply)) = replies.poll_reply() {
            whole += 1;
            assert!((200..600).contains(&reply.code) && !reply.lines.is_empty());
            assert!(reply.shown().starts_with(reply.code.to_string().as_bytes()));
        }
    }
    assert!(whole <= says.len() / 4, "a reply has three digits and an end");
}

async fn greet(commands: &Commands, wire: Wire, deadline: &mut Deadline<'_>) -> Result<String, Trouble> {
    let mut session = Session::new(Exchange::new(wire, &[], None));
    let greeted = session.greeted(commands, deadline).await;
    let greeting = session.judged(greeted, deadline).await?;
    session.quit(deadline).await;
    Ok(format!("{} {} {}", greeting.verb.name(), greeting.reply.code, greeting.reply.offers("STARTTLS")))
}
