//! Lines on their way to the FIFO's reader. Bounded; never out of order; a reader that missed something
//! is told afterwards how everything stands.

use std::collections::{BTreeSet, VecDeque};

use crate::notify::lines::State;

/// Lines that wait, beside those in the pipe itself. The oldest gives way. Enough for every server of a
/// large director to go down in one turn of the supervisor, which no reader can follow; a megabyte.
pub(super) const PENDING: usize = 16_384;

#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Whole lines, one or many in each.
    texts: VecDeque<String>,
    reader: Reader,
    /// Lines gave way since the reader last knew everything.
    missed: u64,
    /// What those lines were about: the state says nothing of what is no longer there.
    lost: BTreeSet<String>,
    /// Since the start.
    dropped: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reader {
    #[default]
    None,
    /// Wants to be told how everything stands; no line that comes before that says any more.
    New,
    /// Knows everything but what is on its way.
    Following,
}

/// What a line made of the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// Nobody reads, or the answer that is awaited has it.
    Needless,
    Queued,
    /// It is the first that made another one give way.
    Overflowed,
}

impl Backlog {
    pub(super) fn push(&mut self, line: String) -> Pushed {
        if self.reader != Reader::Following {
            return Pushed::Needless;
        }
        self.texts.push_back(line);
        if self.texts.len() <= PENDING {
            return Pushed::Queued;
        }
        let lost = self.texts.pop_front().unwrap_or_default();
        if let Some((object, _)) = split(&lost).filter(|_| self.lost.len() < PENDING) {
            self.lost.insert(object.to_owned());
        }
        self.missed += 1;
        self.dropped += 1;
        if self.missed == 1 { Pushed::Overflowed } else { Pushed::Queued }
    }

    /// Somebody reads and has to be told how everything stands.
    pub(super) fn begin(&mut self) {
        *self = Self { dropped: self.dropped, reader: Reader::New, ..Self::default() };
    }

    /// Nobody reads any more.
    pub(super) fn end(&mut self) {
        *self = Self { dropped: self.dropped, ..Self::default() };
    }

    pub(super) fn wants_state(&self) -> bool {
        self.reader == Reader::New
    }

    pub(super) fn is_followed(&self) -> bool {
        self.reader == Reader::Following
    }

    /// How everything stands, for a reader that wants to know.
    pub(super) fn show(&mut self, mut state: String) {
        if !self.wants_state() {
            return;
        }
        let there: BTreeSet<&str> = state.lines().filter_map(|line| Some(split(line)?.0)).collect();
        let gone: String = std::mem::take(&mut self.lost)
            .into_iter()
            .filter(|object| !there.contains(object.as_str()))
            .map(|object| format!("{object} {}\n", State::Down.word()))
            .collect();
        state.push_str(&gone);
        self.texts.push_back(state);
        self.reader = Reader::Following;
    }

    pub(super) fn pop(&mut self) -> Option<String> {
        self.texts.pop_front()
    }

    /// To be asked when all has been written: how many lines are missing, if any are. The reader then
    /// has to be told how everything stands.
    pub(super) fn take_missed(&mut self) -> Option<u64> {
        if self.missed == 0 || !self.texts.is_empty() {
            return None;
        }
        self.reader = Reader::New;
        Some(std::mem::take(&mut self.missed))
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// What a line is about, and its state; nothing for the daemon itself, or for how everything stands.
fn split(line: &str) -> Option<(&str, &str)> {
    let is_about = ["RS ", "VS "].iter().any(|kind| line.starts_with(kind));
    line.trim_end().rsplit_once(' ').filter(|(object, _)| is_about && !object.contains('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(backlog: &mut Backlog) -> Vec<String> {
        std::iter::from_fn(|| backlog.pop()).collect()
    }

    #[test]
    fn a_reader_is_told_first_how_everything_stands() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.push("nobody reads".into()), Pushed::Needless);
        backlog.show("nobody asked".into());
        backlog.begin();
        assert!(backlog.wants_state());
        assert_eq!(backlog.push("part of the state".into()), Pushed::Needless);
        backlog.show("state".into());
        assert!(!backlog.wants_state() && backlog.is_followed());
        assert_eq!(backlog.push("line".into()), Pushed::Queued);
        assert_eq!(drain(&mut backlog), ["state", "line"]);
        assert_eq!(backlog.take_missed(), None);
    }

    #[test]
    fn the_next_reader_gets_nothing_of_the_last_ones() {
        let mut backlog = Backlog::default();
        backlog.begin();
        backlog.show("state".into());
        backlog.push("line".into());
        backlog.end();
        assert_eq!(drain(&mut backlog), Vec::<String>::new());
        assert_eq!(backlog.push("nobody reads".into()), Pushed::Needless);
        backlog.begin();
        backlog.show("new state".into());
        assert_eq!(drain(&mut backlog), ["new state"]);
    }

    #[test]
    fn the_oldest_gives_way_and_the_state_follows_the_rest() {
        let mut backlog = Backlog::default();
        backlog.begin();
        backlog.show("state".into());
        let pushed: Vec<Pushed> = (0..PENDING + 4).map(|n| backlog.push(n.to_string())).collect();
        let overflows = pushed.iter().filter(|pushed| **pushed == Pushed::Overflowed).count();
        assert_eq!((overflows, backlog.dropped()), (1, 5));
        assert_eq!(backlog.take_missed(), None, "not before the rest is written");
        let rest = drain(&mut backlog);
        assert_eq!((rest.len(), rest.first().map(String::as_str)), (PENDING, Some("4")));
        assert_eq!(backlog.take_missed(), Some(5));
        assert!(backlog.wants_state());
        backlog.show("fresh state".into());
        assert_eq!(drain(&mut backlog), ["fresh state"]);
        assert_eq!((backlog.take_missed(), backlog.dropped()), (None, 5));
    }

    #[test]
    fn what_has_gone_unheard_is_said_to_be_down() {
        let mut backlog = Backlog::default();
        backlog.begin();
        backlog.show("RS a v UP\nRS b v UP\nVS v UP\n".into());
        drain(&mut backlog);
        for line in ["RS a v DOWN\n", "RS b v DOWN\n", "VS v DOWN\n", "DAEMON d UP\n"] {
            backlog.push(line.into());
        }
        (0..PENDING).for_each(|n| assert_ne!(backlog.push(n.to_string()), Pushed::Needless));
        drain(&mut backlog);
        assert_eq!(backlog.take_missed(), Some(4));
        backlog.show("RS b v UP\nVS v UP\n".into());
        assert_eq!(drain(&mut backlog), ["RS b v UP\nVS v UP\nRS a v DOWN\n"]);
    }
}
