//! A reading that knows the one before comes to what a reading that knows nothing comes to, and makes only
//! what is new.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::{Kept, Known};
use crate::config::{Diagnostics, LoadedAfter, Sources, load_after_with, load_with, secret};
use crate::engine::model::{Config, VirtualServer};

mod edits;

/// Files as they are read: each with its path and directory.
pub(super) fn sources(files: &[(&str, &str, &str)]) -> Sources {
    let file = |(path, directory, text): &(&str, &str, &str)| json!({ "path": path, "directory": directory, "text": text });
    let files: Vec<_> = files.iter().map(file).collect();
    serde_json::from_value(json!({ "files": files, "problems": [] })).unwrap()
}

/// What the files beside the configuration are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    pub(super) pem_is_good: bool,
    pub(super) secret_is_closed: bool,
}

impl Disk {
    pub(super) const GOOD: Self = Self { pem_is_good: true, secret_is_closed: true };
}

/// Readings one after the other, each compared with one that knows nothing.
#[derive(Default)]
pub(super) struct Readings {
    kept: Kept,
    /// In force: what is in force nowhere is forgotten.
    config: Option<Config>,
    /// Looks at PEM files and secrets by the last reading.
    pub(super) looks: usize,
}

impl Readings {
    /// How many virtual servers were made, or what is wrong.
    pub(super) fn read(&mut self, sources: &Sources, disk: Disk) -> Result<usize, Diagnostics> {
        let looks = Cell::new(0);
        let pem = |_: &Path| {
            looks.set(looks.get() + 1);
            match disk.pem_is_good {
                true => Ok(b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n".to_vec()),
                false => Err("no such file".into()),
            }
        };
        let judge = |_: &Path| {
            looks.set(looks.get() + 1);
            if disk.secret_is_closed { Ok(()) } else { Err(secret::Flaw::Open) }
        };
        let fresh = load_with(sources, &pem, &judge);
        looks.set(0);
        let after = load_after_with(sources, &self.kept, &pem, &judge);
        self.looks = looks.get();
        let (fresh, after) = match (fresh, after) {
            (Ok(fresh), Ok(after)) => (fresh, after),
            (Err(fresh), Err(after)) => {
                assert_eq!(after, fresh);
                return Err(after);
            }
            (Ok(_), Err(mistakes)) => panic!("only what is known makes it wrong: {mistakes}"),
            (Err(mistakes), Ok(_)) => panic!("only what is known makes it right: {mistakes}"),
        };
        let LoadedAfter { loaded, kept, kinds } = after;
        assert_eq!(loaded.config, fresh.config);
        assert_eq!(loaded.warnings, fresh.warnings);
        assert_eq!(kinds, super::kinds(&fresh.config), "every kind once, in order");
        shares_what_is_equal(&loaded.config);
        let before = self.config.take().map_or(vec![], |config| config.virtual_servers);
        let is_new = |one: &&Arc<VirtualServer>| !before.iter().any(|known| Arc::ptr_eq(known, one));
        let new = loaded.config.virtual_servers.iter().filter(is_new).count();
        (self.kept, self.config) = (kept, Some(loaded.config));
        Ok(new)
    }

    /// Of one file.
    fn text(&mut self, text: &str) -> Result<usize, Diagnostics> {
        self.read(&sources(&[("lvsd.toml", "/etc/lvsd", text)]), Disk::GOOD)
    }

    fn names(&self) -> Vec<&str> {
        self.config.iter().flat_map(|config| &config.virtual_servers).map(|v| v.name.as_str()).collect()
    }
}

/// Each kind and each timing is one allocation, be it of this reading or of one before.
fn shares_what_is_equal(config: &Config) {
    let checks = || config.virtual_servers.iter().flat_map(|v| &v.real_servers).flat_map(|s| &s.checks);
    for (one, other) in checks().zip(checks().skip(1)) {
        let (one, other) = (&one.probe.kind, &other.probe.kind);
        assert_eq!(one == other, Arc::ptr_eq(one, other), "{one:?}");
    }
    for (one, other) in checks().zip(checks().skip(1)) {
        assert_eq!(one.timing == other.timing, Arc::ptr_eq(&one.timing, &other.timing), "{:?}", one.timing);
    }
}

fn server(address: &str, more: &str) -> String {
    format!(
        "[[virtual_server]]\naddress = \"{address}\"\n{more}\n\n[[virtual_server.real_server]]\n\
         address = \"198.51.100.1:80\"\n\n"
    )
}

const WEB: &str = "[check.web]\nhttp = { path = \"/\" }\n\n";

fn many(count: usize) -> String {
    let one = |n: usize| server(&format!("192.0.2.{n}:80"), "check = \"web\"");
    WEB.to_owned() + &(1..=count).map(one).collect::<String>()
}

#[test]
fn only_what_is_new_is_made() {
    let mut readings = Readings::default();
    let text = many(9);
    assert_eq!(readings.text(&text), Ok(9));
    assert_eq!(readings.text(&text), Ok(0));
    let changed = text.replacen("192.0.2.4:80\"\n", "192.0.2.4:80\"\nquorum = 1\n", 1);
    assert_eq!(readings.text(&changed), Ok(1));
    assert_eq!(readings.text(&changed), Ok(0));
    assert_eq!(readings.text(&many(10)), Ok(2), "one as it was before, and one more");
    assert_eq!(readings.text(&many(3)), Ok(0));
    let (head, servers) = (WEB, [3, 1, 2].map(|n| server(&format!("192.0.2.{n}:80"), "check = \"web\"")));
    assert_eq!(readings.text(&(head.to_owned() + &servers.concat())), Ok(0), "another order");
    assert_eq!(readings.text(&(servers.concat() + head)), Ok(0), "another place");
}

#[test]
fn what_stands_around_makes_all_of_them_new() {
    let mut readings = Readings::default();
    assert_eq!(readings.text(&many(3)), Ok(3));
    let others = [
        many(3).replace("\"/\"", "\"/health\""),
        many(3) + "[daemon]\nname = \"a\"\n",
        "[defaults]\nquorum = 1\n".to_owned() + &many(3),
        "# of no account, but part of the text\n".to_owned() + &many(3),
    ];
    for other in others {
        assert_eq!(readings.text(&other), Ok(3), "{other}");
    }
}

#[test]
fn files_of_virtual_servers_alone_come_and_go() {
    let mut readings = Readings::default();
    let (first, second) =
        (server("192.0.2.1:80", "check = \"web\""), server("192.0.2.2:80", "check = \"web\""));
    let main = ("lvsd.toml", "/etc/lvsd", WEB);
    let first = ("conf.d/a.toml", "/etc/lvsd/conf.d", &*first);
    let second = ("conf.d/b.toml", "/etc/lvsd/conf.d", &*second);
    assert_eq!(readings.read(&sources(&[main, first]), Disk::GOOD), Ok(1));
    assert_eq!(readings.read(&sources(&[main, first, second]), Disk::GOOD), Ok(1));
    assert_eq!(readings.read(&sources(&[main, second]), Disk::GOOD), Ok(0));
    let elsewhere = (second.0, "/etc/other", second.2);
    assert_eq!(readings.read(&sources(&[main, elsewhere]), Disk::GOOD), Ok(1), "paths start from elsewhere");
    let with_check = ("c.toml", "/etc/lvsd", "[check.more]\ntcp = {}\n");
    assert_eq!(readings.read(&sources(&[main, elsewhere, with_check]), Disk::GOOD), Ok(1));
}

#[test]
fn what_is_warned_of_is_read_anew_and_warned_of_again() {
    let mut readings = Readings::default();
    let text =
        many(2) + &server("192.0.2.3:80", "check = \"web\"\nquorum = 9") + "[check.unused]\ntcp = {}\n";
    assert_eq!(readings.text(&text), Ok(3));
    assert_eq!(readings.text(&text), Ok(1));
}

#[test]
fn what_names_a_file_is_read_anew_with_that_file() {
    let mut readings = Readings::default();
    let tls = "check = { tcp = { tls = { ca = \"ca.pem\" } } }";
    let text = many(2) + &server("192.0.2.3:80", tls);
    let one = sources(&[("lvsd.toml", "/etc/lvsd", &text)]);
    assert_eq!(readings.read(&one, Disk::GOOD), Ok(3));
    assert_eq!(readings.read(&one, Disk::GOOD), Ok(1));
    assert_eq!(readings.looks, 1);
    let bad = Disk { pem_is_good: false, ..Disk::GOOD };
    assert!(readings.read(&one, bad).unwrap_err().to_string().contains("no such file"));
    assert_eq!(readings.read(&one, Disk::GOOD), Ok(1), "what is known outlives a refusal");
    // Of what stands around, the file is read each time, and the virtual servers follow from its path.
    let text =
        many(2).replace("http = { path = \"/\" }", "http = { path = \"/\", tls = { ca = \"ca.pem\" } }");
    let all = sources(&[("lvsd.toml", "/etc/lvsd", &text)]);
    assert_eq!(readings.read(&all, Disk::GOOD), Ok(2));
    assert_eq!(readings.read(&all, Disk::GOOD), Ok(0));
    assert_eq!(readings.looks, 1);
    readings.read(&all, bad).unwrap_err();
}

#[test]
fn known_ones_and_new_ones_collide() {
    let mut readings = Readings::default();
    let text = many(3);
    assert_eq!(readings.text(&text), Ok(3));
    let again = server("192.0.2.2:80", "check = \"web\"");
    let mut refused = |more: &str, why: &str| {
        let said = readings.text(&format!("{text}{more}")).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    };
    refused(&again, "the service tcp 192.0.2.2:80 is configured twice");
    refused(&server("192.0.2.0/24:80", "check = []"), "is configured twice");
    let named =
        |n: u8, name: &str| server(&format!("192.0.2.{n}:80"), &format!("check = []\nname = \"{name}\""));
    let (short, long) = (named(9, "192.0.2.2:80"), named(10, "tcp 192.0.2.2:80"));
    refused(&format!("{short}{long}"), "the name \"tcp 192.0.2.2:80\" is taken");
    assert_eq!(readings.text(&format!("{text}{short}")), Ok(2), "the known one has another name beside it");
    assert_eq!(readings.names(), ["192.0.2.1:80", "tcp 192.0.2.2:80", "192.0.2.3:80", "192.0.2.2:80"]);
    assert_eq!(readings.text(&format!("{text}{}", named(9, "a"))), Ok(2));
    let twice = format!("{text}{}{}", named(9, "a"), named(10, "a"));
    let said = readings.text(&twice).unwrap_err().to_string();
    assert!(said.contains("two virtual servers named \"a\""), "{said}");
    let announced = |n: u8, on: &str| {
        let more = format!("check = []\nname = \"{n}\"\nannounce = {{ interface = \"{on}\" }}");
        server(&format!("192.0.2.50:{n}"), &more)
    };
    let text = format!("{WEB}{}", announced(1, "eth0"));
    readings.text(&text).unwrap();
    let said = readings.text(&format!("{text}{}", announced(2, "eth1"))).unwrap_err().to_string();
    assert!(said.contains("announced on eth0 already"), "{said}");
}

#[test]
fn bounds_hold_for_known_ones_and_new_ones_together() {
    let wide = |block: &str, servers: u32| {
        let header =
            format!("[[virtual_server]]\naddress = \"{block}:80\"\ncheck = []\nname = \"{block}\"\n");
        let one = |n: u32| format!("[[virtual_server.real_server]]\naddress = \"198.51.100.{n}:80\"\n");
        header + &(1..=servers).map(one).collect::<String>()
    };
    let mut readings = Readings::default();
    let (first, second) = (wide("10.0.0.0/17", 64), wide("10.1.0.0/17", 64));
    assert_eq!(readings.text(&format!("{first}{second}")), Ok(2));
    let said = readings.text(&format!("{first}{}", wide("10.1.0.0/17", 65))).unwrap_err().to_string();
    assert!(said.contains("are too many"), "{said}");
    let third = wide("10.2.0.0/32", 1);
    let said = readings.text(&format!("{first}{second}{third}")).unwrap_err().to_string();
    assert!(said.contains("more than 65536 virtual services"), "{said}");
    assert_eq!(readings.text(&format!("{second}{third}")), Ok(1));
}

#[test]
fn a_name_that_follows_from_the_others_is_never_changed_in_place() {
    let mut readings = Readings::default();
    let (tcp, udp) =
        (server("192.0.2.1:53", "check = []"), server("192.0.2.1:53", "check = []\nprotocol = \"udp\""));
    assert_eq!(readings.text(&(tcp.clone() + &udp)), Ok(2));
    assert_eq!(readings.names(), ["192.0.2.1:53", "udp 192.0.2.1:53"]);
    let before = readings.config.clone().unwrap();
    assert_eq!(readings.text(&udp), Ok(1), "the one that is left is another");
    assert_eq!(readings.names(), ["192.0.2.1:53"]);
    assert_eq!(
        before.virtual_servers.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(),
        ["192.0.2.1:53", "udp 192.0.2.1:53"]
    );
    assert_eq!(readings.text(&udp), Ok(0));
    assert_eq!(readings.text(&(udp + &tcp)), Ok(1));
    assert_eq!(readings.names(), ["192.0.2.1:53", "tcp 192.0.2.1:53"]);
}

#[test]
fn a_check_is_used_also_by_what_is_not_read_again() {
    let mut readings = Readings::default();
    let text = many(1) + &server("192.0.2.7:80", "check = []");
    assert_eq!(readings.text(&text), Ok(2));
    // Warnings are compared by each reading: there is none now, and one afterwards.
    assert_eq!(readings.text(&text), Ok(0));
    assert_eq!(readings.text(&(WEB.to_owned() + &server("192.0.2.7:80", "check = []"))), Ok(0));
}

#[test]
fn nothing_is_kept_alive_and_little_is_kept() {
    let mut readings = Readings::default();
    assert_eq!(readings.text(&many(100)), Ok(100));
    let first = Arc::downgrade(&readings.config.as_ref().unwrap().virtual_servers[0]);
    readings.config = None;
    assert!(first.upgrade().is_none());
    assert_eq!(readings.text(&many(100)), Ok(100));
    assert_eq!(readings.kept.known.len(), 100);
    assert!(readings.kept.known.capacity() <= 100);
    assert!(size_of::<Known>() <= 64, "{}", size_of::<Known>());
    let uses = |at: usize| Arc::as_ptr(&readings.kept.known[at].uses);
    assert!((0..100).all(|at| uses(at) == uses(0)), "they share the same");
}
