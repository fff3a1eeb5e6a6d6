//! The `tcp` check.

use super::*;
use crate::engine::model::{Expect, Pattern};

fn expect(send: Option<&str>, expect: Expect) -> Tcp {
    Tcp { send: send.map(|text| text.as_bytes().to_vec()), expect: Some(expect), ..Tcp::default() }
}

fn bytes(text: &str) -> Expect {
    Expect::Bytes(text.as_bytes().to_vec())
}

fn regex(text: &str) -> Expect {
    Expect::Regex(Pattern::new_compiled(text.to_owned()))
}

/// Says its banner, then echoes one line with `got ` before it, then waits.
async fn echo() -> SocketAddr {
    serve(|mut stream| async move {
        stream.write_all(b"+OK ready\r\n").await.unwrap();
        let mut line = [0; 64];
        while let Ok(read @ 1..) = stream.read(&mut line).await {
            stream.write_all(b"got ").await.unwrap();
            stream.write_all(&line[..read]).await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn connecting_is_enough() {
    assert_up(&check_tcp(echo().await, Tcp::default(), PATIENT).await, "connected");
    let v6 = serve_on("[::1]:0", |_| async {}).await;
    assert_up(&check_tcp(v6, Tcp::default(), PATIENT).await, "connected");
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outcome = check_tcp(address, Tcp::default(), PATIENT).await;
    assert_down(&outcome, Phase::Connect, "connection refused (ECONNREFUSED)");
}

#[tokio::test]
async fn what_is_expected_comes() {
    let address = echo().await;
    for tcp in [
        expect(None, bytes("+OK")),
        expect(None, regex("^\\+OK .*\r\n")),
        expect(Some("PING\r\n"), bytes("got PING")),
        expect(Some("PING\r\n"), regex("(?s)ready.*got PING")),
    ] {
        assert_up(&check_tcp(address, tcp, PATIENT).await, "connected, reply as expected");
    }
}

#[tokio::test]
async fn what_is_expected_does_not_come() {
    let address = echo().await;
    let outcome = check_tcp(address, expect(None, bytes("+ERR")), SHORT).await;
    let reason =
        "timed out after 200ms; the reply does not contain \"+ERR\" (read 11 bytes: \"+OK ready\\r\\n\")";
    assert_down(&outcome, Phase::Reply, reason);

    let says_little = serve(|mut stream| async move {
        stream.write_all(b"\xff\0no").await.unwrap();
    })
    .await;
    let outcome = check_tcp(says_little, expect(None, regex("yes")), PATIENT).await;
    let reason = "the reply does not match \"yes\" (read 4 bytes: \"\\xff\\0no\")";
    assert_down(&outcome, Phase::Reply, reason);

    let says_nothing = serve(|_| async {}).await;
    let outcome = check_tcp(says_nothing, expect(None, bytes("x")), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "connection closed without a reply");

    let mute = serve(|stream| async move {
        tokio::time::sleep(PATIENT).await;
        drop(stream);
    })
    .await;
    let outcome = check_tcp(mute, expect(Some("x"), bytes("x")), SHORT).await;
    assert_down(&outcome, Phase::Reply, "timed out after 200ms");
}

#[tokio::test]
async fn a_match_may_come_in_pieces_but_not_too_late() {
    let drip = serve(|mut stream| async move {
        for byte in [b"0123456789".as_slice(), b"needle"].concat() {
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(PATIENT).await;
    })
    .await;
    for expectation in [bytes("needle"), regex("^0.*9needle$")] {
        let outcome = check_tcp(drip, expect(None, expectation), PATIENT).await;
        assert_up(&outcome, "connected, reply as expected");
    }
    let reason =
        down_in(&check_tcp(drip, expect(None, bytes("needles")), SHORT).await, Phase::Reply).to_owned();
    assert!(reason.starts_with("timed out after 200ms; the reply does not contain"), "{reason}");
}

#[tokio::test]
async fn a_flood_is_read_up_to_a_bound() {
    let flood =
        serve(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
    for (expectation, missing) in [(bytes("y"), "contain"), (regex("y"), "match")] {
        let outcome = check_tcp(flood, expect(None, expectation), PATIENT).await;
        let reason = format!("the reply does not {missing} \"y\", and 65536 bytes were read");
        assert_down(&outcome, Phase::Reply, &reason);
    }
}

#[tokio::test]
async fn what_is_only_sent_arrives() {
    let (seen, mut sent) = tokio::sync::mpsc::channel(1);
    let address = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            let mut all = Vec::new();
            let end = stream.read_to_end(&mut all).await.map_err(|error| error.kind());
            seen.send((all, end)).await.unwrap();
        }
    })
    .await;
    let big = "x".repeat(1 << 20);
    for text in ["QUIT\r\n", &big] {
        let tcp = Tcp { send: Some(text.as_bytes().to_vec()), ..Tcp::default() };
        assert_up(&check_tcp(address, tcp, PATIENT).await, "connected");
        let (all, end) = sent.recv().await.unwrap();
        assert_eq!((all.len(), end), (text.len(), Ok(text.len())));
    }
}

#[tokio::test]
async fn an_answer_before_a_reset_counts() {
    let address = serve(|mut stream| async move {
        stream.write_all(b"+OK bye\r\n").await.unwrap();
        // Until what we close with is a reset, for something is unread.
        stream.readable().await.unwrap();
    })
    .await;
    let outcome = check_tcp(address, expect(Some("HELLO\r\n"), bytes("bye")), PATIENT).await;
    assert_up(&outcome, "connected, reply as expected");
    let outcome = check_tcp(address, expect(Some("HELLO\r\n"), bytes("hello")), PATIENT).await;
    let reason = "connection reset by peer (ECONNRESET); \
                  the reply does not contain \"hello\" (read 9 bytes: \"+OK bye\\r\\n\")";
    assert_down(&outcome, Phase::Reply, reason);
}
