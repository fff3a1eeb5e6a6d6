//! Webhooks to nginx: over TLS, with a client certificate, and where it has enough of us.

use super::*;
use std::collections::BTreeSet;

use lvsd::engine::model::{
    ClientCertificate, Endpoint, EventKind, HeaderText, Secret, SmtpTls, Webhook, WebhookUrl,
};

use super::outlets::{SOON, closing, event, lost, settings, told, until};

const CONFIG: &str = r#"
daemon off;
master_process off;
pid nginx.pid;
error_log stderr crit;
events { worker_connections 64; }
http {
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    ssl_protocols TLSv1.2 TLSv1.3;
    log_format told escape=none '$host $http_authorization $content_type $request_body';
    access_log off;
    limit_req_zone $server_name zone=rate:64k rate=1r/s;
    server { listen PLAIN; location / { return 200; } location /busy { add_header Retry-After 3600 always; return 503; } }
    server {
        listen SECURE ssl;
        server_name hooks.example;
        ssl_certificate hooks.pem; ssl_certificate_key hooks.key;
        ssl_client_certificate client.pem; ssl_verify_client optional;
        location /hook { proxy_pass http://PLAIN/; access_log DIRECTORY/told told; }
        location /closed {
            if ($ssl_client_verify != SUCCESS) { return 403; }
            proxy_pass http://PLAIN/; access_log DIRECTORY/told told;
        }
        location /rate {
            limit_req zone=rate; limit_req_status 429;
            proxy_pass http://PLAIN/; access_log DIRECTORY/told told;
        }
    }
}
"#;

struct Nginx {
    _server: Server,
    plain: SocketAddr,
    secure: SocketAddr,
    directory: tempfile::TempDir,
}

async fn nginx() -> Nginx {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let [plain, secure] = own_addresses();
    certify(path, "hooks", "hooks.example", secure);
    certify(path, "client", "lvs1.example", secure);
    let text = CONFIG
        .replace("PLAIN", &plain.to_string())
        .replace("SECURE", &secure.to_string())
        .replace("DIRECTORY", path.to_str().unwrap());
    let is_root = nix::unistd::geteuid().is_root();
    let text = if is_root { format!("user root;\n{text}") } else { text };
    std::fs::write(path.join("nginx.conf"), text).unwrap();
    let program = if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" };
    let mut command = Command::new(program);
    command.args(["-c", "nginx.conf", "-p"]).arg(path);
    Nginx { _server: Server::start(command, plain).await, plain, secure, directory }
}

impl Nginx {
    fn webhook(&self, at: SocketAddr, tls: Option<Tls>, path: &str) -> Webhook {
        let server = Endpoint { host: at.ip().to_string(), port: at.port() };
        Webhook {
            url: WebhookUrl { server, tls, authority: at.to_string(), path: Secret(path.to_owned()) },
            headers: vec![],
            timeout: SOON,
            events: BTreeSet::from(EventKind::ALL),
        }
    }

    fn secure(&self, path: &str) -> Webhook {
        let tls = Tls { ca: Some(self.directory.path().join("hooks.pem")), ..tls(true) };
        self.webhook(self.secure, Some(tls), path)
    }

    /// Host, authorization and content type, then the event.
    fn told(&self) -> Vec<(String, serde_json::Value)> {
        let text = std::fs::read_to_string(self.directory.path().join("told")).unwrap_or_default();
        let split = |line: &str| {
            let at = line.find('{').unwrap();
            (line[..at].trim_end().to_owned(), serde_json::from_str(&line[at..]).unwrap())
        };
        text.lines().filter(|line| line.contains('{')).map(split).collect()
    }

    /// The same once there are so many: nginx logs a request after its reply.
    async fn has_told(&self, count: usize) -> Vec<(String, serde_json::Value)> {
        until(|| self.told().len() >= count).await;
        self.told()
    }
}

#[tokio::test]
async fn events_over_tls_with_a_token_from_a_file() {
    let nginx = nginx().await;
    let path = nginx.directory.path().join("token");
    std::fs::write(&path, "geheim\n").unwrap();
    let token = HeaderText::File { path, prefix: "Bearer ".to_owned() };
    let headers = vec![("Authorization".to_owned(), token)];
    let mut outlets = told(None, vec![Webhook { headers, ..nginx.secure("/hook") }]);
    outlets.tell(event(1), None);
    outlets.tell(lost(2), None);
    closing(outlets).await;
    let told = nginx.has_told(2).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].0, format!("{} Bearer geheim application/json", nginx.secure.ip()));
    assert_eq!(told[0].1["event"], "real_server_down");
    assert_eq!(told[0].1["real_server"], "198.51.100.11:80");
    assert_eq!(told[1].1["event"], "quorum_lost");
    assert_eq!(told[1].1["services"], serde_json::json!(["tcp 192.0.2.10:80"]));
    assert_eq!(told[1].1["quorum"], serde_json::json!({ "weight": 0, "threshold": 1 }));
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_keeps_the_event_until_it_is() {
    let nginx = nginx().await;
    let ca = |name: &str| Some(nginx.directory.path().join(name));
    let wrong = Tls { ca: ca("client.pem"), ..tls(true) };
    let mut outlets = told(None, vec![nginx.webhook(nginx.secure, Some(wrong), "/hook")]);
    outlets.tell(event(1), None);
    until(|| outlets.webhook_counters().failed == 1).await;
    assert_eq!(nginx.told(), []);
    outlets.configure(&settings(None, vec![nginx.secure("/hook")]));
    until(|| outlets.webhook_counters().delivered == 1).await;
    assert_eq!(nginx.has_told(1).await.len(), 1);
    closing(outlets).await;
}

#[tokio::test]
async fn a_client_certificate_opens_what_is_closed_to_others() {
    let nginx = nginx().await;
    let mut webhook = nginx.secure("/closed");
    let mut outlets = told(None, vec![webhook.clone()]);
    outlets.tell(event(1), None);
    until(|| outlets.webhook_counters().refused == 1).await;
    let file = |name: &str| nginx.directory.path().join(name);
    let client = ClientCertificate { certificate: file("client.pem"), key: file("client.key") };
    let tls = webhook.url.tls.take().unwrap();
    webhook.url.tls = Some(Tls { client: Some(client), ..tls });
    outlets.configure(&settings(None, vec![webhook]));
    outlets.tell(event(2), None);
    closing(outlets).await;
    // The log has what was refused too, but for its text.
    let told: Vec<_> =
        nginx.has_told(1).await.into_iter().map(|(_, json)| json["sequence"].clone()).collect();
    assert_eq!(told, [2]);
}

#[tokio::test]
async fn a_server_that_limits_its_rate_gets_everything_once_and_in_order() {
    let nginx = nginx().await;
    let mut outlets = told(None, vec![nginx.secure("/rate")]);
    (1..=3).for_each(|sequence| outlets.tell(event(sequence), None));
    until(|| outlets.webhook_counters().delivered == 3).await;
    assert!(outlets.webhook_counters().failed >= 1);
    closing(outlets).await;
}

/// A webhook and a mail server that do nothing hold up neither the other webhook nor the end.
#[tokio::test]
async fn receivers_do_not_wait_for_each_other() {
    let nginx = nginx().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = silent.local_addr().unwrap();
    let mail = lvsd::engine::model::Mail {
        server: Endpoint { host: at.ip().to_string(), port: at.port() },
        from: "lvsd@example.org".to_owned(),
        to: vec!["ops@example.org".to_owned()],
        tls: Some(SmtpTls::StartTls(tls(false))),
        login: None,
        timeout: SOON,
        min_interval: Duration::from_secs(1),
        events: BTreeSet::from(EventKind::ALL),
    };
    let webhooks =
        vec![nginx.webhook(at, None, "/"), nginx.webhook(nginx.plain, None, "/busy"), nginx.secure("/hook")];
    let mut outlets = told(Some(mail), webhooks);
    (1..=20).for_each(|sequence| outlets.tell(event(sequence), None));
    until(|| outlets.webhook_counters().delivered == 20).await;
    until(|| outlets.webhook_counters().failed >= 1).await;
    outlets.finish(Duration::from_millis(500)).await;
    let sequences: Vec<_> =
        nginx.has_told(20).await.iter().map(|(_, json)| json["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=20).collect::<Vec<_>>());
}
