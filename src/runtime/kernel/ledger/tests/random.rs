//! Random interleavings of wishes, failures, hands at ipvsadm, late dumps: what is wanted comes to be,
//! and nothing else is touched.

use proptest::prelude::*;

use super::*;

/// Services that are ours while they are wanted; a hand may spoil them.
const OURS: [&str; 4] = ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80", "192.0.2.4:80"];
/// Services that are somebody else's throughout.
const THEIRS: [&str; 2] = ["192.0.2.8:80", "192.0.2.9:80"];
const DESTINATIONS: [&str; 3] = ["198.51.100.1:80", "198.51.100.2:80", "198.51.100.3:80"];

/// What becomes of one operation on its way to the kernel.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Refused without a change, as for want of memory.
    Refused,
    /// Carried out, but the answer is lost.
    Unheard,
    /// Lost before it got there.
    Lost,
}

#[derive(Clone, Debug)]
enum Step {
    Want(usize, Option<Shape>),
    /// The fates go round.
    Write(Vec<Fate>),
    Release,
    /// A dump takes its picture, and the ledger hears of it at the next `Seen`.
    Dump,
    Seen,
    Hand(Hand),
    Theirs(usize, Option<Shape>),
}

/// What a third party does to one of our services.
#[derive(Clone, Debug)]
enum Hand {
    Remove(usize),
    Put(usize, Shape),
}

/// A scheduler and the weights of the destinations that are there.
type Shape = (bool, [Option<u32>; 3]);

fn build((weighted, weights): &Shape) -> Arc<Service> {
    let there = DESTINATIONS.iter().zip(weights).filter_map(|(id, weight)| Some((*id, (*weight)?)));
    service(if *weighted { "wrr" } else { "rr" }, &there.collect::<Vec<_>>())
}

fn shapes() -> impl Strategy<Value = Shape> {
    (any::<bool>(), proptest::array::uniform3(proptest::option::of(0_u32..3)))
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Answered),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Unheard),
        1 => Just(Fate::Lost),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let hand = prop_oneof![
        (0..OURS.len()).prop_map(Hand::Remove),
        ((0..OURS.len()), shapes()).prop_map(|(at, shape)| Hand::Put(at, shape)),
    ];
    let step = prop_oneof![
        4 => ((0..OURS.len()), proptest::option::weighted(0.7, shapes())).prop_map(|(at, shape)| Step::Want(at, shape)),
        4 => proptest::collection::vec(fates(), 1..6).prop_map(Step::Write),
        1 => Just(Step::Release),
        2 => Just(Step::Dump),
        2 => Just(Step::Seen),
        1 => hand.prop_map(Step::Hand),
        1 => ((0..THEIRS.len()), proptest::option::of(shapes())).prop_map(|(at, shape)| Step::Theirs(at, shape)),
    ];
    proptest::collection::vec(step, 1..60)
}

struct World {
    rig: Rig,
    wanted: Table,
    /// What their owners have made of the foreign services.
    foreign: Table,
    picture: Option<(Table, Stamp)>,
    /// Made anew by a hand: ours while it is wanted, anybody's when it is wanted no more.
    hand_made: BTreeSet<ServiceId>,
}

impl World {
    fn new() -> Self {
        let rig = Rig::new(Table::default(), []);
        let (wanted, foreign) = (Table::default(), Table::default());
        Self { rig, wanted, foreign, picture: None, hand_made: BTreeSet::new() }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Want(at, shape) => self.want(tcp(OURS[*at]), shape.as_ref().map(build)),
            Step::Write(fates) => self.write(fates),
            Step::Release => self.rig.ledger.release(),
            Step::Dump => self.picture = Some((self.rig.table(), self.rig.ledger.stamp())),
            Step::Seen => {
                if let Some((seen, began)) = self.picture.take() {
                    self.rig.see(&seen, began, Drift::Repair);
                }
            }
            Step::Hand(Hand::Remove(at)) => self.put(tcp(OURS[*at]), None),
            Step::Hand(Hand::Put(at, shape)) => {
                let id = tcp(OURS[*at]);
                if !self.rig.table().services.contains_key(&id) {
                    self.hand_made.insert(id);
                }
                self.put(id, Some(build(shape)));
            }
            Step::Theirs(at, shape) => {
                let (id, service) = (tcp(THEIRS[*at]), shape.as_ref().map(build));
                set(&mut self.foreign, id, service.clone());
                self.put(id, service);
            }
        }
    }

    fn want(&mut self, id: ServiceId, service: Option<Arc<Service>>) {
        set(&mut self.wanted, id, service.clone());
        self.rig.ledger.want([(id, service)]);
    }

    fn write(&mut self, fates: &[Fate]) {
        let plan = self.rig.ledger.plan();
        for (operation, fate) in plan.iter().zip(fates.iter().cycle()) {
            let result = match fate {
                Fate::Answered | Fate::Unheard => {
                    self.rig.kernel.apply(std::slice::from_ref(operation)).remove(0).is_ok()
                }
                Fate::Refused | Fate::Lost => false,
            };
            match fate {
                Fate::Answered if result => self.rig.ledger.applied(operation),
                Fate::Answered | Fate::Refused | Fate::Unheard | Fate::Lost => {
                    self.rig.ledger.failed(operation)
                }
            }
        }
        self.rig.ledger.settle();
    }

    /// Makes the kernel's entry this one, as a hand does.
    fn put(&mut self, id: ServiceId, service: Option<Arc<Service>>) {
        let mut after = self.rig.table();
        set(&mut after, id, service);
        let plan = plan_services(&self.rig.table(), &after, &BTreeSet::from([id]), [&id].into_iter());
        assert!(self.rig.kernel.apply(&plan).iter().all(Result::is_ok));
    }

    fn check_foreign(&self) {
        let table = self.rig.table();
        for id in THEIRS.map(tcp) {
            assert_eq!(table.services.get(&id), self.foreign.services.get(&id), "{id} is not ours");
        }
    }

    /// With a kernel that does as it is told, a few rounds of looking and writing suffice.
    fn converge(&mut self) {
        for _ in 0..3 {
            self.rig.look(Drift::Repair);
            self.write(&[Fate::Answered]);
        }
        assert!(self.rig.ledger.is_settled());
        let mut all = self.wanted.clone();
        all.services.extend(self.foreign.services.clone());
        let mut found = self.rig.table();
        assert_eq!(*self.rig.ledger.observed(), found);
        found.services.retain(|id, _| all.services.contains_key(id) || !self.hand_made.contains(id));
        assert_eq!(found, all);
        assert_eq!(self.rig.ledger.owned, self.wanted.services.keys().copied().collect());
    }
}

fn set(table: &mut Table, id: ServiceId, service: Option<Arc<Service>>) {
    match service {
        Some(service) => table.services.insert(id, service),
        None => table.services.remove(&id),
    };
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_wanted_comes_to_be_whatever_happens(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check_foreign();
        }
        world.converge();
        world.check_foreign();
    }

    /// Where nobody else writes and the kernel answers, no dump is needed, nor anything to repair.
    #[test]
    fn an_undisturbed_ledger_knows_the_table(wishes in proptest::collection::vec(((0..OURS.len()), proptest::option::of(shapes())), 1..30)) {
        let mut world = World::new();
        for (at, shape) in &wishes {
            world.want(tcp(OURS[*at]), shape.as_ref().map(build));
            world.write(&[Fate::Answered]);
            prop_assert!(world.rig.ledger.is_settled());
            prop_assert_eq!(&world.rig.table(), &world.wanted);
            prop_assert_eq!(world.rig.look(Drift::Repair), [""; 0]);
        }
    }
}
