//! Words for messages: quoting what a file says, and guessing what it meant.

/// A value of a file inside a message: quoted, without control characters, not too long.
pub(super) fn quote(text: &str) -> String {
    const MAX: usize = 60;
    let mut cut = text.chars();
    let head: String = cut.by_ref().take(MAX).collect();
    let more = if cut.next().is_some() { "…" } else { "" };
    format!("\"{}{more}\"", head.escape_debug())
}

/// The candidate that `word` is most likely a misspelling of.
pub(super) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names in a configuration are short; a long word is no typing mistake of one.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `a, b or c`
pub(super) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

/// What is wrong with a text, before it is known where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) message: String,
    pub(super) remedy: Option<String>,
}

impl Wrong {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: None }
    }

    #[must_use]
    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
