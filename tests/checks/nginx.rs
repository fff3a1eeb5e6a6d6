//! nginx with the configurations that operators check.

use super::*;
use lvsd::engine::model::Pattern;

const SERVERS: &str = r#"
daemon off;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_timeout 600;
    ssl_protocols TLSv1.2 TLSv1.3;
    gzip on; gzip_min_length 0; gzip_types text/plain;
    default_type text/plain;
    server {
        listen PLAIN default_server;
        server_name "";
        root DIRECTORY;
        location = /ok { return 200 "all is well\n"; }
        location = /empty { return 204; }
        location = /drained { return 503 "go away\n"; }
        location = /moved { return 301 /ok; }
        location = /absolute { return 302 http://a.example/who; }
        location = /slow { limit_rate 100; limit_rate_after 1k; alias DIRECTORY/page.txt; }
        location = /post { client_max_body_size 1k; return 200 "posted\n"; }
        location = /early { return 444; }
    }
    server { listen PLAIN; server_name a.example; location / { return 200 "a at $host\n"; } }
    server { listen SECURE ssl default_server; ssl_reject_handshake on; }
    server {
        listen SECURE ssl http2;
        server_name b.example;
        ssl_certificate b.pem; ssl_certificate_key b.key;
        location / { return 200 "b by $ssl_server_name with $ssl_protocol\n"; }
    }
}
"#;

struct Nginx {
    server: Server,
    secure: SocketAddr,
    directory: tempfile::TempDir,
}

async fn nginx() -> Nginx {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    must_run(
        path,
        "openssl",
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=b.example \
         -addext subjectAltName=DNS:b.example -keyout b.key -out b.pem",
    );
    std::fs::write(path.join("page.txt"), "line of a page\n".repeat(4000)).unwrap();
    let (plain, secure) = (free_address(), free_address());
    let text = SERVERS
        .replace("PLAIN", &plain.to_string())
        .replace("SECURE", &secure.to_string())
        .replace("DIRECTORY", path.to_str().unwrap());
    // Its workers may run as another user.
    let text = if is_root() { format!("user root;\n{text}") } else { text };
    std::fs::write(path.join("nginx.conf"), text).unwrap();
    // Debian has it in /usr/sbin, which is not in everybody's PATH.
    let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    let mut command = Command::new(program);
    // One process: it goes with its test.
    command.args(["-g", "master_process off;", "-c", "nginx.conf", "-p"]).arg(path);
    Nginx { server: Server::start(command, plain).await, secure, directory }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

impl Nginx {
    async fn get(&self, http: Http) -> String {
        words(&check(self.server.address, CheckKind::Http(http)).await)
    }
}

fn matches(pattern: &str) -> Option<BodyRule> {
    Some(BodyRule::Regex(Pattern::new_compiled(pattern.to_owned())))
}

#[tokio::test]
async fn plain_http() {
    let nginx = nginx().await;
    let follow = |path: &str, body| Http { follow_redirects: true, ..get(path, body, None) };
    let keep_alive = |path: &str, body| Http {
        headers: vec![("Connection".to_owned(), "keep-alive".to_owned())],
        ..get(path, body, None)
    };
    let gzip = Http {
        headers: vec![("Accept-Encoding".to_owned(), "gzip".to_owned())],
        ..keep_alive("/page.txt", matches(r"(?s-u)^\x1f\x8b"))
    };
    let old = Http { version: HttpVersion::Http10, ..get("/ok", matches("well\n$"), None) };
    let head = Http { method: "HEAD".to_owned(), ..get("/page.txt", None, None) };
    let post = |size| Http {
        method: "POST".to_owned(),
        request_body: Some(vec![b'x'; size]),
        ..get("/post", None, None)
    };
    let named =
        Http { virtualhost: Some("a.example".to_owned()), ..get("/", contains("a at a.example"), None) };
    for (http, wanted) in [
        (get("/ok", None, None), "up: HTTP 200"),
        (get("/ok", matches("^all is well\n$"), None), "up: HTTP 200"),
        (keep_alive("/ok", matches("^all is well\n$")), "up: HTTP 200"),
        (keep_alive("/page.txt", matches("^(line of a page\n)+$")), "up: HTTP 200"),
        // gzip makes it chunked.
        (gzip, "up: HTTP 200"),
        (old, "up: HTTP 200"),
        (head, "up: HTTP 200"),
        (keep_alive("/empty", None), "up: HTTP 204"),
        (get("/drained", None, None), "down: status: status 503, wanted 200-299"),
        (get("/missing", None, None), "down: status: status 404, wanted 200-299"),
        (get("/moved", None, None), "down: status: status 301, wanted 200-299"),
        (follow("/moved", contains("well")), "up: HTTP 200"),
        (follow("/absolute", contains("a at a.example")), "up: HTTP 200"),
        (named, "up: HTTP 200"),
        (post(100), "up: HTTP 200"),
        // Refused before it is read.
        (post(16 << 20), "down: status: status 413, wanted 200-299"),
        (get("/early", None, None), "down: reply: connection closed without a whole reply (read nothing)"),
    ] {
        let case = format!("{http:?}").chars().take(400).collect::<String>();
        assert_eq!(nginx.get(http).await, wanted, "{case}");
    }
}

#[tokio::test]
async fn a_reply_that_trickles_runs_into_the_deadline() {
    let nginx = nginx().await;
    let kind = CheckKind::Http(get("/slow", matches("page\n$"), None));
    let prepared = Preparer::new().prepare(&Arc::new(kind)).unwrap();
    let address = nginx.server.address;
    let target = Target { address: address.ip(), port: address.port(), source: None };
    let outcome = run(&target, &prepared, Duration::from_millis(500)).await;
    let words = words(&outcome);
    assert!(words.starts_with("down: body: timed out after 500ms; read "), "{words}");
}

#[tokio::test]
async fn https_by_name() {
    let nginx = nginx().await;
    let own = Tls { ca: Some(nginx.directory.path().join("b.pem")), ..tls(true) };
    let named = |tls: &Tls| Tls { server_name: Some("b.example".to_owned()), ..tls.clone() };
    let with_alpn =
        |names: &[&str]| Tls { alpn: names.iter().map(|&name| name.to_owned()).collect(), ..own.clone() };
    let ask = |host: &str, tls: Tls| Http {
        virtualhost: Some(host.to_owned()),
        ..get("/", contains("b by b.example with TLSv1.3"), Some(tls))
    };
    let unnamed = get("/", None, Some(own.clone()));
    for (http, wanted) in [
        (ask("b.example", own.clone()), "up: HTTP 200"),
        (ask("b.example", tls(false)), "up: HTTP 200"),
        (ask("b.example", with_alpn(&["http/1.1"])), "up: HTTP 200"),
        // SNI finds the certificate, Host the site.
        (ask("c.example", named(&own)), "down: status: status 404, wanted 200-299"),
        (
            ask("b.example", with_alpn(&["h2", "http/1.1"])),
            "down: tls handshake: the server chose h2 by ALPN, and the check speaks HTTP/1",
        ),
        (unnamed, "down: tls handshake: the server refused: alert unrecognised name"),
        (ask("c.example", own.clone()), "down: tls handshake: the server refused: alert unrecognised name"),
        (
            ask("b.example", tls(true)),
            "down: tls handshake: certificate is one of an authority, self-signed perhaps, and does not stand in ca",
        ),
    ] {
        let case = format!("{http:?}");
        assert_eq!(words(&check(nginx.secure, CheckKind::Http(http)).await), wanted, "{case}");
    }
}

#[tokio::test]
async fn http_where_tls_is_expected_and_the_reverse() {
    let nginx = nginx().await;
    let plain =
        words(&check(nginx.server.address, CheckKind::Http(get("/ok", None, Some(tls(false))))).await);
    assert_eq!(plain, "down: tls handshake: the reply is not TLS");
    let secure = words(&check(nginx.secure, CheckKind::Http(get("/ok", None, None))).await);
    assert!(secure.starts_with("down: "), "{secure}");
}
