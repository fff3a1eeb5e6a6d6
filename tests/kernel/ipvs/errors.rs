//! Every error that the kernel gives, with its words; and that one in the middle of a batch
//! stands alone. The table in memory must give the same ones.

use lvsd::engine::model::{Family, Forwarding, Sync, SyncRole, Tunnel, TunnelChecksum};
use lvsd::engine::table::{Destination, ServiceAttributes};
use lvsd::ipvs::{Dump, Dumper, Kernel, Memory, Netlink, OpenError, Operation, Options};
use nix::errno::Errno;

use super::{
    add, add_service, apply, attributes, edit, in_name_space, nat, netlink, remove, saved, sorted, tcp, via,
};

/// The same operations to the kernel and to a memory table: the same results, which are these.
fn assert_results(operations: &[Operation], expected: &[Option<Errno>]) {
    let errno = |result: Result<(), lvsd::ipvs::OperationError>| result.err().map(|e| e.errno().unwrap());
    let results: Vec<_> = netlink().apply(operations).into_iter().map(errno).collect();
    assert_eq!(results, expected);
    let remembered: Vec<_> = Memory::default().apply(operations).into_iter().map(errno).collect();
    assert_eq!(remembered, expected, "in memory");
}

#[test]
fn services_are_refused_with_reason() {
    in_name_space(|| {
        let (web, web6) = (tcp("192.0.2.10:80"), tcp("[2001:db8::10]:80"));
        let change = |service, attributes| Operation::EditService { service, attributes };
        let with_engine = |name: &str| ServiceAttributes {
            persistence_engine: Some(name.to_owned()),
            ..attributes("rr", Family::Ipv4)
        };
        let no_mask = ServiceAttributes { netmask: 0, ..attributes("rr", Family::Ipv6) };
        let long_mask = ServiceAttributes { netmask: 129, ..attributes("rr", Family::Ipv6) };
        let operations = [
            (change(web, attributes("rr", Family::Ipv4)), Some(Errno::ESRCH)),
            (Operation::RemoveService { service: web }, Some(Errno::ESRCH)),
            (add_service(web, "wrrr"), Some(Errno::ENOENT)),
            (Operation::AddService { service: web, attributes: with_engine("nope") }, Some(Errno::ENOENT)),
            (Operation::AddService { service: web6, attributes: no_mask.clone() }, Some(Errno::EINVAL)),
            (Operation::AddService { service: web6, attributes: long_mask.clone() }, Some(Errno::EINVAL)),
            (add_service(web, "rr"), None),
            (add_service(web, "rr"), Some(Errno::EEXIST)),
            (add_service(web6, "rr"), None),
            (change(web, attributes("wrrr", Family::Ipv4)), Some(Errno::ENOENT)),
            (change(web, with_engine("nope")), Some(Errno::ENOENT)),
            (change(web6, no_mask), Some(Errno::EINVAL)),
            (change(web6, long_mask), Some(Errno::EINVAL)),
            (Operation::RemoveService { service: web }, None),
        ];
        let (operations, expected): (Vec<_>, Vec<_>) = operations.into_iter().unzip();
        assert_results(&operations, &expected);
        assert_eq!(saved(), ["-A -t [2001:db8::10]:80 -s rr"]);
    });
}

#[test]
fn destinations_are_refused_with_reason() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        let web6 = tcp("[2001:db8::10]:80");
        let gue = Forwarding::Tun(Tunnel::Gue { port: 0, checksum: TunnelChecksum::None });
        let lower = Destination { lower_threshold: 1, ..nat(1) };
        let crossed = Destination { upper_threshold: 5, lower_threshold: 6, ..nat(1) };
        let id = "198.51.100.1:80";
        let operations = [
            (add(web, id, nat(1)), Some(Errno::ESRCH)),
            (edit(web, id, nat(1)), Some(Errno::ESRCH)),
            (remove(web, id), Some(Errno::ESRCH)),
            (add_service(web, "rr"), None),
            (add_service(web6, "rr"), None),
            (edit(web, id, nat(1)), Some(Errno::ENOENT)),
            (remove(web, id), Some(Errno::ENOENT)),
            (add(web, id, nat(1 << 31)), Some(Errno::ERANGE)),
            (add(web, id, nat(u32::MAX)), Some(Errno::ERANGE)),
            (add(web, id, lower), Some(Errno::ERANGE)),
            (add(web, id, crossed), Some(Errno::ERANGE)),
            (add(web, id, via(gue, 1)), Some(Errno::EINVAL)),
            (add(web, id, nat(1)), None),
            (add(web, id, nat(1)), Some(Errno::EEXIST)),
            (edit(web, id, nat(1 << 31)), Some(Errno::ERANGE)),
            (edit(web, id, crossed), Some(Errno::ERANGE)),
            (edit(web, id, via(gue, 1)), Some(Errno::EINVAL)),
            (add(web, "224.0.0.1:80", nat(1)), Some(Errno::EINVAL)),
            (add(web, "255.255.255.255:80", nat(1)), Some(Errno::EINVAL)),
            (add(web, "0.0.0.0:80", nat(1)), Some(Errno::EINVAL)),
            (add(web6, "[ff02::1]:80", nat(1)), Some(Errno::EINVAL)),
            (add(web6, "[fe80::1]:80", nat(1)), Some(Errno::EINVAL)),
            (add(web6, "[::]:80", nat(1)), Some(Errno::EINVAL)),
            (add(web, "[2001:db8::1]:80", nat(1)), Some(Errno::EINVAL)),
            (add(web, "[2001:db8::1]:80", via(Forwarding::Dr, 1)), Some(Errno::EINVAL)),
            (add(web6, "198.51.100.1:80", nat(1)), Some(Errno::EINVAL)),
            (add(web6, "198.51.100.1:80", via(Forwarding::Tun(Tunnel::Ipip), 1)), None),
            (edit(web6, "198.51.100.1:80", nat(1)), Some(Errno::EINVAL)),
            (remove(web6, "198.51.100.1:80"), None),
        ];
        let (operations, expected): (Vec<_>, Vec<_>) = operations.into_iter().unzip();
        assert_results(&operations, &expected);
        assert_eq!(
            saved(),
            sorted([
                "-A -t 192.0.2.10:80 -s rr",
                "-A -t [2001:db8::10]:80 -s rr",
                "-a -t 192.0.2.10:80 -r 198.51.100.1:80 -m -w 1",
            ])
        );
    });
}

#[test]
fn an_error_in_a_batch_stands_alone() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        // More than one batch, every third of them refused.
        let mut operations = vec![add_service(web, "rr")];
        operations.extend((0..300).map(|n| {
            let weight = if n % 3 == 1 { u32::MAX } else { 1 };
            add(web, &format!("198.51.{}.{}:80", n / 200, n % 200 + 1), nat(weight))
        }));
        let results = netlink().apply(&operations);
        for (n, result) in results.iter().skip(1).enumerate() {
            match (n % 3, result) {
                (1, Err(error)) => {
                    assert_eq!(error.errno(), Some(Errno::ERANGE));
                    assert_eq!(error.destination(), operations[n + 1].destination());
                }
                (0 | 2, Ok(())) => {}
                other => panic!("{n}: {other:?}"),
            }
        }
        assert_eq!(saved().len(), 201);
        let error = results[2].as_ref().unwrap_err();
        assert_eq!(
            error.to_string(),
            "add destination 198.51.0.2:80 to tcp 192.0.2.10:80: weight above 2147483647, \
             or lower threshold above the upper one (ERANGE)"
        );
    });
}

/// A whole batch of refusals, and the last refused as well, fits the default receive buffer.
#[test]
fn a_batch_can_fail_whole() {
    in_name_space(|| {
        let operations: Vec<Operation> =
            (0..1000).map(|n| remove(tcp("192.0.2.10:80"), &format!("198.51.100.1:{}", n + 1))).collect();
        let results = netlink().apply(&operations);
        assert_eq!(results.len(), 1000);
        for (operation, result) in operations.iter().zip(results) {
            let error = result.unwrap_err();
            assert_eq!((error.errno(), &error.operation), (Some(Errno::ESRCH), operation));
        }
    });
}

#[test]
fn maglev_has_its_limit() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        let mut operations = vec![add_service(web, "none")];
        operations
            .extend((0..4094).map(|n| add(web, &format!("10.1.{}.{}:80", n / 250, n % 250 + 1), nat(1))));
        operations.push(Operation::EditService { service: web, attributes: attributes("mh", Family::Ipv4) });
        let mut memory = Memory::default();
        let remembered = memory.apply(&operations);
        let results = netlink().apply(&operations);
        assert_eq!(results, remembered);
        let error = results.last().unwrap().as_ref().unwrap_err();
        assert_eq!(
            error.to_string(),
            "edit service tcp 192.0.2.10:80: values that the kernel does not take; \
             mh holds at most 4093 destinations (EINVAL)"
        );
        assert_eq!(saved().first().map(String::as_str), Some("-A -t 192.0.2.10:80 -s none"));
        apply(&[
            remove(web, "10.1.0.1:80"),
            Operation::EditService { service: web, attributes: attributes("mh", Family::Ipv4) },
        ]);
        assert_eq!(saved().first().map(String::as_str), Some("-A -t 192.0.2.10:80 -s mh"));
        // A service that has the scheduler already takes more: nothing to be told from outside.
        apply(&[add(web, "10.1.0.1:80", nat(1))]);
    });
}

#[test]
fn mixed_families_and_the_sync_daemon_exclude_each_other() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        let id = "[2001:db8::1]:80";
        let record = via(Forwarding::Tun(Tunnel::Ipip), 1);
        let sync = Sync {
            role: SyncRole::Master,
            interface: "lo".to_owned(),
            id: 1,
            max_length: None,
            group: None,
            port: None,
            ttl: None,
        };
        let mut memory = Memory::default();
        let mut kernel = netlink();
        let both: [&mut dyn Kernel; 2] = [&mut memory, &mut kernel];
        for ipvs in both {
            ipvs.start_sync(&sync).unwrap();
            let results = ipvs.apply(&[add_service(web, "rr"), add(web, id, record)]);
            assert_eq!(results[0], Ok(()));
            assert_eq!(results[1].as_ref().unwrap_err().errno(), Some(Errno::EINVAL));
            ipvs.stop_sync(SyncRole::Master).unwrap();
            assert_eq!(ipvs.apply(&[add(web, id, record)]), [Ok(())]);
            let error = ipvs.start_sync(&sync).unwrap_err();
            assert!(error.to_string().ends_with("invalid argument (EINVAL)"), "{error}");
        }
    });
}

/// Runs itself again as a user without capabilities, which only a process can be.
#[test]
fn without_the_capability_there_is_one_clear_line() {
    const AGAIN: &str = "LVSD_TEST_WITHOUT_CAPABILITY";
    if std::env::var_os(AGAIN).is_some() {
        let error = Netlink::open(Options::default()).unwrap_err();
        assert_eq!(error, OpenError::NotPermitted);
        assert_eq!(error.to_string(), "not permitted to use ip_vs: CAP_NET_ADMIN is missing");
        let error = Dumper::open(Options::default()).unwrap().dump().unwrap_err();
        assert_eq!(error.to_string(), "dump the ipvs table: not permitted, CAP_NET_ADMIN is missing (EPERM)");
        return;
    }
    in_name_space(|| {
        let mut again = std::process::Command::new("setpriv");
        again.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]);
        again.arg(std::env::current_exe().unwrap());
        again.args(["--exact", "ipvs::errors::without_the_capability_there_is_one_clear_line"]);
        let output = again.env(AGAIN, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    });
}
