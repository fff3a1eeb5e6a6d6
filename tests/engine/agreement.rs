//! The engine against the reference model, at random.

use std::time::Duration;

use lvsd::engine::model::{Fault, Outcome, Phase, RealServerId, Verdict, WeightChange};
use lvsd::engine::{OrderChange, Presence, Time};
use proptest::prelude::*;

use crate::cases::{self, Counts};
use crate::driver::{Pair, Whom};
use crate::gate::any_presence;
use crate::universe::{Edit, SERVERS, WorldSpec, any_edit, any_weight, any_world, server_address};

/// Runs of up to this many steps each.
const STEPS: usize = 60;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Some probe in flight ends.
    Finish {
        which: usize,
        verdict: Verdict,
    },
    /// All probes in flight end, so that whole pools come and go.
    FinishAll {
        verdict: Verdict,
    },
    Advance(Duration),
    Edit(Vec<Edit>),
    World(WorldSpec),
    ReloadUnchanged,
    LookAround(Presence),
    /// Does a canary answer?
    AskCanaries(bool),
    Order {
        whom: Whom,
        change: OrderChange,
        lasts: Option<Duration>,
    },
    Restart {
        remembers: bool,
        kernel_survives: bool,
        gap: Duration,
    },
}

impl Step {
    fn kind(&self) -> &'static str {
        match self {
            Self::Finish { .. } => "result",
            Self::FinishAll { .. } => "all-results",
            Self::Advance(_) => "time",
            Self::Edit(_) => "reload-edited",
            Self::World(_) => "reload-other",
            Self::ReloadUnchanged => "reload-same",
            Self::LookAround(_) => "presence",
            Self::AskCanaries(_) => "canaries",
            Self::Order { .. } => "order",
            Self::Restart { .. } => "restart",
        }
    }
}

pub(crate) fn any_verdict() -> impl Strategy<Value = Verdict> {
    let fault = || Fault { phase: Phase::Connect, reason: "refused".to_owned() };
    let weight = prop_oneof![
        6 => Just(WeightChange::None),
        1 => any_weight().prop_map(WeightChange::Absolute),
        1 => (-4..5_i64).prop_map(WeightChange::Delta),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(WeightChange::Delta),
    ];
    prop_oneof![
        5 => weight.prop_map(|weight| Verdict::Success { detail: "connected".to_owned(), weight }),
        4 => Just(Verdict::Failure(fault())),
        1 => Just(Verdict::LocalError(fault())),
    ]
}

fn any_order() -> impl Strategy<Value = Step> {
    let change = prop_oneof![
        Just(OrderChange::Drain),
        Just(OrderChange::Disable),
        Just(OrderChange::Enable),
        any_weight().prop_map(OrderChange::Weight),
        Just(OrderChange::WeightAuto),
    ];
    let whom = (0..SERVERS, any::<bool>(), any::<bool>(), prop::option::of(0..3_usize)).prop_map(
        |(address, port, any_port, pool)| Whom {
            server: RealServerId {
                address: server_address(address),
                port: Some(if port { 8080 } else { 80 }),
            },
            any_port,
            pool: pool.map(|index| format!("pool{index}")),
        },
    );
    (whom, change, prop::option::of(any_time())).prop_map(|(whom, change, lasts)| Step::Order {
        whom,
        change,
        lasts,
    })
}

pub(crate) fn any_time() -> impl Strategy<Value = Duration> {
    prop_oneof![0..50_u64, 50..1500_u64, 1000..8000_u64].prop_map(Duration::from_millis)
}

pub(crate) fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (any::<usize>(), any_verdict()).prop_map(|(which, verdict)| Step::Finish { which, verdict }),
        6 => any_verdict().prop_map(|verdict| Step::FinishAll { verdict }),
        12 => any_time().prop_map(Step::Advance),
        4 => prop::collection::vec(any_edit(), 1..4).prop_map(Step::Edit),
        1 => any_world().prop_map(Step::World),
        1 => Just(Step::ReloadUnchanged),
        4 => any_presence().prop_map(Step::LookAround),
        3 => prop::bool::weighted(0.6).prop_map(Step::AskCanaries),
        4 => any_order(),
        1 => (any::<bool>(), any::<bool>(), any_time()).prop_map(|(remembers, kernel_survives, gap)| {
            Step::Restart { remembers, kernel_survives, gap }
        }),
    ]
}

fn play(world: &WorldSpec, steps: &[Step]) -> (Vec<String>, Counts) {
    let pair = play_to(world, steps).1;
    (pair.log, pair.counts)
}

/// The world and the engine after these steps.
pub(crate) fn play_to(world: &WorldSpec, steps: &[Step]) -> (WorldSpec, Pair) {
    let mut world = world.clone();
    let mut pair = Pair::start(world.config(), Time::from_nanos(1_000_000_000));
    for step in steps {
        pair.counts.step(step.kind());
        match step {
            Step::Finish { .. }
            | Step::FinishAll { .. }
            | Step::Advance(_)
            | Step::LookAround(_)
            | Step::AskCanaries(_)
            | Step::Order { .. } => go_on(&mut pair, step),
            Step::Edit(edits) => {
                for edit in edits {
                    let _ = world.edit(edit);
                }
                pair.reload(world.config());
            }
            Step::World(new) => {
                world = new.clone();
                pair.reload(world.config());
            }
            Step::ReloadUnchanged => reload_unchanged(&mut pair),
            Step::Restart { remembers, kernel_survives, gap } => {
                let (log, counts) = (std::mem::take(&mut pair.log), std::mem::take(&mut pair.counts));
                pair = pair.restart(world.config(), *remembers, *kernel_survives, *gap);
                pair.log.splice(0..0, log);
                pair.counts.add(&counts);
            }
        }
    }
    (world, pair)
}

/// A step that needs no other configuration; others are none.
pub(crate) fn go_on(pair: &mut Pair, step: &Step) {
    match step {
        Step::Finish { which, verdict } => {
            let ids = pair.in_flight();
            if let Some(id) = ids.get(which % ids.len().max(1)) {
                pair.finish(*id, &outcome(verdict));
            }
        }
        Step::FinishAll { verdict } => {
            for id in pair.in_flight() {
                pair.finish(id, &outcome(verdict));
            }
        }
        Step::Advance(by) => pair.advance(*by),
        Step::LookAround(presence) => pair.look_around(presence),
        Step::AskCanaries(answers) => pair.ask_canaries(*answers),
        Step::Order { whom, change, lasts } => {
            let until = lasts.map(|lasts| pair.now + lasts);
            pair.order(whom, *change, until);
        }
        Step::Edit(_) | Step::World(_) | Step::ReloadUnchanged | Step::Restart { .. } => {}
    }
}

pub(crate) fn outcome(verdict: &Verdict) -> Outcome {
    Outcome { verdict: verdict.clone(), latency: Duration::from_millis(1) }
}

/// A reload to the same file: nothing is said, nothing is cancelled, nothing is due at another time.
fn reload_unchanged(pair: &mut Pair) {
    let said = pair.log.len();
    let due = pair.engine.poll_timeout();
    let memory = pair.engine.memory(pair.now);
    pair.reload(pair.config.clone());
    assert_eq!(pair.log[said..], [] as [String; 0]);
    assert_eq!(pair.engine.poll_timeout(), due);
    assert_eq!(pair.engine.memory(pair.now), memory);
}

#[test]
fn the_engine_agrees_with_the_reference_model() {
    let runs = (any_world(), prop::collection::vec(any_step(), 1..STEPS));
    cases::hold_for_steps(runs, |(world, steps)| {
        let (first, counts) = play(&world, &steps);
        // The same inputs, the same outputs.
        prop_assert_eq!(first, play(&world, &steps).0);
        Ok(counts)
    });
}
