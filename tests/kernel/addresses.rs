//! Reading and following the addresses of a name space, with `ip` as the judge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lvsd::addresses::{Picture, Reader, spawn_watcher};

use crate::lab::net::Space;
use crate::lab::wait::{SOON, pause, within};

/// Interface, address and length of the prefix.
type Line = (String, String, u64);

fn as_ip_sees_it(space: &Space) -> BTreeSet<Line> {
    let text = space.output("ip", "-j addr show");
    let links: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut lines = BTreeSet::new();
    for link in links.as_array().expect("a list") {
        for address in link["addr_info"].as_array().expect("a list") {
            let word = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
            let prefix = address["prefixlen"].as_u64().expect("a number");
            lines.insert((word(&link["ifname"]), word(&address["local"]), prefix));
        }
    }
    lines
}

fn lines(picture: &Picture) -> BTreeSet<Line> {
    picture.addresses.iter().map(|a| (a.interface.clone(), a.address.to_string(), a.prefix.into())).collect()
}

fn local(picture: &Picture) -> Vec<String> {
    picture.local().map(|(address, _)| address.address.to_string()).collect()
}

#[test]
fn a_reading_is_what_ip_shows() {
    let space = Space::new("addresses");
    let mut batch = "link add one type dummy\nlink add two type dummy\nlink set one up\n".to_owned();
    batch += "addr add 192.0.2.1 peer 192.0.2.2/32 dev one\naddr add 192.0.2.1/24 dev two\n";
    batch += "addr add 2001:db8::1/64 dev one\naddr add 2001:db8::2 peer 2001:db8::3/128 dev one\n";
    // More than one datagram holds.
    for n in 0..500 {
        batch += &format!("addr add 198.51.{}.{}/32 dev one\n", n / 250, n % 250 + 1);
    }
    space.ip(&batch);
    let picture = space.run(|| Reader::new().read()).expect("the kernel answers");
    let found = lines(&picture);
    assert!(found.len() > 500);
    assert_eq!(found, as_ip_sees_it(&space));
    assert_eq!(picture.interface("one").map(|i| (i.up, i.loopback)), Some((true, false)));
    assert_eq!(picture.interface("two").map(|i| (i.up, i.loopback)), Some((false, false)));
    assert_eq!(picture.interface("lo").map(|i| (i.up, i.loopback)), Some((true, true)));
    let both = local(&picture).into_iter().filter(|address| address == "192.0.2.1").count();
    assert_eq!(both, 1, "one of its two interfaces is down");
}

#[test]
fn a_duplicate_or_untried_address_is_not_local() {
    // Both ends have the address: the later one finds that out by itself.
    let space = Space::new("addresses");
    space.ip("link add left type veth peer name right\nlink set left up\nlink set right up");
    space.run(|| std::fs::write("/proc/sys/net/ipv6/conf/left/dad_transmits", "3").expect("root may"));
    space.ip("addr add 2001:db8::7/64 dev right nodad");
    space.ip("addr add 2001:db8::7/64 dev left");
    let state = || {
        let picture = space.run(|| Reader::new().read()).expect("the kernel answers");
        let on_left = picture
            .addresses
            .iter()
            .find(|x| x.interface == "left" && x.address.to_string() == "2001:db8::7");
        let flags = on_left.map(|address| address.flags);
        (flags.is_some_and(|flags| flags.is_usable()), flags.map_or(0, |flags| flags.bits()))
    };
    assert!(!state().0, "not tried yet");
    let end = Instant::now() + SOON;
    // IFA_F_DADFAILED
    while state().1 & 0x8 == 0 {
        assert!(!state().0, "never usable");
        assert!(Instant::now() < end, "duplicate address detection has not ended: {:x}", state().1);
        pause(Duration::from_millis(50));
    }
    assert!(!state().0);
}

#[test]
fn a_watcher_sends_every_change_by_itself() {
    let space = Space::new("addresses");
    space.ip("link add one type dummy\nlink set one up");
    let watcher = space.run(|| spawn_watcher(&lvsd::anew::Breaks::default())).expect("a thread");
    let pictures = watcher.pictures();
    let shows = |wanted: &dyn Fn(&Arc<Picture>) -> bool| {
        within(SOON, "the picture is right", || pictures.borrow().as_ref().filter(|p| wanted(p)).map(|_| ()));
    };
    shows(&|picture| picture.interface("one").is_some());
    // One look every 10 s would take minutes.
    let started = Instant::now();
    for n in 1..20 {
        space.ip(&format!("addr add 192.0.2.{n}/32 dev one"));
        shows(&|picture| local(picture).contains(&format!("192.0.2.{n}")));
    }
    space.ip("link set one down");
    shows(&|picture| !local(picture).contains(&"192.0.2.1".to_owned()));
    space.ip("link del one");
    shows(&|picture| {
        picture.interface("one").is_none() && lines(picture).iter().all(|(name, ..)| name == "lo")
    });
    assert!(started.elapsed() < Duration::from_secs(100), "each of them by an event");
}
