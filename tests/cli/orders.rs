//! The operator's orders, from the command line to the table.

use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

const NOTHING_SERVES: &str = "has lost its quorum: nothing serves new connections now";

fn order(place: &Place, words: &str, said: &str) {
    let answer = place.ask(words);
    let said = &format!("{said}\n");
    assert_eq!((answer.code, &answer.stdout, answer.stderr.as_str()), (Some(0), said, ""), "{words}");
}

#[test]
fn drain_disable_and_enable_move_a_server_in_the_table() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let at = first.address;

    order(&place, &format!("drain {at} --reason maintenance"), &format!("{at} in web: drained"));
    assert_eq!(place.servers("effective_weight"), [0, 1]);
    assert_eq!(place.servers("installed"), [true, true]);
    let given = &place.servers("override")[0];
    assert_eq!((&given["order"], &given["reason"]), (&json!("drain"), &json!("maintenance")), "{given}");
    assert!(given["by"].is_string() && given["left_ms"].is_null(), "{given}");

    order(&place, &format!("disable {at}"), &format!("{at} in web: disabled"));
    place.wait_for_servers("installed", &[json!(false), json!(true)]);
    assert_eq!(place.servers("alive"), [false, true]);

    order(&place, &format!("enable {at}"), &format!("{at} in web: enabled"));
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    assert_eq!(place.servers("override"), [Value::Null, Value::Null]);
    assert_eq!(place.servers("effective_weight"), [3, 1]);
}

#[test]
fn an_end_of_orders_says_what_still_holds_a_server_back() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    let (up, down) = (first.address, second.address);
    order(&place, &format!("enable {up}"), &format!("{up} in web: nothing to end"));
    assert_eq!(place.ask(&format!("weight {up} 0")).code, Some(0));
    let who = place.servers("override")[0]["by"].as_str().expect("somebody").to_owned();
    order(&place, &format!("enable {up}"), &format!("{up} in web: nothing to end; still weight 0 by {who}"));
    second.die();
    place.wait_for_servers("alive", &[json!(true), json!(false)]);
    for (given, done) in [("drain", "enabled"), ("disable", "enabled"), ("enable", "nothing to end")] {
        assert_eq!(place.ask(&format!("{given} {down}")).code, Some(0));
        let said = place.ask(&format!("enable {down}")).stdout;
        let begin = format!("{down} in web: {done}; still DOWN: tcp check: connect");
        assert!(said.starts_with(&begin), "{given}: {said}");
    }
}

#[test]
fn a_weight_of_the_operators_stands_until_auto_and_survives_a_reload() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    let at = first.address;
    order(&place, &format!("weight {at} 7"), &format!("{at} in web: weight set to 7"));
    assert_eq!(place.servers("effective_weight"), [7, 1]);
    assert_eq!(place.servers("weight"), [3, 1], "the configured one");
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(place.servers("effective_weight"), [7, 1]);
    order(&place, &format!("weight {at} 0"), &format!("{at} in web: weight set to 0"));
    assert_eq!(place.servers("effective_weight"), [0, 1]);
    order(&place, &format!("weight {at} auto"), &format!("{at} in web: weight back to the configured one"));
    assert_eq!(place.servers("effective_weight"), [3, 1]);
}

#[test]
fn an_order_with_a_time_ends_by_itself() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    let at = backend.address;
    order(&place, &format!("drain {at} --for 2s"), &format!("{at} in web: drained\nweb {NOTHING_SERVES}"));
    // On a slow machine it may be over already.
    if let Some(left) = place.servers("override")[0]["left_ms"].as_u64() {
        assert!(left <= 2000, "{left}");
    }
    within("its end", || (place.servers("override") == [Value::Null]).then_some(()));
    assert_eq!(place.servers("effective_weight"), [3]);
    place.logged(" ended after 2s");
}

#[test]
fn an_order_for_nobody_is_1_and_changes_nothing() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    for (words, said) in [
        ("drain 198.51.100.99:80".to_owned(), "there is no real server 198.51.100.99:80\n".to_owned()),
        (
            format!("weight {} 5 --in nobody", backend.address),
            format!("there is no real server {} in nobody\n", backend.address),
        ),
    ] {
        let answer = place.ask(&words);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""), "{words}");
        assert_eq!(answer.stderr, said);
    }
    assert_eq!(place.servers("override"), [Value::Null]);
}

#[test]
fn an_address_in_several_virtual_servers_is_ordered_in_all_or_in_one() {
    let backend = Backend::new();
    let again = web(&[(&backend, 3)]).split_once("\n\n").expect("two parts").1.to_owned();
    let other = again.replace("\"web\"", "\"other\"").replace("192.0.2.10", "192.0.2.11");
    let place = Place::new(&format!("{}\n{other}", web(&[(&backend, 3)])));
    let _daemon = place.start();
    let at = backend.address;
    order(
        &place,
        &format!("drain {at}"),
        &format!("{at} in web, other: drained\nweb {NOTHING_SERVES}\nother {NOTHING_SERVES}"),
    );
    assert_eq!(place.servers("effective_weight"), [0, 0]);
    order(
        &place,
        &format!("enable {at} --in other"),
        &format!("{at} in other: enabled\nother has its quorum again"),
    );
    assert_eq!(place.servers("effective_weight"), [0, 3]);
}

/// All back ends are on one address.
#[test]
fn a_forgotten_port_is_no_order_for_every_server_of_the_host() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    let answer = place.ask(&format!("drain {}", first.address.ip()));
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(1), ""));
    for backend in [&first, &second] {
        assert!(answer.stderr.contains(&format!("\n  {} in web\n", backend.address)), "{}", answer.stderr);
    }
    assert_eq!(place.servers("override"), [Value::Null, Value::Null]);
}
