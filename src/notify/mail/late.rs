//! Recipients whom a mail server has put off while it took the mail for others: they get the same mail later.
//!
//! Beside the queue: the others have theirs. One attempt that comes to nothing ends a round, so that what happens next
//! waits for one time-out at the most; the mail that it was for comes last in the next round.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::RETRY;
use super::letter::Letter;
use super::session::{NotTaken, Session, When};
use crate::engine::model::Mail;
use crate::notify::backoff::Backoff;
use crate::notify::courier::{Deliver, Outbox};

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
    /// That it tells of.
    events: usize,
    until: Instant,
}

impl Default for Late {
    fn default() -> Self {
        Self { owed: VecDeque::new(), backoff: Backoff::new(RETRY.0, RETRY.1), due: None }
    }
}

impl Late {
    /// A mail about so many `events` was not taken for all.
    pub(super) fn owe(
        &mut self,
        (letter, events): (Letter, usize),
        not_taken: Vec<NotTaken>,
        outbox: &Outbox<Mail>,
    ) {
        let label = &outbox.settings().label();
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
            self.owed.push_back(Owed { letter, to, events, until: Instant::now() + PATIENCE });
        }
        while self.owed.len() > MAILS
            && let Some(oldest) = self.owed.pop_front()
        {
            oldest.give_up(outbox);
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

    pub(super) async fn retry(&mut self, session: &mut Session, outbox: &Outbox<Mail>) {
        let (now, mail) = (Instant::now(), outbox.settings());
        let label = &mail.label();
        let mut failed = None;
        for mut owed in std::mem::take(&mut self.owed) {
            // A reload may have taken away some.
            owed.to.retain(|to| mail.to.contains(to));
            if owed.to.is_empty() {
                continue;
            }
            if failed.is_some() {
                self.keep(owed, now, outbox);
                continue;
            }
            match session.deliver(&mail, &owed.letter, &owed.to).await {
                Ok(sent) => {
                    let later = |one: NotTaken| match one.when {
                        When::Later => Some(one.to),
                        When::Never => {
                            tracing::warn!("{label}: not for all: {}", one.why);
                            None
                        }
                    };
                    owed.to = sent.not_taken.into_iter().filter_map(later).collect();
                    self.keep(owed, now, outbox);
                }
                Err(why) => {
                    tracing::debug!("{label}: {why}");
                    failed = Some(owed);
                }
            }
        }
        if let Some(owed) = failed {
            self.keep(owed, now, outbox);
        }
        self.due = (!self.owed.is_empty()).then(|| Instant::now() + self.backoff.next());
        if self.due.is_none() {
            self.backoff.reset();
        }
    }

    /// Nobody is tried for any more.
    pub(super) fn end(self, outbox: &Outbox<Mail>) {
        self.owed.into_iter().for_each(|owed| owed.give_up(outbox));
    }

    fn keep(&mut self, owed: Owed, now: Instant, outbox: &Outbox<Mail>) {
        match owed.to.is_empty() {
            true => {}
            false if now >= owed.until => owed.give_up(outbox),
            false => self.owed.push_back(owed),
        }
    }
}

impl Owed {
    fn give_up(self, outbox: &Outbox<Mail>) {
        let label = outbox.settings().label();
        tracing::warn!("{label}: not for all: given up for {}", self.to.join(", "));
        outbox.lost(self.events);
    }
}
