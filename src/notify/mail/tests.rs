//! Sessions with mail servers that are broken or mean.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::letter::Letter;
use super::session::{Sent, Session};
use crate::engine::model::{Endpoint, EventKind, Mail, SmtpTls, Tls, TlsVersion};

mod late;

const STARTTLS: SmtpTls = SmtpTls::StartTls(Tls {
    verify: true,
    ca: None,
    server_name: None,
    client: None,
    min_version: TlsVersion::Tls12,
    alpn: Vec::new(),
});

fn mail(at: SocketAddr) -> Mail {
    Mail {
        server: Endpoint { host: at.ip().to_string(), port: at.port() },
        from: "lvsd@example.org".to_owned(),
        to: vec!["ops@example.org".to_owned()],
        tls: None,
        login: None,
        timeout: Duration::from_secs(30),
        min_interval: Duration::from_secs(1),
        events: BTreeSet::from(EventKind::ALL),
    }
}

/// What is wrong with a server that sends `first`, then `endless` again and again, and listens to nothing.
async fn deliver(first: &[u8], endless: &[u8], tls: Option<SmtpTls>) -> String {
    attempt(first, endless, tls).await.unwrap_err()
}

/// What comes of a mail to it.
async fn attempt(first: &[u8], endless: &[u8], tls: Option<SmtpTls>) -> Result<Sent, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let (first, endless) = (first.to_vec(), endless.to_vec());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        if stream.write_all(&first).await.is_ok() && !endless.is_empty() {
            while stream.write_all(&endless).await.is_ok() {}
        }
        // Else what has been sent may be lost with the connection.
        let _ = stream.shutdown().await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    let mail = Mail { tls, ..mail(at) };
    let letter = Letter { subject: "subject".to_owned(), body: "body\n".to_owned() };
    let result = Session::default().deliver(&mail, &letter, &mail.to).await;
    server.abort();
    result
}

/// Some servers send them; lettre would panic.
#[tokio::test]
async fn texts_of_blanks_are_none() {
    for blanks in [" ", "\t", "\n\n\n", "\r", " \r", "\u{b}\u{c}", "\u{a0}", "\u{2003}\u{85} "] {
        let script = format!(
            "220 {blanks}\r\n250-mx\r\n250-{blanks}\r\n250-\r\n250 {blanks}\r\n250 {blanks}\r\n250-{blanks}\r\n250 to\r\n\
             354 {blanks}\r\n250 {blanks}\r\n221 {blanks}\r\n"
        );
        let sent = attempt(script.as_bytes(), b"", None).await.and_then(Sent::by_somebody);
        assert_eq!(sent.as_ref().map(|sent| sent.not_taken.len()), Ok(0), "{blanks:?}: {sent:?}");
        let said =
            deliver(format!("220 mx\r\n250-mx\r\n250 {blanks}\r\n").as_bytes(), b"", Some(STARTTLS)).await;
        assert!(said.starts_with("STARTTLS: "), "{blanks:?}: {said}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_server_is_said() {
    /// What it sends, what it then repeats, what is wanted of TLS, and what is said.
    type Case = (&'static [u8], &'static [u8], Option<SmtpTls>, &'static str);
    const FLOOD: &[u8] = &[b'x'; 4096];
    let cases: [Case; 8] = [
        (b"554 no mail here\r\n", b"", None, "greeting: the server said \"554 no mail here\""),
        (b"421-wait\r\n421 a while\r\n", b"", None, "greeting: the server said \"421 wait a while\""),
        (b"", FLOOD, None, "greeting: the server sends without end"),
        (b"", b"220-x\r\n", None, "greeting: the server sends without end"),
        (b"", FLOOD, Some(STARTTLS), "STARTTLS: the server sends without end"),
        (b"", b"220-x\r\n", Some(STARTTLS), "STARTTLS: the server sends without end"),
        (b"554 no\r\n", b"", Some(STARTTLS), "STARTTLS: the server said \"554 no\""),
        (b"hello\r\n", b"", Some(STARTTLS), "STARTTLS: the server said \"hello\""),
    ];
    for (first, endless, tls, wanted) in cases {
        let said = deliver(first, endless, tls).await;
        let start = first.iter().chain(endless).take(20).copied().collect::<Vec<u8>>();
        assert_eq!(said, wanted, "{}", start.escape_ascii());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_reply_does_harm(
        reply in proptest::collection::vec(any::<u8>(), 0..200),
        begins_well in any::<bool>(),
        starttls in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let greeting: &[u8] = if begins_well { b"220 mx\r\n250-mx\r\n250 STARTTLS\r\n220 go\r\n" } else { b"" };
        let bytes = [greeting, &reply].concat();
        let said = runtime.block_on(deliver(&bytes, b"", starttls.then_some(STARTTLS)));
        prop_assert!(!said.is_empty() && said.len() < 1000, "{said}");
        prop_assert!(!said.contains(char::is_control), "{said}");
    }
}
