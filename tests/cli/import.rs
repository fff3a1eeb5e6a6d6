//! `lvsd import`: TOML on stdout, what is left out on stderr, exit codes.

use crate::support::Place;

const GOOD: &str = "virtual_server 192.0.2.10 80 {\n  delay_loop 6\n  lvs_sched rr\n  lvs_method DR\n  protocol TCP\n  \
                    real_server 198.51.100.11 80 {\n    TCP_CHECK {\n    }\n  }\n}\n";

#[test]
fn what_comes_out_is_what_check_takes() {
    let place = Place::new("");
    place.write("keepalived.conf", GOOD);
    for words in [
        "import keepalived.conf",
        "import --strict keepalived.conf",
        "import --from keepalived keepalived.conf",
    ] {
        let said = place.lvsd(words);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{words}");
        place.write("new.toml", &said.stdout);
        let checked = place.lvsd("check --strict new.toml");
        assert_eq!(checked.stdout, "new.toml: 1 virtual server, 1 real server\n", "{checked:?}");
    }
}

#[test]
fn what_is_left_out_is_told_with_its_line() {
    let place = Place::new("");
    place.write("parts.conf", "vrrp_instance VI_1 {\n  interface eth0\n}\n");
    place.write(
        "keepalived.conf",
        &format!("{GOOD}include parts.conf\n@lb1 global_defs {{\n  router_id one\n}}\n"),
    );
    let said = place.lvsd("import keepalived.conf --config-id lb1");
    assert_eq!(said.code, Some(0), "{said:?}");
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("parts.conf:1: vrrp_instance: not carried: "), "{lines:?}");
    assert!(said.stdout.contains("name = \"one\""), "{}", said.stdout);
    let strict = place.lvsd("import keepalived.conf --config-id lb1 --strict");
    assert_eq!((strict.code, &strict.stdout), (Some(1), &said.stdout));
    // Without an id its lines are left out, and that is told.
    let without = place.lvsd("import keepalived.conf");
    assert!(without.stderr.contains("@lb1") && !without.stdout.contains("\"one\""), "{without:?}");
}

#[test]
fn what_cannot_be_read_is_78_and_prints_nothing() {
    let place = Place::new("");
    place.write("other.conf", "hello = world\n");
    place.write("our.toml", "[[virtual_server]]\naddress = \"192.0.2.10:80\"\n");
    for (words, text) in [
        ("import nowhere.conf", "cannot read nowhere.conf"),
        ("import other.conf", "--from keepalived"),
        ("import our.toml", "TOML already"),
        ("import .", "not a regular file"),
    ] {
        let said = place.lvsd(words);
        assert_eq!((said.code, said.stdout.as_str()), (Some(78), ""), "{words}: {said:?}");
        assert!(said.stderr.contains(text), "{words}: {}", said.stderr);
    }
    let said = place.lvsd("import keepalived.conf --from nginx");
    assert_eq!(said.code, Some(64), "{said:?}");
}

#[test]
fn check_knows_the_way_over() {
    let place = Place::new("");
    place.write("keepalived.conf", GOOD);
    let said = place.lvsd("check keepalived.conf");
    assert_eq!(said.code, Some(78));
    assert!(said.stderr.contains("lvsd import FILE"), "{}", said.stderr);
}
