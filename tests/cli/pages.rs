//! What lvsd prints of itself: manual pages, completions, the schema.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::Place;

/// Runs a program with this on its standard input.
fn feed(command: &mut Command, text: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|problem| panic!("{command:?}: {problem}: run tests/lab/install unit"));
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("a child of ours");
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).into_owned()
}

#[test]
fn manual_pages_are_without_mistakes() {
    let place = Place::new("");
    for words in ["man", "man lvsd", "man lvsd.toml"] {
        let page = place.lvsd(words);
        assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""), "{words}");
        assert!(page.stdout.lines().count() > 100, "{words}: {}", page.stdout);
        let lint = feed(Command::new("mandoc").args(["-T", "lint", "-W", "warning"]), &page.stdout);
        assert_eq!(lint, "", "{words}");
    }
    assert_eq!(place.lvsd("man nothing").code, Some(64));
}

#[test]
fn the_manual_is_legible() {
    let place = Place::new("");
    let read = |page: &str| {
        let troff = place.lvsd(&format!("man {page}")).stdout;
        let text = feed(Command::new("mandoc").args(["-T", "ascii", "-O", "width=78"]), &troff);
        // Bold is a letter, a backspace and the letter again.
        let mut plain: Vec<char> = Vec::new();
        for c in text.chars() {
            if c == '\u{8}' {
                plain.pop();
            } else {
                plain.push(c);
            }
        }
        plain.into_iter().collect::<String>()
    };
    let (program, file) = (read("lvsd"), read("lvsd.toml"));
    for text in ["lvsd drain [OPTIONS] <ADDRESS>", "EXIT STATUS", "SIGHUP"] {
        assert!(program.contains(text), "{text}: {program}");
    }
    for text in
        ["drift = \"repair\" (default)", "[[virtual_server.real_server]]", "persistence_timeout = \"5m\""]
    {
        assert!(file.contains(text), "{text}: {file}");
    }
}

#[test]
fn shells_take_the_completions() {
    let place = Place::new("");
    let bash = place.lvsd("completions bash").stdout;
    // As bash asks for it: the second word of `lvsd dra`.
    let ask = "\nCOMP_WORDS=(lvsd dra); COMP_CWORD=1; _lvsd lvsd dra lvsd; echo \"${COMPREPLY[@]}\"\n";
    assert_eq!(feed(Command::new("bash").args(["--norc", "-s"]), &(bash + ask)).trim(), "drain");
    for (shell, part) in
        [("zsh", "#compdef lvsd"), ("fish", "complete -c lvsd"), ("elvish", "set edit:completion")]
    {
        let script = place.lvsd(&format!("completions {shell}")).stdout;
        assert!(script.contains(part), "{shell}: {script}");
    }
    assert_eq!(place.lvsd("completions tcsh").code, Some(64));
}
