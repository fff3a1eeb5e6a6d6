//! Programs and their arguments: notify scripts and MISC_CHECK.

use super::globals::Globals;
use super::model::VirtualServer;
use super::reading::Reading;
use super::tree::Statement;
use super::words::{Escapes, shown, split_quoted};
use crate::config::import::notes::At;

/// What is run. lvsd has no shell and no search path, as keepalived has no shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    /// Said beside the command; `None`: the global `script_user`.
    pub(super) user: Option<String>,
    pub(super) at: At,
    pub(super) keyword: String,
}

/// Names without a slash are looked up as keepalived looks them up.
pub(super) const ENV: &str = "/usr/bin/env";

/// `keyword "program argument …" [user [group]]`. `None`: there is nothing to run, which is said.
pub(super) fn command(reading: &mut Reading<'_>, statement: &Statement) -> Option<Command> {
    let words = split_quoted(&statement.text, Escapes::Kept);
    let mut words = words.unwrap_or_default().into_iter().skip(1);
    let argv = words.next().and_then(|command| split_quoted(&command, Escapes::Read)).unwrap_or_default();
    let (user, group, stray) = (words.next(), words.next(), words.next());
    let (at, keyword) = (statement.at, statement.keyword().to_owned());
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
    if let Some(stray) = stray {
        lose(format!("{} and what is behind it: keepalived does not look at it", shown(&stray)));
    }
    if program.starts_with('/') {
        return Some(Command { argv, user, at, keyword });
    }
    let why = "it has no full path: /usr/bin/env looks it up when it runs; better write the path";
    reading.notes.remark(statement.at, statement.keyword(), why);
    let argv = [ENV.to_owned()].into_iter().chain(argv).collect();
    Some(Command { argv, user, at, keyword })
}

/// As whom all scripts of notifications run: what all of them say, else what `global_defs` says.
pub(super) fn common_user(globals: &Globals, servers: &[VirtualServer]) -> Option<String> {
    let of_virtual_servers = servers.iter().flat_map(|vs| [&vs.quorum_up, &vs.quorum_down]);
    let of_servers =
        servers.iter().flat_map(|vs| &vs.servers).flat_map(|rs| [&rs.notify_up, &rs.notify_down]);
    let commands = globals.scripts.iter().chain(of_virtual_servers.chain(of_servers).flatten());
    let mut users = commands.map(|command| command.user.as_ref().or(globals.script_user.as_ref()));
    let first = users.next().flatten();
    let all_alike = users.all(|user| user == first);
    first.filter(|user| all_alike && is_user(user)).or(globals.script_user.as_ref()).cloned()
}

/// One that would run as somebody else.
pub(super) fn other_user(
    reading: &mut Reading<'_>,
    lost: &mut Vec<String>,
    common: Option<&str>,
    command: &Command,
) {
    if let Some(user) = command.user.as_deref().filter(|user| Some(*user) != common) {
        let why = format!(
            "the user {}: all scripts of notifications run as daemon.notify.script_user",
            shown(user)
        );
        reading.lose(lost, command.at, &command.keyword, why);
    }
}

/// What lvsd takes for a user's name.
pub(super) fn is_user(name: &str) -> bool {
    let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, ':' | '/');
    !name.is_empty() && name.len() <= 256 && name.chars().all(plain)
}
