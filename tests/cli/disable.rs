//! `lvsd disable --until-idle`: nobody's connection is cut, and what happens when it does not become idle.

use serde_json::json;

use crate::support::{Backend, Place, web};

#[test]
fn first_drained_and_then_out() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let at = first.address;
    let said = place.ask(&format!("disable {at} --reason disk --until-idle --deadline 1m"));
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let lines: Vec<&str> = said.stdout.lines().collect();
    let [drained, idle, disabled] =
        ["in web: drained", "is idle", "in web: disabled"].map(|words| format!("{at} {words}"));
    assert_eq!((lines.first(), lines.last()), (Some(&&*drained), Some(&&*disabled)), "{lines:?}");
    assert!(lines.contains(&&*idle), "{lines:?}");
    let order = &place.servers("override")[0];
    assert_eq!((&order["order"], &order["reason"]), (&json!("disable"), &json!("disk")));
    place.wait_for_servers("installed", &[json!(false), json!(true)]);
}

#[test]
fn not_idle_in_time_it_stays_drained_and_is_not_disabled() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true)]);
    let said = place.ask(&format!("disable {} --until-idle --deadline 1ms", backend.address));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("is not idle after 1ms: "), "{}", said.stderr);
    assert!(said.stderr.ends_with("; it stays drained\n"), "{}", said.stderr);
    assert_eq!(place.servers("override")[0]["order"], "drain");
    let said = place.ask("disable 203.0.113.1 --until-idle");
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), "there is no real server 203.0.113.1\n"));
}

#[test]
fn waiting_keeps_what_was_said_of_the_order_unless_it_is_said_anew() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let hour = 3_600_000;
    // What is ordered; the order that stands then, its reason, and whether its end is within one or two hours.
    for (words, order, reason, hours) in [
        ("drain --reason disk --for 1h", "drain", json!("disk"), Some(1)),
        ("drain --until-idle", "drain", json!("disk"), Some(1)),
        ("drain --until-idle --reason fan", "drain", json!("fan"), Some(1)),
        ("drain --until-idle --for 2h", "drain", json!("fan"), Some(2)),
        ("disable --until-idle", "disable", json!("fan"), Some(2)),
        ("disable --until-idle --reason board", "disable", json!("board"), Some(2)),
        ("drain", "drain", json!(null), None),
    ] {
        let said = place.ask(&format!("{words} {}", first.address));
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{words}: {said:?}");
        let given = &place.servers("override")[0];
        assert_eq!((&given["order"], &given["reason"]), (&json!(order), &reason), "{words}: {given}");
        let left = given["left_ms"].as_u64().map(|left| left.div_ceil(hour));
        assert_eq!(left, hours, "{words}: {given}");
    }
}

#[test]
fn enable_has_nothing_to_wait_for() {
    let place = Place::new("");
    let said = place.ask("enable 198.51.100.11:80 --until-idle");
    assert_eq!((said.code, said.stdout.as_str()), (Some(64), ""));
    let why =
        "an enabled server gets new connections and does not become idle; it goes with drain and disable";
    assert!(said.stderr.contains(why), "{}", said.stderr);
}
