//! `config/lvsd.toml` as data: the one place where each key has its sentence. lvsd.toml(5) and the schema
//! are made from it. Knows how that file is written, and no other.

/// The file itself, with all its comments.
pub const TEXT: &str = include_str!("../../config/lvsd.toml");

/// A table of the file and what is said in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// `[daemon]`; empty before the first.
    pub title: String,
    /// Above the title, and between keys without belonging to one.
    pub remarks: Vec<Vec<String>>,
    pub entries: Vec<Entry>,
}

/// Keys that share a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub keys: Vec<Line>,
    pub says: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    /// `drift = "repair"`
    pub text: String,
    pub role: Role,
}

/// What the value beside a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Default,
    Example,
}

/// The sections of a file that is written as `config/lvsd.toml` is.
pub fn sections(text: &str) -> Vec<Section> {
    let mut reader = Reader { sections: vec![Section::default()], ..Reader::default() };
    text.lines().for_each(|line| reader.take(line));
    reader.set_aside();
    reader.sections
}

/// What the file says of a key, in the first of these sections that has it. A title that ends in `.`
/// stands for all that begin so.
pub fn sentence(sections: &[Section], titles: &[&str], key: &str) -> Option<String> {
    let is_meant = |section: &Section, title: &str| {
        if title.ends_with('.') { section.title.starts_with(title) } else { section.title == title }
    };
    let entries = titles.iter().flat_map(|title| {
        let meant = sections.iter().filter(move |section| is_meant(section, title));
        meant.flat_map(|section| &section.entries)
    });
    let mut found = entries.filter(|e| !e.says.is_empty() && e.keys.iter().any(|line| line.name == key));
    found.next().map(|entry| entry.says.clone())
}

#[derive(Default)]
struct Reader {
    sections: Vec<Section>,
    /// Lines of the comment that is being read.
    comment: Vec<String>,
    /// The last line was a key: another one belongs to the same comment.
    in_keys: bool,
}

impl Reader {
    fn take(&mut self, line: &str) {
        let (code, role) = match (line.strip_prefix("#: "), line.strip_prefix("# ")) {
            (Some(example), _) => (example, Role::Example),
            (None, Some(comment)) => (comment, Role::Default),
            (None, None) => (line, Role::Example),
        };
        if line.trim_start_matches('#').is_empty() {
            // An empty comment line parts paragraphs, too.
            self.set_aside();
        } else if code.starts_with('[') && (role == Role::Example) {
            let remarks =
                if self.comment.is_empty() { vec![] } else { vec![std::mem::take(&mut self.comment)] };
            self.sections.push(Section { title: code.to_owned(), remarks, entries: vec![] });
            self.in_keys = false;
        } else if let Some(name) = key(code) {
            self.add(Line { name: name.to_owned(), text: code.to_owned(), role });
        } else {
            self.in_keys = false;
            self.comment.push(line.trim_start_matches('#').strip_prefix(' ').unwrap_or(line).to_owned());
        }
    }

    fn add(&mut self, line: Line) {
        let Some(section) = self.sections.last_mut() else { return };
        match section.entries.last_mut().filter(|_| self.in_keys && self.comment.is_empty()) {
            Some(entry) => entry.keys.push(line),
            None => {
                let says = std::mem::take(&mut self.comment).join(" ");
                section.entries.push(Entry { keys: vec![line], says });
            }
        }
        self.in_keys = true;
    }

    /// A comment that no key follows.
    fn set_aside(&mut self) {
        self.in_keys = false;
        let comment = std::mem::take(&mut self.comment);
        if let Some(section) = self.sections.last_mut().filter(|_| !comment.is_empty()) {
            section.remarks.push(comment);
        }
    }
}

/// The key of `key = value`.
fn key(code: &str) -> Option<&str> {
    let (key, _) = code.split_once(" = ")?;
    (!key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_belong_to_the_keys_below_them() {
        let text = "# Head.\n#\n#   lvsd check\n\n# Of a.\n# Two lines.\n# a = 1\n#: b = 2\n# Of c.\nc = 3\n# Loose.\n\n\
                    # Of the table.\n#: [x.y]\n# d: d = 4 and more\nd = 4\n";
        let found = sections(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].remarks, [vec!["Head."], vec!["  lvsd check"], vec!["Loose."]]);
        let says: Vec<(&str, usize)> =
            found[0].entries.iter().map(|entry| (entry.says.as_str(), entry.keys.len())).collect();
        assert_eq!(says, [("Of a. Two lines.", 2), ("Of c.", 1)]);
        let roles: Vec<Role> = found[0].entries[0].keys.iter().map(|line| line.role).collect();
        assert_eq!(roles, [Role::Default, Role::Example]);
        assert_eq!(
            (found[1].title.as_str(), &found[1].remarks),
            ("[x.y]", &vec![vec!["Of the table.".to_owned()]])
        );
        assert_eq!(sentence(&found, &["[z]", "[x."], "d").as_deref(), Some("d: d = 4 and more"));
        assert_eq!(sentence(&found, &["[x.y]"], "a"), None);
    }

    #[test]
    fn the_documented_file_has_what_the_manual_needs() {
        let found = sections(TEXT);
        let titles: Vec<&str> = found.iter().map(|section| section.title.as_str()).collect();
        for title in ["", "[daemon]", "[daemon.sync]", "[defaults]", "[check.web.http]", "[[virtual_server]]"]
        {
            assert!(titles.contains(&title), "{title} in {titles:?}");
        }
        let of_drift = sentence(&found, &["[daemon]"], "drift").unwrap_or_default();
        assert!(of_drift.starts_with("What to do when"), "{of_drift}");
    }
}
