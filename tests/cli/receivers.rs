//! Mail and webhooks of a daemon: what is told, to the letter, and what a receiver that hangs holds up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

/// A listener whose connections go to `serve`, one after the other; what it returns is received here.
pub(crate) fn server(
    serve: impl Fn(TcpStream) -> Option<String> + Send + 'static,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (told, heard) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Some(text) = stream.ok().and_then(&serve) else { continue };
            if told.send(text).is_err() {
                return;
            }
        }
    });
    (address, heard)
}

/// Takes a mail, with a login of any kind, and returns its text.
pub(crate) fn take_mail(mut stream: TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    stream.write_all(b"220 mx.example ESMTP\r\n").ok()?;
    let mut text = None;
    while let Some(Ok(line)) = lines.next() {
        let reply: &[u8] = match line.split(' ').next()? {
            "EHLO" => b"250-mx.example\r\n250 AUTH PLAIN\r\n",
            "AUTH" => b"235 welcome\r\n",
            "DATA" => {
                stream.write_all(b"354 go on\r\n").ok()?;
                let body = lines.by_ref().map_while(Result::ok).take_while(|line| line != ".");
                text = Some(body.collect::<Vec<_>>().join("\n"));
                b"250 taken\r\n"
            }
            "QUIT" => b"221 bye\r\n",
            _ => b"250 ok\r\n",
        };
        stream.write_all(reply).ok()?;
    }
    text
}

/// Takes one POST and returns its body.
pub(crate) fn take_post(mut stream: TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").ok()?;
    String::from_utf8(body).ok()
}

/// With a login and a token from files, and a log of everything.
fn config(mail: SocketAddr, webhook: SocketAddr, more: &str, servers: &str) -> String {
    format!(
        "name = \"lvs1\"\nlog = \"trace\"\n\n[daemon.notify.mail]\nserver = \"{mail}\"\n\
         from = \"lvsd@example.org\"\nto = [\"ops@example.org\"]\nuser = \"lvsd\"\npassword_file = \"password\"\n{more}\n\
         [[daemon.notify.webhook]]\nurl = \"http://{webhook}/hook?key=geheim-url\"\n\
         headers = {{ Authorization = {{ file = \"token\", prefix = \"Bearer \" }} }}\n{more}\n{servers}"
    )
}

fn place() -> Place {
    let place = Place::new("");
    place.write("password", "geheim-mail\n");
    place.write("token", "geheim-hook\n");
    place
}

#[test]
fn a_failed_server_is_one_mail_and_one_post() {
    let (mut first, second) = (Backend::new(), Backend::new());
    let (mail, mails) = server(take_mail);
    let (webhook, posts) = server(take_post);
    let place = place();
    place.configure(&config(mail, webhook, "", &web(&[(&first, 1), (&second, 1)])));
    let daemon = place.start();
    first.die();
    let text = within("the mail", || mails.try_recv().ok());
    let failed = first.address;
    let subject = format!("Subject: [lvs1] Realserver {failed} of virtual server web - DOWN");
    assert!(text.replace("\n ", " ").contains(&subject), "{text}");
    assert!(text.contains(&format!("\nreal server {failed} of web is DOWN\n  tcp check: ")), "{text}");
    assert!(text.contains("connection refused (ECONNREFUSED)"), "{text}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    assert_eq!(mails.try_recv().ok(), None, "one mail");
    let posts: Vec<Value> = posts.try_iter().map(|body| serde_json::from_str(&body).expect("JSON")).collect();
    let events: Vec<&Value> = posts.iter().map(|post| &post["event"]).collect();
    assert_eq!(events, ["started", "real_server_down", "stopping"], "each once: {posts:?}");
    let mut down = posts[1].clone();
    let time = down["time"].take();
    assert!(time.as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 24), "{time}");
    assert_eq!(
        down,
        json!({
            "version": 1, "sequence": 2, "daemon": "lvs1", "event": "real_server_down", "state": "DOWN",
            "virtual_server": "web", "services": ["tcp 192.0.2.10:80"], "real_server": failed.to_string(),
            "reason": "tcp check: connect: connection refused (ECONNREFUSED)", "quorum": null,
            "time": null, "dropped": 0,
        })
    );
    let log = place.log();
    // The password is the tail of what AUTH PLAIN sends.
    for secret in ["geheim-mail", "AGx2c2QAZ2VoZWltLW1haWw=", "geheim-hook", "geheim-url"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[test]
fn receivers_that_hang_hold_up_neither_the_table_nor_a_reload_nor_the_end() {
    let (mut first, second) = (Backend::new(), Backend::new());
    // Connections are accepted by the system, and nothing is ever said.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = silent.local_addr().expect("an address");
    let place = place();
    place.configure(&config(at, at, "timeout = \"1h\"", &web(&[(&first, 1), (&second, 1)])));
    let daemon = place.start();
    first.die();
    place.wait_for_servers("installed", &[json!(false), json!(true)]);
    first.revive();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    assert_eq!(place.ask("reload").code, Some(0));
    // An hour, were it not bounded.
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().code(), Some(0));
    let log = place.log();
    assert!(log.contains("events were not delivered before the end"), "{log}");
}
