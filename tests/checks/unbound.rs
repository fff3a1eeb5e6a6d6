//! unbound with records of its own, asked over UDP and TCP.

use lvsd::engine::model::{Dns, DnsTransport};

use super::*;

const CONFIG: &str = r#"
server:
    interface: 127.0.0.1
    port: PORT
    username: ""
    chroot: ""
    directory: "DIRECTORY"
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    do-not-query-localhost: no
    module-config: "iterator"
    root-hints: ""
    local-zone: "." refuse
    local-zone: "example.org." static
    local-data: "example.org. 60 SOA ns.example.org. admin.example.org. 1 2 3 4 5"
    local-data: "www.example.org. 60 A 203.0.113.80"
    local-data: "www.example.org. 60 A 203.0.113.81"
    local-data: "www.example.org. 60 AAAA 2001:db8::80"
    local-data: "example.org. 60 MX 10 mail.example.org."
    local-data: 'example.org. 60 TXT "v=spf1 -all"'
remote-control:
    control-enable: no
"#;

async fn unbound(directory: &tempfile::TempDir) -> Server {
    let address = free_address();
    let text = CONFIG
        .replace("PORT", &address.port().to_string())
        .replace("DIRECTORY", directory.path().to_str().unwrap());
    let file = directory.path().join("unbound.conf");
    std::fs::write(&file, text).unwrap();
    let program = if Path::new("/usr/sbin/unbound").exists() { "/usr/sbin/unbound" } else { "unbound" };
    let mut command = Command::new(program);
    command.args(["-d", "-c"]).arg(file);
    Server::start(command, address).await
}

fn dns(name: &str, record_type: u16, expect: &[&str]) -> Dns {
    Dns {
        name: name.to_owned(),
        record_type,
        rcodes: vec![0],
        expect: expect.iter().map(|text| (*text).to_owned()).collect(),
        transport: DnsTransport::Udp,
    }
}

#[tokio::test]
async fn healthy_and_broken_in_many_ways() {
    let directory = tempfile::tempdir().unwrap();
    let server = unbound(&directory).await;
    let www = "www.example.org.";
    let refused = Dns { rcodes: vec![5], ..dns(".", 6, &[]) };
    let cases = [
        (dns(www, 1, &["203.0.113.80", "203.0.113.81"]), "up: NOERROR, 2 answers"),
        (dns(www, 28, &["2001:db8::80"]), "up: NOERROR, 1 answers"),
        (dns("example.org.", 6, &["ns.example.org"]), "up: NOERROR, 1 answers"),
        (dns("example.org.", 15, &["mail.example.org"]), "up: NOERROR, 1 answers"),
        (dns("example.org.", 16, &["v=spf1 -all"]), "up: NOERROR, 1 answers"),
        // Nothing of that type is no error.
        (dns(www, 65, &[]), "up: NOERROR, 0 answers"),
        (refused, "up: REFUSED, 0 answers"),
        (dns(".", 6, &[]), "down: status: REFUSED, wanted NOERROR"),
        (dns("no.example.org.", 1, &[]), "down: status: NXDOMAIN, wanted NOERROR"),
        (
            dns(www, 28, &["2001:db8::81"]),
            "down: body: \"2001:db8::81\" is not among the answers (2001:db8::80)",
        ),
        (dns(www, 65, &["x"]), "down: body: \"x\" is not among the answers (there are none)"),
    ];
    for (dns, wanted) in cases {
        for transport in [DnsTransport::Udp, DnsTransport::Tcp] {
            let outcome = check(server.address, CheckKind::Dns(Dns { transport, ..dns.clone() })).await;
            assert_eq!(words(&outcome), wanted, "{dns:?} over {transport:?}");
        }
    }
    let address = server.address;
    drop(server);
    let outcome = check(address, CheckKind::Dns(dns(www, 1, &[]))).await;
    assert_eq!(words(&outcome), "down: reply: connection refused (ECONNREFUSED)");
}
