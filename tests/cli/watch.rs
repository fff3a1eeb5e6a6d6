//! `lvsd status` on a terminal: `script` of util-linux makes one.

use std::fmt::Write as _;

use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

use crate::support::{Backend, Place, web, within};

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// What these shell words write to a terminal of this size.
pub(crate) fn on_terminal(
    place: &Place,
    (columns, rows): (u16, u16),
    environment: &[(&str, &str)],
    words: &str,
) -> String {
    let lvsd = env!("CARGO_BIN_EXE_lvsd");
    let mut shell = format!("stty cols {columns} rows {rows}; ");
    for (name, value) in environment {
        let _ = write!(shell, "export {name}={value}; ");
    }
    shell += &words.replace("lvsd", lvsd).replace("CONFIG", "-c lvsd.toml");
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &shell, "/dev/null"]).env_remove("NO_COLOR").env("TERM", "xterm");
    let output = command.current_dir(place.path("")).stdin(std::process::Stdio::null()).output();
    String::from_utf8(output.expect("script is there").stdout).expect("UTF-8")
}

/// Lines without control sequences.
fn plain(text: &str) -> Vec<String> {
    let sequences = regex::Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]").expect("a pattern");
    // Each picture, and what comes after the last, begins a line.
    let text = text.replace("\u{1b}[H", "\n").replace(LEAVE, "\n");
    sequences.replace_all(&text, "").lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn watch_redraws_in_place_and_leaves_the_terminal_as_it_was() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    for signal in ["INT", "TERM", "HUP", "QUIT"] {
        let words = format!(
            "timeout --preserve-status --foreground -s {signal} 2 lvsd status --watch CONFIG; echo ended $?"
        );
        let said = on_terminal(&place, (50, 6), &[], &words);
        assert!(said.starts_with(ENTER), "{said:?}");
        assert!(said.ends_with(&format!("{LEAVE}ended 0\r\n")), "{signal}: {said:?}");
        assert!(said.matches("\u{1b}[H").count() >= 2, "drawn again: {said:?}");
        assert!(said.contains("\u{1b}[32mquorum up\u{1b}[0m"), "{said:?}");
        let lines = plain(&said);
        assert!(lines.iter().all(|line| line.chars().count() <= 50), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.starts_with('…') && line.contains("more line")),
            "6 rows: {lines:?}"
        );
    }
}

/// As after Ctrl-S, or when a connection to it hangs: the client can be ended, and the daemon is not held up.
#[test]
fn a_terminal_that_takes_nothing_holds_up_nobody() {
    let place = Place::new(&large(3000));
    let _daemon = place.start();
    let lvsd = env!("CARGO_BIN_EXE_lvsd");
    let words = format!(
        "stty cols 200 rows 4000; timeout --foreground --preserve-status -k 20 -s TERM 3 \
         {lvsd} status --watch -c lvsd.toml; echo $? >ended.new; mv ended.new ended"
    );
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &words, "/dev/null"]).env("TERM", "xterm").current_dir(place.path(""));
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut script = command.spawn().expect("script is there");
    let ended = within("the client ends", || {
        assert_eq!(place.ask("status 0").code, Some(0));
        std::fs::read_to_string(place.path("ended")).ok()
    });
    assert_eq!(ended.trim(), "0", "137 is killed");
    let shown = script.stdout.take().map(std::io::read_to_string).expect("a pipe").expect("UTF-8");
    script.wait().expect("a child");
    assert!(shown.starts_with(ENTER) && !shown.contains(LEAVE), "it was not stuck");
}

/// A virtual server with this many real servers that nobody asks for long.
fn large(servers: usize) -> String {
    let address = |n: usize| format!("{{ address = \"127.1.{}.{}:9\" }}", n / 250, n % 250 + 1);
    let servers: Vec<String> = (0..servers).map(address).collect();
    let pool = "[[virtual_server]]\nname = \"many\"\naddress = \"192.0.2.10:80\"\ncheck = []\n";
    let other =
        "[[virtual_server]]\nname = \"0\"\naddress = \"192.0.2.11:80\"\ncheck = []\nreal_server = []\n";
    format!("{other}{pool}real_server = [{}]\n", servers.join(", "))
}

/// Wide characters take two columns: a line with them that is not cut would break the picture.
#[test]
fn names_and_reasons_of_any_script_fit() {
    let (first, second) = (Backend::new(), Backend::new());
    let name = "网页服务器🔥日本語のサーバー";
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]).replace("\"web\"", &format!("{name:?}")));
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    assert_eq!(
        place.ask(&format!("drain {} --reason 磁盘坏了🔥正在更换新的硬盘和电源", first.address)).code,
        Some(0)
    );
    for columns in [20, 33, 40, 41, 50] {
        let said = on_terminal(&place, (columns, 24), &[], "lvsd status CONFIG");
        let lines = plain(&said);
        assert!(lines.iter().all(|line| line.width() <= usize::from(columns)), "{columns}: {lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("网页")), "{columns}: {lines:?}");
    }
    // Columns of the table stand below each other, whatever the lines around them say.
    let said = place.ask("status").stdout;
    let place_of = |word: &str| -> Vec<usize> { said.lines().filter_map(|line| line.find(word)).collect() };
    let columns = [place_of("connections"), place_of(" active, ")].concat();
    assert_eq!(columns.len(), 3, "{said}");
    assert!(columns[0] + 1 == columns[1] && columns[1] == columns[2], "{said}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let mut backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    backend.die();
    place.wait_for_servers("alive", &[json!(false)]);
    let coloured = on_terminal(&place, (80, 24), &[], "lvsd status CONFIG");
    assert!(coloured.contains("\u{1b}[1;31mDOWN\u{1b}[0m"), "{coloured:?}");
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let said = on_terminal(&place, (80, 24), &[environment], "lvsd status CONFIG");
        assert!(said.contains("DOWN") && !said.contains('\u{1b}'), "{said:?}");
        assert_eq!(plain(&said).len(), plain(&coloured).len());
    }
    let said = place.ask("status").stdout;
    assert!(said.contains("DOWN") && !said.contains('\u{1b}'), "no terminal: {said:?}");
}

#[test]
fn watch_without_a_daemon_or_a_name_touches_no_terminal() {
    let place = Place::new("");
    let said = on_terminal(&place, (80, 24), &[], "lvsd status --watch CONFIG; echo ended $?");
    assert!(said.contains("is lvsd running?") && said.ends_with("ended 69\r\n"), "{said:?}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let _daemon = place.start();
    let said = on_terminal(&place, (80, 24), &[], "lvsd status nobody --watch CONFIG; echo ended $?");
    assert!(said.ends_with("there is no virtual server \"nobody\"\r\nended 1\r\n"), "{said:?}");
    assert_eq!(place.ask("status --watch --json").code, Some(64));
}
