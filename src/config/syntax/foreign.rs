//! Files that are no TOML at all, but another program's configuration.

use crate::config::diagnostics::{Finding, Place};

/// Blocks of keepalived.conf; with an opening brace at the end of the line they are nothing else.
const BLOCKS: [&str; 6] = [
    "virtual_server",
    "virtual_server_group",
    "real_server",
    "global_defs",
    "vrrp_instance",
    "vrrp_sync_group",
];

/// One finding in place of one for each line.
pub(super) fn keepalived(text: &str, file: u32) -> Option<Finding> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let word = trimmed.split_whitespace().next().unwrap_or_default();
        if BLOCKS.contains(&word) && trimmed.ends_with('{') && !trimmed.contains('=') {
            let start = offset + (line.len() - line.trim_start().len());
            let bound = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            let place = Place { file, start: bound(start), end: bound(start + trimmed.len()) };
            let finding = Finding::error(place, "this looks like keepalived.conf; lvsd reads TOML");
            return Some(finding.remedy(
                "translate it with `lvsd import FILE >lvsd.toml`, and read what that says on stderr",
            ));
        }
        offset += line.len();
    }
    None
}
