//! No secret of a configuration is in anything that lvsd says, whoever asks and whatever is wrong. Which
//! mistakes there are is tried in `src/config/conceal_tests.rs`.

use nix::sys::signal::Signal;

use crate::support::{Backend, Place, Said, web};

/// One for each place where a secret can stand.
const SECRETS: [&str; 10] = [
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
];

/// Everything that may hold one, on servers that hear it; mail and webhooks go to `receiver`.
fn config(backend: &Backend, receiver: &Backend) -> String {
    let (at, to) = (backend.address, receiver.address);
    let udp = std::net::SocketAddr::new(at.ip(), at.port());
    let head = format!(
        "name = \"lvs1\"\nlog = \"trace\"\nhttp = \"127.0.0.1:0\"\n\n[daemon.notify.mail]\nserver = \"{to}\"\n\
         from = \"lvsd@example.org\"\nto = [\"ops@example.org\"]\nuser = \"lvsd\"\npassword_file = \"password\"\n\n\
         [[daemon.notify.webhook]]\nurl = \"http://{to}/hook?key=geheim-url\"\ntimeout = \"1s\"\n\
         headers = {{ X-Written = \"geheim-header\", Authorization = {{ file = \"token\", prefix = \"geheim-prefix \" }} }}\n\n"
    );
    let checks = format!(
        "\n[[virtual_server]]\nname = \"secret\"\naddress = \"192.0.2.11:80\"\n\
         [[virtual_server.real_server]]\naddress = \"{at}\"\ncheck = [\n\
         {{ timeout = \"300ms\", http = {{ path = \"/\", method = \"POST\", headers = {{ Authorization = \"geheim-check-header\" }}, request_body = \"geheim-body\" }} }},\n\
         {{ timeout = \"300ms\", tcp = {{ send = \"geheim-send\", expect = \"+OK\" }} }},\n\
         {{ timeout = \"300ms\", tcp = {{ dialogue = [{{ send = \"geheim-step\" }}, {{ expect = \"+OK\" }}] }} }},\n\
         {{ timeout = \"300ms\", connect_port = {}, udp = {{ payload = \"geheim-payload\", reply = \"ok\", require_reply = true }} }},\n]\n",
        udp.port()
    );
    head + &web(&[(backend, 1)]) + &checks
}

fn assert_silent(what: &str, said: &str) {
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

#[test]
fn no_secret_is_in_anything_that_is_said() {
    let (backend, receiver) = (Backend::new(), Backend::new());
    let place = Place::new("");
    place.write("password", "geheim-password\n");
    place.write("token", "geheim-token\n");
    let good = config(&backend, &receiver);
    place.configure(&good);
    let said = place.lvsd("check lvsd.toml");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_silent("check", &format!("{}{}", said.stdout, said.stderr));
    let daemon = place.start();
    // All four checks of it have failed, and it is said why.
    place.logged("secret");
    place.wait_for_servers("alive", &[true.into(), false.into()]);
    let server = backend.address.to_string();
    let asked = [
        "status".to_owned(),
        "status --json".to_owned(),
        format!("why {server} --in secret"),
        format!("check-now {server} --in secret"),
        format!("drain {server} --in secret"),
        "plan lvsd.toml".to_owned(),
        "reload".to_owned(),
    ];
    for words in &asked {
        ask(&place, words);
    }
    for page in ["/metrics", "/readyz", "/healthz", "/"] {
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
    assert_silent("the log", &place.log());
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
