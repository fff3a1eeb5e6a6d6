//! The `http` check and well-behaved servers.

use super::*;
use crate::engine::model::{BodyRule, Digest, Pattern};

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn with_body(rule: BodyRule) -> Http {
    Http { urls: vec![Url { body: Some(rule), ..url("/") }], ..get("/") }
}

fn contains(text: &str) -> Http {
    with_body(BodyRule::Contains(text.as_bytes().to_vec()))
}

/// What a server is asked, with an answer of its own to each path.
async fn record(
    answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static,
) -> (SocketAddr, tokio::sync::mpsc::Receiver<String>) {
    let (seen, requests) = tokio::sync::mpsc::channel(64);
    let address = serve(move |mut stream| {
        let (seen, answer) = (seen.clone(), answer.clone());
        async move {
            let request = read_request(&mut stream).await;
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            seen.send(request).await.unwrap();
            let _client_may_be_gone = stream.write_all(answer(&path).as_bytes()).await;
        }
    })
    .await;
    (address, requests)
}

#[tokio::test]
async fn the_status_decides() {
    for (status, wanted) in [(200, true), (204, true), (299, true), (301, false), (404, false), (503, false)]
    {
        let address = serve_reply(format!("HTTP/1.1 {status} X\r\n\r\n")).await;
        let outcome = check_http(address, get("/"), PATIENT).await;
        if wanted {
            assert_up(&outcome, &format!("HTTP {status}"));
        } else {
            assert_down(&outcome, Phase::Status, &format!("status {status}, wanted 200-299"));
        }
    }
    let address = serve_reply("HTTP/1.0 404 Not Found\r\n\r\n").await;
    let status = StatusSet::new([(302, 302), (404, 405)]);
    let http = Http { urls: vec![Url { status, ..url("/") }], ..get("/") };
    assert_up(&check_http(address, http, PATIENT).await, "HTTP 404");
}

#[tokio::test]
async fn what_a_server_is_asked() {
    let (address, mut requests) = record(|_| ok("")).await;
    let headers = vec![("X-Check".to_owned(), "1".to_owned())];
    let http = Http { headers, virtualhost: Some("www.example".to_owned()), ..get("/a b?c=\u{fc}") };
    assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
    let agent = env!("CARGO_PKG_VERSION");
    let request = requests.recv().await.unwrap();
    assert_eq!(
        request,
        format!(
            "GET /a%20b?c=%C3%BC HTTP/1.1\r\nHost: www.example\r\nUser-Agent: lvsd/{agent}\r\n\
             Accept: */*\r\nConnection: close\r\nX-Check: 1\r\n\r\n"
        )
    );
    assert_up(&check_http(address, get("/"), PATIENT).await, "HTTP 200");
    assert!(requests.recv().await.unwrap().contains(&format!("\r\nHost: {address}\r\n")));
}

#[tokio::test]
async fn an_ipv6_server_is_asked_in_brackets() {
    let (seen, mut hosts) = tokio::sync::mpsc::channel(1);
    let address = serve_on("[::1]:0", move |mut stream| {
        let seen = seen.clone();
        async move {
            seen.send(read_request(&mut stream).await).await.unwrap();
            stream.write_all(ok("").as_bytes()).await.unwrap();
        }
    })
    .await;
    assert_up(&check_http(address, get("/"), PATIENT).await, "HTTP 200");
    let host = format!("\r\nHost: [::1]:{}\r\n", address.port());
    assert!(hosts.recv().await.unwrap().contains(&host));
}

#[tokio::test]
async fn a_body_is_sent_whole() {
    let body = vec![b'x'; 3 << 20];
    let length = body.len();
    let address = serve(move |mut stream| async move {
        let head = read_request(&mut stream).await;
        assert!(head.contains(&format!("\r\nContent-Length: {length}\r\n")), "{head}");
        let mut got = vec![0; length];
        stream.read_exact(&mut got).await.unwrap();
        stream.write_all(ok("thanks").as_bytes()).await.unwrap();
    })
    .await;
    let http = Http { method: "POST".to_owned(), request_body: Some(body), ..contains("thanks") };
    assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn bodies_however_they_are_framed() {
    for reply in [
        ok("all is well"),
        "HTTP/1.0 200 OK\r\n\r\nall is well".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nall is\r\n5;x\r\n well\r\n0\r\n\r\n"
            .to_owned(),
        format!("HTTP/1.1 103 Early Hints\r\n\r\n{}", ok("all is well")),
    ] {
        let address = serve_reply(reply).await;
        assert_up(&check_http(address, contains("is well"), PATIENT).await, "HTTP 200");
        let regex = BodyRule::Regex(Pattern::new_compiled("^all.*well$".to_owned()));
        assert_up(&check_http(address, with_body(regex), PATIENT).await, "HTTP 200");
        let outcome = check_http(address, contains("down"), PATIENT).await;
        let reason = "the body does not contain \"down\" (read 11 bytes: \"all is well\")";
        assert_down(&outcome, Phase::Body, reason);
        let not = BodyRule::NotRegex(Pattern::new_compiled("i.".to_owned()));
        let reason = "the body matches \"i.\" with \"is\" (read 11 bytes: \"all is well\")";
        assert_down(&check_http(address, with_body(not), PATIENT).await, Phase::Body, reason);
    }
}

#[tokio::test]
async fn digests_of_bodies() {
    let address = serve_reply(ok("")).await;
    let empty = *b"\xd4\x1d\x8c\xd9\x8f\x00\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e";
    let with = |digest| Http { urls: vec![Url { digest: Some(digest), ..url("/") }], ..get("/") };
    assert_up(&check_http(address, with(Digest::Md5(empty)), PATIENT).await, "HTTP 200");
    let outcome = check_http(address, with(Digest::Sha256([0; 32])), PATIENT).await;
    assert!(down_in(&outcome, Phase::Body).starts_with("the body's digest is sha256:e3b0c44298fc1c14"));
}

#[tokio::test]
async fn head_needs_no_body() {
    let address = serve_reply("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n").await;
    let regex = BodyRule::Regex(Pattern::new_compiled("^$".to_owned()));
    let http = Http { method: "HEAD".to_owned(), ..with_body(regex) };
    assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn urls_are_asked_in_turn_until_one_fails() {
    let (address, mut requests) =
        record(|path| if path == "/b" { "HTTP/1.1 503 X\r\n\r\n".to_owned() } else { ok("") }).await;
    let http = |paths: &[&str]| Http { urls: paths.iter().map(|path| url(path)).collect(), ..get("/") };
    assert_up(&check_http(address, http(&["/a", "/c"]), PATIENT).await, "HTTP 200");
    let outcome = check_http(address, http(&["/a", "/b", "/c"]), PATIENT).await;
    assert_down(&outcome, Phase::Status, "status 503, wanted 200-299 at \"/b\"");
    drop(outcome);
    let mut paths = Vec::new();
    while let Ok(request) = requests.try_recv() {
        paths.push(request.split(' ').nth(1).unwrap().to_owned());
    }
    assert_eq!(paths, ["/a", "/c", "/a", "/b"]);
}

#[tokio::test]
async fn redirects_are_followed_if_wanted() {
    let moved = |code: u16, to: &str| format!("HTTP/1.1 {code} X\r\nLocation: {to}\r\n\r\n");
    let (address, mut requests) = record(move |path| match path {
        "/" => moved(301, "/a/b"),
        "/a/b" => moved(302, "http://b.example:8080/c?d"),
        "/c?d" => moved(303, "e"),
        "/e" => ok("here"),
        "/loop" => moved(307, "/loop"),
        "/secure" => moved(308, "https://b.example/"),
        "/other" => moved(304, "/e"),
        _ => "HTTP/1.1 404 X\r\n\r\n".to_owned(),
    })
    .await;
    let follow = |path: &str| Http { follow_redirects: true, ..Http { urls: vec![url(path)], ..get("/") } };

    let posted = Http { method: "POST".to_owned(), ..follow("/") };
    assert_up(&check_http(address, posted, PATIENT).await, "HTTP 200");
    let mut asked = Vec::new();
    while let Ok(request) = requests.try_recv() {
        let mut lines = request.split("\r\n").map(str::to_owned);
        asked.push((lines.next().unwrap(), lines.next().unwrap()));
    }
    let wanted = [
        ("POST / HTTP/1.1", format!("Host: {address}")),
        ("GET /a/b HTTP/1.1", format!("Host: {address}")),
        ("GET /c?d HTTP/1.1", "Host: b.example:8080".to_owned()),
        ("GET /e HTTP/1.1", "Host: b.example:8080".to_owned()),
    ];
    assert_eq!(asked, wanted.map(|(line, host)| (line.to_owned(), host)));

    let outcome = check_http(address, follow("/loop"), PATIENT).await;
    assert_down(&outcome, Phase::Status, "redirected more than 5 times at \"/loop\"");
    let outcome = check_http(address, follow("/secure"), PATIENT).await;
    assert_down(&outcome, Phase::Status, "redirect to \"https://b.example/\" leaves http");
    let outcome = check_http(address, follow("/other"), PATIENT).await;
    assert_down(&outcome, Phase::Status, "status 304, wanted 200-299");
    let outcome = check_http(address, get("/"), PATIENT).await;
    assert_down(&outcome, Phase::Status, "status 301, wanted 200-299");
}
