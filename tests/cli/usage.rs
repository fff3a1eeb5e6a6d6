//! Help, version, wrong words, no daemon.

use std::process::Stdio;

use crate::support::Place;

#[test]
fn help_and_version_are_asked_for_and_go_to_stdout() {
    let place = Place::new("");
    let help = place.lvsd("--help");
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    let commands =
        ["run", "check", "plan", "import", "reload", "status", "drain", "disable", "enable", "weight"];
    let commands = [&commands[..], &["why", "events", "check-now", "log-level", "confirm"]].concat();
    for command in commands {
        assert!(help.stdout.contains(&format!("\n  {command}")), "{command}: {}", help.stdout);
        let own = place.lvsd(&format!("{command} --help"));
        assert_eq!((own.code, own.stderr.as_str()), (Some(0), ""));
        assert!(own.stdout.contains(&format!("lvsd {command}")), "{}", own.stdout);
    }
    assert!(help.stdout.contains("64 usage"), "{}", help.stdout);
    assert_eq!(place.lvsd("help").stdout, help.stdout);
    let version = place.lvsd("--version");
    assert_eq!(version.code, Some(0));
    assert_eq!(version.stdout, format!("lvsd {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_words_are_64_and_go_to_stderr() {
    let place = Place::new("");
    for (words, said) in [
        ("", "Usage"),
        ("stauts", "a similar subcommand exists: 'status'"),
        ("status --jsn", "--json"),
        ("status --wait soon", "soon"),
        ("drain", "ADDRESS"),
        ("drain not-an-address", "not-an-address"),
        ("weight 198.51.100.11:80", "WEIGHT"),
        ("weight 198.51.100.11:80 -1", "-1"),
        ("weight 198.51.100.11:80 2147483648", "2147483648"),
        ("drain 198.51.100.11:80 --for soon", "soon"),
        ("drain 198.51.100.11:80 --for 0s", "must be longer than 0"),
        ("drain 198.51.100.11:80 --for -5s", "a duration is a number of seconds"),
        ("drain 198.51.100.11:80 --for 100000d", "longer than 10000 days"),
        ("drain 198.51.100.11:80 --until-idle --deadline -1m", "a duration is a number of seconds"),
        ("drain 198.51.100.11:80 --deadline 1m", "--until-idle"),
        ("reload --confirm -5m", "a duration is a number of seconds"),
        ("check one two", "two"),
    ] {
        let answer = place.lvsd(words);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(64), ""), "{words}: {answer:?}");
        assert!(answer.stderr.contains(said), "{words}: {}", answer.stderr);
    }
}

#[test]
fn without_a_daemon_every_client_is_69_and_says_where_it_looked() {
    let place = Place::new("");
    let there = place.path("control.sock").display().to_string();
    for words in [
        "status",
        "status --json",
        "reload",
        "plan",
        "drain 198.51.100.11:80",
        "disable 198.51.100.11:80",
        "enable 198.51.100.11:80",
        "weight 198.51.100.11:80 auto",
        "why 198.51.100.11:80",
        "events",
        "events --json",
        "status --watch",
        "check-now 198.51.100.11:80",
        "log-level",
        "drain 198.51.100.11:80 --until-idle",
        "reload --confirm 5m",
        "confirm",
    ] {
        let said = place.ask(words);
        assert_eq!((said.code, said.stdout.as_str()), (Some(69), ""), "{words}: {said:?}");
        assert!(said.stderr.contains(&there), "{words}: {}", said.stderr);
        assert!(said.stderr.contains("is lvsd running?"), "{words}: {}", said.stderr);
    }
    let said = place.lvsd("status --socket elsewhere.sock -c lvsd.toml");
    assert_eq!(said.code, Some(69));
    assert!(said.stderr.contains("elsewhere.sock"), "{}", said.stderr);
}

#[test]
fn a_broken_file_does_not_hide_its_daemon() {
    let place = Place::new("drift = \"sometimes\"\n");
    let said = place.ask("status");
    assert_eq!(said.code, Some(69));
    assert!(said.stderr.contains(&place.path("control.sock").display().to_string()), "{}", said.stderr);
}

#[test]
fn a_reader_that_went_away_is_no_crash() {
    let place = Place::new("");
    for words in ["--help", "check lvsd.toml", "nonsense"] {
        let wanted = place.lvsd(words).code;
        let mut command = place.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lvsd is there");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("it ends").code(), wanted, "{words}");
    }
}
