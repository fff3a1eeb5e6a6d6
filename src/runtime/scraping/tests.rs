//! A picture when the supervisor answers, and when it does not.

use std::collections::BTreeSet;

use super::*;
use crate::engine::figures::Figures;
use crate::engine::model::Drift;
use crate::engine::snapshot::KernelCounters;
use crate::ipvs::{Memory, Observed};
use crate::runtime::kernel::{Beginning, Writer};
use crate::runtime::testing;
use crate::telemetry::metrics::Totals;

fn scraper(scrapes: mpsc::Sender<Scrape>) -> Scraper {
    Scraper {
        scrapes,
        dependencies: Arc::new(Dependencies::new()),
        lost: Arc::new(|| 7),
        refused: Refused::default(),
        closed: Closed::default(),
        breaks: Breaks::default(),
        started: SystemTime::UNIX_EPOCH,
    }
}

fn part(view: oneshot::Receiver<View>) -> Part {
    let daemon = DaemonPicture {
        name: "lvs1".to_owned(),
        table: "memory",
        figures: Figures::default(),
        totals: Totals::new(String::new(), SystemTime::UNIX_EPOCH),
        kernel: KernelCounters::default(),
        broken_checks: 0,
        self_test: Default::default(),
        running: 0,
        slots: 0,
        tasks: 0,
        notifications: Vec::new(),
        addresses: Vec::new(),
        made_in: Duration::ZERO,
    };
    Part { daemon, view }
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_does_not_answer_costs_its_part_only() {
    // The channel stands still: as many as fit are waited for, the next is not.
    let (sender, _receiver) = mpsc::channel(1);
    let scraper = scraper(sender);
    for waited in [ANSWER, Duration::ZERO] {
        let before = tokio::time::Instant::now();
        let picture = scraper.picture().await;
        assert!(picture.daemon.is_none() && picture.kernel.is_none());
        assert_eq!(picture.around.dependencies.len(), 5);
        assert_eq!((picture.around.log_lost, picture.around.dumped), (7, None));
        assert!(before.elapsed().abs_diff(waited) < Duration::from_millis(10), "{:?}", before.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_does_not_answer_costs_the_tables_part_only() {
    let (sender, mut receiver) = mpsc::channel::<Scrape>(1);
    let scraper = scraper(sender);
    let supervisor = async {
        let (promise, view) = oneshot::channel();
        drop(receiver.recv().await.unwrap().send(part(view)));
        promise
    };
    let (picture, _promise) = tokio::join!(scraper.picture(), supervisor);
    assert!(picture.daemon.is_some_and(|daemon| daemon.name == "lvs1"));
    assert!(picture.kernel.is_none());
}

#[tokio::test]
async fn the_table_is_the_writers_wanted_and_found() {
    let wanted = testing::service("wrr", &[("198.51.100.11:80", 3)]);
    let beginning = Beginning {
        observed: Observed::default(),
        owned: BTreeSet::new(),
        drift: Drift::Repair,
        drift_interval: Duration::from_secs(1000),
    };
    let (reports, mut written) = mpsc::channel(64);
    let memory = Memory::default();
    let mut writer = Writer::spawn(Box::new(memory.clone()), Box::new(memory), beginning, reports).unwrap();
    let id = testing::tcp("192.0.2.10:80");
    writer.want(vec![(id, Some(Arc::clone(&wanted)))]);
    written.recv().await.unwrap();
    let (sender, mut receiver) = mpsc::channel::<Scrape>(1);
    let scraper = scraper(sender);
    scraper.dependencies.install_kernel(writer.answers());
    let supervisor = async { drop(receiver.recv().await.unwrap().send(part(writer.view()))) };
    let (picture, ()) = tokio::join!(scraper.picture(), supervisor);
    let kernel = picture.kernel.unwrap();
    assert_eq!(
        (kernel.wanted.services.get(&id), kernel.table.services.get(&id)),
        (Some(&wanted), Some(&wanted))
    );
    let dumped = picture.around.dumped.unwrap();
    assert!(dumped.elapsed().is_ok_and(|age| age < testing::SOON));
    assert!(picture.around.dependencies.contains(&("ipvs".to_owned(), true)));
}
