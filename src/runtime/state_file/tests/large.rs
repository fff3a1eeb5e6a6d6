//! How large the file may be: what is written can be read.

use super::*;
use crate::engine::memory::RememberedRealServer;
use crate::engine::model::WeightChange;
use crate::engine::snapshot::{Order, OrderNote, Override};
use crate::engine::{CheckerState, Identity};

/// Else a start would lose all the orders of the largest installations.
#[test]
fn what_may_be_written_can_be_read_to_the_byte() {
    let place = Place::new();
    let (state, boot) = (state(1000), clock::boot_id());
    let size = remembered::render(&state, &boot).text.len() as u64;
    let write = |most| remembered::write(&state, &boot, File::create(&place.path).unwrap(), most);
    write(size).unwrap();
    let text = read_bounded(&place.path, size).unwrap();
    assert_eq!(remembered::parse(&text, &boot, clock::now(), &mut LeftOut::default()), Ok(state.clone()));
    for refused in [read_bounded(&place.path, size - 1).unwrap_err(), write(size - 1).unwrap_err()] {
        assert_eq!(refused.kind(), std::io::ErrorKind::FileTooLarge);
    }
}

/// More than a start once read.
#[test]
fn the_state_of_a_very_large_installation_comes_back() {
    let place = Place::new();
    let now = clock::now();
    let checked = CheckerState {
        up: false,
        has_run: true,
        failures: 1,
        successes: 0,
        weight: WeightChange::None,
        heard: now,
        last: None,
    };
    let note = OrderNote { by: "root".to_owned(), reason: Some("why ".repeat(900)), since: now, until: None };
    let order = Override { order: Order::Drain, note };
    let server = |n: u32| RememberedRealServer {
        id: remembered::real_server_id(&format!("{}:80", std::net::Ipv4Addr::from(0x0a00_0000 + n))).unwrap(),
        order: Some(Box::new(order.clone())),
        operator_weight: None,
        kept: None,
        since: None,
        checks: (0..5)
            .map(|kind| (Identity::parse(&format!("{n:x}{kind:08x}")).unwrap(), checked.clone()))
            .collect(),
    };
    let pool = |n: u16| RememberedVirtualServer {
        name: "web".to_owned(),
        services: vec![tcp(&format!("192.0.2.10:{}", n + 1))],
        quorum_up: true,
        since: None,
        real_servers: (0..100).map(|m| server(100 * u32::from(n) + m)).collect(),
    };
    let mut state = state(1000);
    state.memory.virtual_servers = (0..180).map(pool).collect();
    let file = StateFile::spawn(place.path.clone(), &Breaks::default()).unwrap();
    save(&file, &state).unwrap();
    file.finish();
    assert!(fs::metadata(&place.path).unwrap().len() > 64 << 20);
    assert!(place.read() == state, "it comes back as it was");
}
