//! No secret of a configuration reaches those who are told of events, nor those who watch: mail, webhooks, the FIFO,
//! scripts, `/events` and `lvsd status --watch`. Each gets what all others of its kind get.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::notify::Reader;
use crate::receivers::{server, take_mail, take_post};
use crate::secrets::{assert_silent, config, echo};
use crate::support::{Backend, Place, web, within};
use crate::watch::on_terminal;

/// All that a viewer of the page gets, until the daemon ends.
fn view(at: &str) -> Receiver<String> {
    let mut stream = TcpStream::connect(at).expect("a listener");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    write!(stream, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            if sender.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What has come so far is added to `text`; does it hold this?
fn has(text: &mut String, from: &Receiver<String>, wanted: &str) -> Option<()> {
    text.extend(from.try_iter());
    text.contains(wanted).then_some(())
}

#[test]
fn no_secret_reaches_those_who_are_told() {
    let (mut backend, echo) = (Backend::new(), echo());
    let ((mail, mails), (hook, posts)) = (server(take_mail), server(take_post));
    let place = Place::new("");
    place.write("password", "geheim-password\n");
    place.write("token", "geheim-token\n");
    // Its own argument is the operator's business, and everybody else's who looks at processes.
    let shell = format!("{{ env; shift; echo \"told $@\"; }} >>{}", place.path("told").display());
    let told =
        format!("fifo = \"events\"\nscript = [\"/bin/sh\", \"-c\", {shell:?}, \"sh\", \"geheim-told\"]");
    place.configure(&config(&backend, (mail, hook), &told, echo));
    assert!(web(&[(&backend, 1)]).contains("retry = 0"), "one failure is a change");
    let daemon = place.start();
    let mut fifo = Reader::new(&place.path("events"));
    let viewer = view(&daemon.http());
    let (mut viewed, mut mailed, mut posted) = (String::new(), String::new(), String::new());
    // All checks have failed: the redirect, the script, the dialogues, what needs a reply.
    place.wait_for_servers("alive", &[true.into(), false.into(), false.into()]);
    backend.die();
    place.wait_for_servers("alive", &[false.into(), false.into(), false.into()]);
    // Whoever has not got to it when the server is up again need not be told that it was down.
    within("a script is told", || {
        fs::read_to_string(place.path("told")).ok().filter(|text| text.contains("LVSD_REASON=http check: "))
    });
    within("a webhook is told", || has(&mut posted, &posts, "http check: "));
    within("a mail tells it", || has(&mut mailed, &mails, "http check: "));
    assert_eq!(place.ask(&format!("drain {echo} --reason later")).code, Some(0));
    within("a viewer sees the change", || has(&mut viewed, &viewer, "\"order\":\"drain\""));
    let watched = on_terminal(
        &place,
        (200, 200),
        &[],
        "timeout --preserve-status --foreground -s TERM 2 lvsd status --watch CONFIG",
    );
    backend.revive();
    place.wait_for_servers("alive", &[true.into(), false.into(), false.into()]);
    daemon.signal(Signal::SIGTERM);
    let mut line = String::new();
    within("the FIFO's last line", || {
        fifo.take();
        line.clone_from(&fifo.text);
        line.contains("DAEMON lvs1 DOWN").then_some(())
    });
    assert_eq!(daemon.wait().code(), Some(0));
    within("the last post", || has(&mut posted, &posts, "\"stopping\""));
    within("the last mail", || has(&mut mailed, &mails, "Subject: "));
    let scripts = fs::read_to_string(place.path("told")).expect("the script ran");
    for (who, said, proof) in [
        ("the FIFO", &line, " DOWN"),
        ("a script", &scripts, "LVSD_REASON=http check: "),
        ("a webhook", &posted, "http check: "),
        ("a mail", &mailed, "http check: "),
        ("/events", &viewed, "script"),
        ("status --watch", &watched, "script"),
    ] {
        assert!(said.contains(proof), "{who} was told nothing of {proof:?}: {said}");
        assert_silent(who, said);
    }
}
