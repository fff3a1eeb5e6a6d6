//! The ready-made checks of `config/examples/checks`, on the servers that are light enough to
//! start in a test; each file says with what it was tried.

use super::*;
use lvsd::config::{Sources, load};

/// The check of that name in that file.
fn ready_made(file: &str, name: &str) -> CheckKind {
    let directory = tempfile::tempdir().unwrap();
    let main = directory.path().join("lvsd.toml");
    let file = std::fs::canonicalize(format!("config/examples/checks/{file}.toml")).unwrap();
    let text = format!(
        "include = [{file:?}]\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = \"{name}\"\n\
         [[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n"
    );
    std::fs::write(&main, text).unwrap();
    let loaded = load(&Sources::read(&main).unwrap()).unwrap_or_else(|errors| panic!("{errors}"));
    loaded.config.virtual_servers[0].real_servers[0].checks[0].probe.kind.as_ref().clone()
}

/// The same, trusting the certificates of this file.
fn trusting(kind: CheckKind, ca: &Path) -> CheckKind {
    match kind {
        CheckKind::Tcp(tcp) => {
            let tls = Some(Tls { ca: Some(ca.to_owned()), ..tcp.tls.unwrap() });
            CheckKind::Tcp(Tcp { tls, ..tcp })
        }
        other => panic!("{other:?}"),
    }
}

async fn redis(directory: &Path, more: &str) -> Server {
    let [address] = own_addresses();
    let mut command = Command::new("redis-server");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    command.args(["--port", &port, "--bind", &host, "--save", "", "--loglevel", "warning", "--dir"]);
    command.arg(directory).args(more.split_whitespace());
    Server::start(command, address).await
}

#[tokio::test]
async fn redis_answers() {
    let directory = tempfile::tempdir().unwrap();
    let (ping, replica) = (ready_made("redis", "redis"), ready_made("redis", "redis-replica"));
    let master = redis(directory.path(), "").await;
    let up = "up: connected, dialogue as expected";
    assert_eq!(words(&check(master.address, ping.clone()).await), up);
    assert_eq!(words(&check(master.address, replica.clone()).await), up);

    let locked = redis(directory.path(), "--requirepass secret").await;
    let wanted = "down: reply: step 2 of 2: timed out after 1s; the reply does not contain \"+PONG\\r\\n\" \
                  (read 34 bytes: \"-NOAUTH Authentication required.\\r\\n\")";
    assert_eq!(words(&check_within(locked.address, ping.clone(), Duration::from_secs(1)).await), wanted);

    let orphan = redis(directory.path(), "--replicaof 127.0.0.1 1").await;
    assert_eq!(words(&check(orphan.address, ping.clone()).await), up);
    let said = words(&check_within(orphan.address, replica, Duration::from_secs(1)).await);
    assert!(said.starts_with("down: reply: step 2 of 2: timed out after 1s; "), "{said}");

    master.pause();
    let said = words(&check_within(master.address, ping, Duration::from_secs(1)).await);
    assert_eq!(said, "down: reply: step 2 of 2: timed out after 1s");
}

const DOVECOT: &str = "
base_dir = DIRECTORY/run
state_dir = DIRECTORY/state
log_path = DIRECTORY/log
protocols = imap pop3
listen = ADDRESS
default_login_user = nobody
default_internal_user = nobody
default_internal_group = nogroup
ssl = yes
ssl_cert = <DIRECTORY/own.pem
ssl_key = <DIRECTORY/own.key
passdb {
  driver = static
  args = nopassword=y
}
service imap-login {
  inet_listener imap {
    port = IMAP
  }
  inet_listener imaps {
    port = SECURE
  }
}
service pop3-login {
  inet_listener pop3 {
    port = POP
  }
  inet_listener pop3s {
    port = HIDDEN
  }
}
";

#[tokio::test]
async fn dovecot_answers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let [imap, imaps, pop, pops] = own_addresses();
    certify(path, "own", "mail.example", imap);
    must_run(path, "chmod", "a+rx .");
    let mut text = DOVECOT.replace("DIRECTORY", path.to_str().unwrap());
    text = text.replace("ADDRESS", &imap.ip().to_string());
    for (name, address) in [("IMAP", imap), ("SECURE", imaps), ("POP", pop), ("HIDDEN", pops)] {
        text = text.replace(&format!("port = {name}"), &format!("port = {}", address.port()));
    }
    std::fs::write(path.join("dovecot.conf"), text).unwrap();
    let mut command = Command::new("/usr/sbin/dovecot");
    command.arg("-F").arg("-c").arg(path.join("dovecot.conf"));
    let server = Server::start(command, imap).await;
    let up = "up: connected, dialogue as expected";
    let secure = "up: connected, TLS 1.3, dialogue as expected";
    let ca = path.join("own.pem");
    assert_eq!(words(&check(imap, ready_made("imap", "imap")).await), up);
    assert_eq!(words(&check(imaps, trusting(ready_made("imap", "imaps"), &ca)).await), secure);
    assert_eq!(words(&check(pop, ready_made("pop", "pop")).await), up);
    assert_eq!(words(&check(pops, trusting(ready_made("pop", "pops"), &ca)).await), secure);
    // The one protocol is not the other.
    let said = words(&check_within(pop, ready_made("imap", "imap"), Duration::from_secs(1)).await);
    assert!(
        said.starts_with("down: reply: step 1 of 2: timed out after 1s; the reply does not match "),
        "{said}"
    );
    drop(server);
}
