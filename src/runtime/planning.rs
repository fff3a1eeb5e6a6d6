//! `lvsd plan`: what a reload would do, worked out from sources that the client read. Lowered away from
//! this thread, one at a time; the engine only compares.

use std::fmt::Write as _;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::loading::Refusal;
use super::presence;
use super::reloading::{losses, restart_needs};
use super::supervisor::{Answer, Supervisor};
use crate::config::{self, Sources};
use crate::control::{ExitCode, Reply, counted};
use crate::engine::Presence;
use crate::engine::model::Config;
use crate::engine::reload::Plan;

/// With the lines of its warnings.
type Lowered = Result<(Config, Vec<String>, Presence), String>;

#[derive(Debug, Default)]
pub(super) struct Planning(Option<(JoinHandle<Lowered>, Answer)>);

/// A configuration that has been lowered, or why it cannot be.
#[derive(Debug)]
pub(super) struct Planned {
    result: Lowered,
    answer: Answer,
}

impl Planning {
    /// Gives the answer back if another plan is being made.
    pub(super) fn try_begin(&mut self, sources: Value, answer: Answer) -> Result<(), Answer> {
        if self.0.is_some() {
            return Err(answer);
        }
        self.0 = Some((tokio::spawn(lower_and_read(sources)), answer));
        Ok(())
    }

    /// What is being lowered, when it has been.
    pub(super) async fn planned(&mut self) -> Planned {
        let result = match &mut self.0 {
            Some((task, _)) => task.await.unwrap_or_else(|e| Err(format!("reading the sources: {e}"))),
            None => std::future::pending().await,
        };
        match self.0.take() {
            Some((_, answer)) => Planned { result, answer },
            None => std::future::pending().await,
        }
    }
}

impl Supervisor {
    pub(super) fn handle_planned(&self, planned: Planned) {
        let reply = match planned.result {
            Ok((config, mut notes, presence)) => {
                notes.extend(losses(&self.config, &config));
                notes.extend(restart_needs(&self.config.daemon, &config.daemon));
                describe(&self.engine.plan_reload(&config, &presence), &notes)
            }
            Err(refusal) => Reply::new(ExitCode::Configuration, refusal),
        };
        // A client that went away wants no answer.
        let _ = planned.answer.send(reply);
    }
}

/// With what its gates would find.
async fn lower_and_read(sources: Value) -> Lowered {
    let lowering = tokio::task::spawn_blocking(move || lower(sources));
    let (config, notes) =
        lowering.await.unwrap_or_else(|broken| Err(format!("reading the sources: {broken}")))?;
    let presence = presence::read(&config).await.map_err(|unread| unread.to_string())?;
    Ok((config, notes, presence))
}

fn lower(sources: Value) -> Result<(Config, Vec<String>), String> {
    let sources: Sources =
        serde_json::from_value(sources).map_err(|e| format!("the sources are not understood: {e}"))?;
    config::load(&sources)
        .map(|loaded| (loaded.config, loaded.warnings.lines()))
        .map_err(|mistakes| Refusal::Mistakes(mistakes).text())
}

fn describe(plan: &Plan, notes: &[String]) -> Reply {
    let mut text: String = notes.iter().map(|note| format!("{note}\n")).collect();
    for action in &plan.actions {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{action}");
    }
    let actions = counted(plan.actions.len(), "action");
    let carried = counted(plan.carried.alive.len(), "real server");
    let _ = write!(text, "{actions}, {carried} carried over");
    Reply::done(text)
}
