//! The documents that programs read: the reference shows what the daemon sends and takes.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lvsd::control::protocol::decode_request;
use lvsd::engine::model::EventKind;
use lvsd::engine::snapshot::HappenedKind;
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use super::book::{Block, Page};
use super::root;

const LVSD: &str = env!("CARGO_BIN_EXE_lvsd");

/// Everything that the document can show: a sorry server, and a server with a check and an order.
const CONFIG: &str = r#"
[daemon]
control_socket = "control.sock"
state_file = "state.json"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
sorry_server = "198.51.100.99:80"
check = { tcp = {} }
real_server = [{ address = "127.0.0.1:9" }]
"#;

struct Daemon {
    folder: TempDir,
    child: Child,
}

impl Daemon {
    fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("lvsd.toml"), CONFIG).expect("our folder");
        let mut command = Command::new(LVSD);
        command.args(["run", "--dry-run", "-c", "lvsd.toml"]).current_dir(&folder);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("lvsd is there");
        Self { folder, child }
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(LVSD);
        command.args(words).args(["-c", "lvsd.toml"]).current_dir(&self.folder);
        command.output().expect("lvsd is there")
    }

    /// Repeats a question until this is true of its answer.
    fn wait_for(&self, words: &[&str], is_so: impl Fn(&Output) -> bool) -> Output {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let said = self.ask(words);
            if is_so(&said) {
                return said;
            }
            assert!(Instant::now() < end, "{words:?}: {said:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn json(page: &str) -> Vec<Block> {
    Page::read(root(), page).blocks().into_iter().filter(|block| block.language == "json").collect()
}

/// `/virtual_servers/0/name` of each value that is not a list or a table.
fn keys(at: &str, value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(table) => {
            table.iter().for_each(|(key, value)| keys(&format!("{at}/{key}"), value, into))
        }
        Value::Array(list) => list.iter().for_each(|value| keys(&format!("{at}/0"), value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            into.insert(at.to_owned());
        }
    }
}

#[test]
fn the_status_document_has_the_keys_that_are_shown() {
    let daemon = Daemon::start();
    let status = ["status", "--json"];
    daemon.wait_for(&status, |said| said.status.success());
    let drained = daemon.ask(&["drain", "127.0.0.1:9", "--reason", "x", "--for", "1h"]);
    assert!(drained.status.success(), "{drained:?}");
    let said =
        daemon.wait_for(&status, |said| !String::from_utf8_lossy(&said.stdout).contains("\"last\":null"));
    let (mut sent, mut shown) = (BTreeSet::new(), BTreeSet::new());
    keys("", &serde_json::from_slice(&said.stdout).expect("JSON"), &mut sent);
    let block = &json("reference/status-json.md")[0];
    keys("", &serde_json::from_str(&block.text).expect("JSON"), &mut shown);
    let differ: Vec<_> = sent.symmetric_difference(&shown).collect();
    assert!(differ.is_empty() && sent.len() > 20, "shown or sent, not both: {differ:?}");
}

/// Where the last of the events is named, all of them are: before a key, and with its example.
#[test]
fn every_event_is_named_where_events_are() {
    let file = fs::read_to_string(root().join("config/lvsd.toml")).expect("the file of all keys");
    let key = Regex::new(r"^#?:? ?[a-z_]+ = ").expect("a pattern");
    let mut count = 0;
    let mut about = String::new();
    for line in file.lines() {
        about.push_str(line);
        if key.is_match(line) {
            if about.contains("verdicts_thawed") {
                count += 1;
                for kind in EventKind::ALL {
                    assert!(about.contains(kind.name()), "{} is not named in: {about}", kind.name());
                }
            }
            about.clear();
        }
    }
    assert_eq!(count, 3, "scripts, mail and webhooks");
    let page = Page::read(root(), "reference/events.md").text;
    for kind in EventKind::ALL {
        assert!(page.contains(&format!("`{}`", kind.name())), "{} is not in events.md", kind.name());
    }
}

#[test]
fn every_kind_of_change_is_named() {
    let page = Page::read(root(), "reference/status-json.md").text;
    let row = page.lines().find(|line| line.starts_with("| `recent[].kind` |")).expect("a row");
    let named: Vec<&str> = row.split('`').skip(3).step_by(2).collect();
    let told: Vec<&str> = HappenedKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(named, told);
}

#[test]
fn the_requests_that_are_shown_are_understood() {
    let blocks = json("reference/control.md");
    let requests: Vec<_> =
        blocks.iter().flat_map(|b| b.text.lines()).filter(|l| l.contains("\"command\"")).collect();
    assert!(requests.len() > 3);
    for request in requests {
        assert!(decode_request(request.as_bytes()).is_ok(), "{request}");
    }
}

#[test]
fn what_is_shown_as_json_is_json() {
    for page in super::pages() {
        for block in page.blocks().iter().filter(|block| block.language == "json") {
            let values = serde_json::Deserializer::from_str(&block.text).into_iter::<Value>();
            let wrong: Vec<_> = values.filter_map(Result::err).collect();
            assert!(wrong.is_empty(), "{}:{}: {wrong:?}", page.name, block.line);
        }
    }
}
