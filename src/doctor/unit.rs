//! What systemd's unit would give to the daemon: the few directives that the rules ask for. Does not
//! ask systemd, which may not be there.

use super::facts::{
    CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SETGID, CAP_SETUID,
};

/// A unit file and its drop-ins, as far as they matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) more_groups: Vec<String>,
    /// Bits; only those that the rules know.
    pub(super) ambient: u64,
    pub(super) bounding: Option<u64>,
    pub(super) descriptors: Option<u64>,
}

impl Unit {
    /// Texts in the order in which systemd reads them.
    pub(super) fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut unit = Self::default();
        for line in texts.into_iter().flat_map(str::lines) {
            if let Some((key, value)) = line.trim().split_once('=') {
                unit.take(key.trim(), value.trim());
            }
        }
        unit
    }

    fn take(&mut self, key: &str, value: &str) {
        let text = || (!value.is_empty()).then(|| value.to_owned());
        match key {
            "User" => self.user = text(),
            "Group" => self.group = text(),
            "SupplementaryGroups" if value.is_empty() => self.more_groups.clear(),
            "SupplementaryGroups" => self.more_groups.extend(value.split_whitespace().map(str::to_owned)),
            // Lists add up, and an empty one starts anew.
            "AmbientCapabilities" if value.is_empty() => self.ambient = 0,
            "AmbientCapabilities" => self.ambient |= capabilities(value),
            "CapabilityBoundingSet" if value.is_empty() => self.bounding = Some(0),
            "CapabilityBoundingSet" => {
                self.bounding = Some(self.bounding.unwrap_or(0) | capabilities(value));
            }
            // Soft, or soft and hard.
            "LimitNOFILE" => self.descriptors = value.split(':').next().and_then(|soft| soft.parse().ok()),
            _ => {}
        }
    }

    /// What the process has in the end.
    pub(super) fn effective(&self) -> u64 {
        let bounding = self.bounding.unwrap_or(u64::MAX);
        let root = self.user.as_deref().is_none_or(|user| user == "root" || user == "0");
        if root { bounding } else { bounding & self.ambient }
    }
}

fn capabilities(value: &str) -> u64 {
    let known = [
        ("CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE),
        ("CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH),
        ("CAP_NET_ADMIN", CAP_NET_ADMIN),
        ("CAP_NET_RAW", CAP_NET_RAW),
        ("CAP_SETGID", CAP_SETGID),
        ("CAP_SETUID", CAP_SETUID),
    ];
    if let Some(without) = value.strip_prefix('~') {
        return !capabilities(without);
    }
    let bit = |word: &str| known.iter().find(|(name, _)| *name == word).map_or(0, |(_, bit)| 1 << bit);
    value.split_whitespace().map(bit).fold(0, |all, one| all | one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_ins_add_to_the_unit() {
        let unit = include_str!("../../systemd/lvsd.service");
        let admin = 1 << CAP_NET_ADMIN;
        let raw = 1 << CAP_NET_RAW;
        let plain = Unit::parse([unit]);
        assert_eq!((plain.user.as_deref(), plain.effective()), (Some("lvsd"), admin));
        assert_eq!(plain.descriptors, Some(262_144));
        let ping = include_str!("../../systemd/ping.conf");
        assert_eq!(Unit::parse([unit, ping]).effective(), admin | raw);
        assert_eq!(Unit::parse([unit, ping, "AmbientCapabilities=\n"]).effective(), 0);
        let as_root = Unit::parse([unit, "User=root\nLimitNOFILE=1024:4096"]);
        assert_eq!((as_root.effective(), as_root.descriptors), (admin, Some(1024)));
    }
}
