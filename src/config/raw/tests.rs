//! That the list of names, the readers and the documented file agree.

use super::keys::Scope;
use crate::config::schema::shapes;
use crate::config::tests::load_text;

/// A file that says `key = 0` in the table of that scope.
fn with_key(scope: Scope, key: &str) -> String {
    let check = |kind: &str| format!("[check.x]\n{kind}\n");
    match scope {
        Scope::Root => format!("{key} = 0\n"),
        Scope::Daemon => format!("[daemon]\n{key} = 0\n"),
        Scope::Timeouts => format!("[daemon.timeouts]\n{key} = 0\n"),
        Scope::Sync => format!("[daemon.sync]\n{key} = 0\n"),
        Scope::SelfTest => format!("[daemon.self_test]\n{key} = 0\n"),
        Scope::Notify => format!("[daemon.notify]\n{key} = 0\n"),
        Scope::Mail => format!("[daemon.notify.mail]\n{key} = 0\n"),
        Scope::MailTls => format!("[daemon.notify.mail]\ntls = {{ {key} = 0 }}\n"),
        Scope::Webhook => format!("[[daemon.notify.webhook]]\n{key} = 0\n"),
        Scope::HeaderFile => format!("[[daemon.notify.webhook]]\nheaders = {{ X = {{ {key} = 0 }} }}\n"),
        Scope::Defaults => format!("[defaults]\n{key} = 0\n"),
        Scope::VirtualServer => format!("[[virtual_server]]\n{key} = 0\n"),
        Scope::RealServer => format!("[[virtual_server]]\n[[virtual_server.real_server]]\n{key} = 0\n"),
        Scope::SorryServer => format!("[[virtual_server]]\nsorry_server = {{ {key} = 0 }}\n"),
        Scope::Announce => format!("[defaults]\nannounce = {{ {key} = 0 }}\n"),
        Scope::MaxDownRate => format!("[daemon]\nmax_down_rate = {{ {key} = 0 }}\n"),
        Scope::Tunnel => format!("[defaults]\ntunnel = {{ {key} = 0 }}\n"),
        Scope::ActiveWhen => format!("[defaults]\nactive_when = {{ {key} = 0 }}\n"),
        Scope::Check => check(&format!("{key} = 0")),
        Scope::Tcp => check(&format!("tcp = {{ {key} = 0 }}")),
        Scope::Expect => check(&format!("tcp = {{ expect = {{ {key} = 0 }} }}")),
        Scope::Http => check(&format!("http = {{ {key} = 0 }}")),
        Scope::Smtp => check(&format!("smtp = {{ {key} = 0 }}")),
        Scope::Grpc => check(&format!("grpc = {{ {key} = 0 }}")),
        Scope::Dialogue => check(&format!("tcp = {{ dialogue = [{{ {key} = 0 }}] }}")),
        Scope::Script => check(&format!("script = {{ {key} = 0 }}")),
        Scope::File => check(&format!("file = {{ {key} = 0 }}")),
        Scope::Url => check(&format!("http = {{ urls = [{{ {key} = 0 }}] }}")),
        Scope::Body => check(&format!("http = {{ body = {{ {key} = 0 }} }}")),
        Scope::Dns => check(&format!("dns = {{ {key} = 0 }}")),
        Scope::Udp => check(&format!("udp = {{ {key} = 0 }}")),
        Scope::Ping => check(&format!("ping = {{ {key} = 0 }}")),
        Scope::Tls => check(&format!("tcp = {{ tls = {{ {key} = 0 }} }}")),
    }
}

fn is_unknown(scope: Scope, key: &str) -> bool {
    let found = match load_text(&with_key(scope, key)) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    };
    found.iter().any(|diagnostic| diagnostic.message.starts_with("unknown key"))
}

#[test]
fn every_listed_key_is_read() {
    for scope in Scope::ALL {
        for key in scope.names() {
            assert!(!is_unknown(scope, key), "{key} in {scope:?}");
        }
        assert!(is_unknown(scope, "no_such_key"), "{scope:?}");
    }
}

/// A key that a table reads without having it on its list would be missing from suggestions.
#[test]
fn every_key_that_is_read_is_listed() {
    for scope in Scope::ALL {
        for key in Scope::ALL.into_iter().flat_map(Scope::names) {
            let listed = scope.names().any(|name| name == key);
            assert_eq!(!is_unknown(scope, key), listed, "{key} in {scope:?}");
        }
    }
}

#[test]
fn every_key_is_in_the_documented_file() {
    let text = std::fs::read_to_string("config/lvsd.toml").unwrap();
    let words: std::collections::HashSet<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    for scope in Scope::ALL {
        for key in scope.names() {
            assert!(words.contains(key), "{key} of {scope:?}");
        }
    }
}

/// Without a shape, editors would call a key wrong that is right.
#[test]
fn every_key_has_a_shape_in_the_schema() {
    for scope in Scope::ALL {
        let mut shaped: Vec<&str> = shapes::of(scope).into_iter().map(|(key, _)| key).collect();
        let mut listed: Vec<&str> = scope.names().collect();
        shaped.sort_unstable();
        listed.sort_unstable();
        assert_eq!(shaped, listed, "{scope:?}: src/config/schema/shapes.rs and src/config/raw/keys.rs");
    }
}
