//! Looks at a host, all of it below one directory, so that tests can give one of their own. What cannot
//! be read is as if it were not there; the rules say what that means.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::facts::{Bar, Facts, InterfaceAddress, Modules};
use super::{access, parsing, processes};
use crate::engine::model::Config;

/// Of one file: a routing table of a backbone router fits, a pseudo file without an end does not.
const MAX_TEXT: u64 = 64 << 20;
/// Devices whose settings are read.
const MAX_INTERFACES: usize = 4096;

/// Below /proc/sys, of the host as a whole.
const SYSCTLS: [&str; 20] = [
    "net/ipv4/ip_forward",
    "net/ipv6/conf/all/forwarding",
    "net/ipv4/ping_group_range",
    "net/netfilter/nf_conntrack_max",
    "net/netfilter/nf_conntrack_count",
    "net/ipv4/vs/am_droprate",
    "net/ipv4/vs/backup_only",
    "net/ipv4/vs/conn_lfactor",
    "net/ipv4/vs/conn_reuse_mode",
    "net/ipv4/vs/conntrack",
    "net/ipv4/vs/drop_entry",
    "net/ipv4/vs/drop_packet",
    "net/ipv4/vs/expire_nodest_conn",
    "net/ipv4/vs/expire_quiescent_template",
    "net/ipv4/vs/run_estimation",
    "net/ipv4/vs/schedule_icmp",
    "net/ipv4/vs/sloppy_sctp",
    "net/ipv4/vs/sloppy_tcp",
    "net/ipv4/vs/sync_persist_mode",
    "net/ipv4/vs/sync_version",
];
/// Of each device, and of `all`.
const IPV4_SETTINGS: [&str; 4] = ["forwarding", "rp_filter", "arp_ignore", "send_redirects"];
const IPV6_SETTINGS: [&str; 1] = ["accept_ra"];

impl Facts {
    /// `root` is `/` but in tests. `files` are those that loading the configuration reads. `addresses` come beside
    /// it, since no file has them with their devices; rtnetlink does.
    pub fn read(
        root: &Path,
        config: &Config,
        files: &BTreeSet<PathBuf>,
        addresses: Vec<InterfaceAddress>,
    ) -> Self {
        let host = Host { root };
        // Not /sys/class/net, which shows the network name space that it was mounted in.
        let interfaces = host.names("proc/sys/net/ipv4/conf").into_iter();
        let interfaces: BTreeSet<String> =
            interfaces.filter(|name| name != "all" && name != "default").collect();
        let kernel_release = host.text("proc/sys/kernel/osrelease").trim().to_owned();
        let mut routes = parsing::routes_v4(&host.text("proc/net/route"));
        routes.extend(parsing::local_v4(&host.text("proc/net/fib_trie")));
        routes.extend(parsing::routes_v6(&host.text("proc/net/ipv6_route")));
        let privileges = processes::privileges(&host);
        let barred = access::barred(&host, &privileges, config, files);
        let table = host.try_text("proc/net/ip_vs").map(|text| parsing::ipvs_table(&text));
        Self {
            sysctls: sysctls(&host, &interfaces),
            modules: modules(&host, &kernel_release),
            kernel_release,
            table,
            owned: owned(&host, &config.daemon.state_file),
            addresses,
            interfaces,
            routes,
            privileges,
            others: processes::others(&host),
            address_movers: processes::address_movers(&host),
            ipvsadm_restores: restores(&host.text("etc/default/ipvsadm")),
            barred,
            missing_group: missing_group(&host, config),
        }
    }

    /// What `lvsd check` asks for: who asks, and what is named that this host may not have.
    pub fn read_named(root: &Path, config: &Config) -> Self {
        let host = Host { root };
        let privileges = processes::caller(&host);
        let mut barred = access::barred(&host, &privileges, config, &BTreeSet::new());
        // What other people may not run says nothing of the daemon.
        if processes::is_stranger(&host, &privileges) {
            barred.retain(|barred| !matches!(barred.bar, Bar::Closed { .. }));
        }
        Self { barred, missing_group: missing_group(&host, config), privileges, ..Self::default() }
    }
}

/// Reads below a directory.
pub(super) struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    fn is_this_one(&self) -> bool {
        self.root == Path::new("/")
    }

    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(super) fn try_text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        fs::File::open(self.path(path)).ok()?.take(MAX_TEXT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn text(&self, path: impl AsRef<Path>) -> String {
        self.try_text(path).unwrap_or_default()
    }

    /// Of a directory's entries, sorted.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

fn sysctls(host: &Host<'_>, interfaces: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut paths: Vec<String> = SYSCTLS.map(str::to_owned).to_vec();
    let each = interfaces.iter().map(String::as_str).take(MAX_INTERFACES);
    for interface in each.chain(["all", "default"]) {
        paths.extend(IPV4_SETTINGS.map(|name| format!("net/ipv4/conf/{interface}/{name}")));
        paths.extend(IPV6_SETTINGS.map(|name| format!("net/ipv6/conf/{interface}/{name}")));
    }
    let read = |path: String| {
        let text = host.try_text(format!("proc/sys/{path}"))?;
        Some((path, text.trim().to_owned()))
    };
    paths.into_iter().filter_map(read).collect()
}

fn modules(host: &Host<'_>, release: &str) -> Modules {
    let listed = host.text("proc/modules");
    let mut loaded: BTreeSet<String> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    // Built in ones are here if they have a version or a parameter.
    loaded.extend(host.names("sys/module"));
    let folder = PathBuf::from("lib/modules").join(release);
    let built_in = host.text(folder.join("modules.builtin"));
    loaded.extend(parsing::module_names(&built_in));
    let index = host.try_text(folder.join("modules.dep")).filter(|text| !text.is_empty());
    Modules { loaded, index: index.map(|text| parsing::module_names(&text).collect()) }
}

/// The one list of the state file that matters here; the rest of it is the daemon's.
fn owned(host: &Host<'_>, state_file: &Path) -> Option<BTreeSet<String>> {
    let state: serde_json::Value = serde_json::from_str(&host.try_text(state_file)?).ok()?;
    let owned = state.get("owned")?.as_array()?;
    Some(owned.iter().filter_map(|service| service.as_str().map(str::to_owned)).collect())
}

/// By the host's own file, and by its name service, which alone knows of others.
fn missing_group(host: &Host<'_>, config: &Config) -> Option<String> {
    let group = config.daemon.control.group.as_ref()?;
    let is_known = group.parse::<u32>().is_ok()
        || access::group_number(host, group).is_some()
        || host.is_this_one() && nix::unistd::Group::from_name(group).is_ok_and(|found| found.is_some());
    (!is_known).then(|| group.clone())
}

/// `AUTO="true"` of Debian's /etc/default/ipvsadm.
fn restores(text: &str) -> bool {
    text.lines().any(|line| line.trim().replace('"', "") == "AUTO=true")
}
