//! The JSON schema of the configuration, for editors: every key with its shape and its sentence. A file that
//! it refuses is wrong; one that it takes may still be, since only [`load`](super::load) knows all rules.

use serde_json::{Map, Value, json};

use super::documented::{self, Section};
use super::raw::keys::Scope;
use shapes::of;

pub(super) mod shapes;

/// Draft 2020-12.
pub fn schema() -> Value {
    let sections = documented::sections(documented::TEXT);
    let mut definitions = Map::new();
    for (name, scope) in DEFINED {
        definitions.insert(name.to_owned(), table(scope, &sections));
    }
    definitions.insert("duration".to_owned(), shapes::duration());
    definitions.insert("text_or_bytes".to_owned(), shapes::text_or_bytes());
    let mut root = table(Scope::Root, &sections);
    if let Some(root) = root.as_object_mut() {
        root.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".to_owned(), json!("lvsd.toml"));
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    root
}

/// Tables that others refer to.
const DEFINED: [(&str, Scope); 32] = [
    ("daemon", Scope::Daemon),
    ("notify", Scope::Notify),
    ("mail", Scope::Mail),
    ("mail_tls", Scope::MailTls),
    ("webhook", Scope::Webhook),
    ("header_file", Scope::HeaderFile),
    ("announce", Scope::Announce),
    ("max_down_rate", Scope::MaxDownRate),
    ("active_when", Scope::ActiveWhen),
    ("timeouts", Scope::Timeouts),
    ("sync", Scope::Sync),
    ("self_test", Scope::SelfTest),
    ("defaults", Scope::Defaults),
    ("virtual_server", Scope::VirtualServer),
    ("real_server", Scope::RealServer),
    ("sorry_server", Scope::SorryServer),
    ("tunnel", Scope::Tunnel),
    ("check", Scope::Check),
    ("tcp", Scope::Tcp),
    ("expect", Scope::Expect),
    ("http", Scope::Http),
    ("smtp", Scope::Smtp),
    ("grpc", Scope::Grpc),
    ("dialogue", Scope::Dialogue),
    ("script", Scope::Script),
    ("file", Scope::File),
    ("url", Scope::Url),
    ("body", Scope::Body),
    ("tls", Scope::Tls),
    ("dns", Scope::Dns),
    ("udp", Scope::Udp),
    ("ping", Scope::Ping),
];

/// An object with these keys and no others.
fn table(scope: Scope, sections: &[Section]) -> Value {
    let mut properties = Map::new();
    for (key, mut shape) in of(scope) {
        if let (Some(says), Some(shape)) =
            (documented::sentence(sections, titles(scope), key), shape.as_object_mut())
        {
            shape.insert("description".to_owned(), Value::String(says));
        }
        properties.insert(key.to_owned(), shape);
    }
    let mut table = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let rules = shapes::rules(scope);
    if let (Some(table), Value::Object(rules)) = (table.as_object_mut(), rules) {
        table.extend(rules);
    }
    table
}

/// Where the documented file explains the keys of a table, the best place first.
const fn titles(scope: Scope) -> &'static [&'static str] {
    match scope {
        Scope::Root => &[""],
        Scope::Daemon => &["[daemon]"],
        Scope::Notify => &["[daemon.notify]"],
        Scope::Mail => &["[daemon.notify.mail]"],
        Scope::Webhook => &["[[daemon.notify.webhook]]"],
        Scope::Timeouts => &["[daemon.timeouts]"],
        Scope::Sync => &["[daemon.sync]"],
        Scope::SelfTest => &["[daemon.self_test]"],
        Scope::Defaults | Scope::VirtualServer => &["[[virtual_server]]", "[defaults]"],
        Scope::RealServer => &["[[virtual_server.real_server]]", "[[virtual_server]]", "[defaults]"],
        Scope::Check => &["[check.", "[defaults]"],
        Scope::Http | Scope::Url => &["[check.web.http]"],
        Scope::SorryServer
        | Scope::Tunnel
        | Scope::MailTls
        | Scope::HeaderFile
        | Scope::Announce
        | Scope::MaxDownRate
        | Scope::ActiveWhen
        | Scope::Tcp
        | Scope::Expect
        | Scope::Smtp
        | Scope::Grpc
        | Scope::Dialogue
        | Scope::Script
        | Scope::File
        | Scope::Body
        | Scope::Tls
        | Scope::Dns
        | Scope::Udp
        | Scope::Ping => &[],
    }
}
