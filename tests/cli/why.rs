//! `lvsd why`: for each way to fail, does it say what happened, by which rule, and on what evidence?

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

/// Three tries, one right after the other.
const TRIES: &str = "[defaults]\ndelay_loop = \"300ms\"\nretry = 2\ndelay_before_retry = \"50ms\"\n\
                     timeout = \"400ms\"\nwarmup = \"10ms\"\n\n";

/// One real server behind one check.
fn pool(address: SocketAddr, check: &str) -> String {
    format!(
        "{TRIES}[[virtual_server]]\nname = \"web\"\naddress = \"192.0.2.10:80\"\n\
         [[virtual_server.real_server]]\naddress = \"{address}\"\nweight = 3\ncheck = {check}\n"
    )
}

/// An HTTP server that answers what it is told to.
struct Http {
    address: SocketAddr,
    reply: Arc<Mutex<String>>,
}

impl Http {
    fn new(status: &str, body: &str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = Self { address, reply: Arc::default() };
        server.answer(status, body);
        let reply = Arc::clone(&server.reply);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let reply = reply.lock().expect("no panic holds it").clone();
                // Whether the check takes all of it is its business.
                let _ = (stream.read(&mut [0; 4096]), stream.write_all(reply.as_bytes()));
            }
        });
        server
    }

    fn answer(&self, status: &str, body: &str) {
        let length = body.len();
        *self.reply.lock().expect("no panic holds it") =
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    }
}

fn why(place: &Place, address: SocketAddr) -> (Value, String) {
    let said = place.ask(&format!("why {address} --json"));
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let json: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(json["version"], 1);
    let text = place.ask(&format!("why {address}"));
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""), "{text:?}");
    (json["servers"][0].clone(), text.stdout)
}

/// Waits for this state, and returns what is said of it: the last change of the server itself, all, and the text.
fn wait_for(place: &Place, address: SocketAddr, event: &str) -> (Value, Value, String) {
    within(event, || {
        let (case, text) = why(place, address);
        let history = case["history"].as_array().expect("a list");
        let last = history.iter().find(|h| h["real_server"].is_string())?.clone();
        (last["event"] == event).then_some((last, case, text))
    })
}

/// Down by the third failure, and this is what was seen.
fn assert_down(place: &Place, address: SocketAddr, kind: &str, target: &str, detail: &str) {
    let (last, case, text) = wait_for(place, address, "down");
    let rule = "3rd failure in a row, retry = 2";
    assert_eq!((&last["rule"], &last["virtual_server"]), (&json!(rule), &json!("web")), "{last}");
    let check = &last["check"];
    assert_eq!((&check["kind"], &check["target"]), (&json!(kind), &json!(target)), "{last}");
    assert!(check["detail"].as_str().is_some_and(|d| d.contains(detail)), "{detail}: {last}");
    assert!(check["latency_us"].is_u64() && last["age_ms"].is_u64(), "{last}");
    assert!(last["time"].as_str().is_some_and(|t| t.len() == 24 && t.ends_with('Z')), "{last}");
    assert_eq!((&case["alive"], &case["checks"][0]["up"]), (&json!(false), &json!(false)), "{case}");
    let now = &case["checks"][0];
    assert!(now["failures"].as_u64() >= Some(3) && now["retry"] == 2, "{now}");
    assert!(now["running"] == true || now["next_ms"].is_u64(), "{now}");
    let because = format!("because its {kind} check fails: ");
    assert!(text.starts_with(&format!("{address} in web: DOWN for ")), "{text}");
    for words in [because.as_str(), rule, detail, &format!("{kind} check of {target}")] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn refused() {
    let mut backend = Backend::new();
    let place = Place::new(&pool(backend.address, "{ tcp = {} }"));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let (case, text) = why(&place, backend.address);
    assert_eq!((&case["alive"], &case["history"]), (&json!(true), &json!([])), "quiet: {case}");
    assert!(text.contains("nothing has changed since the daemon's start"), "{text}");
    backend.die();
    let target = backend.address.to_string();
    assert_down(&place, backend.address, "tcp", &target, "connect: connection refused (ECONNREFUSED)");
    backend.revive();
    let (last, case, _) = wait_for(&place, backend.address, "up");
    assert_eq!((&last["rule"], &case["alive"]), (&json!("a success, rise = 1"), &json!(true)));
}

/// The kernel takes the connection, and nobody speaks.
#[test]
fn timed_out_in_tls() {
    let backend = Backend::new();
    let place = Place::new(&pool(backend.address, "{ tcp = { tls = { verify = false } } }"));
    let _daemon = place.start();
    let (last, _, text) = wait_for(&place, backend.address, "down");
    assert_eq!(last["rule"], "the first result decides");
    let detail = "tls handshake: timed out after 400ms";
    assert!(last["check"]["detail"] == detail && text.contains(detail), "{text}");
    assert!(last["check"]["latency_us"].as_u64() >= Some(300_000), "{last}");
}

#[test]
fn wrong_status() {
    let server = Http::new("200 OK", "fine");
    let place = Place::new(&pool(server.address, "{ http = { path = \"/healthz\" } }"));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    server.answer("503 Service Unavailable", "no");
    let target = format!("{} GET /healthz", server.address);
    assert_down(&place, server.address, "http", &target, "status: status 503, wanted 200-299");
}

#[test]
fn body_mismatch() {
    let server = Http::new("200 OK", "all is well");
    let check = "{ http = { path = \"/\", body = { contains = \"well\" } } }";
    let place = Place::new(&pool(server.address, check));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    server.answer("200 OK", "database\u{1b}[31m gone");
    let target = format!("{} GET /", server.address);
    assert_down(&place, server.address, "http", &target, "body: ");
    let (case, text) = why(&place, server.address);
    let detail = case["checks"][0]["last"]["detail"].as_str().expect("words").to_owned();
    assert!(detail.contains("database") && text.contains("database"), "an excerpt: {detail}");
    assert!(!text.contains('\u{1b}'), "no control sequence: {text:?}");
}

#[test]
fn certificate_expired() {
    let place = Place::new("");
    let authority = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    place.write("ca.pem", &params.self_signed(&authority).expect("signed").pem());
    let issuer = Issuer::new(params, authority);
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &issuer).expect("signed");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS 8");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key).expect("a certificate");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream: StreamOwned<ServerConnection, TcpStream> = StreamOwned::new(connection, stream);
            // It ends as the client wants.
            let _ = stream.read(&mut [0; 16]);
        }
    });
    place.configure(&pool(address, "{ tcp = { tls = { ca = \"ca.pem\" } } }"));
    let _daemon = place.start();
    let (last, _, text) = wait_for(&place, address, "down");
    let detail = last["check"]["detail"].as_str().expect("words");
    assert!(detail.starts_with("tls handshake: ") && detail.contains("expired"), "{detail}");
    assert!(text.contains("expired"), "{text}");
}

#[test]
fn script_killed() {
    let backend = Backend::new();
    let folder = tempfile::tempdir().expect("a folder");
    let flag = folder.path().join("now");
    let code = format!("test ! -e {} || kill -9 $$", flag.display());
    // Longer than a busy machine takes to start a shell: it must have been well first.
    let check = format!("{{ script = {{ argv = [\"/bin/sh\", \"-c\", {code:?}] }}, timeout = \"10s\" }}");
    let place = Place::new(&pool(backend.address, &check));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    fs::write(&flag, "").expect("the folder is ours");
    assert_down(&place, backend.address, "script", "/bin/sh", "status: killed by signal 9");
}

#[test]
fn overridden() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let at = first.address;
    assert_eq!(place.ask(&format!("drain {at} --reason upgrade --for 2h")).code, Some(0));
    let (last, case, text) = wait_for(&place, at, "weight");
    assert_eq!((&last["weight"], &case["alive"]), (&json!({"from": 3, "to": 0}), &json!(true)));
    let order = &case["history"][1];
    let user = place.servers("override")[0]["by"].clone();
    assert_eq!(
        (&order["event"], &order["text"]),
        (&json!("order"), &json!(format!("drained by {} for 2h: upgrade", user.as_str().expect("a name"))))
    );
    assert_eq!(order["order"], json!({"by": user, "reason": "upgrade", "for_ms": 7_200_000}));
    assert!(text.contains("weight 0: 3 configured, 0 while drained"), "{text}");
    assert!(text.contains("left: upgrade") && text.contains(" ago, 1h59m"), "{text}");
    assert_eq!(place.ask(&format!("disable {at} --reason broken")).code, Some(0));
    let (last, case, text) = wait_for(&place, at, "down");
    assert_eq!((&last["rule"], &case["alive"]), (&json!("by the operator's order"), &json!(false)));
    assert!(text.contains(" has disabled it\n"), "{text}");
    assert_eq!(place.ask(&format!("weight {at} 7")).code, Some(0));
    let (case, _) = why(&place, at);
    let reason = case["weight_reason"].as_str().expect("words");
    assert!(reason.starts_with("weight 7: 3 configured, 7 by "), "{reason}");
    assert_eq!(case["orders"].as_array().map(Vec::len), Some(2), "{case}");
}

#[test]
fn quorum() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let wanting = |text: String| {
        text.replace("name = \"web\"\n", "name = \"web\"\nquorum = 4\nsorry_server = \"198.51.100.99:80\"\n")
    };
    let place = Place::new(&wanting(web(&[(&first, 3), (&second, 1)])));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    second.die();
    let lost = within("the quorum is lost", || {
        let (case, text) = why(&place, first.address);
        (case["quorum"]["up"] == false && case["installed"] == false).then_some((case, text))
    });
    let (case, text) = lost;
    assert_eq!((&case["alive"], &case["sorry_server_active"]), (&json!(true), &json!(true)), "{case}");
    let last = &case["history"][0];
    assert_eq!((&last["event"], &last["real_server"]), (&json!("quorum_lost"), &Value::Null), "{last}");
    assert!(text.contains("pool: QUORUM LOST, weight 3 of 4, the sorry server takes over"), "{text}");
    assert!(text.contains("; the sorry server 198.51.100.99:80 SERVES"), "{text}");
    let absence =
        "not in the kernel's table, although it is up: the quorum is lost, and the sorry server serves alone";
    assert!(text.contains(absence), "{text}");
}

#[test]
fn a_reload_that_touched_it_and_a_server_that_has_gone() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.configure(&web(&[(&first, 5), (&second, 1)]));
    assert_eq!(place.ask("reload").code, Some(0));
    let (case, _) = why(&place, first.address);
    let texts: Vec<&Value> = case["history"].as_array().expect("a list").iter().map(|h| &h["text"]).collect();
    assert!(texts.contains(&&json!("reload: edit real server: weight 3 → 5")), "{texts:?}");
    place.configure(&web(&[(&second, 1)]));
    assert_eq!(place.ask("reload").code, Some(0));
    let said = place.ask(&format!("why {}", first.address));
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(
        said.stderr.starts_with(&format!("there is no real server {}", first.address)),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("remove real server: not in the file any more"), "{}", said.stderr);
    let said = place.ask("why 203.0.113.1");
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), "there is no real server 203.0.113.1\n"));
}
