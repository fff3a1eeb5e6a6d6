//! What an import found, in the shape of lvsd.toml: virtual servers, real servers, checks, daemon keys
//! and the comments that go with them. Knows nothing of the format it came from, nor of TOML's syntax.

/// A value as TOML has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Integer(i64),
    Boolean(bool),
    List(Vec<Value>),
    /// Written inline, or as a section of its own below `[daemon]`.
    Table(Table),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Comment(String),
    Pair(&'static str, Value),
}

/// Keys in the order in which they were set, with comments between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    items: Vec<Item>,
}

/// One lvsd.toml. It is written by [`super::write::to_toml`].
#[derive(Clone, Debug, Default)]
pub(super) struct Document {
    /// Comments at the top of the file.
    pub(super) heading: Vec<String>,
    /// `[daemon]`; tables in it become sections, as `[daemon.sync]`.
    pub(super) daemon: Table,
    /// `[defaults]`.
    pub(super) defaults: Table,
    pub(super) virtual_servers: Vec<VirtualServer>,
    /// Comments at the end of the file.
    pub(super) closing: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct VirtualServer {
    /// Comments above its header.
    pub(super) above: Vec<String>,
    pub(super) keys: Table,
    /// Options of checks that its real servers inherit: `delay_loop`, `alpha` and the like.
    pub(super) common: Table,
    pub(super) real_servers: Vec<RealServer>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RealServer {
    pub(super) above: Vec<String>,
    pub(super) keys: Table,
    /// Options of its checks, where they are not the virtual server's.
    pub(super) common: Table,
    /// Empty: it is always alive, and `check = []` says so.
    pub(super) checks: Vec<Check>,
}

/// One check, complete: the writer leaves out what it inherits anyhow, and gives checks that are used
/// more than once a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// What it would be called as `[check.NAME]`; made unique by the writer.
    pub(super) name: String,
    /// Written above it.
    pub(super) comments: Vec<String>,
    pub(super) common: Table,
    pub(super) kind: &'static str,
    pub(super) options: Table,
}

impl Table {
    /// Later values of the same key take the place of earlier ones.
    pub(super) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        let old = self.items.iter_mut().find_map(|item| match item {
            Item::Pair(known, old) if *known == key => Some(old),
            Item::Pair(..) | Item::Comment(_) => None,
        });
        match old {
            Some(old) => *old = value,
            None => self.items.push(Item::Pair(key, value)),
        }
    }

    pub(super) fn set_if<V: Into<Value>>(&mut self, key: &'static str, value: Option<V>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// All of `other`, behind what is there.
    pub(super) fn extend(&mut self, other: &Self) {
        for item in other.items() {
            match item {
                Item::Comment(text) => self.comment(text.as_str()),
                Item::Pair(key, value) => self.set(key, value.clone()),
            }
        }
    }

    pub(super) fn comment(&mut self, text: impl Into<String>) {
        self.items.push(Item::Comment(text.into()));
    }

    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.pairs().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.items.iter().filter_map(|item| match item {
            Item::Pair(key, value) => Some((*key, value)),
            Item::Comment(_) => None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Integer(i64::from(number))
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl From<Table> for Value {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl<V: Into<Value>> From<Vec<V>> for Value {
    fn from(list: Vec<V>) -> Self {
        Self::List(list.into_iter().map(Into::into).collect())
    }
}

/// As lvsd.toml writes it, exactly: `"500ms"`, `"6s"`, `"1m30s"`.
impl From<std::time::Duration> for Value {
    fn from(duration: std::time::Duration) -> Self {
        let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
        let text = match nanos {
            0 if seconds > 0 && seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
            0 if seconds > 0 && seconds % 60 == 0 => format!("{}m", seconds / 60),
            0 => format!("{seconds}s"),
            _ if seconds == 0 && nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
            _ => format!("{seconds}.{}s", format!("{nanos:09}").trim_end_matches('0')),
        };
        Self::Text(text)
    }
}
