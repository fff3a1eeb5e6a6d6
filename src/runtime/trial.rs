//! `lvsd reload --confirm`: a configuration on trial, and the way back to the one before it.
//!
//! The trial goes on over whatever is loaded meanwhile, be it by SIGHUP or `lvsd reload`: what there is to go
//! back to is always the last configuration that was in force without one. A reload with `--confirm`
//! of its own sets the clock anew; one without leaves it as it is, so that nothing but `lvsd confirm`
//! confirms. It does not survive the daemon: a start takes the file as it is.

use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use super::clock;
use super::loading::{self, Ready, Refusal};
use super::pems::PemFiles;
use super::probes::PreparedKinds;
use super::supervisor::Supervisor;
use crate::config::Diagnostics;
use crate::control::happening::What;
use crate::control::{Peer, Reply, duration};
use crate::engine::model::Config;
use crate::engine::snapshot::HappenedKind;
use crate::engine::{LostOrder, Readings, Time};

/// Between two tries to go back.
const RETRY: Duration = Duration::from_secs(10);

/// A configuration that can come into force again.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) config: Arc<Config>,
    pub(super) kinds: PreparedKinds,
    pub(super) digest: String,
    pub(super) pems: PemFiles,
}

#[derive(Debug)]
pub(super) struct Trial {
    good: Known,
    lasts: Duration,
    until: Time,
    /// Orders that ended with what was on trial, to be given again on the way back.
    lost: Vec<LostOrder>,
}

impl Trial {
    pub(super) const fn until(&self) -> Time {
        self.until
    }
}

impl Known {
    /// With what its checks and gates ask of this host now.
    pub(super) async fn ready(self) -> Result<Ready, Refusal> {
        let Self { config, kinds, digest, pems } = self;
        let warnings = Diagnostics::default();
        loading::look(Ready { config, warnings, kinds, digest, pems, readings: Readings::new() }).await
    }
}

impl Supervisor {
    /// Another configuration is about to take the place of `before`: is it on trial? What to tell of it.
    pub(super) fn try_out(&mut self, confirm: Option<Duration>, before: Known, now: Time) -> Option<String> {
        match (&mut self.trial, confirm) {
            (None, None) => return None,
            (None, Some(lasts)) => {
                self.trial = Some(Trial { good: before, lasts, until: now + lasts, lost: vec![] })
            }
            (Some(trial), Some(lasts)) => (trial.lasts, trial.until) = (lasts, now + lasts),
            (Some(_), None) => {}
        }
        let left = self.trial.as_ref()?.until.since(now);
        let text = format!(
            "unless `lvsd confirm` comes within {}, the configuration before it comes back",
            duration::display(left)
        );
        self.recent.note_daemon(HappenedKind::Trial, &*text, now);
        self.announcer.note_daemon(What::TrialBegan(text.as_str().into()));
        Some(text)
    }

    pub(super) fn confirm(&mut self, peer: &Peer) -> Reply {
        match self.trial.take() {
            Some(_) => {
                info!(by = %peer, "the configuration is confirmed by {peer}");
                let text = format!("confirmed by {peer}");
                self.announcer.note_daemon(What::TrialConfirmed(text.as_str().into()));
                self.recent.note_daemon(HappenedKind::Trial, text, clock::now());
                Reply::done("confirmed: the configuration stays")
            }
            None => Reply::failed("no reload waits to be confirmed"),
        }
    }

    /// Called at each turn: a reload that is under way is finished first.
    pub(super) fn end_trial(&mut self, now: Time) {
        if self.reloading.is_busy() || self.trial.as_ref().is_none_or(|trial| trial.until > now) {
            return;
        }
        let Some(trial) = &mut self.trial else { return };
        // Over when it has come into force. Should that fail, it is tried again.
        trial.until = now + RETRY;
        let (good, lasts) = (trial.good.clone(), trial.lasts);
        let lasts = duration::display(lasts);
        warn!(
            "the reload was not confirmed within {lasts}: going back to the configuration before it; {} still has \
             what was tried, and the next reload or start takes it",
            self.config_path.display()
        );
        self.go_back(good);
    }

    /// Orders that a reload takes away: on trial they are not gone yet.
    pub(super) fn note_lost_orders(&mut self, lost: &[LostOrder]) {
        if let Some(trial) = &mut self.trial {
            trial.lost.extend_from_slice(lost);
        }
    }

    /// The configuration before it is in force again.
    pub(super) fn note_way_back(&mut self, trial: &Trial, now: Time) {
        self.engine.give_back(&trial.lost, now);
        let lasts = duration::display(trial.lasts);
        let text = format!("not confirmed within {lasts}: the configuration before it is back");
        self.announcer.note_daemon(What::TrialReverted(text.as_str().into()));
        self.note_reverted(&text, now);
        self.recent.note_daemon(HappenedKind::Trial, text, now);
    }

    /// For the log, at a stop.
    pub(super) fn tell_of_trial(&self) {
        if self.trial.is_some() {
            warn!(
                "stopping while a reload waits to be confirmed: the next start takes {} as it is",
                self.config_path.display()
            );
        }
    }
}
