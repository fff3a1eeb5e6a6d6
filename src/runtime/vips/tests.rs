//! What the log and a status say of virtual addresses, and what a dry run does with them.

use super::plan::{Action, Obstacle};
use super::*;
use crate::engine::Engine;
use crate::engine::announcements::Holders;
use crate::engine::memory::Memory;
use crate::engine::model::Announce;
use crate::engine::table::Table;
use crate::runtime::testing::{config, logged, pool, tcp};
use crate::runtime::vips::plan::tests::on;

const VIP: &str = "192.0.2.10";

fn announcing(name: &str, service: &str, servers: &[&str]) -> Arc<crate::engine::model::VirtualServer> {
    let pool = pool(name, service, servers);
    let announce = Some(Announce { interface: "lvs0".into() });
    Arc::new(crate::engine::model::VirtualServer { announce, ..(*pool).clone() })
}

/// `web` has a server and so quorum, `mail` on another address has none.
fn engine_and_config() -> (Engine, Arc<Config>) {
    let pools = vec![
        announcing("web", "192.0.2.10:80", &["198.51.100.11:80"]),
        announcing("mail", "192.0.2.11:25", &[]),
        pool("plain", "192.0.2.12:80", &["198.51.100.11:80"]),
    ];
    let config = Arc::new(config(pools));
    let readings = crate::engine::Readings::new();
    (Engine::start(&config, &Memory::default(), &Table::default(), &readings, Time::ZERO), config)
}

fn holders(with_quorum: &[&str], without: &[&str], inactive: &[&str]) -> Holders {
    let side = |names: &[&str]| {
        names.iter().map(|name| (tcp("192.0.2.10:80"), pool(name, "192.0.2.10:80", &[]))).collect()
    };
    Holders { with_quorum: side(with_quorum), without: side(without), inactive: side(inactive) }
}

#[test]
fn each_change_has_its_reason() {
    let (come, go) = (Action::Announce(on("lvs0", VIP)), Action::Withdraw(on("lvs0", VIP)));
    let running = Phase::Running;
    let table = [
        (&come, Some(holders(&["web"], &["dns"], &[])), running, "web has quorum"),
        (&come, Some(holders(&["web", "dns", "web"], &[], &[])), running, "dns, web have quorum"),
        (&go, Some(holders(&[], &["web", "dns"], &[])), running, "no quorum in dns, web"),
        (&go, Some(holders(&[], &[], &["web"])), running, "web is not active"),
        (&go, Some(holders(&[], &["a"], &["b", "c"])), running, "no quorum in a, and b, c are not active"),
        (&come, Some(holders(&[], &["web"], &[])), running, "there was quorum, which is lost again"),
        (&come, Some(holders(&[], &[], &["web"])), running, "there was quorum, which is lost again"),
        (&go, Some(holders(&["web"], &[], &[])), running, "there was no quorum, and is again"),
        (&go, Some(holders(&["web"], &["dns"], &[])), running, "there was no quorum, and is again"),
        (&go, None, running, "the configuration does not announce it any more"),
        (&go, Some(holders(&["web"], &[], &[])), Phase::Stopping, "lvsd stops"),
    ];
    for (action, holders, phase, reason) in table {
        assert_eq!(tell::reason(action, holders.as_ref(), phase), reason);
    }
}

#[test]
fn a_long_list_is_cut() {
    assert_eq!(tell::list(1..=3), "1, 2, 3");
    assert!(tell::list(1..=1000).ends_with("50 and 950 more"));
}

#[test]
fn obstacles_and_failures_are_told_once() {
    let mut told = Told::new();
    let mut round = Round::default();
    round.standing.obstacles.insert("lvs0".into(), Obstacle::Missing);
    round.failed.push((Action::Announce(on("lvs1", VIP)), "refused".to_owned()));
    let mut lines = |round: &Round| {
        let lines = logged(|| told.tell_failures(round, Time::ZERO));
        lines.into_iter().map(|line| line.message).collect::<Vec<_>>()
    };
    let missing = "virtual addresses cannot be announced: there is no interface lvs0: \
                   `ip link add lvs0 type dummy && ip link set lvs0 up` makes it";
    assert_eq!(lines(&round), [missing, "cannot announce 192.0.2.10 on lvs1: refused"]);
    assert_eq!(lines(&round), Vec::<String>::new());
    round.standing.obstacles.insert("lvs0".into(), Obstacle::Down);
    assert_eq!(lines(&round).len(), 1, "it is there now, and down");
    // All is well for once; then it begins again.
    assert_eq!(
        lines(&Round { standing: Standing { settled: true, ..Standing::default() }, ..Round::default() })
            .len(),
        0
    );
    assert_eq!(lines(&round).len(), 2);
}

#[test]
fn a_dry_run_announces_nothing_and_says_so() {
    let (engine, config) = engine_and_config();
    let mut vips = Vips::none();
    assert!(vips.remake(&config, engine.virtual_servers()));
    assert!(!vips.remake(&config, engine.virtual_servers()), "nothing has changed");
    let mut snapshot = engine.snapshot(None);
    vips.show(&mut snapshot);
    let shown: Vec<(bool, bool, &str)> = snapshot
        .virtual_servers
        .iter()
        .flat_map(|virtual_server| &virtual_server.announcements)
        .map(|a| (a.wanted, a.announced, a.problem.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(shown, [(true, false, "a dry run announces nothing"), (false, false, "no quorum in mail")]);
}

/// Answers with what the supervisor hears, and no thread behind it.
#[test]
fn what_was_reported_is_shown() {
    let (engine, config) = engine_and_config();
    let mut vips = Vips::none();
    vips.remake(&config, engine.virtual_servers());
    let mut problem = |round: Round| {
        vips.take_in(round);
        let mut snapshot = engine.snapshot(Some("mail"));
        vips.show(&mut snapshot);
        snapshot.virtual_servers[0].announcements[0].clone()
    };
    let mail = on("lvs0", "192.0.2.11");
    let there = Standing { there: [mail.clone()].into(), ..Standing::default() };
    let stuck = Round {
        failed: vec![(Action::Withdraw(mail), "refused".to_owned())],
        standing: there,
        ..Round::default()
    };
    let status = problem(stuck);
    assert_eq!((status.wanted, status.announced, status.problem.as_deref()), (false, true, Some("refused")));
    let status =
        problem(Round { standing: Standing { settled: true, ..Standing::default() }, ..Round::default() });
    assert_eq!((status.announced, status.problem.as_deref()), (false, Some("no quorum in mail")));
}
