//! Since when everything has been as it is, and what a check that is down said last.

use std::path::Path;

use super::*;
use crate::config::{Sources, load};
use crate::engine::model::{Fault, Outcome, Phase, Verdict};
use crate::engine::table::Table;
use crate::engine::{Command, Engine, Readings};

/// [`example`] with all that later versions have added to the text.
fn dated() -> State {
    without(|state| {
        let pool = &mut state.memory.virtual_servers[0];
        pool.since = Some(Time::from_nanos(5));
        let server = &mut pool.real_servers[0];
        server.since = Some(Since { alive: false, at: Time::from_nanos(6) });
        let mut checks: Vec<_> = server.checks.iter().cloned().collect();
        let words = "connect: refused (before the restart)";
        checks[1].1.last = Some(Last::recalled(70, words, Time::from_nanos(7)));
        server.checks = checks.into();
    })
}

#[test]
fn since_when_and_why_are_kept_within_one_boot() {
    let golden = GOLDEN
        .replace(r#""quorum_up":true,"#, r#""quorum_up":true,"since":5,"#)
        .replace(r#""kept":998000000000,"#, r#""kept":998000000000,"since":[false,6],"#)
        .replace(
            r#""delta":-5,"heard":999000000000"#,
            r#""delta":-5,"heard":999000000000,"last":[7,70,"connect: refused"]"#,
        );
    assert_eq!(parse(&golden, BOOT, NOW), Ok(dated()));
    assert_eq!(
        parse(&render(&dated(), BOOT).text, BOOT, NOW),
        Ok(dated()),
        "said once, however many restarts"
    );
    let other = parse(&golden, OTHER_BOOT, NOW).unwrap();
    let pool = &other.memory.virtual_servers[0];
    assert_eq!((pool.since, pool.real_servers[0].since), (None, None));
    assert!(pool.real_servers[0].checks.iter().all(|(_, state)| state.last.is_none()));
    for (from, to) in [(r#""since":5,"#, r#""since":"x","#), (r#""since":[false,6]"#, r#""since":6"#)] {
        let (state, left_out) = parse_loosely(&golden.replace(from, to)).unwrap();
        assert_eq!(
            (left_out.len(), state.memory.virtual_servers[0].real_servers.len()),
            (1, 2),
            "{left_out:?}"
        );
    }
}

const CONFIG: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
check = { tcp = {}, retry = 0 }
[[virtual_server.real_server]]
address = "198.51.100.11:80"
[[virtual_server.real_server]]
address = "198.51.100.12:80"
"#;

/// Gives each run its outcome.
fn run(engine: &mut Engine, at: Time, good: &[&str]) {
    engine.handle_timeout(at);
    while let Some(command) = engine.next_command() {
        let Command::Start { id, check } = command else { continue };
        let verdict = if good.contains(&check.probe.target.address.to_string().as_str()) {
            Verdict::Success { detail: "connected".to_owned(), weight: WeightChange::None }
        } else {
            Verdict::Failure(Fault { phase: Phase::Connect, reason: "refused".to_owned() })
        };
        engine.handle_outcome(id, &Outcome { verdict, latency: Duration::ZERO }, at);
    }
    while engine.next_event().is_some() {}
}

/// Since when the quorum and both servers have been as they are.
fn since(engine: &Engine) -> [Time; 3] {
    let snapshot = engine.snapshot(None);
    let pool = &snapshot.virtual_servers[0];
    [pool.quorum.since, pool.real_servers[0].since, pool.real_servers[1].since]
}

#[test]
fn a_start_goes_on_from_what_the_file_says_as_far_as_it_still_holds() {
    let config = load(&Sources::from_text("lvsd.toml", Path::new("/"), CONFIG)).unwrap().config;
    let start = |memory: &Memory, at| Engine::start(&config, memory, &Table::default(), &Readings::new(), at);
    let mut first = start(&Memory::default(), NOW);
    let failed = NOW + Duration::from_secs(60);
    run(&mut first, failed, &["198.51.100.11"]);
    assert_eq!(since(&first), [NOW, NOW, failed]);
    let state = State { memory: first.memory(failed), ..State::default() };
    let text = render(&state, BOOT).text;
    let soon = failed + Duration::from_secs(2);
    let read = |boot| parse(&text, boot, soon).unwrap().memory;
    let mut second = start(&read(BOOT), soon);
    assert_eq!(since(&second), [NOW, NOW, failed]);
    let snapshot = second.snapshot(None);
    let checks = snapshot.virtual_servers[0].real_servers.iter().map(|server| &server.checks[0]);
    let said: Vec<_> = checks.map(|check| check.last.as_ref().map(|last| last.detail.as_str())).collect();
    assert_eq!(said, [None, Some("connect: refused (before the restart)")]);
    // What comes after it is of now.
    let later = soon + Duration::from_secs(60);
    run(&mut second, later, &["198.51.100.11", "198.51.100.12"]);
    assert_eq!(since(&second), [NOW, NOW, later]);
    assert_eq!(since(&start(&read(OTHER_BOOT), soon)), [soon; 3], "of another boot nothing counts");
    let stale = failed + Duration::from_secs(3600);
    assert_eq!(
        since(&start(&parse(&text, BOOT, stale).unwrap().memory, stale)),
        [stale; 3],
        "nobody has watched"
    );
}
