//! Golden bytes of each format.

use super::*;

fn head(level: Level) -> Head<'static> {
    Head { time: "2026-11-29T22:31:00.123456Z", level, target: "lvsd::runtime", place: Some(("src/x.rs", 7)) }
}

fn fields(message: &str, named: &[(&'static str, Value)]) -> Fields {
    Fields { message: message.to_owned(), named: named.to_vec() }
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

fn down() -> Fields {
    fields(
        "real server down",
        &[
            ("virtual_server", text("web")),
            ("real_server", text("198.51.100.11:80")),
            ("reason", text("connect: connection refused (ECONNREFUSED)")),
            ("failures", Value::Unsigned(4)),
        ],
    )
}

fn encoded(format: Format, level: Level, fields: &Fields) -> String {
    String::from_utf8(encode(format, &head(level), fields)).unwrap()
}

#[test]
fn a_journal_entry_has_the_fields_that_operators_ask_for() {
    assert_eq!(
        encoded(Format::Journal, Level::WARN, &down()),
        "PRIORITY=4\nSYSLOG_IDENTIFIER=lvsd\nTARGET=lvsd::runtime\nCODE_FILE=src/x.rs\nCODE_LINE=7\n\
         MESSAGE=real server down\n\
         VIRTUAL_SERVER=web\nREAL_SERVER=198.51.100.11:80\n\
         REASON=connect: connection refused (ECONNREFUSED)\nFAILURES=4\n"
    );
}

#[test]
fn what_the_message_says_is_not_said_twice() {
    let named = [("real_server", text("198.51.100.11:80")), ("state", text("down")), ("by", text("alice"))];
    let record = fields("198.51.100.11:80 in web: down", &named);
    let line = encoded(Format::Plain, Level::WARN, &record);
    assert!(line.ends_with(" 198.51.100.11:80 in web: down by=alice\n"), "{line}");
    let entry = encoded(Format::Journal, Level::WARN, &record);
    assert!(
        entry.contains("\nMESSAGE=198.51.100.11:80 in web: down\n"),
        "its fields stand beside it: {entry}"
    );
    assert!(entry.contains("\nREAL_SERVER=198.51.100.11:80\nSTATE=down\nBY=alice\n"), "{entry}");
}

#[test]
fn levels_are_those_of_syslog() {
    for (level, priority) in
        [(Level::ERROR, 3), (Level::WARN, 4), (Level::INFO, 6), (Level::DEBUG, 7), (Level::TRACE, 7)]
    {
        let entry = encoded(Format::Journal, level, &fields("x", &[]));
        assert!(entry.starts_with(&format!("PRIORITY={priority}\n")), "{entry}");
    }
}

#[test]
fn values_with_line_breaks_carry_their_length() {
    let entry = encode(Format::Journal, &head(Level::INFO), &fields("a\nb", &[("diff", text("- x\n+ y"))]));
    let message = b"a\nb";
    let mut wanted = b"MESSAGE\n".to_vec();
    wanted.extend((message.len() as u64).to_le_bytes());
    wanted.extend(message);
    wanted.extend(b"\nDIFF\n\x07\0\0\0\0\0\0\0- x\n+ y\n");
    assert!(entry.ends_with(&wanted), "{:?}", String::from_utf8_lossy(&entry));
}

#[test]
fn names_are_made_fit_for_the_journal() {
    let long = "x".repeat(100);
    let cases = [
        ("real_server", "REAL_SERVER"),
        ("log.target", "LOG_TARGET"),
        ("_pid", "LVSD__PID"),
        ("2nd", "LVSD_2ND"),
        ("priority", "LVSD_PRIORITY"),
        ("message", "LVSD_MESSAGE"),
        ("", "LVSD_"),
        ("größe", "GR__E"),
        (long.as_str(), &"X".repeat(64)),
    ];
    for (name, wanted) in cases {
        assert_eq!(journal_name(name), wanted);
    }
}

#[test]
fn plain_lines_have_time_level_message_and_fields() {
    assert_eq!(
        encoded(Format::Plain, Level::WARN, &down()),
        "2026-11-29T22:31:00.123456Z WARN  real server down virtual_server=web \
         real_server=198.51.100.11:80 reason=\"connect: connection refused (ECONNREFUSED)\" failures=4\n"
    );
    assert_eq!(
        encoded(Format::Plain, Level::INFO, &fields("", &[("a", Value::Bool(true)), ("b", text(""))])),
        "2026-11-29T22:31:00.123456Z INFO  a=true b=\"\"\n"
    );
    assert!(encoded(Format::Coloured, Level::ERROR, &down()).contains(" \u{1b}[31mERROR\u{1b}[0m real"));
}

#[test]
fn nothing_from_outside_forges_a_line_or_steers_a_terminal() {
    let hostile =
        "x\n2026-11-29T22:31:00Z INFO  forged\r\u{1b}[2J\u{7}\u{9b}\u{202e}\u{2066}\u{200b}\u{e0041}";
    for format in [Format::Plain, Format::Json, Format::Journal] {
        let line = encoded(format, Level::INFO, &fields(hostile, &[("reason", text(hostile))]));
        // The journal keeps a field's own bytes apart; JSON escapes, and is no terminal's food.
        let words = line.split("\nREASON").next().unwrap();
        assert!(
            !words.contains([
                '\u{1b}',
                '\r',
                '\u{7}',
                '\u{9b}',
                '\u{202e}',
                '\u{2066}',
                '\u{200b}',
                '\u{e0041}'
            ]),
            "{words:?}"
        );
        assert!(format == Format::Json || !words.contains('\u{9b}'), "{words:?}");
    }
    let plain = encoded(Format::Plain, Level::INFO, &fields(hostile, &[("reason", text("say \"x\\\"\n"))]));
    assert_eq!(plain.lines().filter(|line| !line.starts_with(' ')).count(), 1, "{plain}");
    assert!(plain.ends_with("reason=\"say \\\"x\\\\\\\"\\n\"\n"), "{plain}");
}

#[test]
fn json_lines_are_json_with_typed_fields() {
    let mut fields = down();
    fields.add("level", text("high\u{1b}"));
    fields.add("lateness", Value::Float(f64::NAN));
    fields.add("delta", Value::Signed(-3));
    let line = encoded(Format::Json, Level::ERROR, &fields);
    assert!(line.starts_with(r#"{"timestamp":"2026-11-29T22:31:00.123456Z","level":"ERROR","target":"lvsd::runtime","message":"real server down","virtual_server":"web""#), "{line}");
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(json["lvsd_level"], "high\u{1b}");
    assert_eq!(json["failures"], 4);
    assert_eq!(json["delta"], -3);
    assert_eq!(json["lateness"], "NaN");
}

#[test]
fn records_are_bounded_whatever_they_hold() {
    let names: Vec<&'static str> = (0..48).map(|n| &*Box::leak(format!("f{n}").into_boxed_str())).collect();
    let value = text(&"\u{1b}ä\n".repeat(super::super::record::MAX_VALUE / 4));
    let named: Vec<_> = names.into_iter().map(|name| (name, value.clone())).collect();
    let huge = fields(&"\u{1b}".repeat(super::super::record::MAX_VALUE), &named);
    for (format, most) in
        [(Format::Journal, MAX_ENTRY), (Format::Plain, MAX_WORDS * 2), (Format::Json, 2 * MAX_ENTRY + 100)]
    {
        let record = encode(format, &head(Level::INFO), &huge);
        assert!(record.len() <= most, "{format:?}: {}", record.len());
        assert!(record.len() > MAX_WORDS / 2, "{format:?}: {}", record.len());
    }
    let json = encode(Format::Json, &head(Level::INFO), &huge);
    assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
}
