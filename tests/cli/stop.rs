//! The end of a daemon.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Backend, Place, exists, web, within};

#[test]
fn term_and_int_end_it_with_0_and_leave_nothing() {
    let backend = Backend::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new(&web(&[(&backend, 3)]));
        let daemon = place.start();
        assert!(exists(&place.path("control.sock")));
        daemon.signal(signal);
        assert_eq!(daemon.wait().code(), Some(0));
        place.logged("\"message\":\"stopped\"");
        assert!(!exists(&place.path("control.sock")));
        assert!(!exists(&place.path("state.json")), "a dry run keeps nothing");
        assert_eq!(place.ask("status").code, Some(69));
    }
}

/// A stop that takes its time, since a script does: health says so from the first moment, and a
/// second signal neither kills it nor makes it begin again.
#[test]
fn a_second_term_during_the_stop_changes_nothing() {
    let backend = Backend::new();
    let folder = tempfile::tempdir().expect("a folder");
    let (began, may_end) = (folder.path().join("began"), folder.path().join("may-end"));
    let code = format!("touch {}; until [ -e {} ]; do sleep 0.05; done", began.display(), may_end.display());
    let omega = format!(
        "[[virtual_server]]\nname = \"web\"\nomega = true\nquorum_down = [\"/bin/sh\", \"-c\", {code:?}]\n"
    );
    let config = web(&[(&backend, 3)]).replace("[[virtual_server]]\nname = \"web\"\n", &omega);
    let place = Place::new(&format!("http = \"127.0.0.1:0\"\n{config}"));
    let daemon = place.start();
    assert_eq!(daemon.page("/readyz").0, 200);
    daemon.signal(Signal::SIGTERM);
    within("the script", || exists(&began).then_some(()));
    let (status, body) = daemon.page("/readyz");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, body), (503, json!({"status": "shutting_down"})));
    assert_eq!(daemon.page("/healthz").0, 503);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1] {
        daemon.signal(signal);
    }
    std::fs::write(&may_end, "").expect("the folder is ours");
    assert_eq!(daemon.wait().code(), Some(0));
    let log = place.log();
    assert_eq!(log.matches("\"message\":\"stopping\"").count(), 1, "{log}");
    assert_eq!(log.matches("\"message\":\"stopped\"").count(), 1, "{log}");
}

#[test]
fn a_client_that_waits_for_an_answer_is_not_left_waiting() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| place.ask("reload"))).collect();
        daemon.signal(Signal::SIGTERM);
        for asked in asking {
            let said = asked.join().expect("no panic");
            assert!(matches!(said.code, Some(0 | 1 | 69)), "{said:?}");
        }
    });
    assert_eq!(daemon.wait().code(), Some(0));
}
