//! Every operation and every kind of entry, written by us and read by ipvsadm, and the reverse.

use std::collections::BTreeSet;

use lvsd::engine::model::{Family, Forwarding, Protocol, Scheduler, Tunnel, TunnelChecksum};
use lvsd::engine::table::{Destination, ServiceAttributes, ServiceFlags};
use lvsd::ipvs::{Kernel, Operation, plan};

use super::{
    add, add_service, apply, attributes, destination, dump, edit, fwmark, in_name_space, nat, netlink,
    remove, run, saved, service, sorted, tcp, via,
};

#[test]
fn every_kind_of_service_is_as_ipvsadm_says() {
    in_name_space(|| {
        let mut persistent = attributes("wrr", Family::Ipv4);
        persistent.persistence = Some(300);
        persistent.netmask = 24;
        let mut all_clients = persistent.clone();
        all_clients.netmask = 0;
        let mut persistent6 = attributes("wlc", Family::Ipv6);
        persistent6.persistence = Some(60);
        persistent6.netmask = 64;
        let mut hashed = attributes("sh", Family::Ipv4);
        hashed.flags = ServiceFlags::SCHEDULER_1.with(ServiceFlags::SCHEDULER_2);
        let mut flags = attributes("rr", Family::Ipv6);
        flags.flags = ServiceFlags::SCHEDULER_3;
        let mut one_packet = attributes("rr", Family::Ipv4);
        one_packet.flags = ServiceFlags::ONE_PACKET;
        let mut sip = attributes("rr", Family::Ipv4);
        sip.persistence = Some(120);
        sip.persistence_engine = Some("sip".to_owned());
        let with = |service, attributes: &ServiceAttributes| Operation::AddService {
            service,
            attributes: attributes.clone(),
        };
        let operations = [
            with(tcp("192.0.2.10:80"), &persistent),
            with(tcp("192.0.2.10:0"), &all_clients),
            with(tcp("[2001:db8::10]:443"), &persistent6),
            with(service(Protocol::Udp, "192.0.2.10:53"), &one_packet),
            with(service(Protocol::Udp, "192.0.2.10:5060"), &sip),
            with(service(Protocol::Sctp, "192.0.2.10:99"), &hashed),
            with(service(Protocol::Udp, "[2001:db8::10]:53"), &flags),
            add_service(fwmark(5, Family::Ipv4), "lc"),
            add_service(fwmark(5, Family::Ipv6), "lc"),
            add_service(fwmark(0x7fff_ffff, Family::Ipv4), "mh"),
        ];
        apply(&operations);
        let lines = [
            "-A -t 192.0.2.10:80 -s wrr -p 300 -M 255.255.255.0",
            "-A -t 192.0.2.10:0 -s wrr -p 300 -M 0.0.0.0",
            "-A -t [2001:db8::10]:443 -s wlc -p 60 -M 64",
            "-A -u 192.0.2.10:53 -s rr -o",
            "-A -u 192.0.2.10:5060 -s rr -p 120 --pe sip",
            "-A --sctp-service 192.0.2.10:99 -s sh -b sh-fallback,sh-port",
            "-A -u [2001:db8::10]:53 -s rr -b flag-3",
            "-A -f 5 -s lc",
            "-A -f 5 -6 -s lc",
            "-A -f 2147483647 -s mh",
        ];
        assert_eq!(saved(), sorted(lines));
        assert_is_seen(&operations);
    });
}

#[test]
fn every_kind_of_destination_is_as_ipvsadm_says() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        let web6 = tcp("[2001:db8::10]:80");
        let tunnel = |tunnel| via(Forwarding::Tun(tunnel), 1);
        let gue = |port, checksum| tunnel(Tunnel::Gue { port, checksum });
        let operations = [
            add_service(web, "wlc"),
            add_service(web6, "wlc"),
            add(web, "198.51.100.1:8080", nat(1)),
            add(web, "198.51.100.2:80", via(Forwarding::Dr, 0)),
            add(web, "198.51.100.3:80", tunnel(Tunnel::Ipip)),
            add(web, "198.51.100.4:80", gue(6080, TunnelChecksum::None)),
            add(web, "198.51.100.5:80", gue(6081, TunnelChecksum::Csum)),
            add(web, "198.51.100.6:80", gue(6082, TunnelChecksum::Remcsum)),
            add(web, "198.51.100.7:80", tunnel(Tunnel::Gre { checksum: TunnelChecksum::None })),
            add(web, "198.51.100.8:80", tunnel(Tunnel::Gre { checksum: TunnelChecksum::Csum })),
            add(web, "198.51.100.9:80", nat(i32::MAX as u32)),
            add(web, "198.51.100.10:80", Destination { upper_threshold: 100, lower_threshold: 90, ..nat(2) }),
            add(web, "[2001:db8::11]:80", tunnel(Tunnel::Ipip)),
            add(web6, "[2001:db8::12]:80", nat(3)),
            add(web6, "198.51.100.13:80", gue(6080, TunnelChecksum::None)),
        ];
        apply(&operations);
        let lines = [
            "-A -t 192.0.2.10:80 -s wlc",
            "-A -t [2001:db8::10]:80 -s wlc",
            "-a -t 192.0.2.10:80 -r 198.51.100.1:8080 -m -w 1",
            "-a -t 192.0.2.10:80 -r 198.51.100.2:80 -g -w 0",
            "-a -t 192.0.2.10:80 -r 198.51.100.3:80 -i -w 1 --tun-type ipip",
            "-a -t 192.0.2.10:80 -r 198.51.100.4:80 -i -w 1 --tun-type gue --tun-port 6080 --tun-nocsum",
            "-a -t 192.0.2.10:80 -r 198.51.100.5:80 -i -w 1 --tun-type gue --tun-port 6081 --tun-csum",
            "-a -t 192.0.2.10:80 -r 198.51.100.6:80 -i -w 1 --tun-type gue --tun-port 6082 --tun-remcsum",
            "-a -t 192.0.2.10:80 -r 198.51.100.7:80 -i -w 1 --tun-type gre --tun-nocsum",
            "-a -t 192.0.2.10:80 -r 198.51.100.8:80 -i -w 1 --tun-type gre --tun-csum",
            "-a -t 192.0.2.10:80 -r 198.51.100.9:80 -m -w 2147483647",
            "-a -t 192.0.2.10:80 -r 198.51.100.10:80 -m -w 2",
            "-a -t 192.0.2.10:80 -r [2001:db8::11]:80 -i -w 1 --tun-type ipip",
            "-a -t [2001:db8::10]:80 -r [2001:db8::12]:80 -m -w 3",
            "-a -t [2001:db8::10]:80 -r 198.51.100.13:80 -i -w 1 --tun-type gue --tun-port 6080 --tun-nocsum",
        ];
        assert_eq!(saved(), sorted(lines));
        assert_eq!(thresholds("198.51.100.10:80"), ["100", "90"].map(str::to_owned));
        assert_is_seen(&operations);
    });
}

/// The upper and the lower threshold as ipvsadm lists them; `-S` leaves them out.
fn thresholds(destination: &str) -> [String; 2] {
    let list = run("ipvsadm", "-Ln --thresholds");
    let line = list.lines().find(|line| line.contains(destination)).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["->", _, upper, lower, _, _] = words[..] else { panic!("{line}") };
    [upper, lower].map(str::to_owned)
}

/// What ipvsadm was made to print is what our dump has: planning to it plans nothing.
fn assert_is_seen(operations: &[Operation]) {
    let mut memory = lvsd::ipvs::Memory::default();
    for result in memory.apply(operations) {
        result.unwrap();
    }
    assert_eq!(dump().table, memory.table());
}

#[test]
fn edits_keep_what_is_there() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        apply(&[
            add_service(web, "wlc"),
            add(web, "198.51.100.1:80", nat(1)),
            add(web, "198.51.100.2:80", nat(2)),
        ]);
        let mut edited = attributes("sh", Family::Ipv4);
        edited.persistence = Some(60);
        edited.netmask = 16;
        edited.flags = ServiceFlags::SCHEDULER_1;
        let limited = Destination { upper_threshold: 10, lower_threshold: 5, ..via(Forwarding::Dr, 0) };
        apply(&[
            Operation::EditService { service: web, attributes: edited },
            edit(web, "198.51.100.1:80", limited),
            edit(
                web,
                "198.51.100.2:80",
                via(Forwarding::Tun(Tunnel::Gre { checksum: TunnelChecksum::Csum }), 3),
            ),
        ]);
        assert_eq!(
            saved(),
            sorted([
                "-A -t 192.0.2.10:80 -s sh -p 60 -M 255.255.0.0 -b sh-fallback",
                "-a -t 192.0.2.10:80 -r 198.51.100.1:80 -g -w 0",
                "-a -t 192.0.2.10:80 -r 198.51.100.2:80 -i -w 3 --tun-type gre --tun-csum",
            ])
        );
        assert_eq!(thresholds("198.51.100.1:80"), ["10", "5"].map(str::to_owned));
        // And back: nothing of the earlier record stays behind.
        apply(&[
            Operation::EditService { service: web, attributes: attributes("wlc", Family::Ipv4) },
            edit(web, "198.51.100.1:80", nat(1)),
            edit(web, "198.51.100.2:80", nat(2)),
        ]);
        assert_eq!(
            saved(),
            sorted([
                "-A -t 192.0.2.10:80 -s wlc",
                "-a -t 192.0.2.10:80 -r 198.51.100.1:80 -m -w 1",
                "-a -t 192.0.2.10:80 -r 198.51.100.2:80 -m -w 2",
            ])
        );
        assert_eq!(thresholds("198.51.100.1:80"), ["0", "0"].map(str::to_owned));
        apply(&[remove(web, "198.51.100.1:80")]);
        assert_eq!(
            saved(),
            sorted(["-A -t 192.0.2.10:80 -s wlc", "-a -t 192.0.2.10:80 -r 198.51.100.2:80 -m -w 2"])
        );
        apply(&[Operation::RemoveService { service: web }]);
        assert_eq!(saved(), Vec::<String>::new());
    });
}

#[test]
fn a_printed_operation_does_the_same_through_ipvsadm() {
    in_name_space(|| {
        let web = tcp("[2001:db8::10]:80");
        let mark = fwmark(7, Family::Ipv6);
        let mut persistent = attributes("mh", Family::Ipv6);
        persistent.persistence = Some(60);
        persistent.netmask = 64;
        persistent.flags = ServiceFlags::SCHEDULER_2;
        let operations = [
            Operation::AddService { service: web, attributes: persistent },
            add_service(mark, "none"),
            add(web, "[2001:db8::11]:80", Destination { upper_threshold: 9, lower_threshold: 3, ..nat(4) }),
            add(web, "[2001:db8::12]:80", nat(5)),
            add(
                mark,
                "198.51.100.1:0",
                via(Forwarding::Tun(Tunnel::Gue { port: 6080, checksum: TunnelChecksum::Csum }), 1),
            ),
            edit(web, "[2001:db8::12]:80", nat(0)),
            remove(web, "[2001:db8::11]:80"),
            Operation::EditService { service: mark, attributes: attributes("rr", Family::Ipv6) },
        ];
        for operation in &operations {
            run("ipvsadm", &operation.to_string());
        }
        let by_ipvsadm = (saved(), dump().table);
        run("ipvsadm", "-C");
        apply(&operations);
        assert_eq!((saved(), dump().table), by_ipvsadm);
    });
}

#[test]
fn foreign_entries_of_any_shape_are_seen_and_left_alone() {
    in_name_space(|| {
        for line in [
            "-A -t 192.0.2.99:80 -s rr -p 10 -M 255.0.255.0",
            "-a -t 192.0.2.99:80 -r 198.51.100.1:80 -m -w 1",
            "-A -u 192.0.2.99:53 -s none",
            "-A -t 192.0.2.98:80 -s rr",
            "-a -t 192.0.2.98:80 -r 198.51.100.1:80 -m -w 1",
        ] {
            run("ipvsadm", line);
        }
        let before = saved();
        let mut desired = dump().table;
        assert_eq!(desired.services.len(), 3);
        desired.services.clear();
        // Ours are one that is wanted and one of an earlier run.
        let ours = tcp("192.0.2.10:80");
        let mut memory = lvsd::ipvs::Memory::with_table(desired);
        for result in memory.apply(&[add_service(ours, "rr"), add(ours, "198.51.100.1:80", nat(1))]) {
            result.unwrap();
        }
        let owned = BTreeSet::from([tcp("192.0.2.98:80")]);
        let operations = plan(&dump().table, &memory.table(), &owned);
        assert_eq!(
            operations.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "-D -t 192.0.2.98:80",
                "-A -t 192.0.2.10:80 -s rr",
                "-a -t 192.0.2.10:80 -r 198.51.100.1:80 -m -w 1"
            ]
        );
        apply(&operations);
        let mut expected: Vec<String> =
            before.into_iter().filter(|line| !line.contains("192.0.2.98")).collect();
        expected.extend(
            ["-A -t 192.0.2.10:80 -s rr", "-a -t 192.0.2.10:80 -r 198.51.100.1:80 -m -w 1"]
                .map(str::to_owned),
        );
        expected.sort();
        assert_eq!(saved(), expected);
        assert_eq!(plan(&dump().table, &memory.table(), &owned), []);
    });
}

#[test]
fn a_new_maglev_service_is_filled_first() {
    in_name_space(|| {
        let web = tcp("192.0.2.10:80");
        let mut memory = lvsd::ipvs::Memory::default();
        let mut operations = vec![add_service(web, "mh")];
        operations.extend((1..=20).map(|n| add(web, &format!("198.51.100.{n}:80"), nat(1))));
        for result in memory.apply(&operations) {
            result.unwrap();
        }
        let planned = plan(&dump().table, &memory.table(), &BTreeSet::new());
        assert_eq!(planned.first().unwrap().to_string(), "-A -t 192.0.2.10:80 -s none");
        apply(&planned);
        assert_eq!(dump().table, memory.table());
        assert_eq!(saved().len(), 21);
        assert_eq!(saved()[0], "-A -t 192.0.2.10:80 -s mh");
    });
}

#[test]
fn counters_are_those_of_the_kernel() {
    in_name_space(|| {
        let web = tcp("127.0.0.1:80");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let real = listener.local_addr().unwrap();
        let virtual_address = "127.0.0.2:80";
        let service = tcp(virtual_address);
        apply(&[add_service(web, "rr"), add_service(service, "rr"), add(service, &real.to_string(), nat(1))]);
        let connection = std::net::TcpStream::connect(virtual_address).unwrap();
        let key = (service, destination(&real.to_string()));
        assert_eq!(dump().counters.get(&key).unwrap().active, 1);
        // The kernel adds up what each processor counted at every second or so.
        let mut counters = *dump().counters.get(&key).unwrap();
        for _ in 0..100 {
            if counters.connections > 0 {
                break;
            }
            run("sleep", "0.1");
            counters = *dump().counters.get(&key).unwrap();
        }
        assert_eq!(counters.connections, 1);
        assert!(counters.packets_in >= 2 && counters.bytes_in >= 80, "{counters:?}");
        let stats = run("ipvsadm", "-Ln --stats --exact");
        let line = stats.lines().find(|line| line.contains(&real.to_string())).unwrap();
        let numbers: Vec<u64> = line.split_whitespace().skip(2).map(|n| n.parse().unwrap()).collect();
        let ours = [
            counters.connections,
            counters.packets_in,
            counters.packets_out,
            counters.bytes_in,
            counters.bytes_out,
        ];
        assert_eq!(numbers, ours);
        drop(connection);
    });
}

#[test]
fn the_kernel_has_ipvs_1_2_1() {
    in_name_space(|| {
        let info = netlink().info().unwrap();
        assert_eq!(info.version, (1, 2, 1));
        let (major, minor, patch) = info.version;
        let head = format!(
            "IP Virtual Server version {major}.{minor}.{patch} (size={})",
            info.connection_table_size
        );
        assert_eq!(run("ipvsadm", "-Ln").lines().next(), Some(head.as_str()));
    });
}

#[test]
fn a_scheduler_is_any_that_the_kernel_can_load() {
    in_name_space(|| {
        let names = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"];
        for name in names {
            let web = tcp("192.0.2.10:80");
            apply(&[add_service(web, name)]);
            let seen = dump().table.services[&web].attributes.scheduler.clone();
            assert_eq!(Some(seen), Scheduler::new(name));
            assert_eq!(saved(), [format!("-A -t 192.0.2.10:80 -s {name}")]);
            apply(&[Operation::RemoveService { service: web }]);
        }
    });
}
