//! Who may talk to the daemon.

/// The control socket's group and permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlAccess {
    /// A name or a number; unset: the daemon's own.
    pub group: Option<String>,
    /// Permission bits, 0 to 0o777. To write is to talk.
    pub mode: u32,
}

impl Default for ControlAccess {
    fn default() -> Self {
        Self { group: None, mode: 0o660 }
    }
}
