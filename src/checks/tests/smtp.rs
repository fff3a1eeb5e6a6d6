//! The `smtp` check against servers that behave well and badly. Each is a list of lines: `<` is
//! what it must hear, `>` what it says, `!` ends the connection.

use super::pki::{Pki, serve_tls, tls};
use super::*;
use crate::engine::model::{Smtp, SmtpTls, Tls};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufStream};

async fn play(stream: impl AsyncRead + AsyncWrite + Unpin, lines: &str) {
    let mut stream = BufStream::new(stream);
    for line in lines.lines().map(str::trim) {
        if let Some(wanted) = line.strip_prefix('<') {
            let mut heard = String::new();
            if stream.read_line(&mut heard).await.unwrap_or(0) == 0 {
                return;
            }
            assert_eq!(heard.trim_end(), wanted.trim());
        } else if let Some(said) = line.strip_prefix('>') {
            stream.write_all(format!("{}\r\n", said.trim()).as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        } else {
            return;
        }
    }
    // Until the client has gone.
    let _ended = stream.read_to_end(&mut Vec::new()).await;
}

async fn server(lines: &'static str) -> SocketAddr {
    serve(move |stream| play(stream, lines)).await
}

async fn check_smtp(address: SocketAddr, tls: Option<SmtpTls>, timeout: Duration) -> Outcome {
    let smtp = Smtp { helo: Some("lvs1.example".to_owned()), tls };
    check(&target(address), CheckKind::Smtp(smtp), timeout).await
}

#[tokio::test]
async fn servers_that_are_up() {
    let cases = [
        ("> 220 mx ESMTP\n< EHLO lvs1.example\n> 250 mx\n< QUIT\n> 221 bye\n!", "EHLO 250"),
        // What keepalived takes for failures: many lines, no text, no answer to QUIT.
        (
            "> 220-mx\n> 220 ESMTP\n< EHLO lvs1.example\n> 250-mx\n> 250-SIZE\n> 250 HELP\n< QUIT\n> 221 a\n!",
            "EHLO 250",
        ),
        ("> 220\n< EHLO lvs1.example\n> 250\n< QUIT\n!", "EHLO 250"),
        ("> 220 mx\n< EHLO lvs1.example\n> 250 mx\n< QUIT\n> nonsense\n!", "EHLO 250"),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 502 what?\n< HELO lvs1.example\n> 250 mx\n< QUIT\n> 221 bye\n!",
            "HELO 250",
        ),
    ];
    for (lines, detail) in cases {
        assert_up(&check_smtp(server(lines).await, None, PATIENT).await, detail);
    }
}

#[tokio::test]
async fn servers_that_are_down() {
    let cases = [
        (
            "> 554 no service\n< QUIT\n> 221 bye",
            Phase::Status,
            "greeting: the server said \"554 no service\", wanted 220",
        ),
        ("> 421-too\n> 421 busy\n!", Phase::Status, "greeting: the server said \"421 too\", wanted 220"),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 421 shutting down\n!",
            Phase::Status,
            "EHLO: the server said \"421 shutting down\", wanted 250",
        ),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 550 not you\n< QUIT\n!",
            Phase::Status,
            "EHLO: the server said \"550 not you\", wanted 250",
        ),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 500 ?\n< HELO lvs1.example\n> 501 ?\n< QUIT\n!",
            Phase::Status,
            "HELO: the server said \"501 ?\", wanted 250",
        ),
        ("!", Phase::Reply, "greeting: connection closed"),
        ("> 220-half\n!", Phase::Reply, "greeting: connection closed (read \"220 half\")"),
        ("> 220 mx\n< EHLO lvs1.example\n!", Phase::Reply, "EHLO: connection closed"),
        ("> SSH-2.0-OpenSSH_9.2", Phase::Reply, "greeting: \"SSH-2.0-OpenSSH_9.2\" is no SMTP reply"),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 250-a\n> 550 b",
            Phase::Reply,
            "EHLO: one reply has two codes, 250 and 550",
        ),
    ];
    for (lines, phase, reason) in cases {
        assert_down(&check_smtp(server(lines).await, None, PATIENT).await, phase, reason);
    }
    let outcome = check_smtp(server("> 220-mute").await, None, SHORT).await;
    assert_down(&outcome, Phase::Reply, "greeting: timed out after 200ms (read \"220 mute\")");
    let flood =
        serve(|mut stream| async move { while stream.write_all(b"220-x\r\n").await.is_ok() {} }).await;
    let outcome = check_smtp(flood, None, PATIENT).await;
    assert_down(&outcome, Phase::Reply, "greeting: the reply has too many lines");
    let line = serve(|mut stream| async move { while stream.write_all(&[b'x'; 999]).await.is_ok() {} }).await;
    let outcome = check_smtp(line, None, PATIENT).await;
    assert_down(&outcome, Phase::Reply, "greeting: a line of the reply is too long");
}

#[tokio::test]
async fn without_a_name_it_says_its_address() {
    let lines = "> 220 mx\n< EHLO [127.0.0.1]\n> 250 mx\n< QUIT\n!";
    let outcome = check(&target(server(lines).await), CheckKind::Smtp(Smtp::default()), PATIENT).await;
    assert_up(&outcome, "EHLO 250");
    let lines = "> 220 mx\n< EHLO [IPv6:::1]\n> 250 mx\n< QUIT\n!";
    let v6 = serve_on("[::1]:0", move |stream| play(stream, lines)).await;
    assert_up(&check(&target(v6), CheckKind::Smtp(Smtp::default()), PATIENT).await, "EHLO 250");
}

/// A server that hears everything but QUIT.
#[tokio::test]
async fn a_farewell_has_an_end() {
    let lines = "> 220 mx\n< EHLO lvs1.example\n> 250 mx";
    assert_up(&check_smtp(server(lines).await, None, PATIENT).await, "EHLO 250");
    assert_up(&check_smtp(server(lines).await, None, SHORT).await, "EHLO 250");
}

/// Plain text up to the reply to STARTTLS, then TLS.
async fn start_tls(pki: &Pki, plain: &'static str, secure: &'static str) -> SocketAddr {
    let acceptor = tokio_rustls::TlsAcceptor::from(pki.server(&["127.0.0.1"]));
    serve(move |mut stream| {
        let acceptor = acceptor.clone();
        async move {
            for line in plain.lines() {
                match line.split_at(1) {
                    (">", said) => stream.write_all(format!("{}\r\n", said.trim()).as_bytes()).await.unwrap(),
                    _ => drop(read_line(&mut stream).await),
                }
            }
            if let Ok(stream) = acceptor.accept(stream).await {
                play(stream, secure).await;
            }
        }
    })
    .await
}

async fn read_line(stream: &mut TcpStream) -> Vec<u8> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && stream.read(&mut byte).await.unwrap_or(0) == 1 {
        line.push(byte[0]);
    }
    line
}

const SECURE: &str = "< EHLO lvs1.example\n> 250-mx\n> 250 AUTH\n< QUIT\n> 221 bye\n!";

#[tokio::test]
async fn starttls() {
    let pki = Pki::new();
    let wanted = || Some(SmtpTls::StartTls(pki.tls()));
    let plain = "> 220 mx\n<\n> 250-mx\n> 250 STARTTLS\n<\n> 220 go";
    let address = start_tls(&pki, plain, SECURE).await;
    assert_up(&check_smtp(address, wanted(), PATIENT).await, "EHLO 250, TLS 1.3");
    // The system's authorities do not know this one.
    let strict = Some(SmtpTls::StartTls(Tls { verify: true, ..tls() }));
    let outcome = check_smtp(address, strict, PATIENT).await;
    let reason = down_in(&outcome, Phase::TlsHandshake);
    assert!(reason.starts_with("certificate"), "{reason}");

    let address = start_tls(&pki, plain, "< EHLO lvs1.example\n> 454 later\n< QUIT\n!").await;
    let outcome = check_smtp(address, wanted(), PATIENT).await;
    assert_down(&outcome, Phase::Status, "EHLO: the server said \"454 later\", wanted 250");
}

#[tokio::test]
async fn starttls_that_does_not_come_about() {
    let pki = Pki::new();
    let cases = [
        (
            "> 220 mx\n< EHLO lvs1.example\n> 250 mx\n< QUIT\n!",
            Phase::TlsHandshake,
            "STARTTLS: the server does not offer it",
        ),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 500 ?\n< HELO lvs1.example\n> 250 mx\n< QUIT\n!",
            Phase::TlsHandshake,
            "STARTTLS: not possible, for the server does not know EHLO",
        ),
        (
            "> 220 mx\n< EHLO lvs1.example\n> 250-mx\n> 250 STARTTLS\n< STARTTLS\n> 454 not now\n< QUIT\n!",
            Phase::Status,
            "STARTTLS: the server said \"454 not now\", wanted 220",
        ),
    ];
    for (lines, phase, reason) in cases {
        let outcome = check_smtp(server(lines).await, Some(SmtpTls::StartTls(pki.tls())), PATIENT).await;
        assert_down(&outcome, phase, reason);
    }
    // Plain text in front of the handshake, as a thief on the way would put it there.
    let injected = serve(|mut stream| async move {
        stream.write_all(b"220 mx\r\n").await.unwrap();
        read_line(&mut stream).await;
        stream.write_all(b"250-mx\r\n250 STARTTLS\r\n").await.unwrap();
        read_line(&mut stream).await;
        stream.write_all(b"220 go\r\n250-mx\r\n250 AUTH\r\n").await.unwrap();
        let _ended = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let outcome = check_smtp(injected, Some(SmtpTls::StartTls(pki.tls())), PATIENT).await;
    assert_down(&outcome, Phase::TlsHandshake, "STARTTLS: more came in plain text behind the reply");
}

#[tokio::test]
async fn tls_from_the_first_byte() {
    let pki = Pki::new();
    let lines = "> 220 mx\n< EHLO lvs1.example\n> 250 mx\n< QUIT\n> 221 bye\n!";
    let address = serve_tls(pki.server(&["127.0.0.1"]), move |stream| play(stream, lines)).await;
    let outcome = check_smtp(address, Some(SmtpTls::Implicit(pki.tls())), PATIENT).await;
    assert_up(&outcome, "EHLO 250, TLS 1.3");
    let outcome = check_smtp(server("> 220 mx").await, Some(SmtpTls::Implicit(pki.tls())), PATIENT).await;
    down_in(&outcome, Phase::TlsHandshake);
}

#[tokio::test]
async fn a_server_that_refuses_hears_quit() {
    let (seen, mut heard) = tokio::sync::mpsc::channel(1);
    let address = serve(move |mut stream| {
        let seen = seen.clone();
        async move {
            stream.write_all(b"554 no service\r\n").await.unwrap();
            seen.send(read_line(&mut stream).await).await.unwrap();
            stream.write_all(b"221 bye\r\n").await.unwrap();
        }
    })
    .await;
    down_in(&check_smtp(address, None, PATIENT).await, Phase::Status);
    assert_eq!(heard.recv().await.unwrap(), b"QUIT\r\n");
}
