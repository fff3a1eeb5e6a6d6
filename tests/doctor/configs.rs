//! The configurations that hosts are judged for.

pub(crate) const NAT: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const CANARIES: &str = r#"
[daemon.self_test]
canary = ["198.51.100.254:22", "198.51.100.1:22"]
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const ONE_NET: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "192.0.2.21:80" }]
"#;
pub(crate) const NAT_V6: &str = r#"
[[virtual_server]]
name = "web"
address = "[2001:db8::10]:80"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "[2001:db8:2::11]:80" }]
"#;
pub(crate) const DR: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
lb_kind = "dr"
check = { tcp = {} }
real_server = [{ address = "192.0.2.21" }]
"#;
pub(crate) const INHIBIT: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
persistence_timeout = "5m"
inhibit_on_failure = true
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const MH: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "mh"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const LBLC: &str = r#"
[[virtual_server]]
name = "cache"
address = "192.0.2.10:80"
scheduler = "lblc"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const STRANGE: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "twos"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const FTP: &str = r#"
[[virtual_server]]
name = "files"
address = "192.0.2.10:21"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:21" }]
"#;
pub(crate) const PING: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "rr"
check = { ping = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const BOTH: &str = r#"
[daemon.sync]
state = "both"
interface = "eth1"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
persistence_timeout = "5m"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const BACKUP_DR: &str = r#"
[daemon.sync]
state = "backup"
interface = "eth1"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
lb_kind = "dr"
check = { tcp = {} }
real_server = [{ address = "192.0.2.21" }]
"#;
pub(crate) const MASTER_V6: &str = r#"
[daemon.sync]
state = "master"
interface = "eth1"
[[virtual_server]]
name = "web"
address = "[2001:db8::10]:80"
scheduler = "wrr"
lb_kind = "dr"
check = { tcp = {} }
real_server = [{ address = "2001:db8:2::11" }]
"#;
pub(crate) const NO_DEVICE: &str = r#"
[daemon.sync]
state = "master"
interface = "eth7"
"#;
pub(crate) const BOUND: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
lb_kind = "dr"
check = { bind_ip = "192.0.2.10", tcp = {} }
real_server = [{ address = "192.0.2.21" }]
"#;
pub(crate) const INSIDE: &str = r#"
[[virtual_server]]
name = "inside"
address = "198.51.100.99:80"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "10.1.1.1:80" }]
"#;
pub(crate) const BLOCK: &str = r#"
[[virtual_server]]
name = "block"
address = "203.0.113.3-5:80"
scheduler = "wrr"
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const ANNOUNCED: &str = r#"
[[virtual_server]]
name = "web"
address = "203.0.113.99:80"
scheduler = "wrr"
announce = { interface = "lvs0" }
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const SOMETIMES: &str = r#"
[[virtual_server]]
name = "web"
address = "203.0.113.99:80"
scheduler = "wrr"
active_when = { address_present = true }
check = { tcp = {} }
real_server = [{ address = "198.51.100.11:80" }]
"#;
pub(crate) const SCRIPT: &str = r#"
[[virtual_server]]
name = "web"
address = "192.0.2.10:80"
scheduler = "wrr"
check = { script = { argv = ["/usr/check"] } }
real_server = [{ address = "198.51.100.11:80" }]
"#;
