//! Another file: planned, loaded, refused.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Backend, Place, web};

#[test]
fn a_good_file_comes_into_force_and_is_summed_up() {
    let (first, second) = (Backend::new(), Backend::new());
    let place = Place::new(&web(&[(&first, 3)]));
    let _daemon = place.start();
    let said = place.ask("reload");
    let unchanged = "reload complete: 0 removed, 0 edited, 0 added, 1 real servers carried over\n";
    assert_eq!((said.code, said.stdout.as_str(), said.stderr.as_str()), (Some(0), unchanged, ""));
    place.configure(&web(&[(&first, 5), (&second, 1)]));
    let said = place.ask("reload");
    let changed = "reload complete: 0 removed, 1 edited, 1 added, 1 real servers carried over\n";
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
    let line = place.logged("lvsd.toml:14:10: ");
    assert_eq!(line["level"], "ERROR", "{line}");
    place.logged("reload refused: 1 mistakes, the running configuration stays");
    place.configure(&web(&[(&backend, 6)]));
    assert_eq!(place.ask("reload").code, Some(0));
    assert_eq!(place.servers("weight"), [6]);
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
    assert_eq!(said.stdout, "0 actions, 1 real servers carried over\n");
    place.write("next.toml", &web(&[(&first, 4), (&second, 1)]));
    let said = place.ask("plan next.toml");
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{said:?}");
    let (one, two) = (first.address, second.address);
    assert_eq!(
        said.stdout,
        format!(
            "edit real server {one} in web: weight 3 → 4\nadd real server {two} in web: new in the file\n\
             2 actions, 1 real servers carried over\n"
        )
    );
    assert_eq!(place.servers("weight"), [3]);
    place.write("bad.toml", "nonsense = 1\n");
    let said = place.ask("plan bad.toml");
    assert_eq!((said.code, said.stdout.as_str()), (Some(78), ""));
    assert!(said.stderr.contains("bad.toml:1:1: error: "), "{}", said.stderr);
}
