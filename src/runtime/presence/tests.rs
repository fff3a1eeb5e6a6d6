//! Files of a directory of the test's own, and the loopback address, which every machine has.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use super::*;
use crate::engine::model::{AddressGate, VirtualServer, Whose};
use crate::runtime::testing::{config, pool};

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn gated(gates: Vec<ActiveWhen>) -> Config {
    let pools = gates.into_iter().zip(10..).map(|(gate, last)| {
        let pool = pool(&format!("pool{last}"), &format!("192.0.2.{last}:80"), &[]);
        Arc::new(VirtualServer { active_when: Some(gate), ..(*pool).clone() })
    });
    config(pools.collect())
}

fn by_file(path: &Path) -> ActiveWhen {
    ActiveWhen::File(path.to_owned())
}

fn by_address() -> ActiveWhen {
    ActiveWhen::Address(AddressGate { whose: Whose::Own, interface: None })
}

#[tokio::test]
async fn a_reading_has_the_files_that_exist_and_addresses_only_where_they_are_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let [there, away, dangling] = ["there", "missing/away", "dangling"].map(|name| root.path().join(name));
    fs::write(&there, "").unwrap();
    std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
    let by_files = gated([&there, &away, &dangling].map(|path| by_file(path)).to_vec());
    assert_eq!(files(&by_files), Files::from([there.clone(), away, dangling]));
    let read = read(&by_files).await.unwrap();
    assert_eq!(read.files, BTreeSet::from([there]));
    assert_eq!(read.addresses, BTreeMap::new(), "nobody asked");
    let read = super::read(&gated(vec![by_address()])).await.unwrap();
    let holder = Holder { interface: "lo".to_owned(), loopback: true };
    assert_eq!(read.addresses[&LOCALHOST], BTreeSet::from([holder]));
    assert_eq!(super::read(&config(vec![])).await.unwrap(), Presence::default());
}

#[tokio::test]
async fn what_a_start_waits_for_is_known_and_then_followed() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("active");
    let config = gated(vec![by_file(&file), by_address()]);
    let mut surroundings = Surroundings::begin(&config, Breaks::default()).unwrap();
    surroundings.known().await.unwrap();
    let before = surroundings.presence();
    assert!(before.addresses.contains_key(&LOCALHOST));
    assert_eq!(before.files, BTreeSet::new());
    fs::write(&file, "").unwrap();
    surroundings.note_changes(&Files::from([root.path().join("other")]), clock::now());
    assert!(surroundings.look.is_none(), "no file of a gate");
    // One look under way, and one more for what came meanwhile.
    surroundings.note_changes(&Files::from([file.clone()]), clock::now());
    surroundings.note_changes(&Files::from([file.clone()]), clock::now());
    while surroundings.look.is_some() {
        surroundings.changed().await.unwrap();
    }
    assert_eq!(surroundings.presence().files, BTreeSet::from([file]));
    assert!(!surroundings.again);
}

#[tokio::test]
async fn without_a_word_from_anybody_files_are_looked_for_at_intervals() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("active");
    fs::write(&file, "").unwrap();
    let config = gated(vec![by_file(&file)]);
    let mut surroundings = Surroundings::begin(&config, Breaks::default()).unwrap();
    surroundings.known().await.unwrap();
    fs::remove_file(&file).unwrap();
    let now = clock::now();
    surroundings.tick(now);
    surroundings.changed().await.unwrap();
    assert_eq!(surroundings.presence().files, BTreeSet::new());
    surroundings.tick(now + INTERVAL / 2);
    assert!(surroundings.look.is_none());
    surroundings.tick(now + INTERVAL);
    assert!(surroundings.look.is_some());
}

#[tokio::test]
async fn a_reload_brings_what_was_read_for_it() {
    let root = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| root.path().join(name));
    fs::write(&old, "").unwrap();
    fs::write(&new, "").unwrap();
    let mut surroundings = Surroundings::begin(&gated(vec![by_file(&old)]), Breaks::default()).unwrap();
    surroundings.known().await.unwrap();
    // A look at the old files that ends after the reload says nothing of the new ones.
    surroundings.tick(clock::now() + INTERVAL);
    let next = gated(vec![by_file(&new), by_address()]);
    let read = read(&next).await.unwrap();
    let presence = surroundings.adopt(&next, read.clone());
    assert_eq!(presence, read, "also before the thread of the addresses has said anything");
    while surroundings.look.is_some() {
        surroundings.changed().await.unwrap();
    }
    assert_eq!(surroundings.presence().files, BTreeSet::from([new]));
    // The thread's picture counts from now on, the reading's no more.
    let following = surroundings.following.as_mut().unwrap();
    following.pictures.wait_for(Option::is_some).await.unwrap();
    surroundings.addresses.clear();
    assert!(surroundings.presence().addresses.contains_key(&LOCALHOST));
    // And ends with the last gate that asks for an address.
    surroundings.adopt(&config(vec![]), Presence::default());
    assert!(surroundings.following.is_none());
    assert_eq!(surroundings.presence(), Presence::default());
}
