//! Commands that wait for something: checks that run now, a server that becomes idle; and the log filter.

use std::process::Stdio;

use serde_json::json;

use crate::support::{Backend, Place, web, within};

/// Checked once an hour: what changes sooner was asked for.
fn seldom(servers: &[(&Backend, u32)]) -> String {
    web(servers).replace("delay_loop = \"200ms\"", "delay_loop = \"1h\"\nwarmup = \"10ms\"")
}

/// What an operator wants of a server is not what its checks say of it.
#[test]
fn check_now_tells_an_order_from_a_verdict() {
    let mut backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 1)]));
    let _daemon = place.start();
    let check = |given: &str, code: i32, state: &str| {
        assert_eq!(place.ask(&format!("{given} {}", backend.address)).code, Some(0));
        let said = place.ask(&format!("check-now {}", backend.address));
        let text = said.stdout + &said.stderr;
        let line = text.lines().next().expect("a line");
        assert!(line.starts_with(&format!("{} in web: {state}", backend.address)), "{given}: {text}");
        assert_eq!(
            (said.code, state.contains(" by ")),
            (Some(code), line.contains(" by ")),
            "{given}: {text}"
        );
    };
    check("disable", 0, "up, disabled by ");
    check("drain", 0, "up, drained by ");
    check("enable", 0, "up");
    backend.die();
    place.wait_for_servers("alive", &[json!(false)]);
    let said = |given: &str| {
        assert_eq!(place.ask(&format!("{given} {}", backend.address)).code, Some(0));
        place.ask(&format!("check-now {}", backend.address)).stderr
    };
    assert!(said("disable").contains("in web: DOWN, disabled by "));
    assert!(said("enable").contains("in web: DOWN\n"));
}

#[test]
fn check_now_runs_all_checks_and_prints_what_they_find() {
    let (mut first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&seldom(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    within("both first checks", || {
        place.servers("checks").iter().all(|checks| checks[0]["has_run"] == true).then_some(())
    });
    let said = place.ask(&format!("check-now {}", first.address));
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let head = format!("{0} in web: up\n  tcp {0}: up; next run in ", first.address);
    assert!(said.stdout.starts_with(&head), "{}", said.stdout);
    assert!(said.stdout.contains("ms: connected"), "{}", said.stdout);
    first.die();
    let said = place.ask(&format!("check-now {} --in web", first.address));
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{said:?}");
    assert!(said.stderr.starts_with(&format!("{} in web: DOWN\n", first.address)), "{}", said.stderr);
    assert!(said.stderr.contains("connect: connection refused (ECONNREFUSED)"), "{}", said.stderr);
    assert_eq!(place.servers("alive"), [json!(false), json!(true)], "it counts like any other run");
    first.revive();
    assert_eq!(place.ask(&format!("check-now {}", first.address)).code, Some(0));
    let said = place.ask("check-now 203.0.113.1");
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), "there is no real server 203.0.113.1\n"));
    assert!(place.log().contains("run now: asked for by "), "{}", place.log());
}

/// It runs into its time-out, and that is its result.
#[test]
fn check_now_waits_for_slow_checks() {
    let backend = Backend::new();
    let slow = "check = { tcp = { expect = \"hello\" }, timeout = \"700ms\" }";
    let place = Place::new(&seldom(&[(&backend, 3)]).replace("check = { tcp = {} }", slow));
    let _daemon = place.start();
    let said = place.ask(&format!("check-now {}", backend.address));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("timed out after 700ms"), "{}", said.stderr);
}

#[test]
fn log_level_changes_the_filter_until_the_next_reload() {
    let backend = Backend::new();
    let place = Place::new(&format!("log = \"info\"\n{}", web(&[(&backend, 3)])));
    let _daemon = place.start();
    assert_eq!(place.ask("log-level").stdout, "info\n");
    for (filter, words) in [
        ("inof", "did you mean \"info\"?"),
        ("a=b=c", "is not a filter"),
        ("info,lvsd::runtme=debug", "did you mean \"lvsd::runtime\"?"),
    ] {
        let said = place.ask(&format!("log-level {filter}"));
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{said:?}");
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
    assert_eq!(place.ask("log-level").stdout, "info\n", "a wrong one changes nothing");
    let said = place.ask("log-level info,lvsd=trace");
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (Some(0), "log filter info,lvsd=trace until the next reload\n")
    );
    assert_eq!(place.ask("log-level").stdout, "info,lvsd=trace\nuntil the next reload; configured: info\n");
    place.logged("set by ");
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(place.ask("log-level").stdout, "info\n");
    assert_eq!(place.ask("log-level warn").code, Some(0));
    let before = place.log().len();
    assert_eq!(place.ask(&format!("drain {}", backend.address)).code, Some(0));
    let log = place.log();
    assert!(!log[before..].contains("\"INFO\""), "nothing below a warning is said: {log}");
}

#[test]
fn a_drained_server_without_connections_is_idle() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let at = first.address;
    let said = place.ask(&format!("drain {at} --until-idle --deadline 1m"));
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines.first(), Some(&format!("{at} in web: drained").as_str()));
    assert_eq!(lines.last(), Some(&format!("{at} is idle").as_str()), "{lines:?}");
    assert!(
        lines.contains(&"counting its connections"),
        "no number of before the weight was written: {lines:?}"
    );
    let said = place.ask("drain 203.0.113.1 --until-idle");
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), "there is no real server 203.0.113.1\n"));
    assert_eq!(place.ask(&format!("drain {at} --deadline 1m")).code, Some(64), "nothing to wait for");
}

#[test]
fn the_deadline_and_the_end_of_the_drain_end_the_waiting() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let at = backend.address;
    let said = place.ask(&format!("drain {at} --until-idle --deadline 1ms"));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.stderr.contains("is not idle after 1ms: ") && said.stderr.ends_with("; it stays drained\n"),
        "{}",
        said.stderr
    );
    assert_eq!(place.servers("effective_weight"), [0]);
    // For a moment only: it is over before the waiting is.
    let words = format!("drain {at} --for 1ms --until-idle --deadline 1m -c lvsd.toml");
    let mut command = place.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lvsd is there");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    let errors = String::from_utf8(ended.stderr).expect("UTF-8");
    assert!(errors.contains("is not drained any more"), "{errors}");
    drop(daemon);
}
