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

/// A virtual server: its name, the last byte of its address, its real servers.
type Pool<'a> = (&'a str, u8, &'a [&'a Backend]);

fn pools(pools: &[Pool<'_>]) -> String {
    let pool = |(name, at, servers): &Pool<'_>| {
        let servers = servers.iter().map(|one| format!("{{ address = \"{}\" }}", one.address));
        let servers = servers.collect::<Vec<_>>().join(", ");
        let head = format!("[[virtual_server]]\nname = \"{name}\"\naddress = \"192.0.2.{at}:80\"\n");
        format!("{head}check = {{ tcp = {{}} }}\nreal_server = [{servers}]\n")
    };
    pools.iter().map(pool).collect()
}

/// Its virtual server goes, its server goes from it, both have another name and address, or all go: whoever follows
/// hears of each order's end, and so does whoever asks for the server, wherever it is now.
#[test]
fn an_order_that_a_reload_leaves_behind_is_told_as_ended_and_why_says_so_wherever_the_server_is() {
    let (server, other) = (Backend::new(), Backend::new());
    let at = server.address;
    let (both, one) = ([&server, &other], [&other]);
    let before = pools(&[("web", 10, &both), ("api", 11, &[&server])]);
    for (case, after, now_in) in [
        ("the server goes", pools(&[("web", 10, &one), ("api", 11, &[&server])]), Some("api")),
        ("the virtual server goes", pools(&[("api", 11, &[&server])]), Some("api")),
        ("another name and address", pools(&[("shop", 12, &both)]), Some("shop")),
        ("nothing is left", String::new(), None),
    ] {
        let place = Place::new(&before);
        let _daemon = place.start();
        for order in ["drain", "weight"] {
            let weight = if order == "weight" { "7" } else { "" };
            let said = place.ask(&format!("{order} {at} {weight} --in web --reason disk --for 2h"));
            assert_eq!(said.code, Some(0), "{said:?}");
        }
        let mut follower = Follower::start(&place, "events --json");
        let mut number = follower.json()["snapshot"]["number"].as_u64().expect("a number");
        place.configure(&after);
        assert_eq!(place.ask("reload").code, Some(0), "{case}");
        let mut ended = Vec::new();
        while ended.len() < 2 {
            let line = follower.json();
            number += 1;
            assert_eq!(line["event"]["number"], number, "without a gap: {line}");
            if line["event"]["event"] == "order_ended" {
                ended.push(line["event"].clone());
            }
        }
        let by = ended[0]["order"]["by"].as_str().expect("a name").to_owned();
        let text = |order: &str| {
            format!("the {order} by {by} for 2h has ended, no virtual server takes it over: disk")
        };
        for (event, order) in ended.iter().zip(["drain", "weight 7"]) {
            let whose = (&event["virtual_server"], &event["real_server"]);
            assert_eq!(whose, (&json!("web"), &json!(at.to_string())), "{case}: {event}");
            assert_eq!(event["text"], text(order), "{case}");
            assert_eq!(event["rule"], "no virtual server takes it over", "{case}");
            let given = json!({"by": by, "reason": "disk", "for_ms": 7_200_000});
            assert_eq!(event["order"], given, "{case}");
        }
        let why = place.ask(&format!("why {at}"));
        let (said, place_of) = match now_in {
            Some(_) => (&why.stdout, "in web: "),
            None => (&why.stderr, " in web: "),
        };
        for order in ["drain", "weight 7"] {
            let line = format!("{place_of}{}", text(order));
            assert_eq!(said.matches(&line).count(), 1, "{case}: {line:?} in {why:?}");
        }
        let status = place.status();
        let recent = status["recent"].as_array().expect("a list").iter();
        let recent =
            recent.filter(|one| one["text"].as_str().is_some_and(|t| t.ends_with("is not taken over")));
        assert_eq!(recent.count(), 2, "{case}: {}", status["recent"]);
        let logged = place.logged("the order is not taken over: drain of ");
        assert_eq!(
            (&logged["level"], &logged["virtual_server"]),
            (&json!("WARN"), &json!("web")),
            "{logged}"
        );
        assert_eq!(place.log().matches("the order is not taken over: drain of ").count(), 1, "said once");
    }
}

#[test]
fn an_order_that_comes_back_with_its_server_is_told() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    assert_eq!(place.ask(&format!("drain {} --reason disk", first.address)).code, Some(0));
    let mut follower = Follower::start(&place, "events --json");
    follower.json();
    place.configure(&web(&[(&second, 1)]));
    assert_eq!(place.ask("reload --confirm 1s").code, Some(0));
    let mut told = Vec::new();
    while told.last().is_none_or(|(event, _): &(String, String)| event != "order") {
        let event = follower.json()["event"].clone();
        let word = |key: &str| event[key].as_str().expect("words").to_owned();
        told.push((word("event"), word("text")));
    }
    let at = |name: &str| told.iter().position(|(event, _)| event == name);
    let (ended, reverted) = (at("order_ended"), at("trial_reverted"));
    assert!(ended.is_some() && ended < reverted, "{told:?}");
    let (_, back) = told.last().expect("the order");
    assert!(back.starts_with("the drain by ") && back.ends_with(" stands again: disk"), "{back}");
    assert_eq!(place.servers("effective_weight"), [0, 1]);
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
