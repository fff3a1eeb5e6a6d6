//! A daemon with real checks: what it says of itself and of its servers.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Backend, Place, web};

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
    assert_eq!(
        pool["quorum"],
        json!({"up": true, "weight": 4, "threshold": 1, "quorum": 1, "hysteresis": 0})
    );
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
    assert_eq!(place.ask("status web").stdout, place.ask("status").stdout);
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

#[test]
fn usr1_writes_the_state_to_the_log() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    place.wait_for_servers("alive", &[json!(true), json!(true)]);
    daemon.signal(Signal::SIGUSR1);
    let text = "1 virtual servers, 1 with quorum; 2 real servers, 2 alive; 2 checks";
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
