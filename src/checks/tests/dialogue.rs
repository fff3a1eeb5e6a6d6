//! Dialogues of the `tcp` check.

use super::*;
use crate::engine::model::{Exchange, Expect, Pattern};

fn step(expect: &str, send: &str) -> Exchange {
    let bytes = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
    let expect = match expect.strip_prefix('/') {
        Some(pattern) => Some(Expect::Regex(Pattern::new_compiled(pattern.to_owned()))),
        None => bytes(expect).map(Expect::Bytes),
    };
    Exchange { expect, send: bytes(send) }
}

fn dialogue(steps: &[(&str, &str)]) -> Tcp {
    Tcp { dialogue: steps.iter().map(|(expect, send)| step(expect, send)).collect(), ..Tcp::default() }
}

/// POP3, in pieces of `piece` bytes.
async fn pop3(piece: usize) -> SocketAddr {
    serve(move |stream| async move {
        stream.set_nodelay(true).unwrap();
        let (read, mut write) = stream.into_split();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(read));
        let mut answer = "+OK ready <1@a>\r\n".to_owned();
        loop {
            for piece in answer.as_bytes().chunks(piece) {
                if write.write_all(piece).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            let Ok(Some(line)) = lines.next_line().await else { return };
            answer = match line.as_str() {
                "QUIT" => "+OK bye\r\n".to_owned(),
                "CAPA" => "+OK\r\nUSER\r\nTOP\r\n.\r\n".to_owned(),
                other => format!("-ERR {other}?\r\n"),
            };
        }
    })
    .await
}

#[tokio::test]
async fn steps_are_taken_in_turn() {
    for piece in [1, 3, 1000] {
        let address = pop3(piece).await;
        for steps in [
            &[("+OK", "QUIT\r\n")][..],
            &[("+OK", "CAPA\r\n"), ("/(?m)^USER\r$", ""), ("\r\n.\r\n", "QUIT\r\n"), ("+OK bye\r\n", "")],
            &[("", "CAPA\r\n"), ("/^\\+OK ready.*\r\n", ""), ("/^\\+OK\r\n", "")],
            &[("", "A\r\n"), ("", "B\r\n"), ("-ERR A?", ""), ("-ERR B?", "")],
        ] {
            let outcome = check_tcp(address, dialogue(steps), PATIENT).await;
            assert_up(&outcome, "connected, dialogue as expected");
        }
    }
}

/// What one step has matched is nothing to the next one, wherever the bytes were cut.
#[tokio::test]
async fn a_match_is_used_up() {
    for piece in [1, 1000] {
        let address = pop3(piece).await;
        let outcome = check_tcp(address, dialogue(&[("+OK", ""), ("+OK", "")]), SHORT).await;
        let reason = "step 2 of 2: timed out after 200ms; \
                      the reply does not contain \"+OK\" (read 14 bytes: \" ready <1@a>\\r\\n\")";
        assert_down(&outcome, Phase::Reply, reason);
    }
}

#[tokio::test]
async fn a_failure_says_its_step() {
    let address = pop3(1000).await;
    let steps = dialogue(&[("+OK", "STAT\r\n"), ("/(?m)^\\+OK", "QUIT\r\n"), ("bye", "")]);
    let outcome = check_tcp(address, steps, SHORT).await;
    let reason = "step 2 of 3: timed out after 200ms; the reply does not match \"(?m)^\\\\+OK\" \
                  (read 26 bytes: \" ready <1@a>\\r\\n-ERR STAT?\\r\\n\")";
    assert_down(&outcome, Phase::Reply, reason);

    let hangs_up = serve(|mut stream| async move {
        stream.write_all(b"220 hi\r\n").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();
    })
    .await;
    let outcome = check_tcp(hangs_up, dialogue(&[("220 hi\r\n", "QUIT"), ("221", "")]), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "step 2 of 2: connection closed without a reply");
    // A server that has said all that was asked for may close on QUIT.
    let outcome = check_tcp(hangs_up, dialogue(&[("220 hi\r\n", "QUIT")]), PATIENT).await;
    assert_up(&outcome, "connected, dialogue as expected");

    let flood =
        serve(|mut stream| async move { while stream.write_all(&[b'x'; 4096]).await.is_ok() {} }).await;
    for (wanted, missing) in [("y", "contain \"y\""), ("/y", "match \"y\"")] {
        let outcome = check_tcp(flood, dialogue(&[("x", ""), (wanted, "")]), PATIENT).await;
        let reason = format!("step 2 of 2: the reply does not {missing}, and 65536 bytes were read");
        assert_down(&outcome, Phase::Reply, &reason);
    }
}

#[tokio::test]
async fn what_is_sent_last_arrives() {
    let (seen, mut sent) = tokio::sync::mpsc::channel(1);
    let address = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            stream.write_all(b"+OK\r\n").await.unwrap();
            let mut all = Vec::new();
            let end = stream.read_to_end(&mut all).await.map_err(|error| error.kind());
            seen.send((all, end)).await.unwrap();
        }
    })
    .await;
    let outcome = check_tcp(address, dialogue(&[("+OK\r\n", "QUIT\r\n")]), PATIENT).await;
    assert_up(&outcome, "connected, dialogue as expected");
    assert_eq!(sent.recv().await, Some((b"QUIT\r\n".to_vec(), Ok(6))));
}
