//! Recipients whom a mail server has put off while it took the mail for others: they get the same mail later.
//!
//! Beside the queue: neither the others nor what happens next waits for them.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::RETRY;
use super::letter::Letter;
use super::session::{NotTaken, Session, When};
use crate::engine::model::Mail;
use crate::notify::backoff::Backoff;

/// Mails that somebody is still to get. The oldest give way: the newest tell the state that holds.
const MAILS: usize = 16;
/// A mail about changes that old helps nobody.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

#[derive(Debug)]
pub(super) struct Late {
    owed: VecDeque<Owed>,
    backoff: Backoff,
    /// When they are tried next.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Owed {
    letter: Letter,
    to: Vec<String>,
    until: Instant,
}

impl Default for Late {
    fn default() -> Self {
        Self { owed: VecDeque::new(), backoff: Backoff::new(RETRY.0, RETRY.1), due: None }
    }
}

impl Late {
    /// A mail was not taken for all.
    pub(super) fn owe(&mut self, letter: Letter, not_taken: Vec<NotTaken>, label: &str) {
        let mut to = Vec::new();
        for NotTaken { to: recipient, why, when } in not_taken {
            match when {
                When::Never => tracing::warn!("{label}: not for all: {why}"),
                When::Later => {
                    tracing::warn!("{label}: not for all yet: {why}; trying again");
                    to.push(recipient);
                }
            }
        }
        if !to.is_empty() {
            self.owed.push_back(Owed { letter, to, until: Instant::now() + PATIENCE });
        }
        while self.owed.len() > MAILS
            && let Some(oldest) = self.owed.pop_front()
        {
            oldest.give_up(label);
        }
        if self.due.is_none() && !self.owed.is_empty() {
            self.due = Some(Instant::now() + self.backoff.next());
        }
    }

    /// Waits until it is time to [`Late::retry`], for ever if nothing is owed. Can be dropped and called again.
    pub(super) async fn due(&self) {
        match self.due {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn retry(&mut self, session: &mut Session, mail: &Mail, label: &str) {
        let now = Instant::now();
        let mut unheard = None;
        for mut owed in std::mem::take(&mut self.owed) {
            // A reload may have taken away some.
            owed.to.retain(|to| mail.to.contains(to));
            if owed.to.is_empty() {
                continue;
            }
            // A server that is gone, or hangs, is not asked for each: others wait meanwhile.
            let result = match unheard.take() {
                None => session.deliver(mail, &owed.letter, &owed.to).await,
                Some(why) => Err(why),
            };
            match result {
                Ok(sent) => {
                    let later = |one: NotTaken| match one.when {
                        When::Later => Some(one.to),
                        When::Never => {
                            tracing::warn!("{label}: not for all: {}", one.why);
                            None
                        }
                    };
                    owed.to = sent.not_taken.into_iter().filter_map(later).collect();
                }
                Err(why) => {
                    tracing::debug!("{label}: {why}");
                    unheard = Some(why);
                }
            }
            match owed.to.is_empty() {
                true => {}
                false if now >= owed.until => owed.give_up(label),
                false => self.owed.push_back(owed),
            }
        }
        self.due = (!self.owed.is_empty()).then(|| Instant::now() + self.backoff.next());
        if self.due.is_none() {
            self.backoff.reset();
        }
    }
}

impl Owed {
    fn give_up(self, label: &str) {
        tracing::warn!("{label}: not for all: given up for {}", self.to.join(", "));
    }
}
