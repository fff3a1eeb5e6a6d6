//! `lvsd events`: a snapshot, then everything that happens, and an end that says why.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

/// A client that follows a daemon.
struct Follower {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Follower {
    fn start(place: &Place, words: &str) -> Self {
        let lvsd = place.command(&format!("{words} -c lvsd.toml"));
        // Whoever runs the tests in the background of a script ignores it, and children inherit that.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(lvsd.get_program())
            .args(lvsd.get_args())
            .stdin(Stdio::null());
        command.current_dir(lvsd.get_current_dir().expect("its folder"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lvsd is there");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Its exit code, and what it says on stderr.
    fn end(mut self) -> (Option<i32>, String) {
        let status = within("its end", || self.child.try_wait().expect("a child"));
        let mut errors = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
        (status.code(), errors)
    }
}

#[test]
fn a_snapshot_and_then_each_event_numbered_without_a_gap() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let mut follower = Follower::start(&place, "events --json");
    let opening = follower.json();
    let status = &opening["snapshot"]["status"];
    assert_eq!((&status["version"], &status["virtual_servers"][0]["name"]), (&json!(1), &json!("web")));
    let mut number = opening["snapshot"]["number"].as_u64().expect("a number");
    second.die();
    let mut next = |follower: &mut Follower| {
        let line = follower.json();
        let event = line["event"].clone();
        number += 1;
        assert_eq!(event["number"], number, "{line}");
        event
    };
    let event = next(&mut follower);
    assert_eq!(
        (&event["event"], &event["real_server"]),
        (&json!("down"), &json!(second.address.to_string()))
    );
    assert_eq!(event["check"]["target"], json!(second.address.to_string()), "{event}");
    assert_eq!(place.ask(&format!("drain {} --reason why", first.address)).code, Some(0));
    let event = next(&mut follower);
    assert_eq!((&event["event"], &event["order"]["reason"]), (&json!("order"), &json!("why")), "{event}");
    assert_eq!(next(&mut follower)["weight"], json!({"from": 3, "to": 0}));
    assert_eq!(next(&mut follower)["event"], "quorum_lost");
    place.configure(&web(&[(&first, 5), (&second, 1)]));
    assert_eq!(place.ask("reload").code, Some(0));
    let event = next(&mut follower);
    assert_eq!(event["text"], "reload: edit real server: weight 3 → 5", "{event}");
    daemon.signal(Signal::SIGTERM);
    assert_eq!(next(&mut follower)["event"], "stopping");
    assert_eq!(follower.json(), json!({"end": {"reason": "the daemon is stopping", "code": 69}}));
    assert_eq!(follower.end(), (Some(69), "lvsd: the daemon is stopping\n".to_owned()));
    assert_eq!(daemon.wait().code(), Some(0));
}

#[test]
fn reloads_that_are_refused_or_on_trial_are_told_with_what_becomes_of_them() {
    let backend = Backend::new();
    let place = Place::new(&format!("max_removed = 0\n{}", web(&[(&backend, 3)])));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let mut follower = Follower::start(&place, "events --json");
    follower.json();
    let with_weight = |weight| place.configure(&format!("max_removed = 0\n{}", web(&[(&backend, weight)])));
    // What is done, and which events and words that is.
    let mut told = |words: &str, code: i32, events: &[(&str, &str)]| {
        assert_eq!(place.ask(words).code, Some(code), "{words}");
        for (event, text) in events {
            let line = follower.json();
            let (name, said) = (&line["event"]["event"], &line["event"]["text"]);
            assert_eq!(
                (name, said.as_str().map(|said| said.contains(text))),
                (&json!(event), Some(true)),
                "{line}"
            );
            assert_eq!(line["event"]["virtual_server"], "", "{line}");
        }
    };
    place.configure("nonsense = 1\n");
    told("reload", 78, &[("reload_refused", "RELOAD REFUSED: 1 mistake")]);
    place.configure("");
    told("reload", 1, &[("reload_refused", "more than max_removed = 0 allows")]);
    with_weight(3);
    told("reload --confirm 1h", 0, &[("trial_began", "unless `lvsd confirm` comes within 1h")]);
    told("confirm", 0, &[("trial_confirmed", "confirmed by ")]);
    let began = ("trial_began", "unless `lvsd confirm` comes within 1s");
    told("reload --confirm 1s", 0, &[began, ("trial_reverted", "not confirmed within 1s")]);
    told("reload", 0, &[]);
}

#[test]
fn people_read_lines() {
    let mut backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let mut follower = Follower::start(&place, "events");
    assert_eq!(follower.line(), "dry run: the table is in memory, the kernel's is not touched");
    let last = backend.address.to_string();
    while !follower.line().contains(&last) {}
    backend.die();
    let line = follower.line();
    let (time, text) = line.split_once("  ").expect("two columns");
    assert!(time.ends_with('Z') && time.contains('T'), "{line}");
    let words = format!("{last} in web: DOWN: 1st failure in a row, retry = 0: tcp check of {last}, ");
    assert!(text.starts_with(&words), "{line}");
    assert!(text.ends_with("connect: connection refused (ECONNREFUSED)"), "{line}");
    assert!(follower.line().contains("  web: QUORUM LOST, weight 0 of 1"));
}

/// As `lvsd events | head -1` does: nothing is written that would tell.
#[test]
fn a_reader_that_has_gone_is_noticed_though_nothing_happens() {
    let place = Place::new("");
    let _daemon = place.start();
    for words in ["events", "events --json"] {
        let Follower { mut child, mut out } = Follower::start(&place, words);
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        assert!(!line.is_empty(), "the snapshot comes first");
        drop(out);
        let status = within("its end", || child.try_wait().expect("a child"));
        let mut errors = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
        assert_eq!((status.code(), errors.as_str()), (Some(0), ""), "{words}");
    }
}

/// Killed, it cannot say so.
#[test]
fn a_daemon_that_dies_without_a_word_is_noticed() {
    let place = Place::new("");
    let daemon = place.start();
    let mut follower = Follower::start(&place, "events --json");
    assert_eq!(follower.json()["snapshot"]["status"]["virtual_servers"], json!([]));
    daemon.signal(Signal::SIGKILL);
    let (code, errors) = follower.end();
    assert_eq!(code, Some(69), "{errors}");
    assert!(errors.contains("has gone"), "{errors}");
}

/// Stopped, its connection stays open: only silence tells.
#[test]
fn a_daemon_that_hangs_is_noticed_by_its_silence() {
    let place = Place::new("");
    let daemon = place.start();
    let mut follower = Follower::start(&place, "events --json");
    follower.json();
    daemon.signal(Signal::SIGSTOP);
    let (code, errors) = follower.end();
    daemon.signal(Signal::SIGCONT);
    assert_eq!(code, Some(69), "{errors}");
    assert!(errors.contains("has not said anything for"), "{errors}");
}

#[test]
fn interrupted_it_ends_at_once_and_the_daemon_lives() {
    let place = Place::new("");
    let _daemon = place.start();
    let mut follower = Follower::start(&place, "events");
    follower.line();
    let pid = Pid::from_raw(i32::try_from(follower.child.id()).expect("a process number"));
    kill(pid, Signal::SIGINT).expect("a child of ours");
    let (code, errors) = follower.end();
    assert_eq!((code, errors.as_str()), (None, ""), "by the signal, as a shell expects");
    assert_eq!(place.ask("status").code, Some(0));
}

#[test]
fn a_reader_that_goes_away_ends_it_without_a_complaint() {
    let mut backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let mut follower = Follower::start(&place, "events --json");
    follower.json();
    let (child, out) = (follower.child, follower.out);
    drop(out);
    backend.die();
    let mut child = child;
    let status = within("its end", || child.try_wait().expect("a child"));
    assert_eq!(status.code(), Some(0));
}
