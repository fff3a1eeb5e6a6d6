//! The lines of the protocol, byte for byte.

use super::*;

fn subject() -> Subject {
    Subject {
        address: parse_address("198.51.100.11:80").unwrap(),
        virtual_server: None,
        reason: None,
        duration: None,
    }
}

#[test]
fn lines_are_as_documented_and_come_back() {
    let full = Subject {
        virtual_server: Some("web".into()),
        reason: Some("kernel \"update\"\n".into()),
        duration: Some(Duration::from_secs(90)),
        ..subject()
    };
    let cases = [
        (Request::Reload, r#"{"version":1,"command":"reload"}"#),
        (Request::Status { name: None }, r#"{"version":1,"command":{"status":{}}}"#),
        (
            Request::Status { name: Some("web".into()) },
            r#"{"version":1,"command":{"status":{"name":"web"}}}"#,
        ),
        (
            Request::Order { order: Order::Drain, on: full, again: false },
            r#"{"version":1,"command":{"order":{"order":"drain","on":{"address":"198.51.100.11:80","in":"web","reason":"kernel \"update\"\n","for_ms":90000}}}}"#,
        ),
        (
            Request::Order { order: Order::Drain, on: subject(), again: true },
            r#"{"version":1,"command":{"order":{"order":"drain","on":{"address":"198.51.100.11:80"},"again":true}}}"#,
        ),
        (
            Request::Weight { weight: OperatorWeight::Set(7), on: subject() },
            r#"{"version":1,"command":{"weight":{"weight":7,"on":{"address":"198.51.100.11:80"}}}}"#,
        ),
        (
            Request::Weight { weight: OperatorWeight::Auto, on: subject() },
            r#"{"version":1,"command":{"weight":{"weight":"auto","on":{"address":"198.51.100.11:80"}}}}"#,
        ),
        (
            Request::Plan { sources: serde_json::json!([{ "path": "lvsd.toml", "text": "" }]) },
            r#"{"version":1,"command":{"plan":{"sources":[{"path":"lvsd.toml","text":""}]}}}"#,
        ),
    ];
    for (request, line) in cases {
        let encoded = encode_request(&request).unwrap();
        assert_eq!(String::from_utf8(encoded.clone()).unwrap(), format!("{line}\n"));
        assert_eq!(decode_request(&encoded).unwrap(), request);
    }
}

#[test]
fn refuses_what_it_does_not_understand() {
    let cases = [
        ("", "the request is not understood"),
        ("{}", "missing field `version`"),
        ("[1]", "the request is not understood"),
        (r#"{"version":2,"command":{"later":{}}}"#, "protocol version 2 is not known, this is version 1"),
        (r#"{"version":0,"command":"reload"}"#, "protocol version 0 is not known, this is version 1"),
        (r#"{"version":1,"command":"stop"}"#, "unknown variant `stop`"),
        (r#"{"version":1,"command":"reload","now":true}"#, "unknown field `now`"),
        (r#"{"version":1,"command":{"status":{"nam":"web"}}}"#, "unknown field `nam`"),
        (
            r#"{"version":1,"command":{"order":{"order":"drain","on":{"address":"web"}}}}"#,
            "an address is written",
        ),
        (
            r#"{"version":1,"command":{"order":{"order":"kill","on":{"address":"::1"}}}}"#,
            "unknown variant `kill`",
        ),
        (
            r#"{"version":1,"command":{"weight":{"weight":4294967295,"on":{"address":"::1"}}}}"#,
            "a weight is a number from 0",
        ),
        (
            r#"{"version":1,"command":{"weight":{"weight":1,"on":{"address":"::1","for":9}}}}"#,
            "unknown field `for`",
        ),
        (
            r#"{"version":1,"command":{"weight":{"weight":-1,"on":{"address":"::1"}}}}"#,
            "a weight is a number from 0",
        ),
    ];
    for (line, part) in cases {
        let error = decode_request(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn addresses_in_every_spelling() {
    for (text, shown) in [
        ("198.51.100.11:80", "198.51.100.11:80"),
        ("198.51.100.11", "198.51.100.11"),
        ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
    ] {
        assert_eq!(parse_address(text).unwrap().to_string(), shown);
    }
    for text in ["", "web", "198.51.100.11:", "198.51.100.11:65536", "[198.51.100.11]", "1.2.3"] {
        assert!(parse_address(text).is_err(), "{text:?}");
    }
}

#[test]
fn weights_from_the_command_line() {
    for (text, weight) in [
        ("0", Ok(OperatorWeight::Set(0))),
        ("2147483647", Ok(OperatorWeight::Set(MAX_WEIGHT))),
        ("auto", Ok(OperatorWeight::Auto)),
        ("2147483648", Err(WeightError)),
        ("99999999999999999999", Err(WeightError)),
        ("-1", Err(WeightError)),
        ("+1", Err(WeightError)),
        ("", Err(WeightError)),
    ] {
        assert_eq!(text.parse(), weight, "{text:?}");
    }
}

#[test]
fn replies_keep_the_order_of_their_data() {
    #[derive(Serialize)]
    struct Data {
        z: u8,
        a: u8,
    }
    let reply = Reply::done("two words").with_data(&Data { z: 1, a: 2 }).unwrap();
    let line = String::from_utf8(encode_reply(&reply).unwrap()).unwrap();
    assert_eq!(
        line,
        "{\"version\":1,\"ok\":true,\"code\":0,\"text\":\"two words\",\"data\":{\"z\":1,\"a\":2}}\n"
    );
    let back: Reply = serde_json::from_str(&line).unwrap();
    assert_eq!(back.data.unwrap().get(), r#"{"z":1,"a":2}"#);
    let failed = encode_reply(&Reply::failed("no such server")).unwrap();
    assert_eq!(
        String::from_utf8(failed).unwrap(),
        "{\"version\":1,\"ok\":false,\"code\":1,\"text\":\"no such server\"}\n"
    );
}
