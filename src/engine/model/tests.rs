//! The few values of the model that do something.

use super::*;

#[test]
fn a_status_set_sorts_and_joins() {
    let table: [(&[(u16, u16)], &str); 8] = [
        (&[(200, 299)], "200-299"),
        (&[(302, 302), (200, 204)], "200-204, 302"),
        (&[(200, 204), (205, 210)], "200-210"),
        (&[(200, 250), (220, 230)], "200-250"),
        (&[(200, 210), (205, 220), (221, 221)], "200-221"),
        (&[(404, 404), (404, 404)], "404"),
        (&[(300, 200)], ""),
        (&[(65535, 65535), (65534, 65534)], "65534-65535"),
    ];
    for (ranges, shown) in table {
        assert_eq!(StatusSet::new(ranges.iter().copied()).to_string(), shown);
    }
}

#[test]
fn a_status_set_has_what_it_was_given() {
    let set = StatusSet::new([(200, 299), (302, 302), (500, 599)]);
    for status in 100..=599 {
        let wanted = (200..=299).contains(&status) || status == 302 || status >= 500;
        assert_eq!(set.contains(status), wanted, "{status}");
    }
}

#[test]
fn scheduler_names_are_those_of_kernel_modules() {
    for good in ["rr", "wlc", "mh", "a-scheduler_1", "fifteen-letters"] {
        assert_eq!(Scheduler::new(good).map(|s| s.to_string()).as_deref(), Some(good));
    }
    for bad in ["", "sixteen-letters-", "w lc", "../wlc", "wlc\0", "wlç"] {
        assert_eq!(Scheduler::new(bad), None, "{bad:?}");
    }
}

#[test]
fn addresses_are_shown_as_they_are_written() {
    let show = |address: &str, port| RealServerId { address: address.parse().unwrap(), port }.to_string();
    assert_eq!(show("198.51.100.11", Some(80)), "198.51.100.11:80");
    assert_eq!(show("198.51.100.11", None), "198.51.100.11");
    assert_eq!(show("2001:db8::1", Some(80)), "[2001:db8::1]:80");
    assert_eq!(show("2001:db8::1", None), "2001:db8::1");
}
