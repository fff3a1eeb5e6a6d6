//! One pool's quorum: threshold, weights, the sorry server, and its first evaluation.

use super::*;

const PAIR: &str = "virtual_server = [{ address = 'V', quorum = 2, hysteresis = 1, sorry_server = 'S', real_server = ['A', 'B', 'C'] }]";

#[test]
fn the_threshold_is_quorum_minus_hysteresis_while_up_and_plus_while_down() {
    let mut scene = Scene::new(PAIR);
    assert_eq!(scene.virtual_server().quorum.threshold, 1);
    for server in ["A", "B", "C"] {
        scene.find(server, &bad());
    }
    assert_eq!(scene.virtual_server().quorum.threshold, 3);
}

#[test]
fn an_event_has_kind_weight_threshold_and_what_becomes_of_the_sorry_server() {
    let mut scene = Scene::new(PAIR);
    scene.find("A", &bad());
    scene.find("B", &bad());
    assert_eq!(scene.quorum_events(), []);
    scene.find("C", &bad());
    let lost =
        QuorumEvent { kind: QuorumKind::Lost, weight: 0, threshold: 1, sorry_action: SorryAction::Install };
    assert_eq!(scene.quorum_events(), [lost]);
    scene.pass(SECOND);
    for server in ["A", "B", "C"] {
        scene.find(server, &good());
    }
    let gained =
        QuorumEvent { kind: QuorumKind::Gained, weight: 3, threshold: 3, sorry_action: SorryAction::Remove };
    assert_eq!(scene.quorum_events(), [gained]);
}

#[test]
fn without_a_sorry_server_there_is_nothing_to_do_with_it() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
    scene.find("A", &bad());
    let actions: Vec<SorryAction> = scene.quorum_events().iter().map(|q| q.sorry_action).collect();
    assert_eq!(actions, [SorryAction::None]);
}

#[test]
fn live_weight_is_that_of_the_living_and_weight_zero_adds_nothing() {
    let mut scene = Scene::new(
        "virtual_server = [{ address = 'V', real_server = [{ address = 'A', weight = 3 }, { address = 'B', weight = 4 }, { address = 'C', weight = 0 }] }]",
    );
    assert_eq!(scene.virtual_server().quorum.weight, 7);
    scene.find("B", &bad());
    assert_eq!(scene.virtual_server().quorum.weight, 3);
    assert_eq!(scene.table(), ["V {A/3, C/0}"]);
}

#[test]
fn inhibit_keeps_a_failed_server_at_weight_zero() {
    let mut scene =
        Scene::new("virtual_server = [{ address = 'V', inhibit_on_failure = true, real_server = ['A'] }]");
    scene.find("A", &bad());
    assert_eq!(scene.table(), ["V {A/0}"]);
}

#[test]
fn contributions_of_several_checks_add_up() {
    let mut scene = Scene::new(
        "virtual_server = [{ address = 'V', real_server = [{ address = 'A', weight = 10, check = [{}, { connect_ip = 'B' }, { connect_ip = 'C' }] }] }]",
    );
    scene.find("B", &adds(5));
    scene.find("C", &adds(-2));
    assert_eq!(scene.server("A").effective_weight, 13, "the last one does not win");
    scene.pass(SECOND);
    scene.find("B", &adds(1));
    assert_eq!(scene.server("A").effective_weight, 9, "what it is, not by how much it changed");
}

#[test]
fn a_weight_change_counts_for_the_quorum() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', quorum = 2, real_server = ['A', 'B'] }]");
    scene.find("A", &adds(-1));
    let kinds: Vec<QuorumKind> = scene.quorum_events().iter().map(|q| q.kind).collect();
    assert_eq!(kinds, [QuorumKind::Lost]);
}

#[test]
fn an_order_for_an_unknown_server_finds_nobody() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
    let (address, port) = names::read("B");
    let note = OrderNote { by: "root".to_owned(), reason: None, since: scene.now, until: None };
    let selector = Selector { address, port, virtual_server: None };
    let refusal = scene.engine.handle_order(selector, OrderChange::Weight(3), &note).unwrap_err();
    assert!(matches!(refusal, OrderRefusal::Nobody { near } if near.is_empty()));
    assert!(scene.engine.next_event().is_none());
}

#[test]
fn the_first_evaluation_is_no_transition() {
    let mut up = Scene::new("virtual_server = [{ address = 'V', real_server = ['A'] }]");
    let mut down = Scene::new("virtual_server = [{ address = 'V', alpha = true, real_server = ['A'] }]");
    assert!(up.virtual_server().quorum.up && !down.virtual_server().quorum.up);
    assert_eq!((up.quorum_events(), down.quorum_events()), (vec![], vec![]));
}

#[test]
fn the_first_evaluation_asks_for_the_upper_threshold() {
    // Two live weights, and three are needed to come up.
    let scene = Scene::new(
        "virtual_server = [{ address = 'V', quorum = 2, hysteresis = 1, real_server = ['A', 'B', { address = 'C', alpha = true }] }]",
    );
    let quorum = scene.virtual_server().quorum;
    assert_eq!((quorum.up, quorum.weight, quorum.threshold), (false, 2, 3));
}

#[test]
fn what_starts_below_quorum_starts_with_its_sorry_server_and_loses_it_at_the_first_gain() {
    let mut scene = Scene::new(
        "virtual_server = [{ address = 'V', alpha = true, sorry_server = 'S', real_server = ['A'] }]",
    );
    assert_eq!(scene.table(), ["V {S/1}"]);
    scene.find("A", &good());
    let actions: Vec<SorryAction> = scene.quorum_events().iter().map(|q| q.sorry_action).collect();
    assert_eq!(actions, [SorryAction::Remove]);
    assert_eq!(scene.table(), ["V {A/1}"]);
}
