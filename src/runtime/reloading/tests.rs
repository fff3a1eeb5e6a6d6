//! The line that sums a reload up, and the log of what it does.

use std::sync::Arc;

use tracing::Level;

use super::*;
use crate::engine::Engine;
use crate::engine::memory::Memory;
use crate::engine::model::{Config, VirtualServer};
use crate::engine::table::Table;
use crate::runtime::testing::{config, logged, pool, real_server, tcp, tickets};

const FIRST: &str = "198.51.100.11:80";
const SECOND: &str = "198.51.100.12:80";
const THIRD: &str = "198.51.100.13:80";

fn plan(before: Vec<Arc<VirtualServer>>, after: Vec<Arc<VirtualServer>>) -> Plan {
    let running = Engine::start(
        &config(before),
        &Memory::default(),
        &Table::default(),
        &crate::engine::Readings::new(),
        Time::ZERO,
    );
    running.plan_reload(&Config { virtual_servers: after, ..config(vec![]) }, &Default::default())
}

#[test]
fn a_summary_counts_actions_by_kind_and_survivors() {
    let web = || pool("web", "192.0.2.10:80", &[FIRST, SECOND]);
    assert_eq!(
        summary(&plan(vec![web()], vec![web()])),
        "0 removed, 0 edited, 0 added, 2 real servers carried over"
    );
    let mut changed = (*web()).clone();
    let mut heavier = (*real_server(FIRST)).clone();
    heavier.weight = 7;
    changed.quorum = 2;
    changed.real_servers = vec![Arc::new(heavier), real_server(THIRD)];
    // Removed: the second server and a service. Edited: the service and the first server. Added: the
    // third server, and a service with its server.
    let after = vec![Arc::new(changed), pool("new", "192.0.2.12:80", &[FIRST])];
    let plan = plan(vec![web(), pool("old", "192.0.2.11:80", &[FIRST])], after);
    assert_eq!(summary(&plan), "2 removed, 2 edited, 3 added, 1 real server carried over");
}

#[test]
fn each_action_is_a_line_with_its_reason_and_its_object() {
    let before = vec![pool("web", "192.0.2.10:80", &[FIRST, SECOND])];
    let after = vec![pool("web", "192.0.2.10:80", &[FIRST])];
    let lines = logged(|| log_plan(&plan(before, after)));
    let texts: Vec<_> = lines.iter().map(|line| (line.level, line.message.as_str())).collect();
    assert_eq!(
        texts,
        [
            (Level::INFO, "reload: 1 removed, 0 edited, 0 added, 1 real server carried over"),
            (Level::INFO, "reload: remove real server 198.51.100.12:80 in web: not in the file any more"),
        ]
    );
    let fields: Vec<_> = lines[1].fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(
        fields,
        [("real_server", SECOND), ("reason", "not in the file any more"), ("virtual_server", "web")]
    );
}

#[test]
fn endless_actions_are_cut_short_in_the_log() {
    let many: Vec<_> = (1..=300).map(|port| tcp(&format!("192.0.2.10:{port}"))).collect();
    let mut after = (*pool("web", "192.0.2.10:80", &[])).clone();
    after.services = many;
    let lines = logged(|| log_plan(&plan(vec![], vec![Arc::new(after)])));
    assert_eq!(lines.len(), 1 + LINES + 1);
    assert_eq!(lines.last().map(|line| line.message.as_str()), Some("reload: 100 more actions"));
}

#[test]
fn a_report_ends_a_reload_only_if_it_covers_all_that_the_reload_asked() {
    let [earlier, own, later] = [1, 2, 3].map(|n| tickets().nth(n).unwrap());
    let mut applying =
        Applying { answers: vec![], summary: String::new(), notes: vec![], ticket: None, until: None };
    assert!(!applying.is_written(later), "some of it still waits for the record");
    applying.ticket = Some(own);
    assert_eq!([earlier, own, later].map(|written| applying.is_written(written)), [false, true, true]);
}

#[test]
fn what_a_reload_cannot_do_or_does_without_mercy_is_said() {
    let before = config(vec![pool("web", "192.0.2.10:80", &[FIRST]), pool("api", "192.0.2.11:80", &[FIRST])]);
    let after = config(vec![]);
    let said = losses(&before, &after).unwrap();
    assert!(said.contains("no virtual servers") && said.contains("(2)"), "{said}");
    assert_eq!(losses(&after, &after), None);
    assert_eq!(losses(&after, &before), None);
    let mut moved = after.daemon.clone();
    moved.state_file = "elsewhere.json".into();
    moved.http = Some(([127, 0, 0, 1], 9480).into());
    moved.log = "debug".to_owned();
    assert_eq!(restart_needs(&after.daemon, &after.daemon), Vec::<String>::new());
    assert_eq!(
        restart_needs(&after.daemon, &moved),
        [
            "warning: daemon.state_file takes effect at the next restart",
            "warning: daemon.http takes effect at the next restart",
        ]
    );
}

#[tokio::test]
async fn only_what_is_new_is_made_of_the_next_file_also_after_a_refused_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lvsd.toml");
    let text = |weights: &[u8]| {
        let pool = |(n, weight): (usize, &u8)| {
            format!(
                "[[virtual_server]]\naddress = \"192.0.2.{n}:80\"\ncheck = {{ tcp = {{}} }}\n\
                 [[virtual_server.real_server]]\naddress = \"198.51.100.1:80\"\nweight = {weight}\n"
            )
        };
        weights.iter().enumerate().map(pool).collect::<String>()
    };
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(&text(&[1, 1, 1]));
    let mut loader = Loader::default();
    let started = loader.load(&path).unwrap();
    let mut reloading = Reloading::new(loader);
    write("nonsense");
    reloading.begin(path.clone(), Wish::default());
    reloading.loaded().await.unwrap_err();
    let mut before = started;
    for (weights, kept) in [([1, 2, 1], 2), ([1, 2, 1], 3), ([1, 2, 3], 2), ([3, 2, 3], 2)] {
        write(&text(&weights));
        reloading.begin(path.clone(), Wish::default());
        let ready = reloading.loaded().await.unwrap();
        let pools = ready.config.virtual_servers.iter().zip(&before.config.virtual_servers);
        assert_eq!(pools.filter(|(new, old)| Arc::ptr_eq(new, old)).count(), kept, "{weights:?}");
        let kind = &ready.config.virtual_servers[0].real_servers[0].checks[0].probe.kind;
        assert!(ready.kinds.of(kind).is_some(), "its checks are prepared");
        before = ready;
    }
}
