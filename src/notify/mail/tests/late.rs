//! A server that takes a mail for some of its recipients.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Handle;

use super::*;
use crate::anew::Breaks;
use crate::notify::courier::{Courier, Delivered, Tally};
use crate::notify::event::Event;
use crate::notify::testing::{self, until};

const LONG: Duration = Duration::from_secs(60);
/// Instead of a reply.
const SILENCE: &str = "";

/// What a server says to RCPT for a recipient, each time the next, and 250 afterwards; and what it took for whom.
#[derive(Clone, Default)]
struct Mailboxes {
    replies: Arc<Mutex<Replies>>,
    /// A mail whose text has this word is refused when its text has come, for whom it may have been taken.
    unwanted: Option<&'static str>,
    taken: Arc<Mutex<Taken>>,
}

type Replies = BTreeMap<&'static str, VecDeque<&'static str>>;
/// For whom, and what.
type Taken = Vec<(Vec<String>, String)>;

impl Mailboxes {
    fn rcpt(&self, recipient: &str) -> String {
        let mut replies = self.replies.lock().unwrap();
        let next = replies.get_mut(recipient).and_then(VecDeque::pop_front);
        format!("{}\r\n", next.unwrap_or("250 ok"))
    }

    fn is_silent_about(&self, recipient: &str) -> bool {
        let mut replies = self.replies.lock().unwrap();
        let next =
            replies.get_mut(recipient).and_then(|replies| replies.pop_front_if(|next| *next == SILENCE));
        next.is_some()
    }

    /// One connection.
    async fn serve(self, stream: tokio::net::TcpStream) -> Option<()> {
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        write.write_all(b"220 mx\r\n").await.ok()?;
        let mut to = Vec::new();
        while let Some(line) = lines.next_line().await.ok()? {
            let mut reply = "250 ok\r\n".to_owned();
            if let Some(rest) = line.strip_prefix("RCPT TO:<") {
                let recipient = rest.split('>').next()?;
                if self.is_silent_about(recipient) {
                    std::future::pending::<()>().await;
                }
                reply = self.rcpt(recipient);
                to.extend(reply.starts_with('2').then(|| recipient.to_owned()));
            } else if line == "DATA" {
                write.write_all(b"354 go on\r\n").await.ok()?;
                let mut text = String::new();
                while let Some(line) = lines.next_line().await.ok()?.filter(|line| line != ".") {
                    text += &(line + "\n");
                }
                let to = std::mem::take(&mut to);
                if self.unwanted.is_some_and(|word| text.contains(word) && to == ["grey@example.org"]) {
                    reply = "554 5.7.1 unwanted\r\n".to_owned();
                } else {
                    self.taken.lock().unwrap().push((to, text));
                }
            }
            write.write_all(reply.as_bytes()).await.ok()?;
        }
        Some(())
    }

    async fn start(&self) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let this = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(this.clone().serve(stream));
            }
        });
        at
    }

    /// The daemons' names in the mails for this recipient.
    fn of(&self, recipient: &str) -> Vec<String> {
        let name = |text: &str| {
            let subject = text.lines().find(|line| line.starts_with("Subject: [")).unwrap();
            subject["Subject: [".len()..].split(']').next().unwrap().to_owned()
        };
        let taken = self.taken.lock().unwrap();
        let own = taken.iter().filter(|(to, _)| to.iter().any(|to| to == recipient));
        own.map(|(_, text)| name(text)).collect()
    }

    /// Waits for so many mails for this recipient.
    async fn has(&self, recipient: &str, count: usize) {
        until("enough mails", || self.of(recipient).len() >= count).await;
    }

    /// A second event is told; both recipients get both mails, whoever is put off one after the other.
    async fn delivers_a_second_too(&self, courier: Courier<Mail>) {
        courier.tell(&event(2, "second"));
        self.has("ops@example.org", 2).await;
        self.has("grey@example.org", 2).await;
        assert_eq!(courier.finish(LONG).await, 0);
        assert_eq!(self.of("ops@example.org"), ["first", "second"], "each once");
        let mut late = self.of("grey@example.org");
        late.sort();
        assert_eq!(late, ["first", "second"], "each once");
    }
}

fn event(sequence: u64, daemon: &str) -> Arc<Event> {
    Arc::new(Event { sequence, daemon: daemon.to_owned(), ..testing::down() })
}

#[tokio::test]
async fn who_is_put_off_gets_the_same_mail_later_and_nobody_waits_for_that() {
    let server = Mailboxes::default();
    server.replies.lock().unwrap().extend([
        ("grey@example.org", VecDeque::from(["450 4.2.0 greylisted", "451 4.3.0 again"])),
        ("gone@example.org", VecDeque::from(["550 5.1.1 no such user"; 9])),
    ]);
    let at = server.start().await;
    let to = ["ops@example.org", "Grey <grey@example.org>", "gone@example.org"].map(str::to_owned).to_vec();
    let mail = Mail { to, ..mail(at) };
    let tally = Tally::default();
    let courier = Courier::spawn(&Handle::current(), mail, tally.clone(), &Breaks::default());
    courier.tell(&event(1, "first"));
    server.has("ops@example.org", 1).await;
    assert_eq!(server.of("grey@example.org"), [""; 0]);
    server.delivers_a_second_too(courier).await;
    assert_eq!(server.of("gone@example.org"), [""; 0]);
    assert_eq!(tally.counters(), Delivered { delivered: 2, ..Delivered::default() });
}

#[tokio::test]
async fn a_server_that_hangs_when_it_is_tried_again_costs_the_next_mail_one_time_out() {
    let server = Mailboxes::default();
    let replies = VecDeque::from(["450 4.2.0 greylisted", SILENCE]);
    server.replies.lock().unwrap().insert("grey@example.org", replies);
    let at = server.start().await;
    let to = ["ops@example.org", "grey@example.org"].map(str::to_owned).to_vec();
    let mail = Mail { to, timeout: Duration::from_secs(1), ..mail(at) };
    let courier = Courier::spawn(&Handle::current(), mail, Tally::default(), &Breaks::default());
    courier.tell(&event(1, "first"));
    server.has("ops@example.org", 1).await;
    until("it hangs", || server.replies.lock().unwrap().values().all(VecDeque::is_empty)).await;
    server.delivers_a_second_too(courier).await;
}

#[tokio::test]
async fn the_end_tries_once_more_for_who_was_put_off() {
    let server = Mailboxes::default();
    let put_off = VecDeque::from(["452 4.2.2 mailbox full"; 1]);
    server.replies.lock().unwrap().insert("grey@example.org", put_off);
    let at = server.start().await;
    let to = ["ops@example.org", "grey@example.org"].map(str::to_owned).to_vec();
    let courier =
        Courier::spawn(&Handle::current(), Mail { to, ..mail(at) }, Tally::default(), &Breaks::default());
    courier.tell(&event(1, "first"));
    server.has("ops@example.org", 1).await;
    assert_eq!(courier.finish(LONG).await, 0);
    assert_eq!(server.of("ops@example.org"), ["first"]);
    assert_eq!(server.of("grey@example.org"), ["first"]);
}

#[tokio::test]
async fn one_that_is_never_taken_holds_up_no_other_and_is_counted_in_the_end() {
    let server = Mailboxes { unwanted: Some("[first]"), ..Mailboxes::default() };
    let put_off = VecDeque::from(["451 4.7.1 greylisted"; 2]);
    server.replies.lock().unwrap().insert("grey@example.org", put_off);
    let at = server.start().await;
    let to = ["ops@example.org", "grey@example.org"].map(str::to_owned).to_vec();
    let tally = Tally::default();
    let courier =
        Courier::spawn(&Handle::current(), Mail { to, ..mail(at) }, tally.clone(), &Breaks::default());
    courier.tell(&event(1, "first"));
    server.has("ops@example.org", 1).await;
    courier.tell(&event(2, "second"));
    server.has("grey@example.org", 1).await;
    assert_eq!(server.of("grey@example.org"), ["second"]);
    assert_eq!(courier.finish(LONG).await, 0);
    assert_eq!(server.of("grey@example.org"), ["second"]);
    assert_eq!(tally.counters(), Delivered { delivered: 2, dropped: 1, ..Delivered::default() });
}
