//! Files read in pieces come to what they come to as a whole, or are left to it.

use std::path::Path;

use proptest::prelude::*;

use crate::config::{Diagnostics, Kept, Loaded, Sources, load_after_with, load_in_pieces, load_whole};

fn pem(path: &Path) -> Result<Vec<u8>, crate::config::permission::Unusable> {
    let label = if path.ends_with("key.pem") { "PRIVATE KEY" } else { "CERTIFICATE" };
    Ok(format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n").into_bytes())
}

/// Both ways come to the same, or the one in pieces leaves it to the other. Did it not?
fn agree(sources: &Sources, shown: &str) -> bool {
    let whole = load_whole(sources, &pem, &|_| Ok(()));
    know(sources, &whole, shown);
    match (whole, load_in_pieces(sources, &pem, &|_| Ok(()))) {
        (Ok(whole), Some(pieces)) => {
            assert_eq!(pieces.config, whole.config, "{shown}");
            assert_eq!(pieces.warnings, whole.warnings, "{shown}");
            true
        }
        (Ok(_) | Err(_), None) => false,
        (Err(mistakes), Some(_)) => panic!("{shown}\nin pieces it is good, as a whole: {mistakes}"),
    }
}

/// The same also where all of it is known.
fn know(sources: &Sources, whole: &Result<Loaded, Diagnostics>, shown: &str) {
    let read = |kept: &Kept| load_after_with(sources, kept, &pem, &|_| Ok(()));
    match (whole, read(&Kept::default())) {
        (Ok(whole), Ok(first)) => {
            let again = read(&first.kept).unwrap_or_else(|mistakes| panic!("{shown}\nknown: {mistakes}"));
            for one in [first.loaded, again.loaded] {
                assert_eq!(one.config, whole.config, "{shown}");
                assert_eq!(one.warnings, whole.warnings, "{shown}");
            }
        }
        (Err(whole), Err(mistakes)) => assert_eq!(&mistakes, whole, "{shown}"),
        (Ok(_), Err(mistakes)) => panic!("{shown}\nas a whole it is good, after nothing: {mistakes}"),
        (Err(mistakes), Ok(_)) => panic!("{shown}\nafter nothing it is good, as a whole: {mistakes}"),
    }
}

fn agree_on(text: &str) -> bool {
    agree(&Sources::from_text("lvsd.toml", Path::new("/etc/lvsd"), text), text)
}

fn files(directory: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

#[test]
fn what_is_shipped_is_read_in_pieces() {
    let files: Vec<_> = ["config", "config/examples"].iter().flat_map(|directory| files(directory)).collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        assert!(agree(&Sources::read(&file).unwrap(), &file.display().to_string()), "{}", file.display());
    }
}

#[test]
fn mistakes_and_warnings_are_those_of_the_whole() {
    let files = files("tests/diagnostics");
    assert!(files.len() >= 40, "{files:?}");
    let in_pieces =
        files.iter().filter(|file| agree(&Sources::read(file).unwrap(), &file.display().to_string()));
    assert!(in_pieces.count() > 0, "none of them has warnings only");
}

const SERVER: &str = "[[virtual_server]]\naddress = \"192.0.2.1:80\"\ncheck = \"web\"\n\
                      [[virtual_server.real_server]]\naddress = \"198.51.100.1:80\"\n";

#[test]
fn what_stands_after_the_virtual_servers_counts_as_well() {
    assert!(agree_on(&format!("{SERVER}\n[check.web]\ntcp = {{}}\n[daemon]\nname = \"a\"\n")));
    assert!(agree_on(&format!("{SERVER}[check.web]\r\ntcp = {{}}\r\n")));
    let unused = "[check.a]\ntcp = {}\n[check.b]\ntcp = {}\n";
    let other = SERVER.replace("192.0.2.1", "192.0.2.2");
    assert!(agree_on(&format!("[check.web]\ntcp = {{}}\n{SERVER}{unused}{other}[check.c]\ntcp = {{}}\n")));
    agree_on(&format!("\u{feff}{SERVER}[check.web]\ntcp = {{}}\n"));
}

#[test]
fn a_header_within_a_text_is_text() {
    let hidden = [
        "[check.web]\nscript = { command = [\"/bin/x\", '''\n[[virtual_server]]\n[x]\n'''] }\n",
        "[check.web]\nscript = { command = [\"/bin/x\", \"\"\"\n[[virtual_server]]\naddress = '192.0.2.9:80'\n[x]\n\"\"\"] }\n",
        "[check.web]\ntcp = { send = '''\n[[virtual_server]]\n'''\n}\n",
        "# [[virtual_server]]\n[check.web]\ntcp = { dialogue = [\n{ expect = '''\n[[virtual_server]]\n[daemon]\nname=\"x\"\n''' }\n] }\n",
    ];
    for text in hidden {
        agree_on(&format!("{text}{SERVER}"));
        agree_on(&format!("{SERVER}{text}"));
        agree_on(&format!("{SERVER}{text}{SERVER}"));
    }
}

/// Lines out of which files are put together: most of them in no sensible order.
const LINES: [&str; 22] = [
    "[[virtual_server]]",
    "[[virtual_server]]",
    "  [[virtual_server]]",
    "[ [virtual_server] ]",
    "[[\"virtual_server\"]]",
    "[virtual_server]",
    "[virtual_server.check.tcp]",
    "[[virtual_server.real_server]]",
    "[[virtual_server.real_server]]",
    "virtual_server = []",
    "address = \"192.0.2.1:80\"",
    "address = \"192.0.2.2:80\"",
    "address = \"198.51.100.7\"",
    "[defaults]",
    "[daemon]",
    "[check.web]",
    "check = \"web\"",
    "tcp = {}",
    "name = '''",
    "'''",
    "name = [",
    "]",
];

proptest! {
    #[test]
    fn any_order_of_lines_comes_to_the_same(lines in prop::collection::vec(prop::sample::select(&LINES[..]), 0..14)) {
        agree_on(&lines.join("\n"));
    }

    #[test]
    fn virtual_servers_between_anything_come_to_the_same(
        lines in prop::collection::vec(
            prop_oneof![Just(SERVER), Just("[check.web]\ntcp = {}"), prop::sample::select(&LINES[..])], 0..8),
    ) {
        agree_on(&lines.join("\n"));
    }
}
