//! `openssl s_server`, with the certificates and ciphers that old servers have.

use super::*;
use lvsd::engine::model::ClientCertificate;

/// Makes `NAME.pem` and `NAME.key`, self-signed for 127.0.0.1 and a.example.
fn self_signed(directory: &Path, name: &str, key: &str) {
    let arguments = format!(
        "req -x509 -newkey {key} -nodes -days 30 -subj /CN=a.example \
         -addext subjectAltName=DNS:a.example,IP:127.0.0.1 -keyout {name}.key -out {name}.pem"
    );
    must_run(directory, "openssl", &arguments);
}

async fn s_server(directory: &Path, name: &str, more: &str) -> Server {
    let address = free_address();
    let mut command = Command::new("openssl");
    command.current_dir(directory).args(["s_server", "-quiet", "-www", "-accept", &address.to_string()]);
    command.arg("-cert").arg(format!("{name}.pem")).arg("-key").arg(format!("{name}.key"));
    command.args(more.split_whitespace());
    Server::start(command, address).await
}

async fn check_tls(server: &Server, tls: Tls) -> String {
    let https = get("/", contains("s_server"), Some(tls.clone()));
    let tcp = words(&check(server.address, CheckKind::Tcp(Tcp { tls: Some(tls), ..Tcp::default() })).await);
    let http = words(&check(server.address, CheckKind::Http(https)).await);
    if http == "up: HTTP 200" { tcp } else { http }
}

#[tokio::test]
async fn certificates_of_all_kinds_pass_unverified() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    for (name, key) in [
        ("p256", "ec -pkeyopt ec_paramgen_curve:P-256"),
        ("p521", "ec -pkeyopt ec_paramgen_curve:P-521"),
        ("ed25519", "ed25519"),
        ("rsa2048", "rsa:2048"),
        ("rsa1024", "rsa:1024 -sha1"),
    ] {
        self_signed(directory, name, key);
        let server = s_server(directory, name, "-cipher DEFAULT:@SECLEVEL=0").await;
        assert_eq!(check_tls(&server, tls(false)).await, "up: connected, TLS 1.3", "{name}");
    }
    // X.509 version 1, which webpki cannot read.
    must_run(
        directory,
        "openssl",
        "req -new -newkey rsa:2048 -nodes -subj /CN=a.example -keyout v1.key -out v1.csr",
    );
    must_run(directory, "openssl", "x509 -req -in v1.csr -signkey v1.key -days 30 -out v1.pem");
    for (version, detail) in [("-tls1_3", "up: connected, TLS 1.3"), ("-tls1_2", "up: connected, TLS 1.2")] {
        let server = s_server(directory, "v1", version).await;
        assert_eq!(check_tls(&server, tls(false)).await, detail);
    }
}

#[tokio::test]
async fn a_self_signed_certificate_is_verified_when_it_stands_in_ca() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    self_signed(directory, "own", "rsa:2048");
    self_signed(directory, "other", "rsa:2048");
    let server = s_server(directory, "own", "").await;
    let with = |ca: &str| Tls { ca: Some(directory.join(ca)), ..tls(true) };
    assert_eq!(check_tls(&server, with("own.pem")).await, "up: connected, TLS 1.3");
    let other = Tls { server_name: Some("b.example".to_owned()), ..with("own.pem") };
    assert_eq!(
        check_tls(&server, other).await,
        "down: tls handshake: certificate is not valid for name \"b.example\" (valid for a.example, 127.0.0.1)"
    );
    assert_eq!(
        check_tls(&server, with("other.pem")).await,
        "down: tls handshake: certificate is one of an authority, self-signed perhaps, and does not stand in ca"
    );
}

#[tokio::test]
async fn old_protocols_and_ciphers_say_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    self_signed(directory, "own", "rsa:2048");
    for (arguments, wanted) in [
        (
            "-tls1_1 -cipher DEFAULT:@SECLEVEL=0",
            "down: tls handshake: the server refused: alert protocol version",
        ),
        ("-tls1_2 -cipher AES128-SHA", "down: tls handshake: the server refused: alert handshake failure"),
        (
            "-tls1_2 -cipher DHE-RSA-AES128-GCM-SHA256",
            "down: tls handshake: the server refused: alert handshake failure",
        ),
        ("-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256", "up: connected, TLS 1.2"),
        ("-tls1_3", "up: connected, TLS 1.3"),
    ] {
        let server = s_server(directory, "own", arguments).await;
        assert_eq!(check_tls(&server, tls(false)).await, wanted, "{arguments}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    self_signed(directory, "own", "rsa:2048");
    self_signed(directory, "client", "ec -pkeyopt ec_paramgen_curve:P-256");
    let certificate =
        ClientCertificate { certificate: directory.join("client.pem"), key: directory.join("client.key") };
    let with = Tls { client: Some(certificate), ..tls(false) };
    for version in ["-tls1_2", "-tls1_3"] {
        let demand = format!("{version} -Verify 1 -verify_return_error -verify_quiet -CAfile client.pem");
        let server = s_server(directory, "own", &demand).await;
        let up = check_tls(&server, with.clone()).await;
        assert!(up.starts_with("up: connected, TLS 1."), "{up}");
        let refused = check_tls(&server, tls(false)).await;
        assert!(refused.starts_with("down: ") && refused.contains("the server refused: alert "), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_wants_to_negotiate_again_is_down_in_time() {
    use std::io::{BufRead as _, Write as _};

    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    self_signed(directory, "own", "rsa:2048");
    let address = free_address();
    let mut command = Command::new("openssl");
    command.current_dir(directory).args(["s_server", "-tls1_2", "-cert", "own.pem", "-key", "own.key"]);
    command.args(["-accept", &address.to_string()]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server::start_talking(command, address).await;
    let (commands, said) = (server.child.stdin.take().unwrap(), server.child.stdout.take().unwrap());
    // It shows what it hears: a request is answered by its wish to begin anew.
    let provoker = std::thread::spawn(move || {
        let mut lines = std::io::BufReader::new(said).lines().map_while(Result::ok);
        let heard = lines.any(|line| line.starts_with("GET / "));
        (&commands).write_all(b"r\n").unwrap();
        heard
    });
    let http = get("/", contains("never"), Some(tls(false)));
    let outcome = check_within(address, CheckKind::Http(http), Duration::from_secs(5)).await;
    assert_eq!(words(&outcome), "down: reply: connection closed without a whole reply (read nothing)");
    assert!(provoker.join().unwrap());
}
