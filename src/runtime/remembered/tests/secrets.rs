//! What a check says to a server is no business of whoever finds a copy of the file.

use std::path::Path;

use super::*;
use crate::config::{Sources, load};
use crate::engine::model::{Fault, Outcome, Phase, Verdict};
use crate::engine::table::Table;
use crate::engine::{Command, Engine, Readings};

/// One in each place that goes to a server or receiver.
const CONFIG: &str = r#"
[daemon.notify]
script = ["/bin/false", "geheim-told"]
[[daemon.notify.webhook]]
url = "http://192.0.2.1/hook?key=geheim-url"
headers = { X-Written = "geheim-header" }
[[virtual_server]]
address = "192.0.2.10:80"
[[virtual_server.real_server]]
address = "198.51.100.11:80"
notify_down = ["/bin/false", "geheim-down"]
check = [
    { http = { path = "/?key=geheim-query", headers = { Authorization = "geheim-auth" } } },
    { http = { path = "/", method = "POST", request_body = "geheim-body" } },
    { tcp = { send = "geheim-send", expect = "+OK" } },
    { tcp = { dialogue = [{ send = "geheim-step" }, { expect = "+OK" }] } },
    { udp = { payload = "geheim-payload", reply = "ok", require_reply = true } },
    { script = { argv = ["/bin/false", "geheim-argument"] } },
]
"#;

#[test]
fn no_secret_of_a_check_is_in_the_text() {
    let config = load(&Sources::from_text("lvsd.toml", Path::new("/"), CONFIG)).unwrap().config;
    let mut engine = Engine::start(&config, &Memory::default(), &Table::default(), &Readings::new(), NOW);
    let later = NOW + Duration::from_secs(60);
    engine.handle_timeout(later);
    let mut ran = 0;
    while let Some(Command::Start { id, .. }) = engine.next_command() {
        let reason = "the server said \"geheim-said\"".to_owned();
        let verdict = Verdict::Failure(Fault { phase: Phase::Reply, reason });
        engine.handle_outcome(id, &Outcome { verdict, latency: Duration::ZERO }, later);
        ran += 1;
    }
    assert_eq!(ran, 6);
    let memory = engine.memory(later);
    let owned = engine.services().collect();
    let text = render(&State { memory, owned, ..State::default() }, BOOT).text;
    assert_eq!(text.matches("\"identity\"").count(), 6, "all are on record: {text}");
    let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(!text.contains("geheim") && !text.contains(&hex("geheim")), "{text}");
}
