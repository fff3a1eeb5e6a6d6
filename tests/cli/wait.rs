//! `lvsd status --wait`: whoever starts a daemon asks at once, and is shown what its checks have found.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{Backend, Place, Said, web};

fn has_run(said: &Said) -> Vec<bool> {
    let status: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let servers = status["virtual_servers"][0]["real_servers"].as_array().expect("a list").iter();
    servers.map(|server| server["checks"][0]["has_run"].as_bool().expect("a check")).collect()
}

/// The client is there first, so that there is neither a socket nor a result when it begins.
#[test]
fn it_waits_for_the_daemon_and_for_what_its_checks_find() {
    let (up, mut down) = (Backend::new(), Backend::new());
    down.die();
    let place = Place::new(&web(&[(&up, 3), (&down, 1)]));
    let mut client = place.command("status --json --wait 30s -c lvsd.toml");
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lvsd is there");
    let _daemon = place.start();
    let said: Said = client.wait_with_output().map(|output: Output| output.into()).expect("it ends");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert_eq!(has_run(&said), [true, true]);
    let said = place.ask("status --wait 30s");
    assert!(said.code == Some(0) && said.stdout.contains("connection refused"), "{said:?}");
}

#[test]
fn what_it_is_shown_when_the_time_is_over_has_an_exit_code() {
    let place = Place::new("");
    let said = place.ask("status --wait 1s");
    assert_eq!((said.code, said.stdout.as_str()), (Some(69), ""), "{said:?}");
    assert!(said.stderr.contains("is lvsd running?"), "{}", said.stderr);
    // Takes connections and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = silent.local_addr().expect("an address");
    place.configure(&format!(
        "[[virtual_server]]\nname = \"web\"\naddress = \"192.0.2.10:80\"\nreal_server = [{{ address = \"{address}\" }}]\n\
         check = {{ tcp = {{ expect = \"hello\" }}, timeout = \"1h\" }}\n"
    ));
    let _daemon = place.start();
    let said = place.ask("status --json --wait 1s");
    assert_eq!((said.code, has_run(&said)), (Some(1), vec![false]), "{said:?}");
    assert_eq!(said.stderr, "after 1s there is no result yet of 1 check\n");
    let said = place.ask("status nobody --wait 1h");
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), "there is no virtual server \"nobody\"\n"));
}
