//! Against the kernel of the machine that runs the tests, of which nothing is known but its loopback.
//! Addresses that come and go are in tests/kernel.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[test]
fn the_first_picture_has_the_loopback_address() {
    let picture = Reader::new().read().unwrap();
    let (address, interface) = picture.local().find(|(a, _)| a.address == LOCALHOST).unwrap();
    assert_eq!((address.interface.as_str(), address.prefix), ("lo", 8));
    assert!(interface.loopback && interface.up);
    assert_eq!(picture.interface("lo"), Some(interface));
    assert_eq!(picture.interface("no-such-thing"), None);
}

#[test]
fn an_interface_that_is_down_or_a_duplicate_address_is_not_local() {
    let mut picture = Reader::new().read().unwrap();
    for interface in picture.interfaces.values_mut() {
        interface.up = false;
    }
    assert_eq!(picture.local().count(), 0);
    for interface in picture.interfaces.values_mut() {
        interface.up = true;
    }
    picture.addresses = std::mem::take(&mut picture.addresses)
        .into_iter()
        .map(|address| super::super::Address {
            flags: super::super::AddressFlags::from_bits(0x40),
            ..address
        })
        .collect();
    assert_eq!(picture.local().count(), 0);
}

#[tokio::test]
async fn pictures_come_by_themselves_and_end_with_their_owner() {
    let mut watcher = spawn_watcher(&Breaks::default()).unwrap();
    let mut pictures = watcher.pictures();
    pictures.changed().await.unwrap();
    let has = |pictures: &watch::Receiver<Option<Arc<Picture>>>| {
        pictures.borrow().as_ref().unwrap().addresses.iter().any(|a| a.address == LOCALHOST)
    };
    assert!(has(&pictures));
    // Far more rings than the pipe takes.
    for _ in 0..100_000 {
        watcher.look_again();
    }
    drop(watcher);
    while pictures.changed().await.is_ok() {}
    assert!(has(&pictures));
}

#[tokio::test]
async fn a_look_that_fails_is_tried_again_and_what_was_known_counts_on() {
    let mut looks = 0;
    let read = move || {
        looks += 1;
        match looks {
            1 => Err(ReadError::Overrun),
            2 => Reader::new().read(),
            _ => Err(ReadError::Interrupted),
        }
    };
    let mut watcher = spawn_with(read, &Breaks::default()).unwrap();
    let mut pictures = watcher.pictures();
    assert!(pictures.borrow().is_none(), "not an empty picture: nobody knows");
    pictures.changed().await.unwrap();
    let first = pictures.borrow_and_update().clone().unwrap();
    assert!(first.addresses.iter().any(|a| a.address == LOCALHOST));
    watcher.look_again();
    drop(watcher);
    while pictures.changed().await.is_ok() {}
    assert_eq!(pictures.borrow().as_ref(), Some(&first));
}

#[tokio::test]
async fn one_that_breaks_off_is_begun_anew_and_what_was_known_counts_on() {
    let (mut looks, breaks) = (0, Breaks::default());
    let read = move || {
        looks += 1;
        assert_ne!(looks, 2, "broken on purpose");
        let mut picture = Reader::new().read()?;
        if looks > 2 {
            picture.addresses.clear();
        }
        Ok(picture)
    };
    let mut watcher = spawn_with(read, &breaks).unwrap();
    let mut pictures = watcher.pictures();
    pictures.changed().await.unwrap();
    let first = pictures.borrow_and_update().clone();
    watcher.look_again();
    while breaks.counts().all(|(_, count)| count == 0) {
        assert!(!pictures.has_changed().unwrap());
        assert_eq!(*pictures.borrow(), first);
        tokio::task::yield_now().await;
    }
    pictures.changed().await.unwrap();
    assert!(pictures.borrow().as_ref().unwrap().addresses.is_empty(), "it looks again");
    assert!(breaks.counts().eq(Part::ALL.map(|part| (part, u64::from(part == Part::AddressWatcher)))));
}
