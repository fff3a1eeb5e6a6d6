//! A daemon with real checks: what it says of itself and of its servers.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

#[test]
fn status_follows_the_servers() {
    let (first, mut second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    let status = place.status();
    assert_eq!(status["version"], 1);
    let pool = &status["virtual_servers"][0];
    assert_eq!((&pool["name"], &pool["services"]), (&json!("web"), &json!(["tcp 192.0.2.10:80"])));
    let mut quorum = pool["quorum"].clone();
    let age = quorum.as_object_mut().and_then(|quorum| quorum.remove("age_ms"));
    assert!(age.is_some_and(|age| age.is_u64()), "{pool}");
    assert_eq!(quorum, json!({"up": true, "weight": 4, "threshold": 1, "quorum": 1, "hysteresis": 0}));
    assert_eq!((&status["dry_run"], &pool["missing"]), (&json!(true), &json!([])));
    assert_eq!(pool["real_servers"][0]["address"], json!(first.address.to_string()));
    second.die();
    place.wait_for_servers("alive", &[json!(true), json!(false)]);
    place.wait_for_servers("installed", &[json!(true), json!(false)]);
    let down = place.logged("\"state\":\"down\"");
    assert_eq!(down["level"], "WARN", "{down}");
    assert_eq!(down["real_server"], json!(second.address.to_string()), "{down}");
    second.revive();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
}

#[test]
fn status_for_people_names_what_json_names() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    let said = place.ask("status");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(said.stdout.contains("192.0.2.10:80"), "{}", said.stdout);
    assert!(said.stdout.contains(&backend.address.to_string()), "{}", said.stdout);
    assert!(said.stdout.starts_with("dry run: "), "{}", said.stdout);
    let one = place.ask("status web").stdout;
    assert!(one.contains(&backend.address.to_string()), "{one}");
    let said = place.ask("status nobody");
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert_eq!(said.stderr, "there is no virtual server \"nobody\"\n");
}

#[test]
fn health_is_served_from_the_configured_port() {
    let backend = Backend::new();
    let place = Place::new(&format!("http = \"127.0.0.1:0\"\n{}", web(&[(&backend, 1)])));
    let daemon = place.start();
    assert_eq!(daemon.page("/healthz").0, 200);
    let (status, body) = daemon.page("/readyz");
    assert_eq!((status, serde_json::from_str::<Value>(&body).ok()), (200, Some(json!({"status": "ready"}))));
    assert_eq!(daemon.page("/elsewhere").0, 404);
}

#[test]
fn a_daemon_with_nothing_to_do_is_ready() {
    let place = Place::new("http = \"127.0.0.1:0\"\n");
    let daemon = place.start();
    assert_eq!(daemon.page("/readyz").0, 200);
    assert_eq!(place.status()["virtual_servers"], json!([]));
}

/// Clients that follow readiness would come to a director that serves nothing.
#[test]
fn a_daemon_whose_services_are_all_refused_is_not_ready() {
    let backend = Backend::new();
    let served = |schedulers: &[&str]| {
        let mut text = "http = \"127.0.0.1:0\"\n[defaults]\ncheck = { tcp = {} }\n".to_owned();
        for (number, scheduler) in schedulers.iter().enumerate() {
            text += &format!(
                "[[virtual_server]]\naddress = \"192.0.2.1{number}:80\"\nscheduler = \"{scheduler}\"\n\
                 [[virtual_server.real_server]]\naddress = \"{}\"\n",
                backend.address
            );
        }
        text
    };
    let place = Place::new(&served(&["wrrr", "wrrr"]));
    let daemon = place.start();
    let (status, body) = daemon.page("/readyz");
    assert_eq!((status, body.as_str()), (503, r#"{"status":"not_ready","failed":["first-sync"]}"#));
    assert_eq!(daemon.page("/healthz").0, 200, "a restart would not help");
    let said = place.ask("status").stdout;
    assert!(
        said.contains("NOTHING IS SERVED: the kernel has refused every service that could serve"),
        "{said}"
    );
    assert_eq!(place.status()["nothing_served"], true);
    for schedulers in [["wrrr", "wrr"], ["wrr", "wrr"]] {
        place.configure(&served(&schedulers));
        place.ask("reload");
        assert_eq!(daemon.page("/readyz").0, 200, "{schedulers:?}");
        assert_eq!(place.status()["nothing_served"], json!(null), "{schedulers:?}");
    }
}

#[test]
fn usr1_writes_the_state_to_the_log() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    place.wait_for_servers("alive", &[json!(true), json!(true)]);
    daemon.signal(Signal::SIGUSR1);
    let text = "1 virtual server, 1 with quorum; 2 real servers, 2 alive; 2 checks";
    let line = place.logged(&format!("\"message\":\"{text}\""));
    assert_eq!(line["level"], "INFO", "{line}");
}

/// A second one finds the first one's socket and port taken, and checks all the same.
#[test]
fn a_second_dry_run_does_without_what_the_first_one_has() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 1)]));
    let first = place.start();
    let second = place.start();
    place.logged("done without in a dry run");
    second.signal(Signal::SIGTERM);
    assert_eq!(second.wait().code(), Some(0));
    assert_eq!(place.ask("status").code, Some(0), "the first one's socket is still there");
    drop(first);
}

#[test]
fn what_is_not_active_says_why() {
    let backend = Backend::new();
    let place = Place::new("");
    let file = place.path("here");
    let config = format!(
        "{}[[virtual_server]]\nname = \"lo\"\naddress = [\"127.0.0.1:1\", \"192.0.2.77:1\"]\n{}",
        web(&[(&backend, 1)])
            .replace("name = \"web\"", &format!("name = \"web\"\nactive_when = {{ file = {file:?} }}")),
        "active_when = { address_present = true, interface = \"lo\" }\nreal_server = [{ address = \"198.51.100.11:1\", check = [] }]\n",
    );
    place.configure(&config);
    let _daemon = place.start();
    let pool = |index: usize| place.status()["virtual_servers"][index].clone();
    let reason = format!("{} does not exist", file.display());
    assert_eq!(pool(0)["active"], false);
    assert_eq!(pool(0)["inactive"], json!([{"service": "tcp 192.0.2.10:80", "reason": reason}]));
    assert_eq!(pool(1)["active"], true, "one of its services is");
    let away = "192.0.2.77 is not on lo";
    assert_eq!(pool(1)["inactive"], json!([{"service": "tcp 192.0.2.77:1", "reason": away}]));
    let text = place.ask("status").stdout;
    assert!(text.contains(&format!("tcp 192.0.2.10:80  not active: {reason}")), "{text}");
    assert!(text.contains("1 of 2 services not active"), "{text}");
    place.write("here", "");
    let active = || pool(0)["active"].as_bool().filter(|active| *active);
    within("the file is seen", active);
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    assert_eq!(place.logged("is active: ")["state"], "active");
    std::fs::remove_file(&file).unwrap();
    within("the file is missed", || pool(0)["active"].as_bool().filter(|active| !active));
    place.wait_for_servers("installed", &[json!(false), json!(true)]);
}
