//! Every block of TOML, through the loader that the daemon has.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lvsd::config::{Sources, load};
use tempfile::TempDir;

use super::book::Block;
use super::pages;

const POOL: &str = "[[virtual_server]]\nname = \"example\"\naddress = \"203.0.113.200:80\"\n";
const SERVER: &str = "\n[[virtual_server.real_server]]\naddress = \"203.0.113.201:80\"\n";

/// The block as a whole file, with nothing in it that lvsd would warn of.
fn completed(block: &Block) -> String {
    let text = &block.text;
    // What the example says itself counts.
    let says = |key: &str| text.lines().take_while(|l| !l.starts_with("[[")).any(|l| l.starts_with(key));
    if block.has("pool") {
        let own = ["name =", "address =", "check ="].into_iter().filter(|key| says(key));
        let head = own.fold(pool("{ tcp = {} }"), |head, key| {
            head.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect()
        });
        let servers = if says("real_server =") { "" } else { SERVER };
        format!("{head}{text}{servers}")
    } else if block.has("server") {
        let address = if says("address =") { "\n[[virtual_server.real_server]]\n" } else { SERVER };
        let check = if text.contains("check =") { "[]" } else { "{ tcp = {} }" };
        format!("{}{address}{text}", pool(check))
    } else if block.has("plus") {
        // All that are defined, since one that is not used is warned of.
        let checks = text.lines().filter_map(|line| line.strip_prefix("[check.")?.strip_suffix(']'));
        let names: Vec<_> = checks.map(|name| format!("\"{name}\"")).collect();
        let check =
            if names.is_empty() { "{ tcp = {} }".to_owned() } else { format!("[{}]", names.join(", ")) };
        format!("{text}\n{}{SERVER}", pool(&check))
    } else {
        text.clone()
    }
}

fn pool(check: &str) -> String {
    format!("{POOL}check = {check}\n")
}

/// Files that configurations name and that are read with them.
fn write_secrets(folder: &TempDir) {
    let certified =
        rcgen::generate_simple_self_signed(["www.example.org".to_owned()]).expect("a certificate");
    for (name, text) in [
        ("ca.pem", certified.cert.pem()),
        ("client.pem", certified.cert.pem()),
        ("client.key", certified.signing_key.serialize_pem()),
        ("secret", "secret\n".to_owned()),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("our folder");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("our folder");
    }
}

/// What the loader says; empty for a good file without warnings.
fn judge(text: &str) -> Result<String, String> {
    let folder = TempDir::new().expect("a folder");
    write_secrets(&folder);
    let path = folder.path().join("lvsd.toml");
    // The book's names are those of a director; the files are here.
    let here = format!("\"{}/", folder.path().display());
    fs::write(&path, text.replace("\"/etc/lvsd/", &here)).expect("our folder");
    match Sources::read(&path).and_then(|sources| load(&sources)) {
        Ok(loaded) => Ok(loaded.warnings.to_string()),
        Err(mistakes) => Err(mistakes.to_string()),
    }
}

#[test]
fn every_configuration_is_taken_without_a_warning() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.language == "toml") {
            count += 1;
            let place = format!("{}:{}", page.name, block.line);
            match (judge(&completed(block)), block.has("wrong")) {
                (Ok(warnings), false) if warnings.is_empty() => {}
                (Ok(warnings), false) => wrong.push(format!("{place}: a warning:\n{warnings}")),
                (Err(mistakes), false) => wrong.push(format!("{place}:\n{mistakes}")),
                (Ok(_), true) => wrong.push(format!("{place}: is said to be wrong, and is not")),
                (Err(_), true) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "{count} configurations");
}

/// What is shown below a wrong file is what is said of it, but for the name of the file.
#[test]
fn what_is_said_of_a_wrong_configuration_is_what_the_book_shows() {
    let mut count = 0;
    for page in pages() {
        let blocks = page.blocks();
        for pair in blocks.windows(2).filter(|pair| pair[0].has("wrong")) {
            let said = judge(&completed(&pair[0])).expect_err("it is wrong");
            let name = |text: &str| -> String {
                let lines = text.lines().map(|line| match line.find("lvsd.toml:") {
                    Some(at) => {
                        let begins = line[..at].rfind(' ').map_or(0, |space| space + 1);
                        format!("{}{}", &line[..begins], &line[at..])
                    }
                    None => line.trim_end().to_owned(),
                });
                lines.collect::<Vec<_>>().join("\n")
            };
            assert_eq!(name(&pair[1].text).trim(), name(&said).trim(), "{}:{}", page.name, pair[1].line);
            count += 1;
        }
    }
    assert!(count > 0, "no wrong file is shown");
}

/// What is marked to be typed is on a page that `tests/systemd/guide.rs` follows.
#[test]
fn every_page_with_lines_to_type_is_followed() {
    let followed = include_str!("../systemd/guide.rs");
    let mut count = 0;
    for page in pages() {
        if page.blocks().iter().any(|block| block.has("lab")) {
            count += 1;
            assert!(followed.contains(&format!("\"{}\"", page.name)), "no test follows {}", page.name);
        }
    }
    assert!(count > 8, "{count} pages");
}

/// A loader that took everything would make the tests above say nothing.
#[test]
fn a_mistake_in_an_example_is_found() {
    let block = |mark: &str, text: &str| Block {
        line: 1,
        language: "toml".to_owned(),
        marks: vec![mark.to_owned()],
        text: text.to_owned(),
    };
    assert!(judge(&completed(&block("pool", "quorum = 1\n"))).is_ok());
    assert!(judge(&completed(&block("pool", "quorumm = 1\n"))).is_err());
    assert!(judge(&completed(&block("server", "weight = -1\n"))).is_err());
    assert!(judge(&completed(&block("plus", "[defaults]\nretry = \"x\"\n"))).is_err());
}
