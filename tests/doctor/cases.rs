//! The table: a configuration, what is different from the sound host, and what must be found.

use crate::configs::{
    ANNOUNCED, BACKUP_DR, BLOCK, BOTH, BOUND, CANARIES, DR, FTP, INHIBIT, INSIDE, LBLC, MASTER_V6, MH, NAT,
    NAT_V6, NO_DEVICE, ONE_NET, PING, SOMETIMES, STRANGE,
};

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) config: &'static str,
    /// Files of the host; an empty text takes one away.
    pub(crate) changes: &'static [(&'static str, &'static str)],
    /// `device address/prefix, …` instead of the sound host's.
    pub(crate) addresses: Option<&'static str>,
    /// Level and rule of everything that is not ok.
    pub(crate) found: &'static [&'static str],
    pub(crate) commands: &'static [&'static str],
}

const fn case(
    name: &'static str,
    config: &'static str,
    changes: &'static [(&'static str, &'static str)],
    found: &'static [&'static str],
    commands: &'static [&'static str],
) -> Case {
    Case { name, config, changes, addresses: None, found, commands }
}

const INSIDE_ADDRESSES: &str = "eth0 192.0.2.1/24, eth1 198.51.100.254/24, eth1 198.51.100.99/32";
/// Three services, the second ours; 5,000 connections.
const TABLE: &str = "IP Virtual Server version 1.2.1 (size=4096)\n\
     Prot LocalAddress:Port Scheduler Flags\n\
       -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
     UDP  [2001:0db8:0000:0000:0000:0000:0000:0010]:0035 wrr\n\
     TCP  C000020A:0050 wrr\n\
       -> C633640B:0050      Masq    1      4000       1000\n\
     FWM  00000005 rr\n";

pub(crate) const CASES: &[Case] = &[
    case("sound", NAT, &[], &[], &[]),
    case("sound, a block on lo", BLOCK, &[], &[], &[]),
    case(
        "no forwarding",
        NAT,
        &[("proc/sys/net/ipv4/ip_forward", "0")],
        &["fault ip_forward"],
        &["sysctl -w net.ipv4.ip_forward=1"],
    ),
    case("no forwarding, which direct routing does not need", DR, &[], &[], &[]),
    case(
        "no forwarding on one device",
        NAT,
        &[("proc/sys/net/ipv4/conf/eth1/forwarding", "0")],
        &["fault ip_forward"],
        &["sysctl -w net.ipv4.conf.eth1.forwarding=1"],
    ),
    case(
        "no forwarding of IPv6",
        NAT_V6,
        &[("proc/sys/net/ipv6/conf/all/forwarding", "0")],
        &["fault ipv6_forwarding"],
        &["sysctl -w net.ipv6.conf.all.forwarding=1"],
    ),
    case(
        "a default route that is about to vanish",
        NAT_V6,
        &[("proc/sys/net/ipv6/conf/eth0/accept_ra", "1")],
        &["fault accept_ra"],
        &["sysctl -w net.ipv6.conf.eth0.accept_ra=2"],
    ),
    case(
        "redirects on one net",
        ONE_NET,
        &[
            ("proc/sys/net/ipv4/conf/all/send_redirects", "1"),
            ("proc/sys/net/ipv4/conf/eth0/send_redirects", "1"),
        ],
        &["advice send_redirects"],
        &["sysctl -w net.ipv4.conf.all.send_redirects=0", "sysctl -w net.ipv4.conf.eth0.send_redirects=0"],
    ),
    case(
        "connections of dead servers",
        NAT,
        &[("proc/sys/net/ipv4/vs/expire_nodest_conn", "0")],
        &["advice expire_nodest_conn"],
        &["sysctl -w net.ipv4.vs.expire_nodest_conn=1"],
    ),
    case(
        "templates of dead servers",
        INHIBIT,
        &[("proc/sys/net/ipv4/vs/expire_quiescent_template", "0")],
        &["fault expire_quiescent_template"],
        &["sysctl -w net.ipv4.vs.expire_quiescent_template=1"],
    ),
    case(
        "ports used again, NAT",
        NAT,
        &[("proc/sys/net/ipv4/vs/conn_reuse_mode", "0")],
        &["advice conn_reuse_mode"],
        &["sysctl -w net.ipv4.vs.conn_reuse_mode=1"],
    ),
    case(
        "ports used again, direct routing",
        DR,
        &[("proc/sys/net/ipv4/vs/conn_reuse_mode", "0")],
        &["advice conn_reuse_mode"],
        &["sysctl -w net.ipv4.vs.conn_reuse_mode=2"],
    ),
    case(
        "conntrack before 5.9",
        NAT,
        &[
            ("proc/sys/kernel/osrelease", "5.4.0-generic"),
            ("lib/modules/5.4.0-generic/modules.builtin", "kernel/ip_vs_rr.ko\n"),
            ("proc/sys/net/ipv4/vs/conntrack", "1"),
        ],
        &["advice conntrack"],
        &["sysctl -w net.ipv4.vs.conntrack=0"],
    ),
    case(
        "masquerading",
        NAT,
        &[("proc/modules", "ip_vs 1 1 - Live\nip_vs_wrr 1 1 - Live\nnft_masq 16384 1 - Live 0x0\n")],
        &["advice conntrack"],
        &["sysctl -w net.ipv4.vs.conntrack=1"],
    ),
    case(
        "mh over several directors",
        MH,
        &[("proc/sys/net/ipv4/vs/sloppy_tcp", "0"), ("proc/sys/net/ipv4/vs/schedule_icmp", "0")],
        &["advice sloppy_tcp", "advice schedule_icmp"],
        &["sysctl -w net.ipv4.vs.sloppy_tcp=1", "sysctl -w net.ipv4.vs.schedule_icmp=1"],
    ),
    case(
        "packets dropped at random",
        NAT,
        &[("proc/sys/net/ipv4/vs/drop_packet", "3")],
        &["fault drop_packet"],
        &["sysctl -w net.ipv4.vs.drop_packet=0"],
    ),
    case(
        "connections dropped at random",
        NAT,
        &[("proc/sys/net/ipv4/vs/drop_entry", "3")],
        &["advice drop_entry"],
        &["sysctl -w net.ipv4.vs.drop_entry=1"],
    ),
    case(
        "no rates",
        NAT,
        &[("proc/sys/net/ipv4/vs/run_estimation", "0")],
        &["advice run_estimation"],
        &["sysctl -w net.ipv4.vs.run_estimation=1"],
    ),
    case(
        "a director that only receives",
        BOTH,
        &[("proc/sys/net/ipv4/vs/backup_only", "1")],
        &["fault backup_only"],
        &["sysctl -w net.ipv4.vs.backup_only=0"],
    ),
    case(
        "templates alone are synchronised",
        BOTH,
        &[("proc/sys/net/ipv4/vs/sync_persist_mode", "1"), ("proc/sys/net/ipv4/vs/sloppy_tcp", "0")],
        &["advice sync_persist_mode"],
        &["sysctl -w net.ipv4.vs.sloppy_tcp=1"],
    ),
    Case {
        name: "packets in circles",
        config: BACKUP_DR,
        changes: &[],
        addresses: None,
        found: &["advice backup_only"],
        commands: &["sysctl -w net.ipv4.vs.backup_only=1"],
    },
    case(
        "the old sync protocol",
        MASTER_V6,
        &[("proc/sys/net/ipv4/vs/sync_version", "0")],
        &["fault sync_version"],
        &["sysctl -w net.ipv4.vs.sync_version=1"],
    ),
    case("no such sync device", NO_DEVICE, &[], &["fault sync_interface"], &[]),
    case(
        "no ip_vs yet",
        NAT,
        &[("proc/net/ip_vs", ""), ("proc/modules", "ip_vs_wrr 1 1 - Live\n")],
        &["advice ip_vs"],
        &["modprobe ip_vs"],
    ),
    case(
        "no ip_vs ever",
        NAT,
        &[
            ("proc/net/ip_vs", ""),
            ("proc/modules", "ip_vs_wrr 1 1 - Live\n"),
            ("lib/modules/6.1.0-28-amd64/modules.dep", "kernel/fs/ext4/ext4.ko:\n"),
        ],
        &["fault ip_vs"],
        &[],
    ),
    case("no such scheduler", STRANGE, &[], &["fault scheduler"], &[]),
    case("a scheduler that must be there before", LBLC, &[], &["advice scheduler"], &["modprobe ip_vs_lblc"]),
    case("FTP through NAT", FTP, &[], &["fault ip_vs_ftp"], &["modprobe ip_vs_ftp"]),
    case(
        "no privileges",
        NAT,
        &[("proc/77/status", "Gid:\t999\t999\t999\t999\nGroups:\t999 \nCapEff:\t0000000000000000\n")],
        &["fault cap_net_admin"],
        &[],
    ),
    case(
        "nobody may ping",
        PING,
        &[("proc/sys/net/ipv4/ping_group_range", "1\t0\n")],
        &["fault ping"],
        &["sysctl -w net.ipv4.ping_group_range=\"999 999\""],
    ),
    case(
        "others may ping",
        PING,
        &[("proc/sys/net/ipv4/ping_group_range", "5\t10\n")],
        &["fault ping"],
        &["sysctl -w net.ipv4.ping_group_range=\"5 999\""],
    ),
    case(
        "CAP_NET_RAW instead",
        PING,
        &[("proc/77/status", "Gid:\t999\t999\t999\t999\nGroups:\t999 \nCapEff:\t0000000000003000\n")],
        &[],
        &[],
    ),
    case(
        "few descriptors",
        NAT,
        &[("proc/77/limits", "Max open files            64                  64               files\n")],
        &["advice descriptors"],
        &["systemctl daemon-reload && systemctl restart lvsd"],
    ),
    case("a canary that is this host itself", CANARIES, &[], &["advice own_canary"], &[]),
    case(
        "the unit counts while no daemon runs",
        NAT,
        &[
            ("proc/77/comm", "bash\n"),
            (
                "usr/lib/systemd/system/lvsd.service",
                "[Service]\nUser=lvsd\nAmbientCapabilities=CAP_NET_ADMIN\n",
            ),
            ("etc/systemd/system/lvsd.service.d/x.conf", "[Service]\nAmbientCapabilities=\n"),
        ],
        &["fault cap_net_admin"],
        &[],
    ),
    case(
        "keepalived with the same service",
        NAT,
        &[
            ("proc/80/comm", "keepalived\n"),
            ("proc/80/cmdline", "keepalived\0-D\0"),
            ("etc/keepalived/keepalived.conf", "virtual_server 192.0.2.10 80 {\n}\n"),
        ],
        &["fault other_daemon"],
        &[],
    ),
    case(
        "keepalived with another service",
        NAT,
        &[
            ("proc/80/comm", "keepalived\n"),
            ("proc/80/cmdline", "keepalived\0-f\0/etc/k.conf\0"),
            ("etc/k.conf", "virtual_server 192.0.2.10 443 {\n}\n"),
        ],
        &["advice other_daemon"],
        &[],
    ),
    case(
        "keepalived for addresses",
        NAT,
        &[("proc/80/comm", "keepalived\n"), ("etc/keepalived/keepalived.conf", "vrrp_instance a {\n}\n")],
        &[],
        &[],
    ),
    case(
        "ldirectord with the same service",
        NAT,
        &[("proc/80/comm", "ldirectord\n"), ("etc/ha.d/ldirectord.cf", "virtual = 192.0.2.10:80\n")],
        &["fault other_daemon"],
        &[],
    ),
    case(
        "a service of nobody, and a small table",
        NAT,
        &[("proc/net/ip_vs", TABLE)],
        &["advice taken_over", "advice connection_table"],
        &["lvsd plan   # says what would become of tcp 192.0.2.10:80"],
    ),
    case(
        "a service on record",
        NAT,
        &[
            ("proc/net/ip_vs", TABLE),
            ("var/lib/lvsd/state.json", "{\"owned\":[\"tcp 192.0.2.10:80\"]}"),
            ("proc/sys/net/ipv4/vs/conn_lfactor", "-4"),
        ],
        &[],
        &[],
    ),
    case(
        "ipvsadm at boot",
        NAT,
        &[("etc/default/ipvsadm", "# x\nAUTO=\"true\"\n")],
        &["advice ipvsadm_service"],
        &["systemctl disable ipvsadm   # stopping it now would empty the table"],
    ),
    case(
        "conntrack nearly full",
        NAT,
        &[("proc/sys/net/netfilter/nf_conntrack_count", "65000")],
        &["fault nf_conntrack"],
        &["sysctl -w net.netfilter.nf_conntrack_max=131072"],
    ),
    Case {
        name: "a virtual address that is nowhere",
        config: INSIDE,
        changes: &[],
        addresses: Some("eth0 192.0.2.1/24, eth1 198.51.100.254/24"),
        found: &["fault virtual_address"],
        commands: &["ip address add 198.51.100.99/32 dev eth1"],
    },
    Case {
        name: "an interface to announce on that is not there",
        config: ANNOUNCED,
        changes: &[],
        addresses: None,
        found: &["fault announce"],
        commands: &["ip link add lvs0 type dummy && ip link set lvs0 up"],
    },
    Case {
        name: "an address that lvsd puts there itself",
        config: ANNOUNCED,
        changes: &[("proc/sys/net/ipv4/conf/lvs0/forwarding", "1")],
        addresses: Some("eth0 192.0.2.1/24"),
        found: &[],
        commands: &[],
    },
    Case {
        name: "a service that is active now and then",
        config: SOMETIMES,
        changes: &[],
        addresses: None,
        found: &["advice virtual_address"],
        commands: &[],
    },
    Case {
        name: "a virtual address that is the other director's",
        config: INSIDE,
        changes: &[("proc/80/comm", "keepalived\n")],
        addresses: Some("eth0 192.0.2.1/24, eth1 198.51.100.254/24"),
        found: &["advice virtual_address"],
        commands: &[],
    },
    Case {
        name: "a director that does not answer ARP",
        config: DR,
        changes: &[("proc/sys/net/ipv4/conf/all/arp_ignore", "1")],
        addresses: Some("eth0 192.0.2.1/24, lo 192.0.2.10/32"),
        found: &["fault arp_ignore"],
        commands: &["sysctl -w net.ipv4.conf.all.arp_ignore=0"],
    },
    case(
        "arp_ignore, with the address where it is asked for",
        DR,
        &[("proc/sys/net/ipv4/conf/all/arp_ignore", "1")],
        &[],
        &[],
    ),
    Case {
        name: "checks from the virtual address",
        config: DR,
        changes: &[],
        addresses: Some("eth0 192.0.2.10/24, eth0 192.0.2.1/24"),
        found: &["fault check_source"],
        commands: &[],
    },
    case("checks bound to the virtual address", BOUND, &[], &["fault check_source"], &[]),
    Case {
        name: "strict filtering on a device that clients do not come back by",
        config: INSIDE,
        changes: &[
            ("proc/sys/net/ipv4/conf/all/rp_filter", "1"),
            ("proc/sys/net/ipv4/conf/eth1/rp_filter", "0"),
        ],
        addresses: Some(INSIDE_ADDRESSES),
        found: &["advice rp_filter"],
        commands: &["sysctl -w net.ipv4.conf.eth1.rp_filter=2"],
    },
];
