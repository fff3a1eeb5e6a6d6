//! `lvsd check`, and what `lvsd run` says to a file that it cannot use.

use crate::support::Place;

const GOOD: &str = "[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = { tcp = {} }\n\
                    [[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n";
/// `weigth` stands in line 8 of the file, after the three lines of its head.
const MISSPELT: &str = "[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = { tcp = {} }\n\
                        [[virtual_server.real_server]]\nweigth = 2\naddress = \"198.51.100.11:80\"\nweight = -1\n";
/// No check: legal, but not wise.
const DOUBTFUL: &str = "[[virtual_server]]\naddress = \"192.0.2.10:80\"\n\
                        [[virtual_server.real_server]]\naddress = \"198.51.100.11:80\"\n";

#[test]
fn a_good_file_is_0_with_its_measure() {
    let place = Place::new(GOOD);
    for words in ["check lvsd.toml", "check -c lvsd.toml", "check --strict lvsd.toml"] {
        let said = place.lvsd(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.stdout, "lvsd.toml: 1 virtual server, 1 real server\n");
        assert_eq!(said.stderr, "");
    }
}

#[test]
fn a_bad_file_is_78_with_every_mistake_at_its_place() {
    let place = Place::new(MISSPELT);
    for words in ["check lvsd.toml", "run -c lvsd.toml", "run --dry-run -c lvsd.toml", "plan -c lvsd.toml"] {
        let said = place.lvsd(words);
        assert_eq!((said.code, said.stdout.as_str()), (Some(78), ""), "{words}: {said:?}");
        let lines: Vec<&str> = said.stderr.lines().collect();
        assert!(lines[0].starts_with("lvsd.toml:8:1: error: "), "{words}: {}", said.stderr);
        let at = lines.iter().position(|line| *line == "8 | weigth = 2").expect(&said.stderr);
        assert!(lines[at + 1].trim_start().starts_with("| ^^^^^^"), "a caret below: {}", said.stderr);
        assert!(said.stderr.contains("weight"), "what to write instead: {}", said.stderr);
        assert!(said.stderr.contains("\nlvsd.toml:10:10: error: "), "the second one too: {}", said.stderr);
    }
}

#[test]
fn warnings_are_told_and_count_only_when_strict() {
    let place = Place::new(DOUBTFUL);
    let said = place.lvsd("check lvsd.toml");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("lvsd.toml:") && said.stderr.contains(": warning: "), "{}", said.stderr);
    assert!(said.stdout.ends_with("1 real server\n"), "{}", said.stdout);
    let strict = place.lvsd("check lvsd.toml --strict");
    assert_eq!((strict.code, strict.stdout.as_str()), (Some(78), ""));
    assert_eq!(strict.stderr, said.stderr);
}

#[test]
fn a_file_that_is_not_there_or_no_toml_is_78() {
    let place = Place::new("");
    place.write("broken.toml", "[daemon\n");
    for (words, text) in [
        ("check nowhere.toml", "nowhere.toml"),
        ("run -c nowhere.toml", "nowhere.toml"),
        ("check broken.toml", "broken.toml:1:"),
        ("run --dry-run -c broken.toml", "broken.toml:1:"),
        ("check .", "."),
    ] {
        let said = place.lvsd(words);
        assert_eq!((said.code, said.stdout.as_str()), (Some(78), ""), "{words}: {said:?}");
        assert!(said.stderr.contains(text), "{words}: {}", said.stderr);
    }
}

#[test]
fn the_doctor_refuses_a_bad_file_and_says_what_a_host_lacks() {
    let place = Place::new(MISSPELT);
    assert_eq!(place.lvsd("doctor -c lvsd.toml").code, Some(78));
    // No host has this address.
    place.configure(GOOD);
    let said = place.lvsd("doctor -c lvsd.toml");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("fault   192.0.2.10 is not on this host"), "{}", said.stdout);
    let report: serde_json::Value =
        serde_json::from_str(&place.lvsd("doctor --json -c lvsd.toml").stdout).expect("JSON");
    assert_eq!(report["version"], 1);
    assert!(report["faults"].as_u64() > Some(0), "{report:#}");
    // Nothing to balance, nothing to find but what the daemon itself needs.
    place.configure("");
    assert!(!place.lvsd("doctor -c lvsd.toml").stdout.contains("ip_forward"));
}

/// Only this host can say them, and the file may be meant for another one: they do not count, strict or not.
#[test]
fn what_this_host_lacks_is_warned_of_and_never_counts() {
    let script = GOOD.replace("{ tcp = {} }", "{ script = { argv = [\"/nonexistent/check\"] } }");
    let place = Place::new(&format!("control_group = \"no-such-group\"\n{script}"));
    for words in ["check lvsd.toml", "check lvsd.toml --strict"] {
        let said = place.lvsd(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        let warnings: Vec<&str> = said.stderr.lines().filter(|line| line.contains(": warning: ")).collect();
        assert_eq!(warnings.len(), 2, "{}", said.stderr);
        assert!(warnings[0].contains("there is no program /nonexistent/check"), "{}", said.stderr);
        assert!(warnings[1].contains("there is no group \"no-such-group\""), "{}", said.stderr);
    }
}
