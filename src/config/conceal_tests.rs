//! No mistake shows a secret, whatever it is and wherever it stands.

use std::path::Path;

use super::*;
use crate::config::diagnostics::Palette;
use crate::config::{Sources, load_with};

/// No part of this long may be seen.
const MARKER: &str = "Zq7Xw9Kp2Vr5Tm8";
const PART: usize = 5;

/// One line with each key that can hold a secret, in each of its forms, as a file that is right.
const LINES: [&str; 24] = [
    "[[daemon.notify.webhook]]\nurl = \"https://hooks.example.org/MARKER\"\ntimeout = \"3s\"\n",
    "[[daemon.notify.webhook]]\nurl = 'https://hooks.example.org/MARKER'\ntimeout = \"3s\"\n",
    "[[daemon.notify.webhook]]\nurl = \"https://h.example.org\"\nheaders = { X-A = \"north\", X-B = \"MARKER\" }\n",
    "[[daemon.notify.webhook]]\nurl = \"https://h.example.org\"\nheaders.X-B = \"MARKER\"\ntimeout = \"3s\"\n",
    "[[daemon.notify.webhook]]\nurl = \"https://h.example.org\"\n[daemon.notify.webhook.headers]\n\"X-B\" = \"MARKER\"\n",
    "[check.a]\nhttp = { path = \"/\", headers = { Authorization = \"MARKER\" } }\nretry = 1\n",
    "[check.a.http]\npath = \"/\"\nheaders = { Authorization = [\"MARKER\", \"x\"] }\nmethod = \"GET\"\n",
    "[check.a.http.headers]\nAuthorization = \"MARKER\"\nCookie = '''MARKER'''\n",
    "[check.a.http]\npath = \"/\"\nrequest_body = \"\"\"MARKER\nMARKER\"\"\"\nmethod = \"POST\"\n",
    "[check.a]\ntcp = { send = \"MARKER\", expect = \"+OK\" }\nretry = 1\n",
    "[check.a]\ntcp.send = \"MARKER\"\nretry = 1\n",
    "[check.a.tcp]\ndialogue = [\n  { expect = \"220\", send = \"MARKER\" },\n  { send = { hex = \"00\" } },\n]\n",
    "[check.a]\nudp = { payload = \"MARKER\", reply = \"x\" }\nretry = 1\n",
    "[daemon.notify.mail]\nserver = \"mx.example.org\"\npassword = \"MARKER\"\nuser = \"lvsd\"\n",
    "[check.a]\nhttp = { path = \"/health?k=MARKER\", method = \"GET\" }\nretry = 1\n",
    "[check.a.http]\npath = '/health?MARKER'\nmethod = \"GET\"\n",
    "[check.a.http]\nurls = [{ path = \"/\" },\n  { path = \"/a?b=c&k=MARKER\", status = [\"200\"] },\n]\n",
    "[[daemon.notify.webhook]]\nurl = \"https://h.example.org\"\ntoken = \"MARKER\"\ntimeout = \"3s\"\n",
    "[check.a]\nhttp = { path = \"/health;j=MARKER\", method = \"GET\" }\nretry = 1\n",
    "[check.a]\nhttp = { path = \"http://u:MARKER@h/\", method = \"GET\" }\nretry = 1\n",
    "[check.a]\nscript = { argv = [\"/usr/bin/probe\", \"MARKER\"], user = \"nobody\" }\nretry = 1\n",
    "[check.a.script]\nargv = [\n  \"/usr/bin/probe\",\n  \"MARKER\",\n]\nuser = \"nobody\"\n",
    "[daemon.notify]\nscript = [\"/usr/bin/tell\", \"MARKER\"]\nscript_timeout = \"3s\"\n",
    "[[virtual_server]]\naddress = \"192.0.2.1:80\"\nquorum_up = [\"/usr/bin/tell\", \"MARKER\"]\nquorum = 1\n",
];

fn with_marker(line: &str) -> String {
    line.replace("MARKER", MARKER)
}

/// All that a load says of a text.
fn said(text: &str) -> String {
    let sources = Sources::from_text("lvsd.toml", Path::new("/etc/lvsd"), text);
    let found = match load_with(&sources, &|_| Err("not here".into()), &|_| Ok(())) {
        Ok(loaded) => loaded.warnings,
        Err(mistakes) => mistakes,
    };
    let json = serde_json::to_string(&found).unwrap();
    format!("{}\n{}\n{json}\n{found:?}", found.render(Palette::Plain), found.lines().join("\n"))
}

fn seen(said: &str) -> Option<&'static str> {
    (0..=MARKER.len() - PART).map(|at| &MARKER[at..at + PART]).find(|part| said.contains(part))
}

#[track_caller]
fn assert_hidden(text: &str) -> usize {
    let said = said(text);
    if let Some(part) = seen(&said) {
        panic!("{part} of the secret in {text:?} is seen:\n{said}");
    }
    said.matches(": error: ").count()
}

#[test]
fn each_key_that_holds_a_secret_is_tried() {
    for key in KEYS.into_iter().chain(["argv", "script", "quorum_up"]) {
        assert!(LINES.iter().any(|line| line.contains(key)), "{key}");
    }
    // And the judge can see one.
    assert!(seen(&said(&format!("name = \"{MARKER}\"\n"))).is_some());
}

#[test]
fn no_letter_too_few_shows_a_secret() {
    let mut mistakes = 0;
    for line in LINES.map(with_marker) {
        for at in 0..line.len() {
            let mut text = line.clone();
            text.remove(at);
            mistakes += assert_hidden(&text);
        }
    }
    assert!(mistakes > 500, "{mistakes} mistakes");
}

#[test]
fn no_letter_too_many_shows_a_secret() {
    let mut mistakes = 0;
    for line in LINES.map(with_marker) {
        // Within the names of keys another letter makes another name of it.
        let values = line.find(MARKER).unwrap();
        let from = line[..values].rfind(['=', '[']).unwrap();
        for at in from..line.len() {
            for letter in ["\"", "'", "{", "}", "[", "]", "=", ",", "#", "\n", ":", "\\", "\"\"\"", "\u{1}"] {
                let mut text = line.clone();
                text.insert_str(at, letter);
                mistakes += assert_hidden(&text);
            }
        }
    }
    assert!(mistakes > 5_000, "{mistakes} mistakes");
}

#[test]
fn no_wrong_value_and_no_neighbour_shows_a_secret() {
    for line in LINES.map(with_marker) {
        let quoted = regex::Regex::new(&format!("[\"']+[^\"'\n]*{MARKER}[^\"']*[\"']+")).unwrap();
        let values = [
            MARKER.to_owned(),
            format!("https://{MARKER}:x@host/{MARKER}"),
            format!("\" {MARKER}\\u0000 \""),
            "\"\\u005aq7Xw9Kp2Vr5Tm8\\u0001\"".to_owned(),
            format!("{{ hex = \"{MARKER}\" }}"),
            format!("{{ regex = \"{MARKER}\" }}"),
            format!("{{ fil = \"{MARKER}\" }}"),
            format!("[\"{MARKER}\", [1]]"),
            format!("\n\"{MARKER}\""),
            format!("\"x\n{MARKER}\""),
        ];
        for value in &values {
            // What stands before a query and the like may be seen.
            let part = [("?", "/h?k=", ""), (";j=", "/h;j=", ""), ("//u:", "//u:", "@h")];
            let part = part.into_iter().find(|(mark, _, _)| line.contains(mark));
            let value = part.map_or(value.clone(), |(_, before, after)| {
                let hex = "\\u005aq7Xw9Kp2Vr5Tm8";
                let whole = |secret: &str| format!("{before}{secret}{after}");
                value.replace(MARKER, &whole(MARKER)).replace(hex, &whole(hex))
            });
            assert_hidden(&quoted.replace_all(&line, regex::NoExpand(&value)));
        }
        for wrong in
            ["nonsense\n", "retry = \n", "unknown = 1\n", "[x\n", "retry = 1 2\n", "\"\n", "'''\n", "}\n"]
        {
            assert_hidden(&format!("{wrong}{line}"));
            assert_hidden(&format!("{line}{wrong}"));
            assert_hidden(&line.replacen('\n', &format!("\n{wrong}"), 1));
        }
        assert_hidden(&format!("{line}{line}"));
    }
}

#[test]
fn a_query_without_words_hides_nothing_of_the_scanner() {
    let secret = with_marker("[[daemon.notify.webhook]]\nurl = \"MARKER\"\n");
    for query in ["/a?", "/a?\u{3000}", "/a?\r", "\"/a?\"", "'/a?", "/a? #", "x?y=", "path?", "?", "??=/"] {
        for line in
            [format!("{query}\n"), format!("path = {query}\n"), format!("http = {{ path = {query} }}\n")]
        {
            assert_hidden(&format!("{line}{secret}"));
            assert_hidden(&format!("[check.a]\n{line}{secret}"));
        }
    }
}

#[test]
fn the_caret_points_at_the_cover_and_the_rest_of_the_line_is_shown() {
    let said = said(&with_marker(LINES[2]).replace("MARKER", "").replace(MARKER, &format!(" {MARKER}")));
    assert!(said.contains("headers = { X-A = \"…\", X-B = \"…\" }\n"), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.contains("headers = {")).unwrap();
    let column = |line: &str, what: &str| line.find(what).map(|i| line[..i].chars().count());
    assert_eq!(column(lines[at + 1], "^^^"), column(lines[at], "\"…\" }"), "{said}");
    let others = [
        ("[check.a]\ntcp = { sned = \"x\", expect = \"y\" }\n", "{ sned = \"…\", expect = \"y\" }"),
        ("[daemon.notify.mail]\npassword_file = \"a b\"\nxx = 1\n", "xx = 1"),
        (
            "[[daemon.notify.webhook]]\nurl = 1\nheaders = { A = { file = \"/x\", fill = \"y\" } }\n",
            "file = \"/x\", fill = \"…\"",
        ),
        ("[check.a]\nhttp = { path = \"/a\", urls = [{ path = \"b\" }] }\n", "urls = [{ path = \"b\" }]"),
        (
            "[[virtual_server]]\nquorum_down = [\"announce\", \"down\"]\n",
            "error: `quorum_down`: \"announce\" is not a full path\n  |\n2 | quorum_down = [\"announce\", \"…\"]\n",
        ),
        ("[check.a]\nhttp = { path = \"/a?b=c\", method = 1 }\n", "{ path = \"…\", method = 1 }"),
        (
            "[check.a]\nhttp = { path = \"/\", body = { regex = \"a?(=|b)\", x = 1 } }\n",
            "regex = \"a?(=|b)\"",
        ),
    ];
    for (text, shown) in others {
        let said = self::said(text);
        assert!(said.contains(shown), "{said}");
    }
}
