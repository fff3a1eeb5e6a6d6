//! What the writer promises: text that reads back as the same values, and checks said once.

use proptest::prelude::*;

use super::*;
use crate::config::import::document::RealServer;

fn table(pairs: &[(&'static str, Value)]) -> Table {
    let mut table = Table::default();
    pairs.iter().for_each(|(key, value)| table.set(key, value.clone()));
    table
}

fn check(kind: &'static str, options: Table, common: &[(&'static str, Value)]) -> Check {
    Check { name: kind.to_owned(), comments: Vec::new(), common: table(common), kind, options }
}

fn server(address: &str, checks: Vec<Check>) -> RealServer {
    RealServer { keys: table(&[("address", address.into())]), checks, ..RealServer::default() }
}

fn pool(address: &str, real_servers: Vec<RealServer>) -> VirtualServer {
    VirtualServer { keys: table(&[("address", address.into())]), real_servers, ..VirtualServer::default() }
}

#[test]
fn the_whole() {
    let web = |n: &str| {
        let mut check = check("http", table(&[("path", "/ok".into())]), &[("retry", 3_u32.into())]);
        check.comments.push(format!("remark {n}"));
        check
    };
    let mut common = Table::default();
    common.comment("keepalived's default");
    common.set("delay_loop", std::time::Duration::from_secs(60));
    let mut first = pool(
        "192.0.2.10:80",
        vec![server("198.51.100.11:80", vec![web("a")]), server("198.51.100.12:80", vec![web("b")])],
    );
    first.above.push("from line 3".to_owned());
    first.common = common;
    let second = pool(
        "192.0.2.11:80",
        vec![
            server(
                "198.51.100.11:80",
                vec![web("a"), check("tcp", Table::default(), &[("retry", 1_u32.into())])],
            ),
            server("198.51.100.12:80", vec![]),
        ],
    );
    let mut daemon = table(&[("name", "lb".into()), ("sync", table(&[("interface", "eth0".into())]).into())]);
    daemon.comment("not carried: x");
    let document = Document {
        heading: vec!["made by lvsd import".to_owned()],
        daemon,
        defaults: Table::default(),
        virtual_servers: vec![first, second],
        closing: vec!["end\nof it".to_owned()],
    };
    let expected = r#"# made by lvsd import

[daemon]
name = "lb"
# not carried: x

[daemon.sync]
interface = "eth0"

[check.http]
# remark a
# remark b
retry = 3
http = { path = "/ok" }

# from line 3
[[virtual_server]]
address = "192.0.2.10:80"
# keepalived's default
delay_loop = "1m"
check = "http"

[[virtual_server.real_server]]
address = "198.51.100.11:80"

[[virtual_server.real_server]]
address = "198.51.100.12:80"

[[virtual_server]]
address = "192.0.2.11:80"

[[virtual_server.real_server]]
address = "198.51.100.11:80"
check = ["http", { tcp = {} }]

[[virtual_server.real_server]]
address = "198.51.100.12:80"
check = []

# end of it
"#;
    assert_eq!(to_toml(&document), expected);
    assert!(crate::config::tests::load_text(expected).is_ok());
}

#[test]
fn what_is_inherited_is_left_out() {
    let outer = table(&[("retry", 3_u32.into())]);
    let kept = |value: u32| {
        let check = check("tcp", Table::default(), &[("retry", value.into()), ("timeout", "5s".into())]);
        inline_check(&without_inherited(&check, &[&Table::default(), &outer]))
    };
    assert_eq!(kept(3), "{ tcp = {} }");
    // lvsd's own default has to be said where something else is inherited.
    assert_eq!(kept(1), "{ tcp = {}, retry = 1 }");
}

#[test]
fn durations() {
    let text = |millis: u64| match Value::from(std::time::Duration::from_millis(millis)) {
        Value::Text(text) => text,
        other => panic!("{other:?}"),
    };
    let all: Vec<String> = [0, 1, 500, 6_000, 90_000, 120_000, 3_600_000, 1_250].map(text).into();
    assert_eq!(all, ["0s", "1ms", "500ms", "6s", "90s", "2m", "1h", "1.25s"]);
}

proptest! {
    #[test]
    fn any_text_reads_back(text in "(?s).{0,40}", key in "[ -~]{1,10}") {
        let toml = format!("{} = {}\n", super::key(&key), quoted(&text));
        let read: toml::Table = toml::from_str(&toml).map_err(|why| TestCaseError::fail(why.to_string()))?;
        prop_assert_eq!(read.get(&key).and_then(toml::Value::as_str), Some(text.as_str()));
    }

    #[test]
    fn comments_stay_comments(text in "(?s).{0,40}") {
        let mut out = String::new();
        comments(&mut out, std::iter::once(text.as_str()));
        prop_assert!(toml::from_str::<toml::Table>(&out).is_ok_and(|table| table.is_empty()), "{}", out);
    }

    #[test]
    fn durations_read_back(micros in 0_u64..10_000_000_000) {
        let wanted = std::time::Duration::from_micros(micros);
        let Value::Text(text) = Value::from(wanted) else { return Err(TestCaseError::fail("no text")) };
        prop_assert_eq!(crate::config::duration::parse(&text).ok(), Some(wanted));
    }
}
