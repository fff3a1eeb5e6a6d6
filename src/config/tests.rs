//! Loading whole files: the ones that come with lvsd, the contract's, broken and hostile ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::engine::model::{CheckKind, Daemon};

/// Loads one text; every PEM file and secret is there and good.
pub(super) fn load_text(text: &str) -> Result<Loaded, Diagnostics> {
    let sources = Sources::from_text("lvsd.toml", Path::new("/etc/lvsd"), text);
    load_with(&sources, &|path| Ok(pem_for(path)), &|_| Ok(()))
}

pub(super) fn config(text: &str) -> Config {
    match load_text(text) {
        Ok(loaded) => loaded.config,
        Err(errors) => panic!("{errors}"),
    }
}

fn pem_for(path: &Path) -> Vec<u8> {
    let label = if path.ends_with("key.pem") { "PRIVATE KEY" } else { "CERTIFICATE" };
    format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n").into_bytes()
}

fn shipped() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("config/lvsd.toml")];
    files.extend(toml_files("config/examples"));
    files
}

fn toml_files(directory: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    files.sort();
    files
}

#[test]
fn what_is_shipped_is_good() {
    let files = shipped();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        // The secrets are the reader's own.
        let loaded = load_with(&Sources::read(&file).unwrap(), &pem::read_file, &|_| Ok(()));
        let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
        assert!(!loaded.config.virtual_servers.is_empty(), "{}", file.display());
    }
}

/// Checks to be included: all of them at once, which shows that their names differ, each of them in use.
#[test]
fn the_ready_made_checks_are_good() {
    let files = toml_files("config/examples/checks");
    assert!(files.len() >= 10, "{files:?}");
    let dir = tempfile::tempdir().unwrap();
    let mut names = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let what = text
            .lines()
            .find_map(|line| line.strip_prefix("# Tried with ").or(line.split(" Tried with ").nth(1)));
        assert!(
            what.is_some_and(|what| what.starts_with("Debian")),
            "{}: with what was it tried?",
            file.display()
        );
        std::fs::write(dir.path().join(file.file_name().unwrap()), &text).unwrap();
        names.extend(
            text.lines()
                .filter_map(|line| line.strip_prefix("[check.")?.strip_suffix(']').map(str::to_owned)),
        );
    }
    let mut text = "include = [\"*.toml\"]\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\n".to_owned();
    text += &format!("check = {names:?}\n[[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n");
    let main = dir.path().join("lvsd.toml");
    std::fs::write(&main, text).unwrap();
    let loaded = load(&Sources::read(&main).unwrap()).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    assert_eq!(loaded.config.virtual_servers[0].real_servers[0].checks.len(), names.len());
}

/// What `config/lvsd.toml` shows behind `# ` is what lvsd does without it.
#[test]
fn the_default_file_shows_the_defaults() {
    let text = std::fs::read_to_string("config/lvsd.toml").unwrap();
    let is_default = |line: &str| {
        let key = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")).map(|(key, _)| key);
        key.is_some_and(|key| !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    };
    let uncommented: Vec<&str> = text
        .lines()
        .map(|line| if is_default(line) { line.trim_start_matches("# ") } else { line })
        .collect();
    assert_eq!(text.lines().filter(|line| is_default(line)).count(), 37);
    assert_eq!(config(&uncommented.join("\n")), config(&text));
}

#[test]
fn an_empty_file_is_legal() {
    let config = config("");
    assert!(config.virtual_servers.is_empty());
    let Daemon { control_socket, state_file, log, .. } = config.daemon;
    assert_eq!(control_socket, PathBuf::from("/run/lvsd/control.sock"));
    assert_eq!(state_file, PathBuf::from("/var/lib/lvsd/state.json"));
    assert_eq!(log, "info");
}

#[test]
fn log_filters() {
    for good in
        ["info", "WARN", "off", "warn,x=debug", "info,lvsd::checks=debug", "lvsd", "lvsd[{a=b}]=trace"]
    {
        assert_eq!(config(&format!("[daemon]\nlog = '{good}'\n")).daemon.log, good);
    }
}

/// The keys of the documentation's example, in one file that is consistent.
#[test]
fn every_key_of_the_contract() {
    let config = config(include_str!("testdata/contract.toml"));
    assert_eq!(config.virtual_servers.len(), 2);
    let web = &config.virtual_servers[0];
    assert_eq!(web.services.len(), 13 + 16);
    assert_eq!(web.real_servers[0].upper_threshold, None);
    insta::assert_debug_snapshot!(config.virtual_servers[1]);
    insta::assert_debug_snapshot!(config.daemon);
}

#[test]
fn equal_checks_are_one_allocation() {
    let mut text =
        "[check.web]\nhttp = { path = \"/\" }\n[[virtual_server]]\naddress = \"192.0.2.10:80\"\n".to_owned();
    text += "check = \"web\"\nvirtualhost = \"www.example.org\"\n";
    for i in 0..2_000 {
        text +=
            &format!("[[virtual_server.real_server]]\naddress = \"10.0.{}.{}:80\"\n", i / 250, i % 250 + 1);
    }
    text += "[[virtual_server.real_server]]\naddress = \"10.9.0.1:80\"\ncheck = { http = { path = \"/\", virtualhost = \"www.example.org\" } }\n";
    let config = config(&text);
    let kinds: Vec<&Arc<CheckKind>> =
        config.virtual_servers[0].real_servers.iter().map(|rs| &rs.checks[0].probe.kind).collect();
    assert_eq!(kinds.len(), 2_001);
    assert!(kinds.iter().all(|kind| Arc::ptr_eq(kind, kinds[0])));
}

#[test]
fn many_mistakes_are_counted_not_shown() {
    let found =
        load_text(&"x = 1\n[[virtual_server]]\ny = 1\n".repeat(300).replacen("x = 1", "", 1)).unwrap_err();
    assert_eq!(found.iter().count(), MAX_SHOWN);
    assert!(found.error_count() > 500, "{}", found.error_count());
    assert!(
        found
            .to_string()
            .contains(&format!("and {} more", found.error_count() + found.warning_count() - MAX_SHOWN))
    );
}

#[test]
fn sources_survive_a_journey() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("lvsd.toml", "include = [\"b.toml\", \"*.toml\", \"missing.toml\"]\n");
    let server = |name: &str, last: u8| {
        format!(
            "[[virtual_server]]\nname = \"{name}\"\naddress = \"192.0.2.{last}:80\"\n[[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\ncheck = []\n"
        )
    };
    write("a.toml", &server("a", 1));
    write("b.toml", &server("b", 2));
    write(".c.toml", "nonsense");
    let sources = Sources::read(&dir.path().join("lvsd.toml")).unwrap();
    let names: Vec<&str> = sources.paths().filter_map(|path| path.rsplit('/').next()).collect();
    assert_eq!(names, ["lvsd.toml", "b.toml", "a.toml"]);
    let sent: Sources = serde_json::from_str(&serde_json::to_string(&sources).unwrap()).unwrap();
    assert_eq!(sent, sources);
    let errors = load(&sent).unwrap_err();
    assert_eq!(errors, load(&sources).unwrap_err());
    assert!(errors.to_string().contains("missing.toml"), "{errors}");
}

#[test]
fn a_file_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Sources::read(&dir.path().join("lvsd.toml")).unwrap_err();
    assert!(
        missing.lines()[0].contains("lvsd.toml: error: cannot read the configuration: No such file"),
        "{missing}"
    );
    assert!(Sources::read(dir.path()).unwrap_err().to_string().contains("it is a directory"));
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(Sources::read(&fifo).unwrap_err().to_string().contains("not a regular file"));
    let latin1 = dir.path().join("latin1.toml");
    std::fs::write(&latin1, b"[daemon]\nname = \"K\xf6ln\"\n").unwrap();
    let errors = load(&Sources::read(&latin1).unwrap()).unwrap_err();
    assert!(errors.lines()[0].contains("latin1.toml:2:10: error: the file is not UTF-8"), "{errors}");
}

#[test]
fn the_control_socket_of_broken_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lvsd.toml");
    let socket = |text: &str| {
        std::fs::write(&file, text).unwrap();
        control_socket(&file)
    };
    let daemon = "[daemon]\ncontrol_socket = \"/run/x.sock\"\n";
    let found = PathBuf::from("/run/x.sock");
    let default = PathBuf::from(defaults::CONTROL_SOCKET);
    assert_eq!(control_socket(&dir.path().join("missing.toml")), default);
    assert_eq!(socket(""), default);
    assert_eq!(socket("[daemon]\ncontrol_socket = 5\n"), default);
    assert_eq!(socket(&format!("{daemon}[[virtual_server]]\nadress = 5\nweight = []\n")), found);
    assert_eq!(socket(&format!("{daemon}[[virtual_server]]\naddress = \"192.0")), found);
    assert_eq!(socket(&format!("include = [\"missing.toml\"]\n{daemon}")), found);
    assert_eq!(socket(&format!("nonsense\n{daemon}")), found);
    assert_eq!(socket(&format!("a = [1, 2\nb = {{ c = 1\n{daemon}x\n[y")), found);
    assert_eq!(socket("[daemon]\ncontrol_socket = \"run/x.sock\"\n"), dir.path().join("run/x.sock"));
    assert_eq!(socket(&format!("[defaults]\nalpha = true\n{daemon}name = lvs1\n")), found);
}

static CORPUS: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
    let mut files = shipped();
    let cases = std::fs::read_dir("tests/diagnostics").unwrap();
    files.extend(
        cases.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "toml")),
    );
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
});

/// Neither loading nor rendering what was found, nor the client's look-up.
fn survives(text: &str) {
    let found = match load_text(text) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    };
    assert!(found.iter().count() <= MAX_SHOWN);
    drop(found.render(Palette::Colour));
    drop(found.lines());
    drop(syntax::control_socket(text));
    drop(syntax::include_patterns(text));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn random_text_never_panics(text in "\\PC{0,200}") {
        survives(&text);
    }

    #[test]
    fn random_words_never_panic(words in proptest::collection::vec(prop_oneof![
        Just("[[virtual_server]]\n"), Just("[[virtual_server.real_server]]\n"), Just("[defaults]\n"), Just("[check.x]\n"),
        Just("address"), Just("check"), Just("http"), Just("fwmark"), Just("tunnel"), Just("quorum"), Just("include"),
        Just(" = "), Just("\n"), Just("{ "), Just(" }"), Just("["), Just("]"), Just(", "), Just("\"x\""), Just("\"192.0.2.0/24\""),
        Just("\"[::1-ff]:80\""), Just("5"), Just("-1"), Just("1e400"), Just("true"), Just("'''"), Just("\"\"\""), Just("\u{feff}"),
    ], 0..40)) {
        survives(&words.concat());
    }

    #[test]
    fn mutated_files_never_panic(
        which in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..6, "[\\PC\n]{0,4}"), 1..6),
    ) {
        let mut text: Vec<char> = which.get(CORPUS.as_slice()).chars().collect();
        for (at, remove, insert) in cuts {
            let at = at.index(text.len() + 1);
            let end = (at + remove).min(text.len());
            text.splice(at..end, insert.chars());
        }
        survives(&text.into_iter().collect::<String>());
    }
}
