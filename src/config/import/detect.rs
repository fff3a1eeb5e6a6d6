//! Which format a text is in.

use super::ImportError;
use super::keepalived::INCLUDES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Keepalived,
    Ldirectord,
}

/// Words that begin a block or an `include` of keepalived.conf, or a line that only it has.
const KEEPALIVED: [&str; 16] = [
    "virtual_server",
    "virtual_server_group",
    "real_server",
    "global_defs",
    "vrrp_instance",
    "vrrp_sync_group",
    "vrrp_script",
    "vrrp_track_process",
    "vrrp_track_file",
    "track_file",
    "static_routes",
    "static_ipaddress",
    "static_rules",
    "bfd_instance",
    "net_namespace",
    "SSL",
];

/// Keys of ldirectord.cf that stand before a `=`.
const LDIRECTORD: [&str; 12] = [
    "virtual",
    "virtual6",
    "real",
    "real6",
    "checktimeout",
    "checkinterval",
    "checkcount",
    "negotiatetimeout",
    "autoreload",
    "quiescent",
    "fallback",
    "logfile",
];

/// The format that more lines speak of.
pub(super) fn format(text: &str) -> Option<Format> {
    let (mut keepalived, mut ldirectord) = (0_usize, 0_usize);
    for line in text.lines() {
        let line = line.trim_start_matches('\u{feff}').trim();
        let word = line.split(|c: char| c.is_whitespace() || "={".contains(c)).next().unwrap_or_default();
        let rest = line.get(word.len()..).unwrap_or_default().trim_start();
        if rest.starts_with('=') {
            ldirectord += usize::from(LDIRECTORD.contains(&word));
        } else {
            let include = INCLUDES.contains(&word) && !rest.is_empty();
            keepalived += usize::from(KEEPALIVED.contains(&word) || include);
        }
    }
    match keepalived.cmp(&ldirectord) {
        std::cmp::Ordering::Greater => Some(Format::Keepalived),
        std::cmp::Ordering::Less => Some(Format::Ldirectord),
        std::cmp::Ordering::Equal => None,
    }
}

pub(super) fn refusal(text: &str, shown: &str) -> ImportError {
    let path = shown.to_owned();
    let is_ours = |line: &str| matches!(line.trim(), "[[virtual_server]]" | "[daemon]" | "[defaults]");
    match text.lines().any(is_ours) {
        true => ImportError::Toml { path },
        false => ImportError::Unknown { path },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_what_the_lines_say() {
        let keepalived = "! a director\nglobal_defs {\n router_id LB\n}\nvirtual_server 192.0.2.1 80 {\n}\n";
        assert_eq!(format(keepalived), Some(Format::Keepalived));
        assert_eq!(format("include /etc/keepalived/*.conf\n"), Some(Format::Keepalived));
        assert_eq!(format("virtual_server 192.0.2.1 80\n{\n}\n"), Some(Format::Keepalived));
        let ldirectord =
            "# a director\nchecktimeout=3\nvirtual = 192.0.2.1:80\n\treal=198.51.100.1:80 gate\n";
        assert_eq!(format(ldirectord), Some(Format::Ldirectord));
        for neither in ["", "\n\n", "hello\n", "[daemon]\nname = \"x\"\n", "real estate\n"] {
            assert_eq!(format(neither), None, "{neither}");
        }
    }

    #[test]
    fn toml_is_told_apart() {
        let toml = "[[virtual_server]]\naddress = \"192.0.2.1:80\"\n";
        assert!(matches!(refusal(toml, "f"), ImportError::Toml { .. }));
        assert!(matches!(refusal("x", "f"), ImportError::Unknown { .. }));
    }
}
