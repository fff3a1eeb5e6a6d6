//! `lvsd plan`: what a reload would do, worked out from sources that the client read. Lowered away from
//! this thread, one at a time; the engine only compares.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::cost::{Cost, Costs};
use super::loading::Refusal;
use super::pems::PemFiles;
use super::presence;
use super::reloading::{ended_orders, losses, restart_needs, too_much};
use super::requests::VIEW;
use super::supervisor::{Answer, Supervisor};
use crate::config::{self, Sources};
use crate::control::{ExitCode, Reply, counted};
use crate::engine::Presence;
use crate::engine::model::Config;
use crate::engine::reload::{Action, Plan};

/// With the lines of its warnings, and what is asked of this host for it.
type Lowered = Result<(Judged, Presence), String>;
type Judged = (Config, Vec<String>, PemFiles);

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
    /// What it would cost comes from the writer, away from the loop.
    pub(super) fn handle_planned(&self, planned: Planned) {
        let Planned { result, answer } = planned;
        let ((config, mut notes, pems), presence) = match result {
            Ok(lowered) => lowered,
            Err(refusal) => {
                // A client that went away wants no answer, here and below.
                let _ = answer.send(Reply::new(ExitCode::Configuration, refusal));
                return;
            }
        };
        let plan = self.engine.plan_reload(&config, &presence);
        notes.extend(losses(&self.config, &config));
        notes.extend(restart_needs(&self.config.daemon, &config.daemon));
        notes.extend(ended_orders(&plan));
        let refusal = too_much(&self.config, &plan);
        notes.extend(pems.renewed(&self.pems, &config));
        notes.extend(refusal.map(|refusal| format!("warning: a reload would be refused: {refusal}")));
        let view = self.writer.view();
        let running = Arc::clone(&self.config);
        tokio::spawn(async move {
            let view = tokio::time::timeout(VIEW, view).await.ok().and_then(Result::ok);
            let reply = match view {
                Some(view) => {
                    let costs = move || {
                        describe(&plan, &notes, &Costs::new(&running.virtual_servers, &config, &view))
                    };
                    let described = tokio::task::spawn_blocking(costs).await;
                    described.unwrap_or_else(|e| Reply::failed(format!("working out the plan's costs: {e}")))
                }
                None => Reply::failed("the kernel's table is not known: its writer does not answer"),
            };
            let _ = answer.send(reply);
        });
    }
}

/// With what its gates would find.
async fn lower_and_read(sources: Value) -> Lowered {
    let lowering = tokio::task::spawn_blocking(move || lower(sources));
    let judged = lowering.await.unwrap_or_else(|broken| Err(format!("reading the sources: {broken}")))?;
    let presence = presence::read(&judged.0).await.map_err(|unread| unread.to_string())?;
    Ok((judged, presence))
}

fn lower(sources: Value) -> Result<Judged, String> {
    let sources: Sources =
        serde_json::from_value(sources).map_err(|e| format!("the sources are not understood: {e}"))?;
    let loaded = config::load(&sources).map_err(|mistakes| Refusal::Mistakes(mistakes).text())?;
    let pems = PemFiles::read(&loaded.config);
    Ok((loaded.config, loaded.warnings.lines(), pems))
}

fn describe(plan: &Plan, notes: &[String], costs: &Costs<'_>) -> Reply {
    let mut text: String = notes.iter().map(|note| format!("{note}\n")).collect();
    let mut total = Cost::default();
    for action in &plan.actions {
        // Writing to a string cannot fail.
        let _ = match costs.of(action) {
            Some(cost) => {
                total = total.plus(cost);
                writeln!(text, "{action} ({} lost)", cost.text())
            }
            None => writeln!(text, "{action}"),
        };
    }
    let actions = counted(plan.actions.len(), "action");
    let carried = counted(plan.carried.real_servers(), "real server");
    let _ = write!(text, "{actions}, {carried} carried over");
    if plan.actions.iter().any(Action::removes) {
        let _ = write!(text, ", {} lost", total.text());
    }
    Reply::done(text)
}
