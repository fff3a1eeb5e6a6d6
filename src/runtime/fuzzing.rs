//! State files, for fuzzing: what a start makes of any text, and what it writes itself.

use super::remembered::{self, LeftOut, render};
use super::state_file::State;
use crate::engine::model::{Config, Fault, Outcome, Phase, Verdict, WeightChange};
use crate::engine::table::Table;
use crate::engine::{Command, Engine, Readings, Time};

/// Of the sample files.
const BOOT: &str = "6b1f5f6e-4d7a-4d0e-9c1a-0123456789ab";
const NOW: Time = Time::from_nanos(1_005_000_000_000);
/// Turns of the engine's loop.
const TURNS: usize = 12;

/// Whatever of it is left out.
fn parse(text: &str, boot: &str, now: Time) -> Result<State, String> {
    remembered::parse(text, boot, now, &mut LeftOut::default())
}

pub(crate) fn state_file(text: &str, config: &Config) {
    for boot in [BOOT, "00000000-0000-0000-0000-000000000000"] {
        let Ok(state) = parse(text, boot, NOW) else { continue };
        survives(&state, boot);
        run(config, &state, boot);
    }
}

/// What was read, written and read again, is the same.
fn survives(state: &State, boot: &str) {
    let written = render(state, boot);
    let mut again = parse(&written.text, boot, NOW);
    // Of another boot the file's time says nothing, and so it gets one.
    if let (Ok(again), None) = (&mut again, state.memory.saved_at) {
        again.memory.saved_at = None;
    }
    assert_eq!(again.as_ref(), Ok(state), "{}", written.text);
    let stamp = usize::try_from(written.stamp_at).unwrap_or_default();
    assert!(written.text.get(stamp..stamp + 20).is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit())));
}

/// A start from it, and some turns in which checks fail and succeed.
fn run(config: &Config, state: &State, boot: &str) {
    let mut now = NOW;
    let mut engine = Engine::start(config, &state.memory, &Table::default(), &Readings::new(), now);
    for turn in 0..TURNS {
        while let Some(command) = engine.next_command() {
            if let Command::Start { id, .. } = command {
                engine.handle_outcome(id, &outcome(turn), now);
            }
        }
        while let Some(event) = engine.next_event() {
            drop(event);
        }
        drop(engine.take_table_changes());
        now = engine.poll_timeout().map_or(now, |due| due.max(now));
        engine.handle_timeout(now);
    }
    drop(engine.snapshot(None));
    let state = State { memory: engine.memory(now), ..state.clone() };
    let written = render(&state, boot);
    assert_eq!(parse(&written.text, boot, now).as_ref(), Ok(&state), "what lvsd writes it can read");
}

fn outcome(turn: usize) -> Outcome {
    let verdict = match turn % 3 {
        0 => Verdict::Failure(Fault { phase: Phase::Connect, reason: "refused".to_owned() }),
        1 => Verdict::Success { detail: String::new(), weight: WeightChange::Delta(i64::from(i32::MAX)) },
        _ => Verdict::Success { detail: String::new(), weight: WeightChange::None },
    };
    Outcome { verdict, latency: std::time::Duration::from_millis(1) }
}
