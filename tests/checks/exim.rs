//! exim, one daemon with a port for each way in which a mail server is well or ill.

use super::*;
use lvsd::engine::model::{Smtp, SmtpTls};

/// The ports, in the order in which they stand in the configuration.
#[derive(Clone, Copy, Debug)]
enum Port {
    Good,
    Refuses,
    RefusesEhlo,
    Busy,
    Slow,
    WithoutTls,
    Tls,
}

const PORTS: usize = 7;

const CONFIG: &str = r#"
primary_hostname = mx.example
spool_directory = DIRECTORY
log_file_path = DIRECTORY/%slog
local_interfaces = ADDRESS
daemon_smtp_ports = P0 : P1 : P2 : P3 : P4 : P5 : P6
tls_on_connect_ports = P6
tls_certificate = DIRECTORY/mx.pem
tls_privatekey = DIRECTORY/mx.key
tls_advertise_hosts = ${if eq{$received_port}{P5}{}{*}}
smtp_banner = mx.example ESMTP\nall is well
host_lookup =
rfc1413_hosts =
helo_try_verify_hosts =
smtp_enforce_sync = true
log_selector = +smtp_connection
acl_smtp_connect = at_connect
acl_smtp_helo = at_helo
begin acl
at_connect:
  deny  condition = ${if eq{$received_port}{P1}}
        message = no mail here
  defer condition = ${if eq{$received_port}{P3}}
        message = too many connections
  warn  condition = ${if eq{$received_port}{P4}}
        delay = 30s
  accept
at_helo:
  deny  condition = ${if eq{$received_port}{P2}}
        message = not you
  accept condition = ${if match{$sender_helo_name}{lvs1.example|127.0.0.1}}
  deny  message = who is $sender_helo_name?
begin routers
begin transports
begin retry
begin rewrite
begin authenticators
"#;

struct Exim {
    server: Server,
    ports: [SocketAddr; PORTS],
    directory: tempfile::TempDir,
}

async fn exim() -> Exim {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let ports = own_addresses();
    certify(path, "mx", "mx.example", ports[0]);
    certify(path, "other", "other.example", ports[0]);
    // Exim gives up root, and then reads its key.
    must_run(path, "chmod", "-R a+rwX .");
    let mut text = CONFIG.replace("DIRECTORY", path.to_str().unwrap());
    text = text.replace("ADDRESS", &ports[0].ip().to_string());
    for (i, port) in ports.iter().enumerate() {
        text = text.replace(&format!("P{i}"), &port.port().to_string());
    }
    std::fs::write(path.join("exim.conf"), text).unwrap();
    let mut command = Command::new("/usr/sbin/exim4");
    command.arg("-bdf").arg("-C").arg(path.join("exim.conf")).arg("-oP").arg(path.join("pid"));
    Exim { server: Server::start(command, ports[0]).await, ports, directory }
}

impl Exim {
    async fn check(&self, port: Port, smtp: Smtp) -> String {
        words(&check(self.ports[port as usize], CheckKind::Smtp(smtp)).await)
    }

    fn trusted(&self, ca: &str) -> Tls {
        Tls { ca: Some(self.directory.path().join(ca)), ..tls(true) }
    }
}

fn as_lvs1(tls: Option<SmtpTls>) -> Smtp {
    Smtp { helo: Some("lvs1.example".to_owned()), tls }
}

#[tokio::test]
async fn a_mail_server_that_is_well() {
    let exim = exim().await;
    assert_eq!(exim.check(Port::Good, as_lvs1(None)).await, "up: EHLO 250");
    // The name that it says by itself.
    assert_eq!(exim.check(Port::Good, Smtp::default()).await, "up: EHLO 250");
    let start_tls = |ca: &str| as_lvs1(Some(SmtpTls::StartTls(exim.trusted(ca))));
    let implicit = |ca: &str| as_lvs1(Some(SmtpTls::Implicit(exim.trusted(ca))));
    assert_eq!(exim.check(Port::Good, start_tls("mx.pem")).await, "up: EHLO 250, TLS 1.3");
    assert_eq!(exim.check(Port::Tls, implicit("mx.pem")).await, "up: EHLO 250, TLS 1.3");
    // It was spoken to as its protocol wants: nothing of that is in its log of things gone wrong.
    let log = std::fs::read_to_string(exim.directory.path().join("mainlog")).unwrap();
    assert!(log.matches("closed by QUIT").count() >= 3, "{log}");
    for complaint in ["synchronization error", "unexpected", "rejected", "TLS error"] {
        assert!(!log.contains(complaint), "{log}");
    }
}

#[tokio::test]
async fn a_mail_server_that_is_ill() {
    let exim = exim().await;
    let start_tls = |ca: &str| as_lvs1(Some(SmtpTls::StartTls(exim.trusted(ca))));
    let plain = || as_lvs1(None);
    let cases = [
        (Port::Refuses, plain(), "down: status: greeting: the server said \"550 no mail here\", wanted 220"),
        (
            Port::Busy,
            plain(),
            "down: status: greeting: the server said \"451 too many connections\", wanted 220",
        ),
        (Port::RefusesEhlo, plain(), "down: status: EHLO: the server said \"550 not you\", wanted 250"),
        (
            Port::WithoutTls,
            start_tls("mx.pem"),
            "down: tls handshake: STARTTLS: the server does not offer it",
        ),
        (
            Port::Good,
            start_tls("other.pem"),
            "down: tls handshake: certificate is one of an authority, self-signed perhaps, and does not stand in ca",
        ),
        (
            Port::Good,
            Smtp { helo: Some("stranger".to_owned()), tls: None },
            "down: status: EHLO: the server said \"550 who is stranger?\", wanted 250",
        ),
    ];
    for (port, smtp, wanted) in cases {
        assert_eq!(exim.check(port, smtp).await, wanted, "{port:?}");
    }
    // TLS where plain text is spoken, and the other way round.
    let implicit = as_lvs1(Some(SmtpTls::Implicit(exim.trusted("mx.pem"))));
    let said = exim.check(Port::Good, implicit).await;
    assert!(said.starts_with("down: tls handshake: "), "{said}");
    let slow =
        check_within(exim.ports[Port::Slow as usize], CheckKind::Smtp(plain()), Duration::from_secs(1));
    assert_eq!(words(&slow.await), "down: reply: greeting: timed out after 1s");
    let slow = check_within(exim.ports[Port::Tls as usize], CheckKind::Smtp(plain()), Duration::from_secs(1));
    assert_eq!(words(&slow.await), "down: reply: greeting: timed out after 1s");
    // A daemon that was stopped accepts, and says nothing.
    exim.server.pause();
    let mute = check_within(exim.ports[0], CheckKind::Smtp(plain()), Duration::from_secs(1)).await;
    assert_eq!(words(&mute), "down: reply: greeting: timed out after 1s");
    let gone = exim.ports[0];
    drop(exim);
    let outcome = check(gone, CheckKind::Smtp(plain())).await;
    assert_eq!(words(&outcome), "down: connect: connection refused (ECONNREFUSED)");
}
