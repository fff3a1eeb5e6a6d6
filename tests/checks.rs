//! The probes, mail and webhooks against servers that others wrote.
//!
//! The programs must be installed (`tests/lab/install unit`); a test that cannot start its
//! server fails.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "checks/dialogues.rs"]
mod dialogues;
#[path = "checks/exim.rs"]
mod exim;
#[path = "checks/grpc.rs"]
mod grpc;
#[path = "checks/mail.rs"]
mod mail;
#[path = "checks/nginx.rs"]
mod nginx;
#[path = "checks/openssl.rs"]
mod openssl;
#[path = "checks/outlets.rs"]
mod outlets;
#[path = "checks/unbound.rs"]
mod unbound;
#[path = "checks/webhook.rs"]
mod webhook;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use lvsd::checks::{Preparer, run};
use lvsd::engine::model::{
    BodyRule, CheckKind, Fault, Http, HttpVersion, Outcome, StatusSet, Target, Tcp, Tls, TlsVersion, Url,
    Verdict,
};

const PATIENT: Duration = Duration::from_secs(20);

/// A server program, ended with its test.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts a program that listens on `address`, and waits until it does.
    async fn start(mut command: Command, address: SocketAddr) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self::start_talking(command, address).await
    }

    /// The same for a program whose standard input and output are the test's.
    async fn start_talking(mut command: Command, address: SocketAddr) -> Self {
        let child =
            command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}; is it installed?"));
        let mut server = Self { child, address };
        for _ in 0..400 {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("{command:?} ended: {status}");
            }
            if is_up(&check(address, CheckKind::Tcp(Tcp::default())).await) {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("{command:?} does not listen on {address}");
    }
}

impl Server {
    /// Stops it as a machine without memory or disk would; connections are still accepted for it.
    fn pause(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _it_may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Nobody listens there now.
fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Ports of an address of the loopback network that this caller has for itself. A port that was free
/// a moment ago may be taken by a connection of another test, and servers that listen on several
/// wait for such a one for long.
fn own_addresses<const N: usize>() -> [SocketAddr; N] {
    static LAST: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, high | 0x80, low, LAST.fetch_add(1, Ordering::Relaxed) + 1);
    let mut port = 10_000;
    [(); N].map(|()| {
        port += 1;
        SocketAddr::from((own, port))
    })
}

/// A certificate `NAME.pem` with its key `NAME.key`, for this address and this name.
fn certify(directory: &Path, name: &str, host: &str, address: SocketAddr) {
    let arguments = format!(
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN={host} \
         -addext subjectAltName=DNS:{host},IP:{} -keyout {name}.key -out {name}.pem",
        address.ip()
    );
    must_run(directory, "openssl", &arguments);
}

/// Runs a program to its end, which must be a good one.
fn must_run(directory: &Path, program: &str, arguments: &str) {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .current_dir(directory)
        .output()
        .unwrap_or_else(|error| panic!("run {program}: {error}; is it installed?"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {}\n{errors}", output.status);
}

async fn check(address: SocketAddr, kind: CheckKind) -> Outcome {
    check_within(address, kind, PATIENT).await
}

async fn check_within(address: SocketAddr, kind: CheckKind, timeout: Duration) -> Outcome {
    let target = Target { address: address.ip(), port: address.port(), source: None };
    let prepared = Preparer::new().prepare(&Arc::new(kind)).unwrap();
    run(&target, &prepared, timeout).await
}

fn is_up(outcome: &Outcome) -> bool {
    matches!(outcome.verdict, Verdict::Success { .. })
}

/// `up: HTTP 200`, `down: status: status 503, wanted 200-299`
fn words(outcome: &Outcome) -> String {
    match &outcome.verdict {
        Verdict::Success { detail, .. } => format!("up: {detail}"),
        Verdict::Failure(fault) => format!("down: {fault}"),
        Verdict::LocalError(Fault { reason, .. }) => format!("local: {reason}"),
    }
}

/// The default setting with `verify` as given.
fn tls(verify: bool) -> Tls {
    Tls {
        verify,
        ca: None,
        server_name: None,
        client: None,
        min_version: TlsVersion::Tls12,
        alpn: Vec::new(),
    }
}

fn get(path: &str, body: Option<BodyRule>, tls: Option<Tls>) -> Http {
    let status = StatusSet::new([(200, 299)]);
    Http {
        urls: vec![Url { path: path.to_owned(), virtualhost: None, status, body, digest: None }],
        method: "GET".to_owned(),
        version: HttpVersion::Http11,
        virtualhost: None,
        headers: Vec::new(),
        request_body: None,
        max_body: 1 << 20,
        tls,
        follow_redirects: false,
    }
}

fn contains(text: &str) -> Option<BodyRule> {
    Some(BodyRule::Contains(text.as_bytes().to_vec()))
}
