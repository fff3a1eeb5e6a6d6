//! What a full disk does not take is no success; what nobody reads any more is none of our business.

use std::fs::File;
use std::process::Stdio;

use crate::support::{Place, Said};

const KEEPALIVED: &str = "virtual_server 192.0.2.10 80 {\n  protocol TCP\n  real_server 198.51.100.11 80 {\n    TCP_CHECK {\n    }\n  }\n}\n";
const OURS: &str = "[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = { tcp = {} }\n[[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n";

/// Every command that prints without a daemon.
const COMMANDS: [&str; 8] = [
    "--version",
    "--help",
    "man",
    "man lvsd.toml",
    "schema",
    "completions bash",
    "import keepalived.conf",
    "check ours.toml",
];

fn run(place: &Place, words: &str, stdout: impl Into<Stdio>) -> (Option<i32>, String) {
    let output = place.command(words).stdout(stdout).stderr(Stdio::piped()).output();
    let said = Said::from(output.expect("lvsd is there"));
    (said.code, said.stderr)
}

fn place() -> Place {
    let place = Place::new("");
    place.write("keepalived.conf", KEEPALIVED);
    place.write("ours.toml", OURS);
    place
}

#[test]
fn a_full_disk_is_a_failure() {
    let place = place();
    for words in COMMANDS {
        let full = File::options().write(true).open("/dev/full").expect("a full disk");
        let (code, said) = run(&place, words, full);
        assert_eq!(code, Some(1), "{words}: {said}");
        let why = "lvsd: cannot write to standard output: No space left on device (os error 28)\n";
        assert!(said.ends_with(why), "{words}: {said}");
    }
}

#[test]
fn a_reader_that_has_gone_is_none() {
    let place = place();
    for words in COMMANDS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let (code, said) = run(&place, words, writer);
        assert_eq!(code, Some(0), "{words}: {said}");
        assert!(!said.contains("cannot write"), "{words}: {said}");
    }
}
