//! What of a state file is not understood.

/// Said one by one; of a file that somebody else wrote there may be thousands.
const SAID: usize = 10;

/// Entries that are done without.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct LeftOut {
    said: Vec<String>,
    unsaid: usize,
}

impl LeftOut {
    /// Each in its words, and a last line for those beyond the first ones.
    pub(in crate::runtime) fn lines(&self) -> impl Iterator<Item = String> {
        let unsaid = (self.unsaid > 0).then(|| format!("{} more entries", self.unsaid));
        self.said.iter().cloned().chain(unsaid)
    }

    pub(super) fn count(&self) -> usize {
        self.said.len() + self.unsaid
    }

    pub(super) fn note(&mut self, reason: String) {
        if self.said.len() < SAID {
            self.said.push(reason);
        } else {
            self.unsaid += 1;
        }
    }

    /// Those that can be read.
    pub(super) fn all<T, U, C: FromIterator<U>>(
        &mut self,
        entries: impl IntoIterator<Item = T>,
        read: impl Fn(T) -> Result<U, String>,
    ) -> C {
        entries.into_iter().filter_map(|entry| read(entry).map_err(|reason| self.note(reason)).ok()).collect()
    }
}
