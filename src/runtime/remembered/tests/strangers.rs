//! Texts that are whole, but not all of them what lvsd writes.

use super::*;

#[test]
fn a_frame_that_is_not_ours_is_refused_with_a_reason() {
    for (from, to, reason) in [
        (r#""version":1"#, r#""version":2"#, "version 2, this lvsd reads version 1"),
        (r#""version":1"#, r#""version":2,"more":1"#, "version 2, this lvsd reads version 1"),
        (r#""version":1"#, r#""version":-1"#, "invalid value"),
        (r#""version":1,"#, "", "missing field `version`"),
        (r#""version":1,"#, r#""version":1,"version":1,"#, "duplicate field `version`"),
        ("00000001000000000000", "soon", "bad time stamp \"soon\""),
        ("00000001000000000000", "99999999999999999999", "bad time stamp"),
        (r#""owned":["#, r#""owned":7,"others":["#, "invalid type"),
        (r#""virtual_servers":"#, r#""servers":"#, "unknown field `servers`"),
    ] {
        assert!(GOLDEN.contains(from), "{from}");
        let error = parse(&GOLDEN.replacen(from, to, 1), BOOT, NOW).unwrap_err();
        assert!(error.contains(reason), "{from} → {to}: {error}");
    }
}

fn forget_check(state: &mut State, which: usize) {
    let mut checks = server(state).checks.to_vec();
    checks.remove(which);
    server(state).checks = checks.into();
}

#[test]
fn a_stranger_entry_costs_itself_alone_and_is_said() {
    /// What is replaced by what, what is said of it, and what is lost.
    type Case = (&'static str, &'static str, &'static str, fn(&mut State));
    const FIRST: &str = "000000000000000000000000000000ff";
    let cases: [Case; 21] = [
        (r#""version":1"#, r#""version":1,"more":1"#, "unknown field `more`", |_| {}),
        (r#"["fwmark 5 ipv6","#, r#"["tcp 192.0.2.10","#, r#""tcp 192.0.2.10" names no service"#, |state| {
            state.owned.retain(|id| matches!(id, ServiceId::Address { .. }));
        }),
        (r#"["fwmark 5 ipv6","#, r#"[5,"#, "owned: invalid type: integer `5`, expected a string", |state| {
            state.owned.retain(|id| matches!(id, ServiceId::Address { .. }));
        }),
        ("udp [2001:db8::10]:53", "icmp 192.0.2.10:80", "names no service", |state| {
            state.owned.remove(&service_id("udp [2001:db8::10]:53").unwrap());
        }),
        ("192.0.2.10 on lvs0", "lvs0", "names no virtual address", |state| {
            state.announced.remove(&virtual_address("192.0.2.10 on lvs0").unwrap());
        }),
        ("[900,120,300]", "[900,120]", "original_timeouts: invalid length 2", |state| {
            state.original_timeouts = None;
        }),
        ("[998000000000,", "[-1,", "left: invalid value", |state| {
            state.memory.left.remove(0);
        }),
        (r#""fwmark 5 ipv6"],"quorum"#, r#""fwmark 0 ipv6"],"quorum"#, "names no service", |state| {
            state.memory.virtual_servers[0].services.pop();
        }),
        (r#""fwmark 5 ipv6"],"quorum"#, r#""fwmark 5"],"quorum"#, "names no service", |state| {
            state.memory.virtual_servers[0].services.pop();
        }),
        (r#""quorum_up":true"#, r#""quorum_up":1"#, "virtual server: invalid type", |state| {
            state.memory.virtual_servers.clear();
        }),
        (r#""quorum_up":true"#, r#""quorum_up":true,"x":1"#, "virtual server: unknown field `x`", |_| {}),
        ("198.51.100.11:80", "198.51.100.11:99999", "\"198.51.100.11:99999\" is no address", |state| {
            state.memory.virtual_servers[0].real_servers.remove(0);
        }),
        (r#""address":"198.51.100.11:80","#, "", "real server: missing field `address`", |state| {
            state.memory.virtual_servers[0].real_servers.remove(0);
        }),
        (
            r#""address":"198.51.100.11:80""#,
            r#""address":"198.51.100.11:80","x":1"#,
            "unknown field `x`",
            |_| {},
        ),
        ("drain", "destroy", "real server \"198.51.100.11:80\": order: unknown variant `destroy`", |state| {
            server(state).order = None;
        }),
        (r#""weight":[7,"#, r#""weight":[-7,"#, "weight: invalid value", |state| {
            server(state).operator_weight = None;
        }),
        (r#""kept":998000000000"#, r#""kept":"long""#, "kept: invalid type", |state| {
            server(state).kept = None
        }),
        (FIRST, "not hex", "bad identity \"not hex\"", |state| forget_check(state, 0)),
        (FIRST, "1000000000000000000000000000000ff", "bad identity", |state| forget_check(state, 0)),
        (r#""failures":3"#, r#""failures":-3"#, "check: invalid value", |state| forget_check(state, 1)),
        (r#""up":true,"heard""#, r#""up":1,"heard""#, "check: invalid type", |state| forget_check(state, 0)),
    ];
    for (from, to, reason, loses) in cases {
        assert!(GOLDEN.contains(from), "{from}");
        let (state, left_out) = parse_loosely(&GOLDEN.replacen(from, to, 1)).unwrap();
        assert_eq!(state, without(loses), "{from} → {to}");
        let [said] = &left_out[..] else { panic!("{from} → {to}: {left_out:?}") };
        assert!(said.contains(reason) && !said.contains(" line "), "{from} → {to}: {said}");
    }
}

/// What somebody else wrote may be strange all over.
#[test]
fn of_many_stranger_entries_the_first_are_said_and_the_others_counted() {
    let strangers: String = (0..1000).map(|n| format!("\"stranger {n}\",")).collect();
    let (state, said) =
        parse_loosely(&GOLDEN.replacen(r#""owned":["#, &format!(r#""owned":[{strangers}"#), 1)).unwrap();
    assert_eq!(state, example());
    assert_eq!(said.len(), 11);
    assert!(said[0].starts_with("\"stranger 0\"") && said[10] == "990 more entries", "{said:?}");
}
