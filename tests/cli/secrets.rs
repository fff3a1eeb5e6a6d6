//! No secret of a configuration is in anything that lvsd says, whoever asks and whatever is wrong. Which
//! mistakes there are is tried in `src/config/conceal_tests.rs`; who is told of events, in `told.rs`.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;

use nix::sys::signal::Signal;

use crate::support::{Backend, Place, Said, web, within};

/// One for each place where a secret can stand; and the arguments of programs, which every user of the host can
/// see in `ps`, but readers of logs and pages need not.
const SECRETS: [&str; 17] = [
    "geheim-query",
    "geheim-second",
    "geheim-argument",
    "geheim-told",
    "geheim-url",
    "geheim-header",
    "geheim-check-header",
    "geheim-body",
    "geheim-send",
    "geheim-step",
    "geheim-payload",
    "geheim-password",
    "geheim-token",
    "geheim-prefix",
    // What servers say of where else to go.
    "geheim-user",
    "geheim-session",
    "geheim-fragment",
];

/// Sends everybody elsewhere, with what was asked.
pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let answer = |mut stream: TcpStream| {
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let (path, query) = line.split(' ').nth(1).and_then(|path| path.split_once('?')).unwrap_or_default();
        let to = format!(
            "https://lvsd:geheim-user@elsewhere{path};jsessionid=geheim-session?{query}#geheim-fragment"
        );
        write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    };
    std::thread::spawn(move || listener.incoming().flatten().map(answer).filter(Result::is_ok).count());
    address
}

/// Everything that may hold one, on servers that hear it; mail and webhooks go to these receivers, and `told` are more
/// lines of who is told.
pub(crate) fn config(
    backend: &Backend,
    (mail, hook): (SocketAddr, SocketAddr),
    told: &str,
    echo: SocketAddr,
) -> String {
    let at = backend.address;
    let udp = std::net::SocketAddr::new(at.ip(), at.port());
    let head = format!(
        "name = \"lvs1\"\nlog = \"trace\"\nhttp = \"127.0.0.1:0\"\n\n\
         [daemon.notify]\n{told}\n\n[daemon.notify.mail]\nserver = \"{mail}\"\n\
         from = \"lvsd@example.org\"\nto = [\"ops@example.org\"]\nuser = \"lvsd\"\npassword_file = \"password\"\n\n\
         [[daemon.notify.webhook]]\nurl = \"http://{hook}/hook?key=geheim-url\"\ntimeout = \"1s\"\n\
         headers = {{ X-Written = \"geheim-header\", Authorization = {{ file = \"token\", prefix = \"geheim-prefix \" }} }}\n\n"
    );
    let checks = format!(
        "\n[[virtual_server]]\nname = \"secret\"\naddress = \"192.0.2.11:80\"\n\
         [[virtual_server.real_server]]\naddress = \"{echo}\"\nnotify_down = [\"/bin/false\", \"geheim-told\"]\ncheck = [\n\
         {{ http = {{ path = \"/?key=geheim-query\", follow_redirects = true }} }},\n\
         {{ http = {{ urls = [{{ path = \"/\", status = [\"302\"] }}, {{ path = \"/x?key=geheim-second\" }}] }} }},\n\
         {{ timeout = \"900ms\", script = {{ argv = [\"/bin/false\", \"geheim-argument\"] }} }},\n]\n\
         [[virtual_server.real_server]]\naddress = \"{at}\"\ncheck = [\n\
         {{ timeout = \"300ms\", http = {{ path = \"/\", method = \"POST\", headers = {{ Authorization = \"geheim-check-header\" }}, request_body = \"geheim-body\" }} }},\n\
         {{ timeout = \"300ms\", tcp = {{ send = \"geheim-send\", expect = \"+OK\" }} }},\n\
         {{ timeout = \"300ms\", tcp = {{ dialogue = [{{ send = \"geheim-step\" }}, {{ expect = \"+OK\" }}] }} }},\n\
         {{ timeout = \"300ms\", connect_port = {}, udp = {{ payload = \"geheim-payload\", reply = \"ok\", require_reply = true }} }},\n]\n",
        udp.port()
    );
    head + &web(&[(backend, 1)]) + &checks
}

pub(crate) fn assert_silent(what: &str, said: &str) {
    for secret in SECRETS {
        assert!(!said.contains(secret), "{secret} in {what}:\n{said}");
        // Nor as bytes in hexadecimal, as decimal numbers of a byte string, or as AUTH PLAIN sends it.
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        let list = secret.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
        assert!(!said.contains(&hex) && !said.contains(&list), "{secret} as bytes in {what}:\n{said}");
    }
    assert!(!said.contains("AGx2c2QAZ2VoZWltLXBhc3N3b3Jk"), "the login in {what}:\n{said}");
}

fn ask(place: &Place, words: &str) -> Said {
    let said = place.ask(words);
    assert_silent(words, &format!("{}{}", said.stdout, said.stderr));
    said
}

/// Clients that write down all that happens.
fn follow(place: &Place) -> Vec<(&'static str, Child)> {
    let start = |words: &'static str| {
        let out = File::create(place.path(words)).expect("the folder is ours");
        let mut command = place.command(&format!("{words} -c lvsd.toml"));
        (words, command.stdout(out).spawn().expect("lvsd is there"))
    };
    ["events", "events --json"].map(start).into()
}

#[test]
fn no_secret_is_in_anything_that_is_said() {
    let (backend, receiver, echo) = (Backend::new(), Backend::new(), echo());
    let place = Place::new("");
    place.write("password", "geheim-password\n");
    place.write("token", "geheim-token\n");
    let to = (receiver.address, receiver.address);
    let good = config(&backend, to, "script = [\"/bin/false\", \"geheim-told\"]", echo);
    place.configure(&good);
    let said = place.lvsd("check lvsd.toml");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_silent("check", &format!("{}{}", said.stdout, said.stderr));
    let daemon = place.start();
    let followers = follow(&place);
    // All checks of both have failed, and it is said why.
    place.logged("secret");
    place.wait_for_servers("alive", &[true.into(), false.into(), false.into()]);
    within("each check has run", || {
        let checks = place.servers("checks");
        let all = checks.iter().flat_map(|of| of.as_array().expect("a list"));
        all.map(|check| &check["has_run"]).all(|ran| ran == true).then_some(())
    });
    let server = backend.address.to_string();
    let asked = [
        format!("why {echo}"),
        format!("why {echo} --json"),
        format!("check-now {echo}"),
        format!("drain {echo}"),
        "status".to_owned(),
        "status --json".to_owned(),
        format!("why {server} --in secret"),
        format!("check-now {server} --in secret"),
        format!("drain {server} --in secret"),
        "plan lvsd.toml".to_owned(),
        "reload".to_owned(),
    ];
    let said: String = asked.iter().map(|words| ask(&place, words).stdout).collect();
    assert!(said.contains("GET /?…"), "no path without its query in {said}");
    daemon.signal(Signal::SIGUSR1);
    for page in ["/metrics", "/readyz", "/healthz", "/", "/status.json", "/status.txt"] {
        assert_silent(page, &daemon.page(page).1);
    }
    // Each secret that changes is a change of a check or of a receiver, and told as such.
    place.configure(&good.replace("geheim-", "geheim-geheim-"));
    assert_eq!(ask(&place, "plan lvsd.toml").code, Some(0));
    assert_eq!(ask(&place, "reload").code, Some(0));
    // Mistakes in the value, in its line, in the next, and such that nothing can be read.
    let mistakes = [
        good.replace("geheim-url", "geheim-url#x"),
        good.replace("\"http://", "\"ftp://"),
        good.replace("X-Written =", "X Written ="),
        good.replace("geheim-header\"", "geheim-header\\n\""),
        good.replace("Authorization = \"geheim", "Host = \"geheim"),
        good.replace("geheim-send\"", "geheim-send"),
        good.replace("send = ", "sent = "),
        good.replace("send = \"geheim-send\"", "send = { hex = \"geheim-send\" }"),
        good.replace("\"geheim-step\"", "geheim-step"),
        good.replace("payload = ", "payload "),
        good.replace("request_body = ", "request_body = 1, body = "),
        good.replace("password_file = \"password\"", "password = \"geheim-password\""),
        good.replace("[[daemon.notify.webhook]]", "[[daemon.notify.webhook]"),
        good.replace("timeout = \"1s\"", "timeout = \"1s"),
        good.replace("\"/?key=geheim-query\"", "\"?key=geheim-query\""),
        good.replace("\"/?key=geheim-query\"", "/?key=geheim-query"),
        good.replace("geheim-second\"", "geheim-second"),
        good.replace("geheim-second", "geheim second"),
        good.replace("\"geheim-argument\"", "\"geheim-argument\", 1"),
        good.replace("\"geheim-argument\"]", "\"geheim-argument\""),
        good.replace("argv = [", "argw = ["),
        good.replace("script = [\"/bin/false\", ", "script = [\"/bin/false\" "),
        good.replace("notify_down = ", "notify_down "),
    ];
    for mistake in &mistakes {
        place.configure(mistake);
        for words in ["check lvsd.toml", "check lvsd.toml --strict", "reload", "plan lvsd.toml"] {
            let said = if words.starts_with("check") { place.lvsd(words) } else { place.ask(words) };
            assert_eq!(said.code, Some(78), "{words}: {said:?}\n{mistake}");
            assert_silent(words, &format!("{}{}", said.stdout, said.stderr));
        }
        let said = place.lvsd("run --dry-run -c lvsd.toml");
        assert_eq!(said.code, Some(78), "{said:?}");
        assert_silent("run", &format!("{}{}", said.stdout, said.stderr));
        daemon.signal(Signal::SIGHUP);
    }
    place.logged("reload refused");
    place.configure(&good);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    let log = place.log();
    assert_silent("the log", &log);
    for shown in ["at \\\"/x?…\\\"", "redirect to \\\"https://…@elsewhere/;…?…\\\""] {
        assert!(log.contains(shown), "no {shown} in {log}");
    }
    for (words, mut follower) in followers {
        within("a follower's end", || follower.try_wait().expect("a child"));
        let said = fs::read_to_string(place.path(words)).expect("text");
        assert!(said.contains("secret"), "{words} has followed: {said}");
        assert_silent(words, &said);
    }
    for words in ["schema", "man"] {
        let said = place.lvsd(words);
        assert_silent(words, &format!("{}{}", said.stdout, said.stderr));
    }
    // What is imported may hold one; what is said of it must not.
    place.write(
        "keepalived.conf",
        "vrrp_instance A {\n  authentication {\n    auth_pass geheim-password\n  }\n}\n",
    );
    assert_silent("import", &place.lvsd("import keepalived.conf").stderr);
}
