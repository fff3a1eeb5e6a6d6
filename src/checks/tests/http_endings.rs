//! The `http` check and servers that end a reply badly, late, or not at all.

use super::*;
use crate::engine::model::{BodyRule, Pattern};

fn contains(text: &str) -> Http {
    let body = Some(BodyRule::Contains(text.as_bytes().to_vec()));
    Http { urls: vec![Url { body, ..url("/") }], ..get("/") }
}

fn regex(text: &str) -> Http {
    let body = Some(BodyRule::Regex(Pattern::new_compiled(text.to_owned())));
    Http { urls: vec![Url { body, ..url("/") }], ..get("/") }
}

/// Answers, then waits with the connection open.
async fn serve_keep_alive(reply: &'static str) -> SocketAddr {
    serve(move |mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(reply.as_bytes()).await.unwrap();
        tokio::time::sleep(PATIENT).await;
    })
    .await
}

/// Reads the request, answers, and resets the connection once the answer has arrived.
async fn serve_reset(reply: &'static str) -> SocketAddr {
    serve(move |mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(reply.as_bytes()).await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await
}

#[tokio::test]
async fn servers_that_keep_the_connection_do_not_make_us_wait() {
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let address = serve_keep_alive(reply).await;
        for http in [get("/"), contains("ok"), regex("^ok$")] {
            assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
        }
    }
    // With no length at all the first match is enough, and a status anyway.
    let address = serve_keep_alive("HTTP/1.1 200 OK\r\n\r\nok").await;
    for http in [get("/"), contains("ok")] {
        assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
    }
    let outcome = check_http(address, regex("ok"), SHORT).await;
    let reason = "timed out after 200ms; read 2 bytes of the body: \"ok\"";
    assert_down(&outcome, Phase::Body, reason);
}

#[tokio::test]
async fn a_drip_does_not_stretch_the_deadline() {
    let address = serve(|mut stream| async move {
        read_request(&mut stream).await;
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".repeat(100) {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if stream.write_all(&[byte]).await.is_err() {
                return;
            }
        }
    })
    .await;
    let outcome = check_http(address, get("/"), SHORT).await;
    let reason = down_in(&outcome, Phase::Reply);
    assert!(reason.starts_with("timed out after 200ms (read "), "{reason}");
    assert!(outcome.latency >= SHORT, "{:?}", outcome.latency);
    // In time, each byte for itself is as good as all at once.
    assert_up(&check_http(address, get("/"), PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn an_endless_reply_is_cut_at_the_deadline_or_the_bound() {
    let address = serve(|mut stream| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        while stream.write_all(&[b'x'; 16384]).await.is_ok() {}
    })
    .await;
    let outcome = check_http(address, Http { max_body: u64::MAX, ..contains("y") }, SHORT).await;
    assert!(down_in(&outcome, Phase::Body).starts_with("timed out after 200ms; read "));
    let reason = "the first 100000 bytes of the body do not contain \"y\"";
    let outcome = check_http(address, Http { max_body: 100_000, ..contains("y") }, PATIENT).await;
    assert_down(&outcome, Phase::Body, reason);
    let outcome = check_http(address, Http { max_body: 100_000, ..regex("y") }, PATIENT).await;
    assert_down(&outcome, Phase::Body, "the body is longer than max_body, 100000 bytes");

    let address = serve(|mut stream| async move {
        let _client_may_be_gone = stream.write_all(b"HTTP/1.1 200 ").await;
        while stream.write_all(&[b'x'; 16384]).await.is_ok() {}
    })
    .await;
    let reason = check_http(address, get("/"), PATIENT).await;
    let reason = down_in(&reason, Phase::Reply);
    assert!(reason.starts_with("the reply's header is longer than 65536 bytes (read "), "{reason}");
}

#[tokio::test]
async fn no_reply_at_all() {
    let mute = serve_keep_alive("").await;
    let outcome = check_http(mute, get("/"), SHORT).await;
    assert_down(&outcome, Phase::Reply, "timed out after 200ms (read nothing)");
    let closes = serve_reply("").await;
    let outcome = check_http(closes, get("/"), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "connection closed without a whole reply (read nothing)");
    let resets = serve_reset("").await;
    let outcome = check_http(resets, get("/"), PATIENT).await;
    assert_down(&outcome, Phase::Reply, "connection reset by peer (ECONNRESET) (read nothing)");
}

#[tokio::test]
async fn junk_is_told_from_http() {
    let address = serve_reply("xxxx HTTP/1.1 200 OK\r\n\r\n").await;
    let reason = "the reply is not HTTP/1 (read 24 bytes: \"xxxx HTTP/1.1 200 OK\\r\\n\\r\\n\")";
    assert_down(&check_http(address, get("/"), PATIENT).await, Phase::Status, reason);
    // A server that waits for more after its junk is found out at once.
    let address = serve_keep_alive("SSH-2.0-x\r\n").await;
    let reason = "the reply is not HTTP/1 (read 11 bytes: \"SSH-2.0-x\\r\\n\")";
    assert_down(&check_http(address, get("/"), PATIENT).await, Phase::Status, reason);
    let address = serve_reply("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").await;
    let reason = check_http(address, get("/"), PATIENT).await;
    assert!(down_in(&reason, Phase::Reply).contains("Content-Length"), "{reason:?}");
}

#[tokio::test]
async fn a_body_cut_short_fails_only_who_needs_it() {
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok so far",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\nok so far",
    ] {
        let address = serve_reply(reply).await;
        assert_up(&check_http(address, get("/"), PATIENT).await, "HTTP 200");
        assert_up(&check_http(address, contains("so"), PATIENT).await, "HTTP 200");
        let reason = "the reply's body is cut short (read 9 bytes of the body: \"ok so far\")";
        assert_down(&check_http(address, regex("ok"), PATIENT).await, Phase::Body, reason);
    }
}

#[tokio::test]
async fn a_whole_status_outweighs_the_reset_after_it() {
    for reply in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\nServer: half a head", "HTTP/1.0 200\n"] {
        let address = serve_reset(reply).await;
        assert_up(&check_http(address, get("/"), PATIENT).await, "HTTP 200");
        let closes = serve_reply(reply).await;
        assert_up(&check_http(closes, get("/"), PATIENT).await, "HTTP 200");
    }
    let address = serve_reset("HTTP/1.1 503 X\r\nServer: half").await;
    let reason = "status 503, wanted 200-299";
    assert_down(&check_http(address, get("/"), PATIENT).await, Phase::Status, reason);
    // Without the end of its line it may have become another code, or junk.
    let address = serve_reset("HTTP/1.1 200 O").await;
    let reason = "connection reset by peer (ECONNRESET) (read 14 bytes: \"HTTP/1.1 200 O\")";
    assert_down(&check_http(address, get("/"), PATIENT).await, Phase::Reply, reason);
    // A body that is needed is not there.
    let address = serve_reset("HTTP/1.1 200 OK\r\n\r\nall").await;
    let reason = "connection reset by peer (ECONNRESET); read 3 bytes of the body: \"all\"";
    assert_down(&check_http(address, regex("all"), PATIENT).await, Phase::Body, reason);
    assert_up(&check_http(address, contains("all"), PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn a_reply_that_came_before_the_request_was_read_counts() {
    // Answers at once and closes with the request unread: the kernel makes a reset of that.
    let hasty = serve(|mut stream| async move {
        let _client_may_be_gone = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nready").await;
    })
    .await;
    let waits = serve(|mut stream| async move {
        stream.readable().await.unwrap();
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nready").await.unwrap();
    })
    .await;
    let resets = serve(|mut stream| async move {
        stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nready").await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await;
    let big = || Some(vec![b'x'; 8 << 20]);
    for address in [hasty, waits, resets] {
        for _ in 0..20 {
            assert_up(&check_http(address, get("/"), PATIENT).await, "HTTP 200");
            assert_up(&check_http(address, contains("ready"), PATIENT).await, "HTTP 200");
        }
        // Far more than the socket takes: the rest cannot be written any more.
        let http = Http { method: "POST".to_owned(), request_body: big(), ..get("/") };
        assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
    }
    // Answers, reads nothing and stays: what is not sent must not keep us from reading.
    let stays = serve(|mut stream| async move {
        stream.write_all(b"HTTP/1.1 413 Too Large\r\n\r\n").await.unwrap();
        tokio::time::sleep(PATIENT).await;
    })
    .await;
    let http = Http { method: "POST".to_owned(), request_body: big(), ..get("/") };
    let reason = "status 413, wanted 200-299";
    assert_down(&check_http(stays, http, PATIENT).await, Phase::Status, reason);
}

#[tokio::test]
async fn a_request_that_nobody_reads_times_out_in_its_phase() {
    let address = serve(|stream| async move {
        tokio::time::sleep(PATIENT).await;
        drop(stream);
    })
    .await;
    let http = Http { method: "POST".to_owned(), request_body: Some(vec![b'x'; 8 << 20]), ..get("/") };
    let outcome = check_http(address, http, SHORT).await;
    assert_down(&outcome, Phase::Request, "timed out after 200ms (read nothing)");
}

#[tokio::test]
async fn one_deadline_over_all_urls() {
    let address = serve(|mut stream| async move {
        read_request(&mut stream).await;
        tokio::time::sleep(Duration::from_millis(80)).await;
        let _client_may_be_gone = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
    })
    .await;
    let urls = (0..10).map(|i| url(&format!("/{i}"))).collect();
    let outcome = check_http(address, Http { urls, ..get("/") }, SHORT).await;
    assert!(down_in(&outcome, Phase::Reply).starts_with("timed out after 200ms (read nothing) at \"/"));
}
