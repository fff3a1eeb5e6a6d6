//! The diff of virtual addresses, on anything that could be wanted and found.

use proptest::prelude::*;

use super::*;

pub(in crate::runtime::vips) fn on(interface: &str, address: &str) -> VirtualAddress {
    VirtualAddress { interface: interface.into(), address: address.parse().unwrap() }
}

pub(in crate::runtime::vips) fn interface(up: bool, addresses: &[&str]) -> Interface {
    Interface { index: 5, up, addresses: addresses.iter().map(|a| a.parse().unwrap()).collect() }
}

fn wish(present: &[VirtualAddress], absent: &[VirtualAddress]) -> Wish {
    Wish { present: present.iter().cloned().collect(), absent: absent.iter().cloned().collect() }
}

fn words(wish: &Wish, observed: &Observed) -> Vec<String> {
    let all: Vec<VirtualAddress> = wish.goals().cloned().collect();
    plan(wish, observed, all.iter()).iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_to_go_goes_first_and_what_is_not_spoken_of_stays() {
    let observed = Observed::from([("lvs0".into(), interface(true, &["192.0.2.20", "192.0.2.99"]))]);
    let wish = wish(&[on("lvs0", "192.0.2.10"), on("lvs0", "2001:db8::10")], &[on("lvs0", "192.0.2.20")]);
    let wanted =
        ["withdraw 192.0.2.20 from lvs0", "announce 192.0.2.10 on lvs0", "announce 2001:db8::10 on lvs0"];
    assert_eq!(words(&wish, &observed), wanted);
}

#[test]
fn an_address_that_moves_comes_before_it_goes() {
    let observed = Observed::from([
        ("lvs0".into(), interface(true, &["192.0.2.10", "192.0.2.20"])),
        ("lvs1".into(), interface(true, &[])),
    ]);
    let gone = [on("lvs0", "192.0.2.10"), on("lvs0", "192.0.2.20")];
    let wanted =
        ["withdraw 192.0.2.20 from lvs0", "announce 192.0.2.10 on lvs1", "withdraw 192.0.2.10 from lvs0"];
    assert_eq!(words(&wish(&[on("lvs1", "192.0.2.10")], &gone), &observed), wanted);
}

#[test]
fn nothing_comes_to_an_interface_that_is_missing_or_down_but_what_is_there_can_go() {
    let wish = wish(&[on("lvs0", "192.0.2.10"), on("lvs1", "192.0.2.11")], &[on("lvs1", "192.0.2.20")]);
    let observed = Observed::from([("lvs1".into(), interface(false, &["192.0.2.20"]))]);
    assert_eq!(words(&wish, &observed), ["withdraw 192.0.2.20 from lvs1"]);
    assert_eq!(obstacle(&observed, "lvs0"), Some(Obstacle::Missing));
    assert_eq!(obstacle(&observed, "lvs1"), Some(Obstacle::Down));
}

#[test]
fn an_obstacle_says_what_to_do() {
    let missing = "there is no interface lvs0: `ip link add lvs0 type dummy && ip link set lvs0 up` makes it";
    assert_eq!(Obstacle::Missing.describe("lvs0"), missing);
    assert_eq!(Obstacle::Down.describe("lvs0"), "interface lvs0 is down: `ip link set lvs0 up`");
}

// -- anything -------------------------------------------------------------------------------

/// One of few, so that wishes and findings meet.
fn some_address() -> impl Strategy<Value = VirtualAddress> {
    (0..3_u8, 0..6_u8, any::<bool>()).prop_map(|(interface, last, six)| {
        let address = if six { format!("2001:db8::{last}") } else { format!("192.0.2.{last}") };
        on(&format!("lvs{interface}"), &address)
    })
}

fn some_set() -> impl Strategy<Value = BTreeSet<VirtualAddress>> {
    prop::collection::btree_set(some_address(), 0..12)
}

pub(in crate::runtime::vips) fn some_wish() -> impl Strategy<Value = Wish> {
    (some_set(), some_set()).prop_map(|(present, ours)| {
        let absent = ours.difference(&present).cloned().collect();
        Wish { present, absent }
    })
}

/// Each interface missing, down or up.
pub(in crate::runtime::vips) fn some_observed() -> impl Strategy<Value = Observed> {
    (some_set(), prop::array::uniform3(0..3_u8)).prop_map(|(addresses, states)| {
        let there = (0..3_usize).filter(|n| states[*n] > 0);
        there
            .map(|n| {
                let name = format!("lvs{n}");
                let of = addresses.iter().filter(|at| *at.interface == *name).map(|at| at.address);
                let interface = Interface { index: 5, up: states[n] > 1, addresses: of.collect() };
                (name.as_str().into(), interface)
            })
            .collect()
    })
}

fn all(observed: &Observed) -> BTreeSet<VirtualAddress> {
    let of = |(name, found): (&Arc<str>, &Interface)| {
        let name = Arc::clone(name);
        found
            .addresses
            .iter()
            .map(move |address| VirtualAddress { interface: Arc::clone(&name), address: *address })
            .collect::<Vec<_>>()
    };
    observed.iter().flat_map(of).collect()
}

/// As the kernel does it: what is there cannot come, what is not there cannot go.
pub(in crate::runtime::vips) fn carry_out(observed: &mut Observed, action: &Action) {
    let at = action.at();
    let interface = observed.get_mut(&at.interface).expect("an interface that is there");
    let right = match action {
        Action::Announce(_) => interface.up && interface.addresses.insert(at.address),
        Action::Withdraw(_) => interface.addresses.remove(&at.address),
    };
    assert!(right, "{action}");
}

proptest! {
    #[test]
    fn the_plan_makes_it_so_and_each_beginning_of_it_is_safe(wish in some_wish(), before in some_observed()) {
        let goals: Vec<VirtualAddress> = wish.goals().cloned().collect();
        let first = all(&before);
        let foreign: BTreeSet<_> = first.iter().filter(|at| !goals.contains(at)).cloned().collect();
        let mut observed = before.clone();
        for action in plan(&wish, &before, goals.iter()) {
            carry_out(&mut observed, &action);
            let now = all(&observed);
            // Nothing foreign is touched, nothing wanted goes, and nothing comes that is not wanted.
            prop_assert!(foreign.is_subset(&now));
            prop_assert!(first.intersection(&wish.present).all(|at| now.contains(at)));
            prop_assert!(now.difference(&first).all(|at| wish.present.contains(at)));
            prop_assert!(first.difference(&now).all(|at| wish.absent.contains(at)));
        }
        for at in &goals {
            let can = obstacle(&observed, &at.interface).is_none() || wish.absent.contains(at);
            prop_assert!(!can || is_met(&wish, &observed, at), "{at}");
        }
        prop_assert_eq!(plan(&wish, &observed, goals.iter()), vec![]);
    }

    #[test]
    fn changes_are_what_must_be_looked_at_anew(old in some_wish(), new in some_wish(), seen in some_observed()) {
        // With the old wish met, the changes alone lead to the new one.
        let old_goals: Vec<VirtualAddress> = old.goals().cloned().collect();
        let mut observed: Observed = (0..3).map(|n| (format!("lvs{n}").as_str().into(), interface(true, &[]))).collect();
        observed.extend(seen.into_iter().map(|(name, found)| (name, Interface { up: true, ..found })));
        for action in plan(&old, &observed, old_goals.iter()) {
            carry_out(&mut observed, &action);
        }
        let (changed, new_goals) = (old.changes(&new), new.goals().cloned().collect::<Vec<_>>());
        prop_assert_eq!(plan(&new, &observed, changed.iter()), plan(&new, &observed, new_goals.iter()));
    }
}
