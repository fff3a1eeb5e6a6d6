//! Programs and their arguments: notify scripts and MISC_CHECK.

use super::reading::Reading;
use super::tree::Statement;
use super::words::{Escapes, shown, split_quoted};

/// What is run. lvsd has no shell and no search path, as keepalived has no shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    /// Said beside the command; `None`: the global `script_user`.
    pub(super) user: Option<String>,
}

/// Names without a slash are looked up as keepalived looks them up.
pub(super) const ENV: &str = "/usr/bin/env";

/// `keyword "program argument …" [user [group]]`. `None`: there is nothing to run, which is said.
pub(super) fn command(reading: &mut Reading<'_>, statement: &Statement) -> Option<Command> {
    let words = split_quoted(&statement.text, Escapes::Kept);
    let mut words = words.unwrap_or_default().into_iter().skip(1);
    let argv = words.next().and_then(|command| split_quoted(&command, Escapes::Read)).unwrap_or_default();
    let (user, group) = (words.next(), words.next());
    let mut lose = |why: String| {
        reading.notes.not_carried(statement.at, statement.keyword(), why);
    };
    let Some(program) = argv.first() else {
        lose(format!("{} names no program", shown(&statement.text)));
        return None;
    };
    if argv.iter().any(|word| word.contains('\0')) {
        lose("no program can be given a NUL character".to_owned());
        return None;
    }
    if let Some(group) = group {
        lose(format!("the group {}: lvsd runs programs with all groups of their user", shown(&group)));
    }
    if program.starts_with('/') {
        return Some(Command { argv, user });
    }
    let why = "it has no full path: /usr/bin/env looks it up when it runs; better write the path";
    reading.notes.remark(statement.at, statement.keyword(), why);
    let argv = [ENV.to_owned()].into_iter().chain(argv).collect();
    Some(Command { argv, user })
}

/// All scripts of notifications run as one user.
pub(super) fn other_user(
    reading: &mut Reading<'_>,
    lost: &mut Vec<String>,
    statement: &Statement,
    command: &Command,
) {
    if let Some(user) = &command.user {
        let why = format!(
            "the user {}: all scripts of notifications run as daemon.notify.script_user",
            shown(user)
        );
        reading.lose(lost, statement.at, statement.keyword(), why);
    }
}

/// What lvsd takes for a user's name.
pub(super) fn is_user(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, ':' | '/');
    !name.is_empty() && name.len() <= 256 && name.chars().all(plain)
}
