//! Another file: planned, loaded, refused.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Backend, Place, web, within};

#[test]
fn a_good_file_comes_into_force_and_is_summed_up() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3)]));
    let _daemon = place.start();
    let said = place.ask("reload");
    let unchanged = "reload complete: 0 removed, 0 edited, 0 added, 1 real server carried over\n";
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), unchanged, ""));
    place.configure(&web(&[(&first, 5), (&second, 1)]));
    let said = place.ask("reload");
    let changed = "reload complete: 0 removed, 1 edited, 1 added, 1 real server carried over\n";
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), changed, ""));
    assert_eq!(place.servers("weight"), [5, 1]);
    assert_eq!(place.servers("installed"), [true, true], "in the table when the command returns");
}

#[test]
fn a_bad_file_is_78_with_its_place_and_changes_nothing() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    place.configure(&web(&[(&backend, 5)]).replace("weight = 5", "weight = \"five\""));
    let said = place.ask("reload");
    assert_eq!((said.code, said.stdout.as_str()), (Some(78), ""), "{said:?}");
    assert!(said.stderr.contains("lvsd.toml:14:10: error: "), "{}", said.stderr);
    assert!(said.stderr.contains("14 | weight = \"five\""), "{}", said.stderr);
    assert_eq!(place.servers("weight"), [3]);
    assert!(!said.stderr.ends_with("\n\n"), "{}", said.stderr);
    let line = place.logged("lvsd.toml:14:10: ");
    assert_eq!(line["level"], "ERROR", "{line}");
    place.logged("reload refused: 1 mistake, the running configuration stays");
    place.configure(&web(&[(&backend, 6)]));
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(place.servers("weight"), [6]);
}

/// Who only asks how things stand hears of it too, for as long as it is so.
#[test]
fn a_file_that_is_not_in_force_is_said_by_the_status_until_one_is() {
    let backend = Backend::new();
    let good = |weight| format!("max_removed = 0\n{}", web(&[(&backend, weight)]));
    let place = Place::new(&good(3));
    let daemon = place.start();
    let said = || place.ask("status").stdout.lines().find(|l| l.starts_with("THE FILE")).map(str::to_owned);
    let file = || place.status()["not_in_force"].clone();
    let agree = |kind: &str, words: &str| {
        let (line, file) = (said().expect("a line"), file());
        assert_eq!(file["kind"], kind, "{file}");
        let text = file["text"].as_str().expect("a text");
        assert!(text.contains(words) && line.ends_with(text), "{line}\n{file}");
        assert!(line.starts_with("THE FILE IS NOT IN FORCE for "), "{line}");
    };
    let in_force = || assert_eq!((said(), file()), (None, json!(null)));
    in_force();
    // Two mistakes and one warning.
    let warned =
        good(4).replace("address = \"192.0.2.10:80\"", "address = \"192.0.2.10:80\"\nscheduler = \"wrrr\"");
    place.configure(&format!("{}weigth = 3\n", warned.replace("[defaults]", "[defaults]\nretry_ = 1")));
    let mistakes = "reload refused: 2 mistakes; as the file is, the next start fails";
    assert_eq!(place.ask("reload").code, Some(78));
    assert!(place.log().contains("wrrr"), "a warning among them: {}", place.log());
    agree("refused", mistakes);
    daemon.signal(Signal::SIGHUP);
    place.configure("");
    assert_eq!(place.ask("reload").code, Some(1));
    agree("refused", "as the file is, the next start takes it");
    place.configure(&good(5));
    assert_eq!(place.ask("reload --confirm 6s").code, Some(0));
    in_force();
    let why = "not confirmed within 6s: the configuration before it is back; the next reload or start takes what the file \
               has";
    within("it goes back", || file().is_object().then_some(()));
    agree("reverted", why);
    assert_eq!(place.ask("reload").code, Some(0));
    in_force();
    place.configure(&good(6));
    assert_eq!(place.ask("reload --confirm 2s").code, Some(0));
    place.configure("nonsense");
    assert_eq!(place.ask("reload").code, Some(78));
    within("it goes back", || place.status()["unconfirmed_ms"].is_null().then_some(()));
    agree("refused", "1 mistake");
}

#[test]
fn hup_reloads_a_good_file_and_refuses_a_bad_one() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.configure(&web(&[(&backend, 5)]));
    daemon.signal(Signal::SIGHUP);
    place.wait_for_servers("weight", &[json!(5)]);
    let line = place.logged("reload: edit real server");
    assert_eq!(line["real_server"], json!(backend.address.to_string()), "{line}");
    assert_eq!(line["reason"], "weight 3 → 5", "{line}");
    place.configure("nonsense\n");
    daemon.signal(Signal::SIGHUP);
    place.logged("reload refused");
    assert_eq!(place.servers("weight"), [5]);
}

#[test]
fn reloads_that_pile_up_are_all_answered_and_the_last_file_wins() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 1)]));
    let _daemon = place.start();
    std::thread::scope(|scope| {
        for weight in 2..12 {
            place.configure(&web(&[(&backend, weight)]));
            let asked = scope.spawn(|| place.ask("reload"));
            if weight % 3 == 0 {
                assert_eq!(asked.join().expect("no panic").code, Some(0));
            }
        }
    });
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(place.servers("weight"), [11]);
}

#[test]
fn a_plan_tells_what_a_reload_would_do_and_does_nothing() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3)]));
    let _daemon = place.start();
    let said = place.ask("plan");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.stdout, "0 actions, 1 real server carried over\n");
    place.write("next.toml", &web(&[(&first, 4), (&second, 1)]));
    let said = place.ask("plan next.toml");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let (one, two) = (first.address, second.address);
    let (notes, actions) = said.stdout.split_at(said.stdout.find("edit").expect("an action"));
    for key in ["control_socket", "state_file"] {
        let note = format!("warning: daemon.{key} takes effect at the next restart\n");
        assert!(notes.contains(&note), "the file has none of its own: {notes}");
    }
    assert_eq!(
        actions,
        format!(
            "edit real server {one} in web: weight 3 → 4\nadd real server {two} in web: new in the file\n\
             2 actions, 1 real server carried over\n"
        )
    );
    assert_eq!(place.servers("weight"), [3]);
    place.write("bad.toml", "nonsense = 1\n");
    let said = place.ask("plan bad.toml");
    assert_eq!((said.code, said.stdout.as_str()), (Some(78), ""));
    assert!(said.stderr.contains("bad.toml:1:1: error: "), "{}", said.stderr);
    place.write("lvsd.toml", "nonsense = 1\nmore = 2\n");
    for words in ["plan -c lvsd.toml", "plan lvsd.toml", "check lvsd.toml", "run --dry-run -c lvsd.toml"] {
        let said = place.lvsd(words);
        assert_eq!(
            (said.code, said.stderr.matches("\n\n").count()),
            (Some(78), 1),
            "between the two: {said:?}"
        );
        assert!(said.stderr.ends_with('\n') && !said.stderr.ends_with("\n\n"), "{words}: {said:?}");
    }
}

#[test]
fn warnings_are_part_of_the_answer() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    place.configure(&format!(
        "http = \"127.0.0.1:0\"\n{}\n[check.unused]\ntcp = {{}}\n",
        web(&[(&backend, 3)])
    ));
    for (words, end) in [
        ("plan", "0 actions, 1 real server carried over\n"),
        ("reload", "reload complete: 0 removed, 0 edited, 0 added, 1 real server carried over\n"),
    ] {
        let said = place.ask(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains(": warning: the check \"unused\" is not used"), "{}", said.stdout);
        assert!(
            said.stdout.contains("warning: daemon.http takes effect at the next restart\n"),
            "{}",
            said.stdout
        );
        assert!(said.stdout.ends_with(end), "{}", said.stdout);
    }
    place.configure("");
    let said = place.ask("reload");
    assert_eq!(said.code, Some(0), "legal: {said:?}");
    let loss = "all that there were (1) are taken out of service";
    assert!(said.stdout.contains(loss), "{}", said.stdout);
    assert_eq!(place.logged(loss)["level"], "WARN");
    // That word is the line's level.
    place.logged("\"daemon.http takes effect at the next restart");
    assert!(!place.log().contains("\"warning: "), "{}", place.log());
}

#[test]
fn after_the_control_socket_is_edited_every_client_of_the_file_still_finds_its_daemon() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    let file = std::fs::read_to_string(place.path("lvsd.toml")).expect("just written");
    let edited = file.replace("control.sock", "new.sock").replace("weight = 3", "weight = 5");
    place.write("lvsd.toml", &edited);
    let told = format!(
        "lvsd: nobody listens at {}, which lvsd.toml names: asking the daemon of this file where it listens until \
         its restart, {}\n",
        place.path("new.sock").display(),
        place.path("control.sock").display(),
    );
    let said = place.ask("reload");
    let reloaded = "warning: daemon.control_socket takes effect at the next restart\n\
                    reload complete: 0 removed, 1 edited, 0 added, 1 real server carried over\n";
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), reloaded, told.as_str()));
    let address = backend.address;
    let about = |words: &str| format!("{words} {address}");
    let server = ["why", "check-now", "drain --until-idle"].map(about);
    for words in ["status", "plan", "log-level", "on-stop keep"].map(str::to_owned).iter().chain(&server) {
        let said = place.ask(words);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), told.as_str()), "{words}: {said:?}");
    }
    // A file of another daemon, or of none, is not led to this one.
    place.write("other.toml", &edited);
    let said = place.lvsd("status -c other.toml");
    assert_eq!(said.code, Some(69), "{said:?}");
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    let said = place.ask("status");
    assert_eq!(said.code, Some(69));
    assert!(said.stderr.contains("new.sock") && !said.stderr.contains("control.sock"), "{}", said.stderr);
    let daemon = place.start();
    assert_eq!(place.servers("weight"), [5], "and nothing is said on standard error");
    place.write("lvsd.toml", &file);
    assert_eq!(place.ask("status").code, Some(0));
    // Killed, it leaves its word behind, which leads nowhere.
    drop(daemon);
    let said = place.ask("status");
    assert_eq!(said.code, Some(69));
    assert!(said.stderr.contains("control.sock") && !said.stderr.contains("new.sock"), "{}", said.stderr);
    // Also when the daemon of another file has that socket since: it is not asked in the other's place.
    let _stranger = place.start_with("run --dry-run -c other.toml");
    assert_eq!(place.lvsd("status -c other.toml").code, Some(0));
    for words in ["status", "drain 127.0.0.1"] {
        let said = place.ask(words);
        assert_eq!(said.code, Some(69), "{said:?}");
        assert!(said.stderr.contains("control.sock") && !said.stderr.contains("new.sock"), "{}", said.stderr);
    }
}

#[test]
fn a_certificate_that_is_renewed_in_its_file_is_said_to_be_read_anew_and_for_which_checks() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new("");
    let authority =
        || rcgen::generate_simple_self_signed(["ca.example.org".to_owned()]).expect("made").cert.pem();
    place.write("ca.pem", &authority());
    place.write("other.pem", &authority());
    let trusting =
        |file: &str| format!("check = {{ http = {{ path = \"/\", tls = {{ ca = \"{file}\" }} }} }}");
    let config = web(&[(&first, 1), (&second, 1)]).replace("check = { tcp = {} }", &trusting("ca.pem"));
    place.configure(&config);
    let daemon = place.start();
    let nothing = (
        "0 actions, 2 real servers carried over\n",
        "reload complete: 0 removed, 0 edited, 0 added, 2 real servers carried over\n",
    );
    let ask = |words: &str| {
        let said = place.ask(words);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.stdout
    };
    assert_eq!((ask("plan").as_str(), ask("reload").as_str()), nothing);
    place.write("ca.pem", &authority());
    let renewed = format!(
        "{} has changed and is read anew, for the http check of {} in web and 1 more\n",
        place.path("ca.pem").display(),
        first.address
    );
    assert_eq!(ask("plan"), format!("{renewed}{}", nothing.0));
    assert_eq!(ask("plan"), format!("{renewed}{}", nothing.0), "a plan reads, and changes nothing");
    assert_eq!(ask("reload"), format!("{renewed}{}", nothing.1));
    let line = place.logged("reload: ").clone();
    assert_eq!(line["level"], "INFO", "{line}");
    assert!(place.log().contains(renewed.trim_end()), "{}", place.log());
    assert_eq!((ask("plan").as_str(), ask("reload").as_str()), nothing, "said once");
    // Another file is another configuration, and told as such.
    place.configure(&config.replace("ca.pem", "other.pem"));
    assert!(!ask("plan").contains("read anew"));
    // On trial, and back again: what comes back is what was read before.
    place.configure(&config);
    place.write("ca.pem", &authority());
    assert!(ask("reload --confirm 1s").contains(&renewed));
    place.logged("the reload was not confirmed within 1s: going back");
    within("it is back", || place.status()["unconfirmed_ms"].is_null().then_some(()));
    assert_eq!(ask("plan"), format!("{renewed}{}", nothing.0));
    drop(daemon);
}
