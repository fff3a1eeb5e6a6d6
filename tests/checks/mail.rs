//! Mail to exim, one daemon with a port for each way in which it takes mail. What it has taken lies in its
//! queue, where nobody delivers it.

use super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

use lvsd::engine::model::{Endpoint, EventKind, Login, Mail, SmtpTls};
use lvsd::notify::Outlets;

use super::outlets::{SOON, closing, event, lost, told, until};

/// The ports, in the order in which they stand in the configuration.
#[derive(Clone, Copy, Debug)]
enum Port {
    Plain,
    StartTls,
    Implicit,
    WithoutTls,
}

const PORTS: usize = 4;

const CONFIG: &str = r#"
primary_hostname = mx.example
spool_directory = DIRECTORY
log_file_path = DIRECTORY/%slog
local_interfaces = ADDRESS
daemon_smtp_ports = P0 : P1 : P2 : P3
tls_on_connect_ports = P2
tls_certificate = DIRECTORY/mx.pem
tls_privatekey = DIRECTORY/mx.key
tls_advertise_hosts = ${if eq{$received_port}{P3}{}{*}}
smtp_banner = mx.example ESMTP\nall is well
host_lookup =
rfc1413_hosts =
helo_try_verify_hosts =
smtp_enforce_sync = true
queue_only = true
qualify_domain = mx.example
acl_smtp_mail = at_mail
acl_smtp_rcpt = at_rcpt
begin acl
at_mail:
  accept condition = ${if or{{eq{$received_port}{P0}}{eq{$received_port}{P3}}}}
  accept authenticated = *
  deny   message = log in first
at_rcpt:
  deny  local_parts = nobody
        message = no such user
  accept
begin routers
begin transports
begin retry
begin rewrite
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and{{eq{$auth2}{lvsd}}{eq{$auth3}{geheim}}}}
  server_set_id = $auth2
  server_advertise_condition = ${if eq{$received_port}{P1}{${if def:tls_in_cipher}}}
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = Username:: : Password::
  server_condition = ${if and{{eq{$auth1}{lvsd}}{eq{$auth2}{geheim}}}}
  server_set_id = $auth1
  server_advertise_condition = ${if eq{$received_port}{P2}}
"#;

/// Its files, ready for a start.
struct Prepared {
    ports: [SocketAddr; PORTS],
    directory: tempfile::TempDir,
}

fn prepare() -> Prepared {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let ports = own_addresses();
    certify(path, "mx", "mx.example", ports[0]);
    certify(path, "other", "other.example", ports[0]);
    std::fs::write(path.join("password"), "geheim\n").unwrap();
    // Exim gives up root, and then reads its key.
    must_run(path, "chmod", "-R a+rwX .");
    let mut text = CONFIG.replace("DIRECTORY", path.to_str().unwrap());
    text = text.replace("ADDRESS", &ports[0].ip().to_string());
    for (i, port) in ports.iter().enumerate() {
        text = text.replace(&format!("P{i}"), &port.port().to_string());
    }
    std::fs::write(path.join("exim.conf"), text).unwrap();
    Prepared { ports, directory }
}

impl Prepared {
    async fn start(&self) -> Server {
        let mut command = Command::new("/usr/sbin/exim4");
        let path = self.directory.path();
        command.arg("-bdf").arg("-C").arg(path.join("exim.conf")).arg("-oP").arg(path.join("pid"));
        Server::start(command, self.ports[0]).await
    }

    fn mail(&self, port: Port, tls: Option<SmtpTls>) -> Mail {
        let at = self.ports[port as usize];
        Mail {
            server: Endpoint { host: at.ip().to_string(), port: at.port() },
            from: "lvsd on lvs1 <lvsd@example.org>".to_owned(),
            to: vec!["ops@example.org".to_owned()],
            tls,
            login: None,
            timeout: SOON,
            min_interval: Duration::from_secs(1),
            events: BTreeSet::from(EventKind::ALL),
        }
    }

    fn login(&self) -> Option<Login> {
        Some(Login { user: "lvsd".to_owned(), password_file: self.path("password") })
    }

    fn trusted(&self, ca: &str) -> Tls {
        Tls { ca: Some(self.path(ca)), ..tls(true) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("mainlog")).unwrap_or_default()
    }

    /// What the queue holds, the oldest first: envelope and headers, then the body.
    fn queue(&self) -> Vec<(String, String)> {
        let mut mails = Vec::new();
        let Ok(entries) = std::fs::read_dir(self.path("input")) else { return mails };
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        names.sort();
        for head in names.iter().filter(|path| path.to_str().unwrap().ends_with("-H")) {
            let body = head.to_str().unwrap().strip_suffix("-H").unwrap().to_owned() + "-D";
            let read = |path: &Path| std::fs::read_to_string(path).unwrap();
            mails.push((read(head), read(Path::new(&body))));
        }
        mails
    }
}

/// Tells of a server and a quorum that are lost, and waits until that is mailed.
async fn mailed(mail: Mail) {
    let mut outlets = told(Some(mail), vec![]);
    outlets.tell(event(1), None);
    outlets.tell(lost(2), None);
    until(|| outlets.mail_counters().delivered == 2).await;
    closing(outlets).await;
}

/// Why a mail could not be sent, by the number of tries that failed before the settings were put right.
async fn mailed_after(mut outlets: Outlets, right: Mail) {
    outlets.tell(event(1), None);
    until(|| outlets.mail_counters().failed == 1).await;
    assert_eq!(outlets.mail_counters().delivered, 0);
    outlets.configure(&super::outlets::settings(Some(right), vec![]));
    until(|| outlets.mail_counters().delivered == 1).await;
    closing(outlets).await;
}

#[tokio::test]
async fn what_happens_together_is_one_mail() {
    let exim = prepare();
    let _server = exim.start().await;
    mailed(exim.mail(Port::Plain, None)).await;
    let queue = exim.queue();
    let [(head, body)] = queue.as_slice() else { panic!("{queue:?}") };
    for line in [
        "From: \"lvsd on lvs1\" <lvsd@example.org>",
        "To: ops@example.org",
        "Auto-Submitted: auto-generated",
        "<lvsd@example.org>",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    let subject = "[lvs1] Realserver 198.51.100.11:80 of virtual server web - DOWN; Virtualserver web - DOWN";
    let unfolded = head.replace("\n ", " ");
    assert!(unfolded.contains(&format!("Subject: {subject}")), "{head}");
    for line in [
        "real server 198.51.100.11:80 of web is DOWN",
        "  tcp check: connect: connection refused (ECONNREFUSED)",
        "virtual server web (tcp 192.0.2.10:80) is DOWN: quorum lost",
        "  weight of the servers that are up: 0 of 1",
        "lvsd on lvs1. What holds now: lvsd status",
    ] {
        assert!(body.lines().any(|one| one == line), "{line} in {body}");
    }
    let log = exim.log();
    for complaint in ["synchronization error", "unexpected", "rejected", "TLS error", "lost connection"] {
        assert!(!log.contains(complaint), "{log}");
    }
}

#[tokio::test]
async fn starttls_and_a_login() {
    let exim = prepare();
    let _server = exim.start().await;
    let tls = SmtpTls::StartTls(exim.trusted("mx.pem"));
    mailed(Mail { login: exim.login(), ..exim.mail(Port::StartTls, Some(tls)) }).await;
    let (head, _) = exim.queue().remove(0);
    assert!(head.contains("-auth_id lvsd"), "{head}");
    assert!(head.contains("TLS1.3"), "{head}");
}

#[tokio::test]
async fn implicit_tls_and_the_older_way_to_log_in() {
    let exim = prepare();
    let _server = exim.start().await;
    let tls = SmtpTls::Implicit(exim.trusted("mx.pem"));
    mailed(Mail { login: exim.login(), ..exim.mail(Port::Implicit, Some(tls)) }).await;
    let (head, _) = exim.queue().remove(0);
    assert!(head.contains("-auth_id lvsd"), "{head}");
}

#[tokio::test]
async fn no_mail_without_the_tls_that_is_wanted() {
    let exim = prepare();
    let _server = exim.start().await;
    let starttls = |ca| Some(SmtpTls::StartTls(exim.trusted(ca)));
    let wrong = [
        exim.mail(Port::WithoutTls, starttls("mx.pem")),
        exim.mail(Port::Plain, starttls("other.pem")),
        exim.mail(Port::Plain, Some(SmtpTls::Implicit(exim.trusted("mx.pem")))),
        exim.mail(Port::Implicit, Some(SmtpTls::Implicit(exim.trusted("other.pem")))),
    ];
    let count = wrong.len();
    for mail in wrong {
        mailed_after(told(Some(mail), vec![]), exim.mail(Port::Plain, None)).await;
    }
    assert_eq!(exim.queue().len(), count);
}

#[tokio::test]
async fn a_wrong_password_is_put_right_while_the_mail_waits() {
    let exim = prepare();
    let _server = exim.start().await;
    std::fs::write(exim.path("password"), "falsch\n").unwrap();
    let tls = SmtpTls::StartTls(exim.trusted("mx.pem"));
    let mail = Mail { login: exim.login(), ..exim.mail(Port::StartTls, Some(tls)) };
    let mut outlets = told(Some(mail), vec![]);
    outlets.tell(event(1), None);
    until(|| outlets.mail_counters().failed == 1).await;
    assert_eq!(exim.queue().len(), 0);
    std::fs::write(exim.path("password"), "geheim\n").unwrap();
    // The end of the daemon is a reason to try once more.
    closing(outlets).await;
    assert_eq!(exim.queue().len(), 1);
}

#[tokio::test]
async fn one_address_that_is_refused_costs_the_others_nothing() {
    let exim = prepare();
    let _server = exim.start().await;
    let to = ["nobody@example.org", "ops@example.org"].map(str::to_owned).to_vec();
    mailed(Mail { to, ..exim.mail(Port::Plain, None) }).await;
    let nobody = Mail { to: vec!["nobody@example.org".to_owned()], ..exim.mail(Port::Plain, None) };
    mailed_after(told(Some(nobody), vec![]), exim.mail(Port::Plain, None)).await;
    let queue = exim.queue();
    assert_eq!(queue.len(), 2);
    // The envelope: the number of recipients, and each on a line.
    assert!(queue[0].0.contains("\n1\nops@example.org\n"), "{}", queue[0].0);
}

#[tokio::test]
async fn a_server_that_comes_late_gets_one_mail_with_all() {
    let exim = prepare();
    let mut outlets = told(Some(exim.mail(Port::Plain, None)), vec![]);
    outlets.tell(event(1), None);
    until(|| outlets.mail_counters().failed == 1).await;
    outlets.tell(lost(2), None);
    let _server = exim.start().await;
    until(|| outlets.mail_counters().delivered == 2).await;
    closing(outlets).await;
    assert_eq!(exim.queue().len(), 1);
}

#[tokio::test]
async fn mails_keep_their_distance() {
    let exim = prepare();
    let _server = exim.start().await;
    let mail = Mail { min_interval: Duration::from_secs(4), ..exim.mail(Port::Plain, None) };
    let mut outlets = told(Some(mail), vec![]);
    outlets.tell(event(1), None);
    until(|| outlets.mail_counters().delivered == 1).await;
    let first = std::time::Instant::now();
    for sequence in 2..=11 {
        outlets.tell(event(sequence), None);
    }
    until(|| outlets.mail_counters().delivered == 11).await;
    assert!(first.elapsed() >= Duration::from_secs(3), "{:?}", first.elapsed());
    closing(outlets).await;
    let queue = exim.queue();
    assert_eq!(queue.len(), 2);
    assert!(queue[1].0.replace("\n ", " ").contains("10 changes: 10 real servers DOWN"), "{}", queue[1].0);
}

#[tokio::test]
async fn a_server_that_hangs_delays_the_end_no_longer_than_it_may() {
    let exim = prepare();
    let server = exim.start().await;
    server.pause();
    let mut outlets = told(Some(exim.mail(Port::Plain, None)), vec![]);
    outlets.tell(event(1), None);
    // Were it not bounded, this would last as long as the mail's own time.
    outlets.finish(Duration::from_millis(200)).await;
    drop(server);
    assert_eq!(exim.queue().len(), 0);
}
