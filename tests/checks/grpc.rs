//! gRPC's own server library, as Python has it.

use super::*;
use lvsd::engine::model::Grpc;

struct GrpcServer {
    server: Server,
    secure: SocketAddr,
    without_health: SocketAddr,
    directory: tempfile::TempDir,
}

async fn grpc() -> GrpcServer {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let [plain, secure, without_health] = own_addresses();
    certify(path, "own", "rpc.example", plain);
    certify(path, "other", "other.example", plain);
    // Debian's, which has Debian's modules; another one in PATH has not.
    let mut command = Command::new("/usr/bin/python3");
    command.arg("tests/checks/grpc_server.py");
    command.args([plain, secure, without_health].map(|address| address.to_string()));
    command.args([path.join("own.key"), path.join("own.pem")]);
    // It prints what it was made to raise.
    command.stderr(Stdio::null());
    GrpcServer { server: Server::start(command, plain).await, secure, without_health, directory }
}

impl GrpcServer {
    fn tls(&self, ca: &str) -> Option<Tls> {
        let alpn = vec!["h2".to_owned()];
        Some(Tls { ca: Some(self.directory.path().join(ca)), alpn, ..tls(true) })
    }
}

async fn ask(address: SocketAddr, service: &str, tls: Option<Tls>) -> String {
    words(&check(address, CheckKind::Grpc(Grpc { service: service.to_owned(), tls })).await)
}

#[tokio::test]
async fn a_service_that_is_well() {
    let grpc = grpc().await;
    assert_eq!(ask(grpc.server.address, "", None).await, "up: SERVING");
    assert_eq!(ask(grpc.server.address, "is SERVING", None).await, "up: SERVING");
    assert_eq!(ask(grpc.secure, "", grpc.tls("own.pem")).await, "up: SERVING, TLS 1.3");
    let by_name = Tls { server_name: Some("rpc.example".to_owned()), ..grpc.tls("own.pem").unwrap() };
    assert_eq!(ask(grpc.secure, "is SERVING", Some(by_name)).await, "up: SERVING, TLS 1.3");
}

#[tokio::test]
async fn a_service_that_is_ill() {
    let grpc = grpc().await;
    let plain = grpc.server.address;
    let cases = [
        ("is NOT_SERVING", "down: status: service \"is NOT_SERVING\" is NOT_SERVING, wanted SERVING"),
        ("is UNKNOWN", "down: status: service \"is UNKNOWN\" is UNKNOWN, wanted SERVING"),
        (
            "is SERVICE_UNKNOWN",
            "down: status: service \"is SERVICE_UNKNOWN\" is SERVICE_UNKNOWN, wanted SERVING",
        ),
        (
            "shop.Cart",
            "down: status: grpc-status 5 (NOT_FOUND): the server does not know this service, \"unknown service\"",
        ),
        ("full", "down: status: grpc-status 14 (UNAVAILABLE), \"no more calls: 100 % busy\""),
        ("breaks", "down: status: grpc-status 2 (UNKNOWN), \"Exception calling application: broken inside\""),
    ];
    for (service, wanted) in cases {
        assert_eq!(ask(plain, service, None).await, wanted);
    }
    let hangs = CheckKind::Grpc(Grpc { service: "hangs".to_owned(), tls: None });
    let outcome = check_within(plain, hangs, Duration::from_secs(1)).await;
    assert_eq!(words(&outcome), "down: reply: timed out after 1s; no answer to the call");
    let none = ask(grpc.without_health, "", None).await;
    let wanted = "down: status: grpc-status 12 (UNIMPLEMENTED): the server has no health service";
    assert!(none.starts_with(wanted), "{none}");
    // TLS spoken to plain text, and the other way round.
    let tls = ask(plain, "", grpc.tls("own.pem")).await;
    assert!(tls.starts_with("down: tls handshake: "), "{tls}");
    let no_tls = ask(grpc.secure, "", None).await;
    assert!(no_tls.starts_with("down: reply: "), "{no_tls}");
    let other = ask(grpc.secure, "", grpc.tls("other.pem")).await;
    assert!(other.starts_with("down: tls handshake: certificate "), "{other}");

    grpc.server.pause();
    let kind = CheckKind::Grpc(Grpc::default());
    let outcome = check_within(plain, kind, Duration::from_secs(1)).await;
    assert_eq!(words(&outcome), "down: reply: timed out after 1s; no answer to the call");
    drop(grpc);
    assert_eq!(ask(plain, "", None).await, "down: connect: connection refused (ECONNREFUSED)");
}
