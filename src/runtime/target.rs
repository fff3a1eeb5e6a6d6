//! What a run touches: the kernel's table and everybody who is to be told, or nothing but its checks.

use crate::notify::Audience;

/// Where the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Kernel,
    /// A table in memory that starts empty; needs no privileges.
    Memory(Audience),
}

impl Target {
    /// Who hears of events.
    pub(super) const fn audience(self) -> Audience {
        match self {
            Self::Kernel => Audience::Configured,
            Self::Memory(audience) => audience,
        }
    }
}
