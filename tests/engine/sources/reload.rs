//! The planner: what is kept, what is new, and in which order the rest is done.

use super::*;

const ONE: &str = "virtual_server = [{ address = 'V', sorry_server = 'S', real_server = ['A', 'B'] }]";

fn kinds(plan: &Plan) -> Vec<ActionKind> {
    plan.actions.iter().map(|a| a.kind).collect()
}

#[test]
fn alive_states_are_carried() {
    let mut scene = Scene::new(ONE);
    scene.find("B", &bad());
    let plan = scene.reload(ONE);
    assert_eq!(plan.carried.alive, [[Some(true), Some(false)].into()], "A and B");
    assert_eq!(scene.table(), ["V {A/1}"]);
}

#[test]
fn the_quorum_is_carried_and_not_computed_anew() {
    let text = "virtual_server = [{ address = 'V', quorum = 2, hysteresis = 1, sorry_server = 'S', real_server = ['A', 'B', 'C'] }]";
    let mut scene = Scene::new(text);
    scene.find("A", &bad());
    let plan = scene.reload(text);
    assert_eq!(plan.carried.quorum_up, [Some(true)]);
    assert_eq!(scene.table(), ["V {B/1, C/1}"], "two are below quorum + hysteresis");
    assert_eq!(scene.quorum_events(), []);
}

#[test]
fn a_new_alpha_server_starts_down_and_a_new_plain_one_up() {
    let mut scene = Scene::new(ONE);
    let plan = scene.reload(
        "virtual_server = [{ address = 'V', sorry_server = 'S', real_server = ['A', 'B', { address = 'C', alpha = true }, 'D'] }]",
    );
    let (c, d) = ((0, server_id("C")), (0, server_id("D")));
    assert_eq!(plan.new_servers.iter().copied().collect::<Vec<_>>(), [c, d]);
    assert_eq!(scene.table(), ["V {A/1, B/1, D/1}"]);
}

#[test]
fn a_survivor_whose_check_becomes_alpha_stays_up() {
    let mut scene = Scene::new(ONE);
    scene.reload(
        "virtual_server = [{ address = 'V', alpha = true, sorry_server = 'S', real_server = ['A', 'B'] }]",
    );
    assert_eq!(scene.table(), ["V {A/1, B/1}"]);
}

#[test]
fn removals_come_first_then_edits_then_additions() {
    let mut scene = Scene::new(
        "virtual_server = [{ address = 'V', sorry_server = 'S', real_server = ['A', 'B'] }, { address = 'W', real_server = ['A'] }, { address = 'X', sorry_server = 'S', real_server = ['A'] }]",
    );
    let plan = scene.reload(
        "virtual_server = [{ address = 'Y', real_server = ['A'] }, { address = 'X', real_server = ['A'] }, { address = 'V', scheduler = 'wlc', sorry_server = 'T', real_server = [{ address = 'A', weight = 2 }, 'C'] }]",
    );
    let expected = [
        ActionKind::RemoveVirtualServer,
        ActionKind::RemoveRealServer,
        ActionKind::RemoveSorryServer,
        ActionKind::EditVirtualServer,
        ActionKind::EditRealServer,
        ActionKind::SetSorryServer,
        ActionKind::AddVirtualServer,
        ActionKind::AddRealServer,
        ActionKind::AddRealServer,
    ];
    assert_eq!(kinds(&plan), expected);
}

#[test]
fn a_changed_weight_is_the_same_server_and_a_changed_address_another() {
    let mut scene = Scene::new("virtual_server = [{ address = 'V', real_server = ['A', 'B'] }]");
    scene.find("A", &bad());
    let plan = scene
        .reload("virtual_server = [{ address = 'V', real_server = [{ address = 'A', weight = 5 }, 'C'] }]");
    assert_eq!(
        kinds(&plan),
        [ActionKind::RemoveRealServer, ActionKind::EditRealServer, ActionKind::AddRealServer]
    );
    assert!(!scene.server("A").alive);
    let plan = scene.reload("virtual_server = [{ address = 'V', real_server = ['A:81', 'C'] }]");
    assert!(plan.new_servers.contains(&(0, server_id("A:81"))));
    assert!(scene.server("A:81").alive, "nobody has asked port 81 yet");
}

#[test]
fn what_the_kernel_edits_is_edited() {
    let changes = [
        "virtual_server = [{ address = 'V', scheduler = 'wlc', sorry_server = 'S', real_server = ['A', 'B'] }]",
        "virtual_server = [{ address = 'V', persistence_timeout = 60, sorry_server = 'S', real_server = ['A', 'B'] }]",
        "virtual_server = [{ address = 'V', scheduler_flags = ['flag-1'], sorry_server = 'S', real_server = ['A', 'B'] }]",
        "virtual_server = [{ address = 'V', quorum = 2, sorry_server = 'S', real_server = ['A', 'B'] }]",
    ];
    for change in changes {
        let mut scene = Scene::new(ONE);
        assert_eq!(kinds(&scene.reload(change)), [ActionKind::EditVirtualServer], "{change}");
    }
}

#[test]
fn an_action_reads_like_a_line_of_a_log() {
    let mut scene = Scene::new(ONE);
    let plan = scene.reload(
        "virtual_server = [{ name = 'web', address = 'V', sorry_server = 'S', real_server = [{ address = 'A', weight = 5 }, 'B'] }]",
    );
    let lines: Vec<String> = plan.actions.iter().map(Action::to_string).collect();
    assert_eq!(
        lines,
        [
            "edit virtual server tcp 192.0.2.10:80: moved or renamed V → web",
            "edit real server 198.51.100.11:80 in web: weight 1 → 5"
        ]
    );
}

#[test]
fn a_plan_alone_changes_nothing() {
    let mut scene = Scene::new(ONE);
    let before = (scene.table(), scene.engine.snapshot(None), scene.engine.poll_timeout());
    let plan = scene.engine.plan_reload(&config("virtual_server = []"), &lvsd::engine::Presence::default());
    assert_eq!(kinds(&plan), [ActionKind::RemoveVirtualServer]);
    scene.take();
    assert_eq!((scene.table(), scene.engine.snapshot(None), scene.engine.poll_timeout()), before);
}
