//! A drain that waits, on real connections; and what a plan says that they would cost.

use std::process::Output;

use super::WEB;
use super::process::Director;
use crate::lab::backend::Backend;
use crate::lab::client::Conversation;
use crate::lab::net::Network;

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn until_idle_waits_for_the_last_connection() {
    let network = Network::new();
    let _servers = ["198.51.100.11:80", "198.51.100.12:80"].map(|at| Backend::start(&network.servers, at));
    let director = Director::new(&network.director, WEB);
    let _daemon = director.start();
    let mut open = network.client.run(|| Conversation::open(super::WEB_ADDRESS)).expect("a connection");
    let name = network.client.run(|| open.say("hello")).expect("an answer");

    let (code, out, errors) = said(&director.lvsd(&format!("drain {name} --until-idle --deadline 4s")));
    assert_eq!(code, Some(1), "{out}{errors}");
    assert!(out.contains("1 active and "), "progress: {out}");
    assert!(
        errors.contains("is not idle after 4s: 1 active and ") && errors.ends_with("it stays drained\n"),
        "{errors}"
    );
    assert_eq!(network.client.run(|| open.say("still here")).as_deref(), Ok(name.as_str()));

    let without = WEB.replace(&format!("[[virtual_server.real_server]]\naddress = \"{name}\"\n"), "#");
    let without = without.replace("#weight = 3\n", "");
    std::fs::write(director.config().with_file_name("less.toml"), without.as_bytes())
        .expect("the folder is ours");
    let plan = format!("plan {}", director.config().with_file_name("less.toml").display());
    let (code, out, errors) = said(&director.lvsd(&plan));
    assert_eq!(code, Some(0), "{out}{errors}");
    assert!(
        out.contains(&format!(
            "remove real server {name} in web: not in the file any more (1 active connection lost)\n"
        )),
        "{out}"
    );

    // With a reset: what ends politely is kept for two minutes.
    open.abort();
    let (code, out, errors) = said(&director.lvsd(&format!("drain {name} --until-idle --deadline 2m")));
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    assert!(out.ends_with(&format!("{name} is idle\n")), "{out}");
}
