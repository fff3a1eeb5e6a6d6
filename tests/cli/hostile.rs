//! Hostile words and hostile clients: what a back end or an operator says stays text on every terminal, and no
//! client keeps the daemon from its work.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

/// A forged line, a title for the terminal, colours, C1 controls, text that runs backwards, nothing wide.
const WORDS: &str =
    "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\r198.51.100.1:80 up\u{202e}nwod\u{2066}\u{200b}\u{feff}\u{7f}";

/// Answers every request with [`WORDS`] wherever a server may say something.
fn liar() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let reply =
        format!("HTTP/1.1 200 {WORDS}\r\nX: {WORDS}\r\nConnection: close\r\n\r\n{WORDS}{}", "x".repeat(9000));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // Whether the check takes all of it is its business.
            let _ = (stream.read(&mut [0; 4096]), stream.write_all(reply.as_bytes()));
        }
    });
    address
}

fn assert_harmless(what: &str, text: &str) {
    let moves = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let found = text.chars().find(|c| moves(*c));
    assert_eq!(found, None, "{what}: {text:?}");
    assert!(text.lines().all(|line| line.chars().count() < 6000), "{what}: a line without an end: {text}");
}

#[test]
fn what_servers_and_operators_say_reaches_no_terminal_as_a_command() {
    let (http, line) = (liar(), liar());
    let script = format!("printf '%b' '\\033[2J\\n{}' | tr -d '\\000'; exit 1", "no");
    let config = format!(
        "[defaults]\ndelay_loop = \"200ms\"\nretry = 0\n[[virtual_server]]\nname = \"web\"\naddress = \"192.0.2.10:80\"\n\
         [[virtual_server.real_server]]\naddress = \"{http}\"\n\
         check = {{ http = {{ path = \"/\", body = {{ contains = \"ready\" }} }} }}\n\
         [[virtual_server.real_server]]\naddress = \"{line}\"\ncheck = {{ tcp = {{ expect = \"220 \", send = \"x\" }} }}\n\
         [[virtual_server.real_server]]\naddress = \"127.0.0.3:80\"\n\
         check = {{ script = {{ argv = [\"/bin/sh\", \"-c\", {script:?}] }} }}\n"
    );
    let place = Place::new(&config);
    let _daemon = place.start();
    place.wait_for_servers("alive", &[json!(false), json!(false), json!(false)]);
    let mut order = place.command("drain");
    let order = order
        .args([&http.to_string(), "--reason", WORDS, "-c", "lvsd.toml"])
        .output()
        .expect("lvsd is there");
    assert_eq!(order.status.code(), Some(0));
    assert_harmless("drain", &String::from_utf8_lossy(&order.stdout));
    let mut events = place.command("events -c lvsd.toml");
    let mut events = events.stdout(Stdio::piped()).spawn().expect("lvsd is there");
    for words in ["status", "status --json", "status web"] {
        assert_harmless(words, &place.ask(words).stdout);
    }
    for words in ["why", "why --json", "check-now"] {
        for at in [http, line] {
            let said = place.ask(&format!("{words} {at}"));
            assert_harmless(words, &(said.stdout + &said.stderr));
        }
    }
    // What was said is there all the same, for programs to the letter.
    assert!(place.ask(&format!("why {http}")).stdout.contains("wned"));
    assert_eq!(place.servers("override")[0]["reason"], WORDS);
    let mut other = place.command("enable");
    let other = other
        .args([&http.to_string(), "--reason", WORDS, "-c", "lvsd.toml"])
        .output()
        .expect("lvsd is there");
    assert_eq!(other.status.code(), Some(0));
    let mut out = events.stdout.take().expect("a pipe");
    let mut heard = Vec::new();
    within("the event of the order", || {
        let mut some = [0; 4096];
        let count = out.read(&mut some).expect("events");
        heard.extend_from_slice(&some[..count]);
        String::from_utf8_lossy(&heard).contains("enabled by").then_some(())
    });
    let _gone = (events.kill(), events.wait());
    assert_harmless("events", &String::from_utf8_lossy(&heard));
}

/// A thousand who say nothing, say half, or say too much; then the daemon still checks, and soon answers again.
#[test]
fn clients_without_manners_cost_the_others_a_little_time_only() {
    let mut backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let parts: [&[u8]; 6] = [
        b"",
        b"{\"version\":1,",
        b"\xff\xfe\x00\n",
        b"{\"version\":99,\"command\":{\"status\":{}}}\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"{\"version\":1,\"command\":\"events\"}\n",
    ];
    let socket = place.path("control.sock");
    let mut held = Vec::new();
    for number in 0..1000_usize {
        // A full backlog makes the kernel refuse; those count as well.
        let Ok(mut stream) = UnixStream::connect(&socket) else { continue };
        let _refused = stream.write_all(parts[number % parts.len()]);
        if held.len() < 300 {
            held.push(stream);
        }
    }
    let huge = thread::spawn({
        let socket = socket.clone();
        move || {
            let Ok(mut stream) = UnixStream::connect(&socket) else { return };
            let chunk = vec![b'['; 1 << 20];
            // It ends when the daemon has had enough.
            (0..10).all(|_| stream.write_all(&chunk).is_ok());
        }
    });
    backend.die();
    place.logged("connection refused");
    let (code, metrics) = daemon_metrics(&place);
    assert_eq!(code, Some(0), "{metrics}");
    drop(held);
    huge.join().expect("no panic");
    within("an answer", || (place.ask("status").code == Some(0)).then_some(()));
    assert_eq!(place.servers("alive"), [json!(false)]);
    drop(daemon);
}

/// Answers come again once the idle ones are cut off.
fn daemon_metrics(place: &Place) -> (Option<i32>, String) {
    within("a place on the socket", || {
        let said = place.ask("status --json");
        (said.code == Some(0)).then_some((said.code, said.stdout))
    })
}

/// Each gets an answer that a person can act on, and the connection ends or goes on as the protocol says.
#[test]
fn requests_that_are_none_are_answered() {
    let place = Place::new("");
    let _daemon = place.start();
    let socket = place.path("control.sock");
    let answer = |request: &[u8]| -> Value {
        let mut stream = UnixStream::connect(&socket).expect("the daemon listens");
        stream.write_all(request).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("said");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or_else(|_| panic!("{text:?}"))
    };
    let deep = format!("{}\n", "[".repeat(100_000));
    let cases: [(&[u8], &str); 6] = [
        (b"nonsense\n", "not understood"),
        (b"\xff\xfe\n", "not understood"),
        (b"{\"version\":99,\"command\":\"reload\"}\n", "version"),
        (b"{\"command\":\"reload\"}\n", "version"),
        (b"{\"version\":1,\"command\":\"make-tea\"}\n", "make-tea"),
        (deep.as_bytes(), "not understood"),
    ];
    for (request, words) in cases {
        let reply = answer(request);
        assert_eq!(
            (&reply["ok"], reply["text"].as_str().is_some_and(|t| t.contains(words))),
            (&json!(false), true),
            "{reply}"
        );
    }
}
