//! One reply, judged while it comes in: stops as soon as the verdict cannot change.

use super::body::{Body, Progress, Wanted};
use super::redirect;
use super::reply::{Asked, Event, Malformed, Reply};
use crate::checks::connection::End;
use crate::checks::deadline::Deadline;
use crate::checks::fault::{EXCERPT, Trouble, quoted};
use crate::engine::model::{Phase, StatusSet};

/// What a reply came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All that was wanted.
    Passed { status: u16 },
    /// The way on, if redirects are followed.
    Redirect { status: u16, location: Vec<u8> },
}

/// What to do about a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirects {
    Follow,
    /// They are replies like any other.
    Judge,
}

pub(super) struct Answer<'p> {
    reply: Reply,
    status: &'p StatusSet,
    wanted: Option<&'p Wanted>,
    redirects: Redirects,
    /// From the head on, if the body matters.
    body: Option<Body<'p>>,
    /// Bytes read and the first of them, until the head is complete.
    read: usize,
    opening: Vec<u8>,
}

impl<'p> Answer<'p> {
    pub(super) fn new(
        asked: Asked,
        status: &'p StatusSet,
        wanted: Option<&'p Wanted>,
        redirects: Redirects,
    ) -> Self {
        let reply = Reply::new(asked);
        Self { reply, status, wanted, redirects, body: None, read: 0, opening: Vec::new() }
    }

    /// `None` while more is needed.
    pub(super) fn take(&mut self, mut input: &[u8]) -> Result<Option<Found>, Trouble> {
        let whole = input;
        loop {
            match self.reply.advance(&mut input) {
                Ok(Event::More) => {
                    self.remember(whole);
                    return Ok(None);
                }
                Ok(Event::Head(head)) => {
                    if let (Redirects::Follow, true, Some(location)) =
                        (self.redirects, redirect::is_redirect(head.status), head.location)
                    {
                        return Ok(Some(Found::Redirect { status: head.status, location }));
                    }
                    self.judge(head.status)?;
                    match self.wanted {
                        None => return Ok(Some(Found::Passed { status: head.status })),
                        Some(wanted) => self.body = Some(Body::new(wanted)),
                    }
                }
                Ok(Event::Body(part)) => {
                    let Some(body) = &mut self.body else { continue };
                    match body.take(part) {
                        Ok(Progress::Undecided) => {}
                        Ok(Progress::Satisfied) => return Ok(Some(self.passed())),
                        Err(reason) => return Err(Trouble::failure(Phase::Body, reason)),
                    }
                }
                Ok(Event::End) => return self.complete().map(Some),
                Err(error) => {
                    self.remember(whole);
                    return Err(self.malformed(error));
                }
            }
        }
    }

    /// No more bytes come.
    pub(super) fn end(mut self, end: End, phase: Phase, deadline: &Deadline<'_>) -> Result<Found, Trouble> {
        if let Some(body) = &self.body {
            if matches!(end, End::Closed) {
                return match self.reply.finish() {
                    Ok(()) => self.complete(),
                    Err(error) => Err(self.malformed(error)),
                };
            }
            let so_far = format!("; {}", body.so_far());
            return Err(end.into_trouble(Phase::Body, "", deadline).with(&so_far));
        }
        // A status line that came whole counts, although the rest of the head did not come: some
        // servers answer before they have read the request, and what they close with is a reset.
        if let (End::Closed | End::Broken(_), Some(status)) = (&end, self.reply.status()) {
            self.judge(status)?;
            if self.wanted.is_none() {
                return Ok(Found::Passed { status });
            }
        }
        let trouble = end.into_trouble(phase, "connection closed without a whole reply", deadline);
        Err(trouble.with(&format!(" {}", self.so_far())))
    }

    fn judge(&self, status: u16) -> Result<(), Trouble> {
        if self.status.contains(status) {
            return Ok(());
        }
        Err(Trouble::failure(Phase::Status, format!("status {status}, wanted {}", self.status)))
    }

    fn passed(&self) -> Found {
        Found::Passed { status: self.reply.status().unwrap_or_default() }
    }

    fn complete(&mut self) -> Result<Found, Trouble> {
        match self.body.take().map(Body::finish) {
            None | Some(Ok(())) => Ok(self.passed()),
            Some(Err(reason)) => Err(Trouble::failure(Phase::Body, reason)),
        }
    }

    fn malformed(&self, error: Malformed) -> Trouble {
        let (phase, so_far) = match (error, &self.body) {
            (Malformed::StatusLine, _) => (Phase::Status, self.so_far()),
            (_, Some(body)) => (Phase::Body, format!("({})", body.so_far())),
            (_, None) => (Phase::Reply, self.so_far()),
        };
        Trouble::failure(phase, format!("{error} {so_far}"))
    }

    fn remember(&mut self, bytes: &[u8]) {
        if self.body.is_none() {
            self.read = self.read.saturating_add(bytes.len());
            let room = (EXCERPT + 1).saturating_sub(self.opening.len());
            self.opening.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
    }

    fn so_far(&self) -> String {
        match self.read {
            0 => "(read nothing)".to_owned(),
            read => format!("(read {read} bytes: {})", quoted(&self.opening)),
        }
    }
}
