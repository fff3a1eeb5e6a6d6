//! The exit codes of every command, in one place. They travel in replies too.

use serde::{Deserialize, Serialize};

/// sysexits.h where it has a word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum ExitCode {
    Done,
    Failed,
    /// EX_USAGE: the command line is wrong.
    Usage,
    /// EX_UNAVAILABLE: the daemon does not answer, or not yet.
    Unreachable,
    /// EX_NOPERM: not allowed to talk to it.
    NotAllowed,
    /// EX_CONFIG: the configuration has mistakes.
    Configuration,
}

impl ExitCode {
    const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::Usage, Self::Unreachable, Self::NotAllowed, Self::Configuration];

    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::NotAllowed => 77,
            Self::Configuration => 78,
        }
    }
}

impl From<ExitCode> for u8 {
    fn from(code: ExitCode) -> Self {
        code.number()
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

impl TryFrom<u8> for ExitCode {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        Self::ALL
            .into_iter()
            .find(|code| code.number() == number)
            .ok_or_else(|| format!("exit code {number} has no meaning here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_manual_and_come_back() {
        let numbers: Vec<u8> = ExitCode::ALL.into_iter().map(u8::from).collect();
        assert_eq!(numbers, [0, 1, 64, 69, 77, 78]);
        for code in ExitCode::ALL {
            assert_eq!(ExitCode::try_from(u8::from(code)), Ok(code));
        }
        assert!(ExitCode::try_from(2).is_err());
    }
}
