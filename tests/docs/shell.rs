//! Shell in the book and in README.md: whatever is shown is typed by a test, or stands here with the reason
//! why none does. What no test types has at least commands that lvsd's command line takes.

use std::fs;
use std::process::Command;

use clap::Parser as _;
use clap::error::ErrorKind;
use lvsd::control::cli::Cli;
use regex::Regex;
use tempfile::TempDir;

use super::book::{Block, Page};
use super::{pages, root};

const LVSD: &str = env!("CARGO_BIN_EXE_lvsd");

/// What no test types: its page, how it begins, and why.
const UNTYPED: [(&str, &str, &str); 10] = [
    ("README.md", "./demo ", "`./test` is what runs this test; the demo shows one and asserts nothing"),
    ("README.md", "packaging/build ", "builds a release; `./test packages` does, and installs both"),
    ("README.md", "lvsd check && lvsd doctor ", "guide/first-nat.md and guide/first-dr.md type it"),
    ("README.md", "lvsd import ", "guide/migrate.md types it"),
    ("README.md", "lvsd check   ", "a list and no session; guide/*.md and tests/cli type its commands"),
    (
        "guide/install.md",
        "director# dnf install ",
        "the lab is Debian; tests/systemd/package/mod.rs installs the .rpm by rpm",
    ),
    (
        "guide/install.md",
        "host# docker build ",
        "builds a release; `./test image` does, and runs it so confined",
    ),
    (
        "development/benches.md",
        "cargo bench --profile counts --bench instructions -- --renew",
        "writes into the tree",
    ),
    ("development/performance.md", "cargo build --release", "builds a release, and measures for minutes"),
    (
        "development/robustness.md",
        "fuzz/run ",
        "takes minutes; `./test fuzz` runs it, tests/fuzzing.rs replays it",
    ),
];

/// Begins a line of a shell. Output, which is `text`, begins with no such word and a blank.
const PROGRAMS: &str = r"(?m)^(\S+[#$] |\./|tests/|fuzz/|packaging/|lvsd |cargo |systemctl |journalctl |ip |ipvsadm |sysctl |apt |docker |curl |birdc )";

fn readme() -> Page {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    Page { name: "README.md".to_owned(), text }
}

fn all() -> Vec<Page> {
    [readme()].into_iter().chain(pages()).collect()
}

fn is_shell(block: &Block) -> bool {
    matches!(block.language.as_str(), "console" | "sh" | "bash" | "shell" | "")
}

/// Is it typed, or put where it is then run? That the pages with lines to type are followed, examples.rs sees.
/// Other marks are those of one page each, whose test asks for that page.
fn is_typed(page: &Page, block: &Block) -> bool {
    let only_here = |mark: &str, name: &str| block.has(mark) && page.name == name;
    let followed = page.blocks().iter().any(|block| block.has("lab"));
    match block.language.as_str() {
        "console" => {
            block.has("lab")
                || only_here("source", "guide/install.md")
                || only_here("router", "guide/scaling.md")
        }
        "sh" => {
            only_here("try", "README.md") || followed && block.marks.iter().any(|mark| mark.starts_with('/'))
        }
        _ => false,
    }
}

#[test]
fn every_shell_block_is_typed_or_has_a_reason() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut unused = UNTYPED.to_vec();
    for page in all() {
        for block in page.blocks().iter().filter(|block| is_shell(block)) {
            count += 1;
            let place = format!("{}:{}", page.name, block.line);
            let reason =
                unused.iter().position(|(p, begin, _)| *p == page.name && block.text.starts_with(begin));
            match (is_typed(&page, block), reason) {
                (true, None) => {}
                (false, Some(at)) => drop(unused.remove(at)),
                (false, None) => {
                    wrong.push(format!("{place}: no test types it, and tests/docs/shell.rs has no reason"))
                }
                (true, Some(_)) => wrong.push(format!("{place}: is typed, and needs no reason")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(unused, [], "no block begins so");
    assert!(count > 50, "{count} blocks");
}

#[test]
fn no_shell_hides_in_other_blocks() {
    let program = Regex::new(PROGRAMS).expect("a pattern");
    let mut wrong = Vec::new();
    for page in all() {
        for block in page.blocks().iter().filter(|block| !is_shell(block)) {
            let known = ["text", "toml", "json", "yaml"].contains(&block.language.as_str());
            assert!(known, "{}:{}: is {} shell?", page.name, block.line, block.language);
            wrong.extend(
                program.find(&block.text).map(|found| format!("{}:{}: {found:?}", page.name, block.line)),
            );
        }
        // Neither do blocks that nobody sees, since they stand in a list.
        let indented =
            page.text.lines().filter(|line| line.starts_with(' ') && line.trim_start().starts_with("```"));
        wrong.extend(indented.map(|line| format!("{}: {line:?}", page.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for line in ["lvsd check\n", "director# reboot\n", "a\nsysctl -w a=1\n", "./test\n"] {
        assert!(program.is_match(line), "{line}");
    }
}

/// `lvsd`'s words in a line of a shell, without what follows them for the shell.
fn calls(text: &str) -> Vec<Vec<String>> {
    let call = Regex::new(r"(?m)(?:^|[#$;&|] +)lvsd ([^#;&|>\n]*)").expect("a pattern");
    let word = Regex::new(r#""([^"]*)"|(\S+)"#).expect("a pattern");
    let words = |line: &str| -> Vec<String> {
        let found = word.captures_iter(line);
        found.map(|word| word.get(1).or(word.get(2)).expect("either").as_str().to_owned()).collect()
    };
    call.captures_iter(text).map(|found| words(&found[1])).collect()
}

/// `lvsd help drain` prints, and is no mistake.
fn complaint(words: &[String]) -> Option<String> {
    let error = Cli::try_parse_from(["lvsd".to_owned()].iter().chain(words)).err()?;
    (!matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)).then(|| error.to_string())
}

#[test]
fn every_command_that_is_shown_is_one() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in all() {
        for block in page.blocks().iter().filter(|block| is_shell(block)) {
            for words in calls(&block.text) {
                count += 1;
                let said = complaint(&words);
                wrong
                    .extend(said.map(|said| format!("{}:{}: lvsd {words:?}: {said}", page.name, block.line)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 60, "{count} commands");
    let found = calls(
        "director# lvsd check && lvsd drain a:1 --reason \"new disk\" --for 2h # b\nlvsd man x | man -l -\n",
    );
    assert_eq!(
        found,
        [vec!["check"], vec!["drain", "a:1", "--reason", "new disk", "--for", "2h"], vec!["man", "x"]]
    );
    assert!(complaint(&["drain".to_owned()]).is_some());
}

/// Nobody types it here: it is at least what the Dockerfile says, and confined as `./test image` runs it.
#[test]
fn the_container_is_started_as_it_is_tested() {
    let text = Page::read(root(), "guide/install.md").text;
    let run =
        text.lines().find_map(|line| line.strip_prefix("host# docker run ")).expect("the page starts it");
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("ours").replace(" \\\n#    ", "");
    assert!(read("Dockerfile").contains(run), "{run}");
    let from = run.find("--cap-drop").expect("drops all");
    let confined = &run[from..run.find(" -v ").expect("volumes")];
    assert!(read("tests/lab/image").contains(confined), "{confined}");
}

/// What README.md offers to be tried, with lvsd built already and in a folder of its own.
#[test]
fn what_the_readme_says_can_be_tried() {
    let page = readme();
    let blocks = page.blocks();
    let block = blocks.iter().find(|block| block.has("try")).expect("something to try");
    let folder = TempDir::new().expect("a folder");
    let script = block.text.strip_prefix("cargo build\n").expect("builds first");
    // A person sees to it that the daemon ends.
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}")
        .replace("target/debug/lvsd", LVSD)
        .replace("/tmp/lvsd-try", &folder.path().join("try").display().to_string());
    let mut bash = Command::new("timeout");
    bash.args(["60", "bash", "-ec", &script]).current_dir(&folder);
    let ended = bash.output().expect("bash is there");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{ended:?}");
    for part in ["dry run", "web  wlc", "127.0.0.1:22", "127.0.0.1:9"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}
