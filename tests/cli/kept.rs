//! Failed servers that stay in the table: how `lvsd status`, `lvsd why`, `lvsd events` and the log say so.

use serde_json::json;

use crate::support::{Backend, Place, web};

#[test]
fn who_is_kept_by_min_alive_is_said_wherever_one_looks() {
    let (mut first, mut second) = (Backend::new(), Backend::new());
    let config =
        web(&[(&first, 3), (&second, 1)]).replace("name = \"web\"\n", "name = \"web\"\nmin_alive = 1\n");
    let place = Place::new(&config);
    let _daemon = place.start();
    place.wait_for_servers("installed", &[json!(true), json!(true)]);
    first.die();
    place.wait_for_servers("installed", &[json!(false), json!(true)]);
    second.die();
    place.wait_for_servers("kept", &[json!(null), json!("min_alive")]);
    place.wait_for_servers("installed", &[json!(false), json!(true)]);
    assert_eq!(place.servers("alive"), [json!(false), json!(false)]);
    assert_eq!(place.status()["virtual_servers"][0]["quorum"]["up"], true, "it counts");

    let status = place.ask("status").stdout;
    let lines: Vec<&str> = status.lines().filter(|line| line.contains("DOWN")).collect();
    assert_eq!(lines.len(), 2, "{status}");
    assert!(!lines[0].contains("KEPT") && lines[1].contains("DOWN, KEPT"), "{status}");
    assert!(status.contains("kept in the table by min_alive"), "{status}");
    let why = place.ask(&format!("why {}", second.address)).stdout;
    assert!(why.contains("KEPT in the table all the same, by min_alive"), "{why}");
    let begins = format!("min_alive = 1 keeps servers in the table that have failed: {}", second.address);
    assert!(why.contains(&begins), "the history of the pool: {why}");
    assert_eq!(place.logged(&begins)["level"], "WARN");

    first.revive();
    place.wait_for_servers("installed", &[json!(true), json!(false)]);
    assert_eq!(place.servers("kept"), [json!(null), json!(null)]);
    assert_eq!(place.logged("min_alive = 1 keeps no failed server any more")["level"], "INFO");
}
