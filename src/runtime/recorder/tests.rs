//! Nothing reaches the kernel before it is on record, and nothing waits for ever for a disk.

use std::num::NonZeroU32;
use std::sync::mpsc::SyncSender;

use tempfile::TempDir;

use super::*;
use crate::engine::memory::Memory;
use crate::engine::table::Table;
use crate::runtime::state_file;
use crate::runtime::testing::{SOON, config, pool, service, tcp, within};

mod addresses;
mod failing;
mod random;
mod settings;

const WEB: &str = "192.0.2.10:80";
const OTHER: &str = "192.0.2.11:80";
const THIRD: &str = "192.0.2.12:80";
const START: Time = Time::from_nanos(1_000_000_000_000);

/// A recorder, an engine that wants some services, and a clock that is turned by hand.
struct Rig {
    directory: TempDir,
    recorder: Recorder,
    engine: Engine,
    now: Time,
    runtime: tokio::runtime::Runtime,
}

fn kernels_timeouts() -> Timeouts {
    let seconds = NonZeroU32::new;
    Timeouts { tcp: seconds(900), tcp_fin: seconds(120), udp: seconds(300) }
}

fn engine(services: &[&str]) -> Engine {
    let pools = services.iter().map(|id| pool(id, id, &["198.51.100.11:80"]));
    Engine::start(
        &config(pools.collect()),
        &Memory::default(),
        &Table::default(),
        &crate::engine::Readings::new(),
        START,
    )
}

impl Rig {
    fn new(services: &[&str]) -> Self {
        Self::with(services, &State::default())
    }

    fn with(services: &[&str], left_behind: &State) -> Self {
        let directory = TempDir::new().unwrap();
        let file = StateFile::spawn(directory.path().join("state.json"), &Default::default()).unwrap();
        Self::on(directory, Some(file), services, left_behind)
    }

    /// Its disk does not answer until the returned end is dropped.
    fn gated(services: &[&str]) -> (Self, SyncSender<()>) {
        let directory = TempDir::new().unwrap();
        let (file, gate) = StateFile::gated(directory.path().join("state.json"));
        (Self::on(directory, Some(file), services, &State::default()), gate)
    }

    fn on(directory: TempDir, file: Option<StateFile>, services: &[&str], left_behind: &State) -> Self {
        let recorder = Recorder::new(file, left_behind, kernels_timeouts());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { directory, recorder, engine: engine(services), now: START, runtime }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Returns what may be written at once.
    fn admit(&mut self, changes: &[(&str, u32)]) -> Vec<(String, u32)> {
        let changes = changes.iter().map(|(id, weight)| change(id, *weight));
        names(&self.recorder.admit(changes.collect()))
    }

    fn turn(&mut self) -> (Held, Option<News>) {
        let result = self.recorder.turn(&self.engine, self.now);
        if let Some(next) = self.recorder.poll_timeout() {
            assert!(next > self.now, "a loop that sleeps until then would spin");
        }
        result
    }

    /// Nothing is released, and there is no news.
    fn quiet_turn(&mut self) {
        let (held, news) = self.turn();
        assert!(held.is_empty() && news.is_none(), "{held:?}, {news:?}");
    }

    fn is_saving(&self) -> bool {
        self.recorder.saving.is_some()
    }

    /// Waits for the disk.
    fn answer(&mut self) -> (Held, Option<News>) {
        let answered = async { tokio::time::timeout(SOON, self.recorder.answered()).await };
        let result = self.runtime.block_on(answered).expect("an answer");
        self.recorder.handle_answer(result, self.now)
    }

    fn on_disk(&self) -> Option<State> {
        state_file::read(&self.directory.path().join("state.json"), super::super::clock::now()).unwrap()
    }

    fn is_on_record(&self, id: &str) -> bool {
        self.on_disk().is_some_and(|state| state.owned.contains(&tcp(id)))
    }

    /// Under this name the temporary file cannot be made.
    fn break_disk(&self) {
        std::fs::create_dir(self.obstacle()).unwrap();
    }

    fn mend_disk(&self) {
        std::fs::remove_dir(self.obstacle()).unwrap();
    }

    fn obstacle(&self) -> std::path::PathBuf {
        self.directory.path().join(".state.json.new")
    }
}

/// Weight 0 stands for a service that is to go.
fn change(id: &str, weight: u32) -> Change {
    (tcp(id), (weight > 0).then(|| service("wrr", &[("198.51.100.11:80", weight)])))
}

fn names(changes: &[Change]) -> Vec<(String, u32)> {
    let weight = |(_, service): &Change| {
        service.as_ref().map_or(0, |service| service.destinations.values().next().unwrap().weight)
    };
    changes.iter().map(|change| (change.0.to_string()["tcp ".len()..].to_owned(), weight(change))).collect()
}

fn named(changes: &[(&str, u32)]) -> Vec<(String, u32)> {
    changes.iter().map(|(id, weight)| ((*id).to_owned(), *weight)).collect()
}

fn left_behind(owned: &[&str]) -> State {
    State { owned: owned.iter().map(|id| tcp(id)).collect(), ..State::default() }
}

#[test]
fn a_new_service_is_on_record_before_it_is_let_go() {
    let mut rig = Rig::new(&[WEB]);
    assert_eq!(rig.admit(&[(WEB, 3)]), []);
    assert!(rig.recorder.is_holding());
    rig.quiet_turn();
    assert!(rig.is_saving());
    let (held, news) = rig.answer();
    assert!(rig.is_on_record(WEB));
    assert_eq!((names(&held.changes), news.is_none()), (named(&[(WEB, 3)]), true));
    assert!(!rig.recorder.is_holding());
    assert_eq!(rig.admit(&[(WEB, 4)]), named(&[(WEB, 4)]), "from now on at once");
}

#[test]
fn services_of_the_record_are_never_held() {
    let mut rig = Rig::with(&[WEB, OTHER], &left_behind(&[WEB]));
    assert_eq!(rig.admit(&[(WEB, 3), (OTHER, 1)]), named(&[(WEB, 3)]));
    assert_eq!(rig.admit(&[(WEB, 4)]), named(&[(WEB, 4)]));
    rig.quiet_turn();
    assert_eq!(names(&rig.answer().0.changes), named(&[(OTHER, 1)]));
}

#[test]
fn later_changes_of_a_held_service_wait_behind_the_first() {
    let mut rig = Rig::new(&[WEB, OTHER]);
    assert_eq!(rig.admit(&[(WEB, 1), (OTHER, 1)]), []);
    rig.quiet_turn();
    assert_eq!(rig.admit(&[(WEB, 2)]), []);
    assert_eq!(rig.admit(&[(WEB, 0), (OTHER, 7)]), []);
    let (held, _) = rig.answer();
    assert_eq!(names(&held.changes), named(&[(WEB, 1), (OTHER, 1), (WEB, 2), (WEB, 0), (OTHER, 7)]));
}

#[test]
fn a_service_that_is_new_during_a_write_waits_for_the_next() {
    let mut rig = Rig::new(&[WEB]);
    rig.admit(&[(WEB, 1)]);
    rig.quiet_turn();
    rig.engine = engine(&[WEB, OTHER]);
    assert_eq!(rig.admit(&[(OTHER, 1)]), []);
    rig.quiet_turn();
    assert_eq!(names(&rig.answer().0.changes), named(&[(WEB, 1)]));
    assert!(rig.recorder.is_holding() && !rig.is_on_record(OTHER));
    rig.quiet_turn();
    assert!(rig.is_saving(), "at once, since something waits");
    assert_eq!(names(&rig.answer().0.changes), named(&[(OTHER, 1)]));
    assert!(rig.is_on_record(OTHER));
}

#[test]
fn without_a_file_nothing_is_held() {
    let mut rig = Rig::on(TempDir::new().unwrap(), None, &[WEB], &State::default());
    assert_eq!(rig.admit(&[(WEB, 3)]), named(&[(WEB, 3)]));
    rig.recorder.hold_settings(Settings::default());
    rig.recorder.note_change();
    let (held, news) = rig.turn();
    assert_eq!((held.settings, news.is_none()), (Some(Settings::default()), true));
    assert!(!rig.recorder.is_holding() && !rig.is_saving());
    assert_eq!(rig.recorder.poll_timeout(), None);
}

#[test]
fn changes_are_written_at_most_once_a_second() {
    let mut rig = Rig::with(&[WEB], &left_behind(&[WEB]));
    let mut writes = 0;
    for _ in 0..50 {
        rig.recorder.note_change();
        rig.quiet_turn();
        if rig.is_saving() {
            writes += 1;
            rig.answer();
        }
        rig.pass(Duration::from_millis(100));
    }
    assert_eq!(writes, 5);
    assert_eq!(rig.on_disk().unwrap().memory.saved_at, Some(START + Duration::from_secs(4)));
}

#[test]
fn a_change_that_came_too_early_is_written_when_its_time_comes() {
    let mut rig = Rig::with(&[WEB], &left_behind(&[WEB]));
    rig.recorder.note_change();
    rig.quiet_turn();
    rig.answer();
    assert_eq!(rig.recorder.poll_timeout(), None, "nothing to do");
    rig.pass(Duration::from_millis(400));
    rig.recorder.note_change();
    rig.quiet_turn();
    assert!(!rig.is_saving());
    assert_eq!(rig.recorder.poll_timeout(), Some(START + PAUSE));
    rig.pass(Duration::from_millis(600));
    rig.quiet_turn();
    assert!(rig.is_saving());
}

#[test]
fn what_changes_during_a_write_is_written_after_it() {
    let mut rig = Rig::with(&[WEB], &left_behind(&[WEB]));
    rig.recorder.note_change();
    rig.quiet_turn();
    rig.recorder.note_change();
    rig.answer();
    rig.pass(PAUSE);
    rig.quiet_turn();
    assert!(rig.is_saving());
}

#[test]
fn what_is_gone_from_the_kernel_is_forgotten() {
    let mut rig = Rig::with(&[WEB], &left_behind(&[WEB, OTHER]));
    assert_eq!(rig.recorder.state(&rig.engine, rig.now).owned, BTreeSet::from([tcp(WEB), tcp(OTHER)]));
    rig.recorder.forget_others(std::iter::once(tcp(WEB)));
    rig.quiet_turn();
    rig.answer();
    assert!(rig.is_on_record(WEB) && !rig.is_on_record(OTHER));
    rig.pass(PAUSE);
    rig.recorder.forget_others(std::iter::once(tcp(WEB)));
    rig.quiet_turn();
    assert!(!rig.is_saving(), "nothing new to forget");
    assert_eq!(rig.admit(&[(OTHER, 1)]), [], "what comes back is new again");
}

#[test]
fn verdicts_that_have_changed_are_not_stamped_as_current() {
    let mut rig = Rig::with(&[WEB], &left_behind(&[WEB]));
    rig.recorder.note_change();
    rig.quiet_turn();
    rig.answer();
    let stamp = |rig: &Rig| rig.on_disk().unwrap().memory.saved_at.unwrap();
    assert_eq!(stamp(&rig), START);
    rig.pass(Duration::from_millis(100));
    rig.recorder.renew(rig.now);
    within("a renewal", || (stamp(&rig) == rig.now).then_some(()));
    let current = rig.now;
    rig.recorder.note_change();
    rig.pass(Duration::from_millis(100));
    rig.recorder.renew(rig.now);
    // A state that fails shows that everything before it in the queue has been done.
    rig.break_disk();
    rig.pass(PAUSE);
    rig.quiet_turn();
    rig.answer();
    assert_eq!(stamp(&rig), current);
}

#[test]
fn the_last_word_is_on_disk_when_the_recorder_has_finished() {
    let rig = Rig::with(&[WEB], &left_behind(&[WEB, OTHER]));
    let state = rig.recorder.state(&rig.engine, rig.now);
    let Rig { directory, recorder, runtime, .. } = rig;
    let news = runtime.block_on(recorder.finish(state.clone(), SOON));
    assert!(news.is_none(), "{news:?}");
    let found = state_file::read(&directory.path().join("state.json"), super::super::clock::now()).unwrap();
    assert_eq!(found, Some(state));
}

#[test]
fn the_longer_a_write_takes_the_longer_is_the_pause_after_it() {
    let mut rig = Rig::new(&[]);
    let millis = Duration::from_millis;
    for (takes, pause) in [(1, 1000), (99, 1000), (200, 2000), (400, 4000), (30_000, 5000), (0, 1000)] {
        rig.recorder.note_change();
        rig.quiet_turn();
        assert!(rig.is_saving());
        let began = rig.now;
        rig.pass(millis(takes));
        rig.answer();
        rig.recorder.note_change();
        assert_eq!(rig.recorder.poll_timeout(), Some(began + millis(pause)), "{takes} ms");
        rig.now = (began + millis(pause)).max(rig.now);
    }
}
