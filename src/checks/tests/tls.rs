//! The checks through TLS, against servers of our own.

use super::pki::{Identity, Pki, params, plain, serve_https, serve_tls, tls, with_versions};
use super::*;
use crate::checks::{PrepareError, TlsError};
use crate::engine::model::{BodyRule, ClientCertificate, Expect, Pattern, Tls, TlsVersion};

fn tcp(tls: Tls) -> Tcp {
    Tcp { tls: Some(tls), ..Tcp::default() }
}

fn named(pki: &Pki, name: &str) -> Tls {
    Tls { server_name: Some(name.to_owned()), ..pki.tls() }
}

/// An https check whose body must contain this.
fn https(tls: Tls, contains: &str) -> Http {
    let body = Some(BodyRule::Contains(contains.as_bytes().to_vec()));
    Http { urls: vec![Url { body, ..url("/") }], tls: Some(tls), ..get("/") }
}

async fn check_tls(address: SocketAddr, tls: Tls) -> Outcome {
    check_tcp(address, tcp(tls), PATIENT).await
}

#[tokio::test]
async fn a_valid_certificate_by_name_or_by_address() {
    let pki = Pki::new();
    let address = serve_https(pki.server(&["a.example", "127.0.0.1"])).await;
    assert_up(&check_tls(address, named(&pki, "a.example")).await, "connected, TLS 1.3");
    assert_up(&check_tls(address, pki.tls()).await, "connected, TLS 1.3");
    assert_up(&check_http(address, https(pki.tls(), "sni none"), PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn certificates_that_are_not_accepted() {
    let pki = Pki::new();
    let dated = |from: i32, to: i32| {
        let mut params = params(&["a.example"]);
        params.not_before = rcgen::date_time_ymd(from, 2, 28);
        params.not_after = rcgen::date_time_ymd(to, 2, 29);
        pki.issue(&params)
    };
    let mut authority = params(&["a.example"]);
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let cases = [
        (dated(2020, 2024), "certificate expired on 2024-02-29"),
        (dated(2096, 2104), "certificate is not valid before 2096-02-28"),
        (
            pki.issue(&params(&["b.example", "c.example"])),
            "certificate is not valid for name \"a.example\" (valid for b.example, c.example)",
        ),
        (
            pki.issue(&params(&["1.example", "2.example", "3.example", "4.example", "5.example"])),
            "certificate is not valid for name \"a.example\" \
             (valid for 1.example, 2.example, 3.example, 4.example and 1 more)",
        ),
        (Identity::self_signed(&params(&["a.example"])), "certificate has an unknown issuer"),
        (
            Identity::self_signed(&authority),
            "certificate is one of an authority, self-signed perhaps, and does not stand in ca",
        ),
    ];
    for (identity, reason) in cases {
        let address = serve_https(plain(identity)).await;
        let outcome = check_tls(address, named(&pki, "a.example")).await;
        assert_down(&outcome, Phase::TlsHandshake, reason);
        let lax = Tls { verify: false, ..named(&pki, "a.example") };
        assert_up(&check_tls(address, lax).await, "connected, TLS 1.3");
    }
    let address = serve_https(pki.server(&["a.example"])).await;
    let outcome = check_tls(address, pki.tls()).await;
    let reason = "certificate is not valid for name \"127.0.0.1\" (valid for a.example)";
    assert_down(&outcome, Phase::TlsHandshake, reason);
}

#[tokio::test]
async fn the_systems_authorities_are_the_default() {
    let pki = Pki::new();
    let address = serve_https(pki.server(&["a.example"])).await;
    let outcome = check_tls(address, Tls { server_name: Some("a.example".to_owned()), ..tls() }).await;
    assert_down(&outcome, Phase::TlsHandshake, "certificate has an unknown issuer");
}

#[tokio::test]
async fn a_servers_own_certificate_may_stand_in_ca() {
    let pki = Pki::new();
    // As `openssl req -x509` makes them: self-signed and an authority.
    let mut authority = params(&["a.example"]);
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let mut expired = authority.clone();
    expired.not_after = rcgen::date_time_ymd(2024, 2, 29);
    for (params, wanted) in [
        (params(&["a.example"]), None),
        (authority, None),
        (expired, Some("certificate expired on 2024-02-29")),
    ] {
        let identity = Identity::self_signed(&params);
        let ca = Some(pki.write("self.pem", &identity.pem));
        let address = serve_https(plain(identity)).await;
        let pinned = Tls { ca, ..named(&pki, "a.example") };
        let outcome = check_tls(address, pinned.clone()).await;
        match wanted {
            Some(reason) => assert_down(&outcome, Phase::TlsHandshake, reason),
            None => {
                assert_up(&outcome, "connected, TLS 1.3");
                let other = Tls { server_name: Some("b.example".to_owned()), ..pinned };
                let reason = "certificate is not valid for name \"b.example\" (valid for a.example)";
                assert_down(&check_tls(address, other).await, Phase::TlsHandshake, reason);
            }
        }
    }
}

#[tokio::test]
async fn the_name_sent_is_the_checks_own_before_the_virtual_host() {
    let pki = Pki::new();
    let address = serve_https(pki.server_by_name(&["a.example", "b.example"])).await;
    let host = |tls: Tls, contains: &str| Http {
        virtualhost: Some("a.example:8443".to_owned()),
        ..https(tls, contains)
    };
    for (http, up) in [
        (host(pki.tls(), "sni a.example host a.example:8443."), true),
        (host(named(&pki, "b.example"), "sni b.example host a.example:8443."), true),
        (host(Tls { verify: false, ..named(&pki, "b.example") }, "sni b.example"), true),
        (host(Tls { verify: false, ..pki.tls() }, "sni a.example"), true),
        (host(named(&pki, "c.example"), ""), false),
        (https(pki.tls(), ""), false),
    ] {
        let outcome = check_http(address, http, PATIENT).await;
        if up {
            assert_up(&outcome, "HTTP 200");
        } else {
            let reason = down_in(&outcome, Phase::TlsHandshake);
            assert!(reason.starts_with("the server refused: alert "), "{reason}");
        }
    }
    let mut of_url = host(pki.tls(), "sni b.example host b.example.");
    of_url.urls[0].virtualhost = Some("b.example".to_owned());
    assert_up(&check_http(address, of_url, PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn a_redirect_to_another_name_asks_for_its_certificate() {
    let pki = Pki::new();
    let address = serve_tls(pki.server_by_name(&["a.example", "b.example"]), |mut stream| async move {
        let mut request = [0; 4096];
        let Ok(1..) = stream.read(&mut request).await else { return };
        let reply = match stream.get_ref().1.server_name() {
            Some("a.example") => "HTTP/1.1 302 X\r\nLocation: https://b.example/\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\n\r\nb",
        };
        let _client_may_be_gone = stream.write_all(reply.as_bytes()).await;
    })
    .await;
    let http =
        Http { follow_redirects: true, virtualhost: Some("a.example".to_owned()), ..https(pki.tls(), "b") };
    assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
}

#[tokio::test]
async fn servers_that_want_a_client_certificate() {
    let pki = Pki::new();
    let address = serve_https(pki.demanding_server(&["a.example"])).await;
    let with = Tls { client: Some(pki.client()), ..named(&pki, "a.example") };
    assert_up(&check_http(address, https(with, "sni"), PATIENT).await, "HTTP 200");
    // In TLS 1.3 the refusal follows the handshake.
    let outcome = check_http(address, https(named(&pki, "a.example"), "sni"), PATIENT).await;
    let reason = "the server refused: alert certificate required (read nothing)";
    assert_down(&outcome, Phase::Reply, reason);
}

#[tokio::test]
async fn protocol_versions() {
    let pki = Pki::new();
    let identity = pki.issue(&params(&["127.0.0.1"]));
    let address = serve_https(Arc::new(with_versions(identity, &[&rustls::version::TLS12]))).await;
    assert_up(&check_tls(address, pki.tls()).await, "connected, TLS 1.2");
    let new_only = Tls { min_version: TlsVersion::Tls13, ..pki.tls() };
    let outcome = check_tls(address, new_only).await;
    assert_down(&outcome, Phase::TlsHandshake, "the server refused: alert protocol version");
}

#[tokio::test]
async fn application_protocols() {
    let pki = Pki::new();
    let mut config = with_versions(pki.issue(&params(&["127.0.0.1"])), rustls::ALL_VERSIONS);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let address = serve_https(Arc::new(config)).await;
    let with = |names: &[&str]| {
        let alpn = names.iter().map(|name| (*name).to_owned()).collect();
        https(Tls { alpn, ..pki.tls() }, "sni")
    };
    for names in [&["http/1.1"][..], &[]] {
        assert_up(&check_http(address, with(names), PATIENT).await, "HTTP 200");
    }
    let outcome = check_http(address, with(&["h2"]), PATIENT).await;
    let reason = "the server chose h2 by ALPN, and the check speaks HTTP/1";
    assert_down(&outcome, Phase::TlsHandshake, reason);
    let outcome = check_http(address, with(&["none-of-ours"]), PATIENT).await;
    assert_down(&outcome, Phase::TlsHandshake, "the server refused: alert no application protocol");
}

#[tokio::test]
async fn servers_that_do_not_speak_tls() {
    let speaks_first = serve(|mut stream| async move {
        let _client_may_be_gone = stream.write_all(b"220 hello\r\n").await;
        let _client_may_be_gone = stream.read(&mut [0; 1024]).await;
    })
    .await;
    assert_down(&check_tls(speaks_first, tls()).await, Phase::TlsHandshake, "the reply is not TLS");
    let closes = serve(|mut stream| async move {
        let _client_may_be_gone = stream.read(&mut [0; 65536]).await;
    })
    .await;
    let reason = "connection closed during the handshake";
    assert_down(&check_tls(closes, tls()).await, Phase::TlsHandshake, reason);
    let mute = serve(|stream| async move {
        tokio::time::sleep(PATIENT).await;
        drop(stream);
    })
    .await;
    let outcome = check_tcp(mute, tcp(tls()), SHORT).await;
    assert_down(&outcome, Phase::TlsHandshake, "timed out after 200ms");
}

#[tokio::test]
async fn send_and_expect_go_through_tls() {
    let pki = Pki::new();
    let address = serve_tls(pki.server(&["127.0.0.1"]), |mut stream| async move {
        let mut line = [0; 64];
        while let Ok(read @ 1..) = stream.read(&mut line).await {
            let _client_may_be_gone = stream.write_all(&line[..read]).await;
            let _client_may_be_gone = stream.flush().await;
        }
    })
    .await;
    let echo = |expect: &str| Tcp {
        send: Some(b"ping\n".to_vec()),
        expect: Some(Expect::Bytes(expect.as_bytes().to_vec())),
        tls: Some(pki.tls()),
        ..Tcp::default()
    };
    let outcome = check_tcp(address, echo("ping"), PATIENT).await;
    assert_up(&outcome, "connected, TLS 1.3, reply as expected");
    let outcome = check_tcp(address, echo("pong"), SHORT).await;
    let reason = "timed out after 200ms; the reply does not contain \"pong\" (read 5 bytes: \"ping\\n\")";
    assert_down(&outcome, Phase::Reply, reason);
}

#[tokio::test]
async fn a_body_that_ends_without_close_notify_is_whole() {
    let pki = Pki::new();
    let address = serve_tls(pki.server(&["127.0.0.1"]), |mut stream| async move {
        let mut request = [0; 4096];
        let Ok(1..) = stream.read(&mut request).await else { return };
        let _client_may_be_gone = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it").await;
        let _client_may_be_gone = stream.flush().await;
    })
    .await;
    let body = Some(BodyRule::Regex(Pattern::new_compiled("^all of it$".to_owned())));
    let http = Http { urls: vec![Url { body, ..url("/") }], tls: Some(pki.tls()), ..get("/") };
    assert_up(&check_http(address, http, PATIENT).await, "HTTP 200");
}

#[test]
fn files_that_cannot_be_used() {
    let pki = Pki::new();
    let prepare = |tls: Tls| Preparer::new().prepare(&Arc::new(CheckKind::Tcp(tcp(tls))));
    let missing = pki.path("missing.pem");
    let error = prepare(Tls { ca: Some(missing.clone()), ..tls() }).unwrap_err();
    assert!(matches!(&error, PrepareError::Tls(TlsError::Read { path, .. }) if *path == missing));
    let words = format!("read certificates from {}: no such file or directory (ENOENT)", missing.display());
    assert_eq!(error.to_string(), words);

    let empty = pki.write("empty.pem", "no certificate here\n");
    let error = prepare(Tls { ca: Some(empty), ..tls() }).unwrap_err();
    assert!(matches!(error, PrepareError::Tls(TlsError::Empty { .. })), "{error}");

    let client = pki.client();
    let without_key = ClientCertificate { key: client.certificate.clone(), ..client.clone() };
    let error = prepare(Tls { client: Some(without_key), ..pki.tls() }).unwrap_err();
    assert!(error.to_string().starts_with("read a private key from "), "{error}");

    let other = rcgen::KeyPair::generate().unwrap();
    let key = pki.write("other.key", &other.serialize_pem());
    let error = prepare(Tls { client: Some(ClientCertificate { key, ..client }), ..pki.tls() }).unwrap_err();
    assert!(matches!(error, PrepareError::Tls(TlsError::Client { .. })), "{error}");

    let error = prepare(named(&pki, "not a name")).unwrap_err();
    assert!(matches!(error, PrepareError::Name { .. }), "{error}");
}

#[test]
fn equal_checks_are_prepared_once() {
    let pki = Pki::new();
    let preparer = Preparer::new();
    let kind = |name: &str| Arc::new(CheckKind::Tcp(tcp(named(&pki, name))));
    let first = preparer.prepare(&kind("a.example")).unwrap();
    std::fs::remove_file(pki.path("ca.pem")).unwrap();
    assert!(Arc::ptr_eq(&first, &preparer.prepare(&kind("a.example")).unwrap()));
    // Another name, the same files: they are not read again.
    assert!(!Arc::ptr_eq(&first, &preparer.prepare(&kind("b.example")).unwrap()));
    assert!(Preparer::new().prepare(&kind("a.example")).is_err());
}
