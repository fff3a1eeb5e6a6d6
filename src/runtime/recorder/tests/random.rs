//! Whatever happens in which order: the loop never spins, nothing waits for longer than it may, and nothing gets out
//! before it is on record or has waited for that long.

use proptest::prelude::*;

use super::addresses::set;
use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Change,
    Admit(u8),
    Addresses(u8),
    Settings,
    ForgetAddresses,
    Renew,
    Answer,
    BreakDisk,
    MendDisk,
    Pass(u16),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Change),
        (0..8u8).prop_map(Step::Admit),
        (0..8u8).prop_map(Step::Addresses),
        Just(Step::Settings),
        Just(Step::ForgetAddresses),
        Just(Step::Renew),
        Just(Step::Answer),
        Just(Step::BreakDisk),
        Just(Step::MendDisk),
        (0..2500u16).prop_map(Step::Pass),
    ]
}

/// Those of these whose bit is set.
fn some(all: [&str; 3], bits: u8) -> Vec<&str> {
    all.into_iter().enumerate().filter(|(n, _)| bits & (1 << n) != 0).map(|(_, one)| one).collect()
}

/// With a gate the disk answers nothing at all, at first after some stamps.
fn walk(mut rig: Rig, is_gated: bool, stamps: usize, steps: &[Step]) {
    (0..stamps).for_each(|_| rig.recorder.renew(rig.now));
    let mut waiting_since = None;
    for step in steps {
        match *step {
            Step::Change => rig.recorder.note_change(),
            Step::Admit(bits) => {
                let changes: Vec<(&str, u32)> =
                    some([WEB, OTHER, THIRD], bits).into_iter().map(|id| (id, 1)).collect();
                for (id, _) in rig.admit(&changes) {
                    assert!(rig.recorder.recorded.contains(&tcp(&id)), "{id} gets out unrecorded");
                }
            }
            Step::Addresses(bits) => {
                rig.recorder.note_addresses(set(&some(["192.0.2.10", "192.0.2.11", "192.0.2.12"], bits)));
            }
            Step::Settings => rig.recorder.hold_settings(Settings::default()),
            Step::ForgetAddresses => rig.recorder.forget_addresses(),
            Step::Renew => rig.recorder.renew(rig.now),
            Step::Answer if !is_gated && rig.is_saving() => drop(rig.answer()),
            // In the middle of a write the obstacle's name is the write's.
            Step::BreakDisk if !rig.is_saving() && !rig.obstacle().exists() => rig.break_disk(),
            Step::MendDisk if rig.obstacle().is_dir() => rig.mend_disk(),
            Step::Answer | Step::BreakDisk | Step::MendDisk => {}
            Step::Pass(milliseconds) => rig.pass(Duration::from_millis(milliseconds.into())),
        }
        // Checks that the loop does not spin.
        drop(rig.turn());
        waiting_since = rig.recorder.is_urgent().then(|| waiting_since.unwrap_or(rig.now));
        if let Some(since) = waiting_since {
            let waited = rig.now.since(since);
            let next = rig.recorder.poll_timeout().expect("it looks again");
            assert!(next <= rig.now + PATIENCE, "what waits is looked at in time");
            // A write that has ended begins the time anew for what came after it.
            assert!(!is_gated || waited < PATIENCE, "waits for {waited:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_disk_that_hangs(stamps in 0..8usize, steps in proptest::collection::vec(steps(), 1..40)) {
        let (rig, gate) = Rig::gated(&[WEB, OTHER]);
        walk(rig, true, stamps, &steps);
        drop(gate);
    }

    #[test]
    fn a_disk_that_works_or_fails(steps in proptest::collection::vec(steps(), 1..40)) {
        walk(Rig::new(&[WEB, OTHER]), false, 0, &steps);
    }
}
