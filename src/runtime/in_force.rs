//! Is what the file says in force? A reload that was refused and a trial that went back leave behind a file that is
//! other than what runs. Whoever asks for the status is told so until a file comes into force.

use super::counters::Reloaded;
use super::supervisor::Supervisor;
use crate::control::happening::What;
use crate::engine::Time;
use crate::engine::snapshot::{HappenedKind, NotInForce, NotInForceKind};

/// What a start would do with a file that a reload refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStart {
    Fails,
    TakesIt,
    /// It is not the file that was the reason.
    Unsaid,
}

impl Supervisor {
    pub(super) fn note_refused(&mut self, why: &str, start: NextStart, now: Time) {
        self.counters.note_reloaded(Reloaded::Refused);
        self.recent.note_daemon(HappenedKind::ReloadRefused, why, now);
        self.announcer.note_daemon(What::ReloadRefused(why.into()));
        let start = match start {
            NextStart::Fails => "; as the file is, the next start fails",
            NextStart::TakesIt => "; as the file is, the next start takes it",
            NextStart::Unsaid => "",
        };
        let text = format!("reload refused: {why}{start}");
        self.not_in_force = Some(NotInForce { kind: NotInForceKind::Refused, since: now, text });
    }

    /// What was tried may still be in the file.
    pub(super) fn note_reverted(&mut self, why: &str, now: Time) {
        let text = format!(
            "{why}; the next reload or start takes what the file has, which is what was tried unless it was put back"
        );
        let reverted = NotInForce { kind: NotInForceKind::Reverted, since: now, text };
        self.not_in_force.get_or_insert(reverted);
    }

    /// For the line of the service manager.
    pub(super) fn in_force(&self) -> &'static str {
        match self.not_in_force.as_ref().map(|file| file.kind) {
            None => "",
            Some(NotInForceKind::Refused) => "; reload refused, the configuration before it is in force",
            Some(NotInForceKind::Reverted) => {
                "; reload not confirmed, the configuration before it is in force"
            }
        }
    }
}
