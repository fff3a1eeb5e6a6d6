//! Whatever the daemon knows survives the text and comes back the same; whatever the text is, reading
//! it is an error or a state, never a panic.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::engine::model::{Few, Mark};

mod dated;
mod secrets;
mod strangers;

const BOOT: &str = "6b1f5f6e-4d7a-4d0e-9c1a-0123456789ab";
const OTHER_BOOT: &str = "00000000-0000-0000-0000-000000000000";
const SAVED: Time = Time::from_nanos(1_000_000_000_000);
const NOW: Time = Time::from_nanos(1_005_000_000_000);

/// All of the text is understood.
fn parse(text: &str, boot_id: &str, now: Time) -> Result<State, String> {
    let mut left_out = LeftOut::default();
    let parsed = super::parse(text, boot_id, now, &mut left_out);
    assert!(parsed.is_err() || left_out == LeftOut::default(), "{left_out:?}");
    parsed
}

/// What is understood of the text, and what is not.
fn parse_loosely(text: &str) -> Result<(State, Vec<String>), String> {
    let mut left_out = LeftOut::default();
    let state = super::parse(text, BOOT, NOW, &mut left_out)?;
    Ok((state, left_out.lines().collect()))
}

fn tcp(text: &str) -> ServiceId {
    service_id(&format!("tcp {text}")).unwrap()
}

fn note(by: &str, reason: Option<&str>, until: Option<u64>) -> OrderNote {
    OrderNote {
        by: by.to_owned(),
        reason: reason.map(str::to_owned),
        since: Time::from_nanos(900_000_000_000),
        until: until.map(Time::from_nanos),
    }
}

/// One of everything.
fn example() -> State {
    let checked = CheckerState {
        up: true,
        has_run: true,
        failures: 0,
        successes: 0,
        weight: WeightChange::None,
        heard: Time::from_nanos(999_000_000_000),
        last: None,
    };
    let servers = vec![
        RememberedRealServer {
            id: real_server_id("198.51.100.11:80").unwrap(),
            order: Some(Box::new(Override {
                order: Order::Drain,
                note: note("alice", Some("disk \"full\""), Some(1_060_000_000_000)),
            })),
            operator_weight: Some(Box::new(OperatorWeight { weight: 7, note: note("uid 1000", None, None) })),
            kept: Some(Time::from_nanos(998_000_000_000)),
            since: None,
            checks: Vec::from([
                (Identity::parse("00ff").unwrap(), checked.clone()),
                (
                    Identity::parse("1").unwrap(),
                    CheckerState {
                        up: false,
                        failures: 3,
                        successes: 1,
                        weight: WeightChange::Delta(-5),
                        ..checked.clone()
                    },
                ),
                (
                    Identity::parse("2").unwrap(),
                    CheckerState { weight: WeightChange::Absolute(9), ..checked },
                ),
            ])
            .into(),
        },
        RememberedRealServer {
            id: real_server_id("2001:db8::11").unwrap(),
            order: Some(Box::new(Override { order: Order::Disable, note: note("bob", None, None) })),
            operator_weight: None,
            kept: None,
            since: None,
            checks: Few::new(),
        },
    ];
    let mark = ServiceId::Mark { family: Family::Ipv6, mark: Mark::new(5).unwrap() };
    State {
        memory: Memory {
            left: vec![Time::from_nanos(998_000_000_000), Time::from_nanos(999_000_000_000)],
            saved_at: Some(SAVED),
            virtual_servers: vec![RememberedVirtualServer {
                name: "web".to_owned(),
                services: vec![tcp("192.0.2.10:80"), mark],
                quorum_up: true,
                since: None,
                real_servers: servers,
            }],
        },
        owned: BTreeSet::from([
            tcp("192.0.2.10:80"),
            service_id("udp [2001:db8::10]:53").unwrap(),
            service_id("sctp 192.0.2.10:0").unwrap(),
            mark,
        ]),
        announced: BTreeSet::from([
            virtual_address("192.0.2.10 on lvs0").unwrap(),
            virtual_address("2001:db8::10 on lvs 0").unwrap(),
        ]),
        original_timeouts: Some(Timeouts {
            tcp: NonZeroU32::new(900),
            tcp_fin: NonZeroU32::new(120),
            udp: NonZeroU32::new(300),
        }),
    }
}

/// [`example`], but for something.
fn without(what: impl FnOnce(&mut State)) -> State {
    let mut state = example();
    what(&mut state);
    state
}

fn server(state: &mut State) -> &mut RememberedRealServer {
    &mut state.memory.virtual_servers[0].real_servers[0]
}

/// What a daemon of this version must be able to read for ever.
const GOLDEN: &str = concat!(
    r#"{"version":1,"boot_id":"6b1f5f6e-4d7a-4d0e-9c1a-0123456789ab","stamp":"00000001000000000000","#,
    r#""owned":["fwmark 5 ipv6","sctp 192.0.2.10:0","tcp 192.0.2.10:80","udp [2001:db8::10]:53"],"#,
    r#""announced":["192.0.2.10 on lvs0","2001:db8::10 on lvs 0"],"#,
    r#""original_timeouts":[900,120,300],"left":[998000000000,999000000000],"virtual_servers":[{"name":"web","services":["tcp 192.0.2.10:80","fwmark 5 ipv6"],"#,
    r#""quorum_up":true,"real_servers":[{"address":"198.51.100.11:80","order":["drain",{"by":"alice","#,
    r#""reason":"disk \"full\"","since":900000000000,"until":1060000000000}],"#,
    r#""weight":[7,{"by":"uid 1000","reason":null,"since":900000000000,"until":null}],"kept":998000000000,"#,
    r#""checks":[{"identity":"000000000000000000000000000000ff","up":true,"heard":999000000000},"#,
    r#"{"identity":"00000000000000000000000000000001","up":false,"failures":3,"successes":1,"delta":-5,"heard":999000000000},"#,
    r#"{"identity":"00000000000000000000000000000002","up":true,"absolute":9,"heard":999000000000}]},"#,
    r#"{"address":"2001:db8::11","order":["disable",{"by":"bob","reason":null,"since":900000000000,"until":null}]}]}]}"#,
);

#[test]
fn version_1_is_this_text() {
    assert_eq!(render(&example(), BOOT).text, GOLDEN);
    assert_eq!(parse(GOLDEN, BOOT, NOW), Ok(example()));
    let mut nameless = example();
    nameless.memory.virtual_servers[0].name.clear();
    assert_eq!(parse(&GOLDEN.replace(r#""name":"web","#, ""), BOOT, NOW), Ok(nameless));
}

/// Whoever has a hand in the file must not have one in what this host is to itself.
#[test]
fn a_loopback_address_was_never_announced() {
    let mut wanted = example();
    wanted.announced.remove(&virtual_address("192.0.2.10 on lvs0").unwrap());
    for address in ["127.0.0.1 on lo", "::1 on lo", "::1 on lvs0"] {
        let text = GOLDEN.replace("192.0.2.10 on lvs0", address);
        let left_out = vec![format!("{address:?} names no virtual address")];
        assert_eq!(parse_loosely(&text), Ok((wanted.clone(), left_out)));
    }
}

#[test]
fn an_empty_state_is_a_short_text() {
    let state = State { memory: Memory { saved_at: Some(SAVED), ..Memory::default() }, ..State::default() };
    let text = render(&state, BOOT).text;
    let golden = format!(
        r#"{{"version":1,"boot_id":"{BOOT}","stamp":"00000001000000000000","owned":[],"virtual_servers":[]}}"#
    );
    assert_eq!(text, golden);
    assert_eq!(parse(&text, BOOT, NOW), Ok(state));
}

#[test]
fn another_boot_takes_the_age_of_verdicts_and_all_of_the_kernels() {
    let state = parse(GOLDEN, OTHER_BOOT, NOW).unwrap();
    assert_eq!(state.memory.saved_at, None);
    assert_eq!(state.owned, BTreeSet::new());
    assert_eq!(state.original_timeouts, None);
    let [pool] = &state.memory.virtual_servers[..] else { panic!("{state:?}") };
    assert!(pool.quorum_up);
    let [first, second] = &pool.real_servers[..] else { panic!("{pool:?}") };
    let order = first.order.as_ref().unwrap();
    assert_eq!((order.note.by.as_str(), order.note.reason.as_deref()), ("alice", Some("disk \"full\"")));
    assert_eq!(first.kept, None, "nobody knows when that was");
    assert_eq!(order.note.since, NOW);
    assert_eq!(order.note.until, Some(NOW + Duration::from_secs(60)), "what was left of its time");
    assert_eq!(first.operator_weight.as_ref().unwrap().note.until, None);
    assert_eq!(second.order.as_ref().unwrap().order, Order::Disable);
}

#[test]
fn an_order_that_was_over_when_the_file_was_stamped_ends_at_once_after_another_boot() {
    let text = GOLDEN.replace("1060000000000", "999000000000");
    let state = parse(&text, OTHER_BOOT, NOW).unwrap();
    let order = state.memory.virtual_servers[0].real_servers[0].order.as_ref().unwrap();
    assert_eq!(order.note.until, Some(NOW));
}

/// A clock that went back is another name space's or a lie: the verdicts have no age, but the kernel's
/// table is that of this boot.
#[test]
fn a_stamp_of_the_future_takes_the_age_of_verdicts_only() {
    let before = Time::from_nanos(SAVED.as_nanos() - 1);
    let state = parse(GOLDEN, BOOT, before).unwrap();
    assert_eq!(state.memory.saved_at, None);
    assert_eq!(state.owned, example().owned);
    assert_eq!(state.original_timeouts, example().original_timeouts);
    let order = state.memory.virtual_servers[0].real_servers[0].order.as_ref().unwrap();
    assert_eq!(order.note.until, Some(before + Duration::from_secs(60)));
}

#[test]
fn a_stamp_of_now_is_current() {
    assert_eq!(parse(GOLDEN, BOOT, SAVED).unwrap().memory.saved_at, Some(SAVED));
}

#[test]
fn text_that_is_cut_off_anywhere_is_an_error() {
    for end in 0..GOLDEN.len() {
        assert!(parse(&GOLDEN[..end], BOOT, NOW).is_err(), "{}", &GOLDEN[..end]);
    }
}

#[test]
fn every_byte_replaced_is_an_error_or_a_state_that_can_be_kept() {
    for at in 0..GOLDEN.len() {
        for byte in *b"\0 \"\\{}[],:-09azZ\x7f" {
            let mut bytes = GOLDEN.as_bytes().to_vec();
            bytes[at] = byte;
            is_error_or_lasting_state(std::str::from_utf8(&bytes).unwrap());
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = open.repeat(100_000) + &close.repeat(100_000);
        assert!(parse(&nested, BOOT, NOW).is_err());
    }
    let whole = "[".repeat(100_000) + &"]".repeat(100_000);
    let (state, _) = parse_loosely(&GOLDEN.replace("\"alice\"", &whole)).unwrap();
    assert_eq!(
        state,
        without(|state| server(state).order = None),
        "where it is an entry, it costs the entry"
    );
}

/// A state that came out of a text goes back into one and out again.
fn is_error_or_lasting_state(text: &str) {
    if let Ok((mut state, _)) = parse_loosely(text) {
        state.memory.saved_at.get_or_insert(SAVED);
        assert_eq!(parse(&render(&state, BOOT).text, BOOT, NOW), Ok(state), "{text}");
    }
}

// -- random states --------------------------------------------------------------------------

fn services() -> impl Strategy<Value = ServiceId> {
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp), Just(Protocol::Sctp)];
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    prop_oneof![
        (protocol, any::<IpAddr>(), any::<u16>()).prop_map(|(protocol, address, port)| ServiceId::Address {
            protocol,
            address,
            port
        }),
        (family, any::<Mark>()).prop_map(|(family, mark)| ServiceId::Mark { family, mark }),
    ]
}

fn times() -> impl Strategy<Value = Time> {
    any::<u64>().prop_map(Time::from_nanos)
}

prop_compose! {
    fn notes()(
        by in any::<String>(),
        reason in any::<Option<String>>(),
        since in times(),
        until in proptest::option::of(times()),
    ) -> OrderNote {
        OrderNote { by, reason, since, until }
    }
}

prop_compose! {
    fn checks()(
        identity in any::<u128>(),
        up in any::<bool>(),
        failures in any::<u32>(),
        successes in any::<u32>(),
        heard in any::<u64>(),
        weight in prop_oneof![
            Just(WeightChange::None),
            any::<u32>().prop_map(WeightChange::Absolute),
            any::<i64>().prop_map(WeightChange::Delta),
        ],
    ) -> (Identity, CheckerState) {
        let heard = Time::from_nanos(heard);
        let state = CheckerState { up, has_run: true, failures, successes, weight, heard, last: None };
        (Identity::parse(&format!("{identity:x}")).unwrap(), state)
    }
}

prop_compose! {
    fn servers()(
        address in any::<IpAddr>(),
        port in any::<Option<u16>>(),
        order in proptest::option::of((prop_oneof![Just(Order::Drain), Just(Order::Disable)], notes())),
        weight in proptest::option::of((any::<u32>(), notes())),
        kept in proptest::option::of(any::<u64>().prop_map(Time::from_nanos)),
        since in proptest::option::of((any::<bool>(), times()).prop_map(|(alive, at)| Since { alive, at })),
        checks in proptest::collection::vec(checks(), 0..3),
    ) -> RememberedRealServer {
        RememberedRealServer {
            id: RealServerId { address, port },
            order: order.map(|(order, note)| Box::new(Override { order, note })),
            operator_weight: weight.map(|(weight, note)| Box::new(OperatorWeight { weight, note })),
            kept,
            since,
            checks: checks.into(),
        }
    }
}

prop_compose! {
    fn pools()(
        name in ".{0,5}",
        services in proptest::collection::vec(services(), 0..3),
        quorum_up in any::<bool>(),
        since in proptest::option::of(times()),
        real_servers in proptest::collection::vec(servers(), 0..4),
    ) -> RememberedVirtualServer {
        RememberedVirtualServer { name, services, quorum_up, since, real_servers }
    }
}

prop_compose! {
    fn virtual_addresses()(
        interface in "[!-~]{1,15}",
        address in any::<IpAddr>().prop_filter("announced", |a| !a.is_loopback()),
    ) -> VirtualAddress {
        VirtualAddress { interface: interface.as_str().into(), address }
    }
}

prop_compose! {
    fn states()(
        saved_at in 0..=NOW.as_nanos(),
        virtual_servers in proptest::collection::vec(pools(), 0..3),
        left in proptest::collection::vec((0..=NOW.as_nanos()).prop_map(Time::from_nanos), 0..3),
        owned in proptest::collection::btree_set(services(), 0..4),
        announced in proptest::collection::btree_set(virtual_addresses(), 0..4),
        timeouts in any::<Option<[Option<NonZeroU32>; 3]>>(),
    ) -> State {
        State {
            memory: Memory { saved_at: Some(Time::from_nanos(saved_at)), virtual_servers, left },
            owned,
            announced,
            original_timeouts: timeouts.map(|[tcp, tcp_fin, udp]| Timeouts { tcp, tcp_fin, udp }),
        }
    }
}

proptest! {
    #[test]
    fn any_state_comes_back_the_same(state in states()) {
        let stored = render(&state, BOOT);
        prop_assert_eq!(parse(&stored.text, BOOT, NOW), Ok(state));
    }

    #[test]
    fn a_stamp_is_renewed_where_it_stands(state in states(), later in times()) {
        let Stored { mut text, stamp_at } = render(&state, BOOT);
        let (at, new) = (usize::try_from(stamp_at).unwrap(), stamp(later));
        text.replace_range(at..at + new.len(), &new);
        let renewed = Memory { saved_at: Some(later), ..state.memory.clone() };
        prop_assert_eq!(parse(&text, BOOT, later.max(NOW)), Ok(State { memory: renewed, ..state }));
    }

    #[test]
    fn spoilt_text_is_an_error_or_a_state_that_can_be_kept(
        state in states(),
        spoils in proptest::collection::vec((any::<proptest::sample::Index>(), any::<char>(), any::<bool>()), 1..4),
    ) {
        let mut chars: Vec<char> = render(&state, BOOT).text.chars().collect();
        for (at, new, replace) in spoils {
            let at = at.index(chars.len());
            if replace { chars[at] = new } else { chars.insert(at, new) }
        }
        is_error_or_lasting_state(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_at_all_is_no_panic(text in any::<String>()) {
        prop_assert!(parse(&text, BOOT, NOW).is_err());
    }
}
