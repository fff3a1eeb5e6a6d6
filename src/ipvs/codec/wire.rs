//! The numbers of `linux/ip_vs.h`, as enums that neli converts both ways.

use neli::neli_enum;

/// `IPVS_GENL_NAME`
pub(in crate::ipvs) const FAMILY: &str = "IPVS";
/// `IPVS_GENL_VERSION`
pub(super) const VERSION: u8 = 1;

pub(super) const AF_INET: u16 = 2;
pub(super) const AF_INET6: u16 = 10;

/// `IP_VS_SVC_F_PERSISTENT`
pub(super) const FLAG_PERSISTENT: u32 = 0x1;
/// `IP_VS_CONN_F_FWD_MASK`
pub(super) const FORWARDING_MASK: u32 = 0x7;

/// `IPVS_CMD_*`
#[neli_enum(serialized_type = "u8")]
pub(super) enum Command {
    NewService = 1,
    SetService = 2,
    DelService = 3,
    GetService = 4,
    NewDest = 5,
    SetDest = 6,
    DelDest = 7,
    GetDest = 8,
    NewDaemon = 9,
    DelDaemon = 10,
    GetDaemon = 11,
    SetConfig = 12,
    GetConfig = 13,
    GetInfo = 15,
}

/// `IPVS_CMD_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum CommandAttr {
    Service = 1,
    Dest = 2,
    Daemon = 3,
    TimeoutTcp = 4,
    TimeoutTcpFin = 5,
    TimeoutUdp = 6,
}

/// `IPVS_SVC_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum ServiceAttr {
    Af = 1,
    Protocol = 2,
    Addr = 3,
    Port = 4,
    Fwmark = 5,
    SchedName = 6,
    Flags = 7,
    Timeout = 8,
    Netmask = 9,
    Stats = 10,
    PeName = 11,
    Stats64 = 12,
}

/// `IPVS_DEST_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum DestAttr {
    Addr = 1,
    Port = 2,
    FwdMethod = 3,
    Weight = 4,
    UThresh = 5,
    LThresh = 6,
    ActiveConns = 7,
    InactConns = 8,
    PersistConns = 9,
    Stats = 10,
    AddrFamily = 11,
    Stats64 = 12,
    TunType = 13,
    TunPort = 14,
    TunFlags = 15,
}

/// `IPVS_STATS_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum StatsAttr {
    Conns = 1,
    InPkts = 2,
    OutPkts = 3,
    InBytes = 4,
    OutBytes = 5,
}

/// `IPVS_DAEMON_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum DaemonAttr {
    State = 1,
    McastIfn = 2,
    SyncId = 3,
    SyncMaxlen = 4,
    McastGroup = 5,
    McastGroup6 = 6,
    McastPort = 7,
    McastTtl = 8,
}

/// `IPVS_INFO_ATTR_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum InfoAttr {
    Version = 1,
    ConnTabSize = 2,
}

/// `IP_VS_STATE_*`
#[neli_enum(serialized_type = "u32")]
pub(super) enum DaemonState {
    Master = 1,
    Backup = 2,
}

/// `IP_VS_CONN_F_*` under [`FORWARDING_MASK`]
#[neli_enum(serialized_type = "u32")]
pub(super) enum ForwardingMethod {
    Masquerading = 0,
    LocalNode = 1,
    Tunnel = 2,
    DirectRoute = 3,
}

/// `IP_VS_CONN_F_TUNNEL_TYPE_*`
#[neli_enum(serialized_type = "u8")]
pub(super) enum TunnelType {
    Ipip = 0,
    Gue = 1,
    Gre = 2,
}

/// `IP_VS_TUNNEL_ENCAP_FLAG_*`
#[neli_enum(serialized_type = "u16")]
pub(super) enum TunnelFlags {
    NoCsum = 0,
    Csum = 1,
    RemCsum = 2,
}
