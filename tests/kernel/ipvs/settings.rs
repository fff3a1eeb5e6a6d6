//! Timeouts and sync daemons.

use std::num::NonZeroU32;

use lvsd::engine::model::{Sync, SyncRole, Timeouts};
use lvsd::ipvs::{Kernel, sync_is_running};
use nix::errno::Errno;

use super::{in_name_space, netlink, run, sorted};

#[test]
fn timeouts_are_set_one_by_one() {
    in_name_space(|| {
        let seconds = NonZeroU32::new;
        let mut kernel = netlink();
        let default = Timeouts { tcp: seconds(900), tcp_fin: seconds(120), udp: seconds(300) };
        assert_eq!(kernel.timeouts(), Ok(default));
        kernel.set_timeouts(&Timeouts { tcp_fin: seconds(7), ..Timeouts::default() }).unwrap();
        assert_eq!(kernel.timeouts(), Ok(Timeouts { tcp_fin: seconds(7), ..default }));
        assert_eq!(run("ipvsadm", "-L --timeout").trim(), "Timeout (tcp tcpfin udp): 900 7 300");
        let all = Timeouts { tcp: seconds(1), tcp_fin: seconds(2), udp: seconds(3) };
        kernel.set_timeouts(&all).unwrap();
        assert_eq!(run("ipvsadm", "-L --timeout").trim(), "Timeout (tcp tcpfin udp): 1 2 3");
        run("ipvsadm", "--set 900 120 300");
        assert_eq!(kernel.timeouts(), Ok(default));
        let error = kernel.set_timeouts(&Timeouts { udp: seconds(u32::MAX), ..default }).unwrap_err();
        assert_eq!(error.to_string(), "set the ipvs timeouts: invalid argument (EINVAL)");
    });
}

fn sync(role: SyncRole) -> Sync {
    Sync { role, interface: "lo".to_owned(), id: 7, max_length: None, group: None, port: None, ttl: None }
}

#[test]
fn sync_daemons_run_with_what_they_are_given() {
    in_name_space(|| {
        let mut kernel = netlink();
        assert_eq!(kernel.sync_daemons(), Ok(vec![]));
        let wanted = Sync {
            max_length: Some(1400),
            group: Some("224.0.0.99".parse().unwrap()),
            port: Some(9000),
            ttl: Some(3),
            ..sync(SyncRole::Both)
        };
        kernel.start_sync(&wanted).unwrap();
        let listed = run("ipvsadm", "-L --daemon");
        assert_eq!(
            sorted(listed.lines()),
            [
                "backup sync daemon (mcast=lo, syncid=7, maxlen=1400, group=224.0.0.99, port=9000, ttl=3)",
                "master sync daemon (mcast=lo, syncid=7, maxlen=1400, group=224.0.0.99, port=9000, ttl=3)",
            ]
        );
        let running = kernel.sync_daemons().unwrap();
        assert_eq!(running.len(), 2);
        for daemon in &running {
            assert_eq!(*daemon, Sync { role: daemon.role, ..wanted.clone() });
        }
        assert!(sync_is_running(&wanted, &running));
        let error = kernel.start_sync(&wanted).unwrap_err();
        assert_eq!(error.to_string(), "start the ipvs master daemon: file exists (EEXIST)");
        kernel.stop_sync(SyncRole::Master).unwrap();
        assert_eq!(kernel.sync_daemons().unwrap(), [Sync { role: SyncRole::Backup, ..wanted }]);
        kernel.stop_sync(SyncRole::Both).unwrap();
        assert_eq!(kernel.sync_daemons(), Ok(vec![]));
        assert_eq!(run("ipvsadm", "-L --daemon").trim(), "");
    });
}

#[test]
fn unset_sync_options_become_the_kernels_defaults() {
    in_name_space(|| {
        let mut kernel = netlink();
        kernel.start_sync(&sync(SyncRole::Backup)).unwrap();
        let running = kernel.sync_daemons().unwrap();
        assert!(sync_is_running(&sync(SyncRole::Backup), &running), "{running:?}");
        assert!(!sync_is_running(&sync(SyncRole::Master), &running), "{running:?}");
        kernel.stop_sync(SyncRole::Backup).unwrap();
        let short = Sync { max_length: Some(100), ..sync(SyncRole::Both) };
        kernel.start_sync(&short).unwrap();
        let running = kernel.sync_daemons().unwrap();
        assert!(sync_is_running(&short, &running), "{running:?}");
        kernel.stop_sync(SyncRole::Both).unwrap();
        run("ip", "link add dummy0 type dummy");
        run("ip", "link set dummy0 up");
        run("ip", "addr add fe80::1/64 dev dummy0 nodad");
        let group6 = Sync {
            interface: "dummy0".to_owned(),
            group: Some("ff02::81".parse().unwrap()),
            ..sync(SyncRole::Master)
        };
        kernel.start_sync(&group6).unwrap();
        let running = kernel.sync_daemons().unwrap();
        assert!(sync_is_running(&group6, &running), "{running:?}");
        assert!(run("ipvsadm", "-L --daemon").contains("group=ff02::81"));
        kernel.stop_sync(SyncRole::Both).unwrap();
        let nowhere = Sync { interface: "nowhere0".to_owned(), ..sync(SyncRole::Master) };
        let error = kernel.start_sync(&nowhere).unwrap_err();
        assert_eq!(error.to_string(), "start the ipvs master daemon: no such device (ENODEV)");
        assert_eq!(error.reason, lvsd::ipvs::Reason::Refused(Errno::ENODEV));
    });
}
