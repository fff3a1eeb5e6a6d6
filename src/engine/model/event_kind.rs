//! The kinds of events that others can be told of.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    RealServerUp,
    RealServerDown,
    QuorumGained,
    QuorumLost,
    /// A rule begins to keep failed servers in the table, or keeps none any more.
    GuardBegan,
    GuardEnded,
    /// The first table has been written.
    Started,
    /// The daemon is about to end.
    Stopping,
    /// The director itself seems to be sick, and verdicts stay as they are.
    VerdictsFrozen,
    VerdictsThawed,
}

impl EventKind {
    pub const ALL: [Self; 10] = [
        Self::RealServerUp,
        Self::RealServerDown,
        Self::QuorumGained,
        Self::QuorumLost,
        Self::GuardBegan,
        Self::GuardEnded,
        Self::Started,
        Self::Stopping,
        Self::VerdictsFrozen,
        Self::VerdictsThawed,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::RealServerUp => "real_server_up",
            Self::RealServerDown => "real_server_down",
            Self::QuorumGained => "quorum_gained",
            Self::QuorumLost => "quorum_lost",
            Self::GuardBegan => "guard_began",
            Self::GuardEnded => "guard_ended",
            Self::Started => "started",
            Self::Stopping => "stopping",
            Self::VerdictsFrozen => "verdicts_frozen",
            Self::VerdictsThawed => "verdicts_thawed",
        }
    }
}
