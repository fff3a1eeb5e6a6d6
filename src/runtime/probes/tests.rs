//! Runs that are over at once, runs that take a while, and runs that nobody wants any more.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use super::*;
use crate::config::{Sources, load};
use crate::engine::memory::Memory;
use crate::engine::table::Table;
use crate::engine::{Readings, Time};
use crate::runtime::clock;

/// An engine whose one server has one check that is due now, and where its runs go.
fn due(server: SocketAddr, check: &str) -> (Engine, Probes, mpsc::Receiver<Ended>) {
    let text = format!(
        "[[virtual_server]]\naddress = \"192.0.2.10:80\"\ncheck = {check}\n\
         [[virtual_server.real_server]]\naddress = \"{server}\"\n"
    );
    let config = load(&Sources::from_text("lvsd.toml", Path::new("."), &text)).unwrap().config;
    let kinds: Vec<_> = checks(&config).map(|check| Arc::clone(&check.probe.kind)).collect();
    let prepared = PreparedKinds::new(&kinds, &Scripts::default()).unwrap();
    let (sender, outcomes) = mpsc::channel(8);
    let now = clock::now();
    let mut engine = Engine::start(&config, &Memory::default(), &Table::default(), &Readings::default(), now);
    engine.handle_timeout(now + Duration::from_secs(3600));
    (engine, Probes::new(prepared, sender), outcomes)
}

fn checks(config: &crate::engine::model::Config) -> impl Iterator<Item = &Arc<Check>> {
    config.virtual_servers.iter().flat_map(|pool| &pool.real_servers).flat_map(|server| &server.checks)
}

#[tokio::test]
async fn a_server_that_has_answered_at_once_needs_no_task() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut engine, mut probes, mut outcomes) = due(server.local_addr().unwrap(), "{ tcp = {} }");
    probes.obey(&mut engine, clock::now());
    assert_eq!(probes.running(), 0);
    let over = probes.take_over();
    assert!(matches!(over[..], [Ended { outcome: Outcome { verdict: Verdict::Success { .. }, .. }, .. }]));
    assert!(probes.take_over().is_empty());
    assert!(outcomes.try_recv().is_err(), "it is told twice");
    // The engine knows it as one of its own.
    engine.handle_outcome(over[0].id, &over[0].outcome, Time::ZERO);
    assert!(!engine.has_commands());
}

#[tokio::test]
async fn what_is_not_over_at_once_comes_through_the_channel() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut engine, mut probes, mut outcomes) =
        due(server.local_addr().unwrap(), "{ tcp = { expect = \"hello\" } }");
    probes.obey(&mut engine, clock::now());
    assert_eq!((probes.running(), probes.take_over().len()), (1, 0));
    tokio::task::spawn_blocking(move || server.accept().unwrap().0.write_all(b"hello").unwrap())
        .await
        .unwrap();
    let ended = outcomes.recv().await.unwrap();
    assert!(matches!(ended.outcome.verdict, Verdict::Success { .. }), "{:?}", ended.outcome);
    probes.ended(ended.id);
    assert_eq!(probes.running(), 0);
}

#[tokio::test]
async fn a_refusal_is_an_answer_as_well() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (mut engine, mut probes, _outcomes) = due(server, "{ tcp = {} }");
    probes.obey(&mut engine, clock::now());
    let over = probes.take_over();
    let [Ended { outcome: Outcome { verdict: Verdict::Failure(fault), .. }, .. }] = &over[..] else {
        panic!("{over:?}")
    };
    assert_eq!(fault.reason, "connection refused (ECONNREFUSED)");
}

#[tokio::test]
async fn nothing_is_told_of_a_run_that_nobody_wants_any_more() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    for check in ["{ tcp = {} }", "{ tcp = { expect = \"hello\" } }"] {
        let (mut engine, mut probes, mut outcomes) = due(address, check);
        let Some(Command::Start { id, check }) = engine.next_command() else { panic!("{check} is not due") };
        let _end = probes.start(id, check, Duration::ZERO, Instant::now());
        probes.cancel(id);
        assert_eq!((probes.running(), probes.take_over().len()), (0, 0));
        drop(probes);
        assert!(outcomes.recv().await.is_none(), "a run goes on that was cancelled");
    }
}
