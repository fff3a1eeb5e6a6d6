//! Reloads with a net: `--confirm`, `max_removed` with `--force`, and what `lvsd plan` says beforehand.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Backend, Place, web, within};

fn weights(place: &Place) -> Vec<Value> {
    place.servers("weight")
}

fn wait_for_weights(place: &Place, wanted: &[u32]) {
    within("these weights", || {
        (weights(place) == wanted.iter().map(|w| json!(w)).collect::<Vec<_>>()).then_some(())
    });
}

fn is_on_trial(place: &Place) -> bool {
    place.status()["unconfirmed_ms"].is_u64()
}

#[test]
fn without_confirmation_it_goes_back_by_itself() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.configure(&web(&[(&first, 5)]));
    let said = place.ask("reload --confirm 2s");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert!(
        said.stdout.contains("unless `lvsd confirm` comes within 2s, the configuration before it comes back"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("reload complete: "), "{}", said.stdout);
    assert_eq!(weights(&place), [5]);
    assert!(is_on_trial(&place) && place.ask("status").stdout.contains("NOT CONFIRMED: goes back in "));
    wait_for_weights(&place, &[3, 1]);
    let line = place.logged("the reload was not confirmed within 2s: going back");
    assert_eq!(line["level"], "WARN", "{line}");
    assert!(!is_on_trial(&place));
    let said = place.ask("confirm");
    assert_eq!((said.code, said.stderr.as_str()), (Some(1), "no reload waits to be confirmed\n"));
    assert_eq!(place.ask("reload").code, Some(0), "the file still has what was tried");
    assert_eq!(weights(&place), [5]);
}

#[test]
fn the_way_back_gives_the_orders_again_that_ended_with_what_was_tried() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    assert_eq!(place.ask(&format!("drain {} --reason disk", first.address)).code, Some(0));
    assert_eq!(place.ask(&format!("weight {} 7", second.address)).code, Some(0));
    assert_eq!(place.servers("effective_weight"), [0, 7]);
    place.configure(&web(&[(&second, 1)]));
    let said = place.ask("reload --confirm 1s");
    assert!(said.stdout.contains("the order is not taken over: drain of "), "{}", said.stdout);
    wait_for_weights(&place, &[3, 1]);
    assert_eq!(place.servers("effective_weight"), [0, 7]);
    let why = place.ask(&format!("why {}", first.address)).stdout;
    assert!(why.contains("disk"), "{why}");
}

#[test]
fn confirmed_it_stays() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let _daemon = place.start();
    place.configure(&web(&[(&backend, 5)]));
    assert_eq!(place.ask("reload --confirm 1h").code, Some(0));
    assert!(is_on_trial(&place));
    let said = place.ask("confirm");
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "confirmed: the configuration stays\n"));
    assert!(!is_on_trial(&place));
    place.logged("the configuration is confirmed by ");
    assert_eq!(weights(&place), [5]);
}

/// A second reload and a SIGHUP are on trial as well, and neither confirms: back is what was there before all.
#[test]
fn what_is_loaded_meanwhile_is_on_trial_too() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.configure(&web(&[(&backend, 5)]));
    assert_eq!(place.ask("reload --confirm 1h").code, Some(0));
    place.configure(&web(&[(&backend, 6)]));
    daemon.signal(Signal::SIGHUP);
    wait_for_weights(&place, &[6]);
    assert!(is_on_trial(&place));
    place.configure("nonsense");
    assert_eq!(place.ask("reload --confirm 1s").code, Some(78), "a file that is refused tries nothing");
    assert_eq!(weights(&place), [6]);
    place.configure(&web(&[(&backend, 7)]));
    let said = place.ask("reload");
    assert_eq!(said.code, Some(0));
    assert!(said.stdout.contains("comes within 59m"), "the clock runs on: {}", said.stdout);
    assert_eq!(place.ask("reload --confirm 1s").code, Some(0), "and is set anew");
    wait_for_weights(&place, &[3]);
}

/// The files are not read again for it: whatever has become of them, it goes back.
#[test]
fn it_goes_back_over_a_broken_file() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    place.configure(&web(&[(&first, 5)]));
    assert_eq!(place.ask("reload --confirm 2s").code, Some(0));
    let config = std::fs::read_to_string(place.path("lvsd.toml")).expect("text");
    place.write("lvsd.toml", &format!("{config}\nnonsense"));
    wait_for_weights(&place, &[3, 1]);
    place.logged("the reload was not confirmed within 2s: going back");
    assert!(!is_on_trial(&place));
    daemon.signal(Signal::SIGHUP);
    place.logged("reload refused: 1 mistake, the running configuration stays");
    assert_eq!(weights(&place), [3, 1], "a signal after it changes nothing");
}

/// Going back looks at the host once more, for `active_when`. If that fails, it says so and is tried again.
#[test]
fn going_back_that_fails_is_tried_again() {
    let backend = Backend::new();
    let gated = |weight| {
        let gate = "active_when = { address_present = true }\naddress = \"127.0.0.1:80\"";
        web(&[(&backend, weight)]).replace("address = \"192.0.2.10:80\"", gate)
    };
    let place = Place::new(&gated(3));
    let daemon = place.start();
    place.configure(&gated(5));
    assert_eq!(place.ask("reload --confirm 2s").code, Some(0));
    let descriptors = |limit: &str| {
        let pid = daemon.id().to_string();
        let set = std::process::Command::new("prlimit")
            .args(["--pid", &pid, &format!("--nofile={limit}")])
            .status();
        assert!(set.expect("prlimit is there").success());
    };
    descriptors("3:1024");
    let line = place.logged("going back has failed: what is on trial stays in force");
    assert_eq!(line["level"], "ERROR", "{line}");
    descriptors("1024:1024");
    assert!(is_on_trial(&place));
    wait_for_weights(&place, &[3]);
    assert!(!is_on_trial(&place));
    assert!(!place.log().contains("reload refused"), "nobody asked for a reload: {}", place.log());
}

/// Two at once are one after the other or one together; the way back is to what was in force before both.
#[test]
fn two_trials_at_once_have_one_way_back() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.configure(&web(&[(&backend, 5)]));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| place.ask("reload --confirm 2s"))).collect();
        asked.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    });
    for said in answers {
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains("the configuration before it comes back"), "{}", said.stdout);
    }
    daemon.signal(Signal::SIGHUP);
    wait_for_weights(&place, &[3]);
    assert!(!is_on_trial(&place));
}

/// Killed, it takes the file too: what is on trial is in the file, and a trial is the process's own.
#[test]
fn a_daemon_killed_during_a_trial_takes_the_file_as_it_is() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.configure(&web(&[(&backend, 5)]));
    assert_eq!(place.ask("reload --confirm 1h").code, Some(0));
    daemon.signal(Signal::SIGKILL);
    daemon.wait();
    let _daemon = place.start();
    assert_eq!(weights(&place), [5]);
    assert!(!is_on_trial(&place));
}

/// A stop says so; the start after it takes the file, and nothing goes back.
#[test]
fn a_restart_takes_the_file_as_it_is() {
    let backend = Backend::new();
    let place = Place::new(&web(&[(&backend, 3)]));
    let daemon = place.start();
    place.configure(&web(&[(&backend, 5)]));
    assert_eq!(place.ask("reload --confirm 1h").code, Some(0));
    daemon.signal(Signal::SIGTERM);
    place.logged("stopping while a reload waits to be confirmed: the next start takes lvsd.toml as it is");
    assert_eq!(daemon.wait().code(), Some(0));
    let _daemon = place.start();
    assert_eq!(weights(&place), [5]);
    assert!(!is_on_trial(&place));
}

#[test]
fn a_reload_that_takes_too_much_away_is_refused_unless_forced() {
    let backends: Vec<Backend> = (0..4).map(|_| Backend::new()).collect();
    let servers = |count: usize| web(&backends.iter().take(count).map(|b| (b, 1)).collect::<Vec<_>>());
    let limited = |count| format!("max_removed = \"25%\"\n{}", servers(count));
    let place = Place::new(&limited(4));
    let daemon = place.start();
    place.configure(&limited(3));
    assert_eq!(place.ask("reload").code, Some(0), "a quarter may go");
    place.configure(&servers(1));
    let numbers = "it takes away 2 of 3 real servers and 0 of 1 service, more than max_removed = 25% allows; \
                   if that is meant: lvsd reload --force";
    let planned = place.ask("plan");
    assert_eq!(planned.code, Some(0));
    assert!(
        planned.stdout.starts_with(&format!("warning: a reload would be refused: {numbers}\n")),
        "{}",
        planned.stdout
    );
    let said = place.ask("reload");
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert_eq!(said.stderr, format!("reload refused: {numbers}\n"));
    assert_eq!(weights(&place).len(), 3, "nothing has changed");
    let line = place.logged("reload refused: it takes away");
    assert_eq!(line["level"], "ERROR", "{line}");
    let refusals = || place.log().matches("reload refused: it takes away").count();
    daemon.signal(Signal::SIGHUP);
    within("the refusal of the signal", || (refusals() == 2).then_some(()));
    assert_eq!(weights(&place).len(), 3);
    let said = place.ask("reload --force");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    assert_eq!(weights(&place).len(), 1);
    place.configure("");
    assert_eq!(place.ask("reload").code, Some(0), "the file before has no limit");
}

/// What a service is called, where it stands in the file, and with which others it shares a pool is no removal.
#[test]
fn a_limit_counts_what_clients_lose() {
    const ALL: &[u8] = &[1, 2, 3, 4];
    type Pool<'a> = (&'a str, &'a [&'a str], &'a [u8]);
    let file = |pools: &[Pool]| {
        let of_one = |(name, services, servers): &Pool| {
            let servers: Vec<String> =
                servers.iter().map(|n| format!("{{ address = \"127.0.0.{n}:9\" }}")).collect();
            format!(
                "[[virtual_server]]\nname = {name:?}\naddress = {services:?}\ncheck = []\nreal_server = [{}]\n",
                servers.join(", ")
            )
        };
        format!("max_removed = 0\n{}", pools.iter().map(of_one).collect::<String>())
    };
    let (web, mail) = ("192.0.2.1:80", "192.0.2.2:25");
    let place = Place::new(&file(&[("web", &[web], ALL), ("mail", &[mail], ALL)]));
    let _daemon = place.start();
    for (what, pools) in [
        ("other names", vec![("shop", &[web][..], ALL), ("post", &[mail][..], ALL)]),
        ("names that change places", vec![("post", &[web][..], ALL), ("shop", &[mail][..], ALL)]),
        ("another order", vec![("post", &[mail][..], ALL), ("shop", &[web][..], ALL)]),
        ("one pool of two", vec![("all", &[web, mail][..], ALL)]),
        ("two pools of one", vec![("web", &[web][..], ALL), ("mail", &[mail][..], ALL)]),
        ("one more", vec![("web", &[web][..], &[1, 2, 3, 4, 5][..]), ("mail", &[mail][..], ALL)]),
    ] {
        place.configure(&file(&pools));
        let said = place.ask("reload");
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{what}");
    }
    for (numbers, pools) in [
        (
            "3 of 9 real servers and 0 of 2",
            vec![("web", &[web][..], &[1, 2][..]), ("mail", &[mail][..], ALL)],
        ),
        (
            "5 of 9 real servers and 1 of 2",
            vec![("web", &["192.0.2.1:81"][..], ALL), ("mail", &[mail][..], ALL)],
        ),
        ("5 of 9 real servers and 0 of 2", vec![("web", &[web][..], &[6][..]), ("mail", &[mail][..], ALL)]),
    ] {
        place.configure(&file(&pools));
        let said = place.ask("reload");
        assert_eq!(said.code, Some(1), "{numbers}: {said:?}");
        assert!(said.stderr.contains(&format!("it takes away {numbers} services")), "{}", said.stderr);
    }
}

#[test]
fn a_count_limits_services_as_well() {
    let backend = Backend::new();
    let service = |n: usize| format!("[[virtual_server]]\naddress = \"192.0.2.{n}:80\"\ncheck = []\n");
    let with = |count| {
        let services: String = (1..=count).map(service).collect();
        format!(
            "max_removed = 2\n{services}[[virtual_server.real_server]]\naddress = \"{}\"\n",
            backend.address
        )
    };
    let place = Place::new(&with(5));
    let _daemon = place.start();
    place.configure(&with(2));
    let said = place.ask("reload");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.stderr.contains("1 of 1 real server and 3 of 5 services, more than max_removed = 2"),
        "{}",
        said.stderr
    );
    place.configure(&with(3));
    assert_eq!(place.ask("reload").code, Some(0));
}

#[test]
fn going_back_is_never_refused() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&format!("max_removed = 0\n{}", web(&[(&first, 3)])));
    let _daemon = place.start();
    place.configure(&format!("max_removed = 0\n{}", web(&[(&first, 3), (&second, 1)])));
    assert_eq!(place.ask("reload --confirm 1s").code, Some(0));
    wait_for_weights(&place, &[3]);
}

#[test]
fn a_plan_says_what_its_removals_cost() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3), (&second, 1)]));
    let _daemon = place.start();
    place.configure(&web(&[(&first, 5)]));
    let said = place.ask("plan");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = said.stdout.lines().collect();
    let removal = format!(
        "remove real server {} in web: not in the file any more (no connection lost)",
        second.address
    );
    let edit = format!("edit real server {} in web: weight 3 → 5", first.address);
    assert_eq!(lines, [removal.as_str(), &edit, "2 actions, 1 real server carried over, no connection lost"]);
}

#[test]
fn the_socket_has_the_group_and_mode_of_the_file() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let group = nix::unistd::getgid().as_raw();
    let place = Place::new(&format!("control_group = \"{group}\"\ncontrol_mode = \"0600\"\n"));
    let _daemon = place.start();
    let made = std::fs::metadata(place.path("control.sock")).expect("a socket");
    assert_eq!((made.permissions().mode() & 0o777, made.gid()), (0o600, group));
    place.configure("control_mode = \"0660\"\n");
    let said = place.ask("reload");
    assert!(said.stdout.contains("daemon.control_mode takes effect at the next restart"), "{}", said.stdout);
}
