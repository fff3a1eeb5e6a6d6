//! Both threads against a kernel that fails on order: whatever happens, every wish is answered, what
//! can be written is, and the rest is tried until it is there.

mod failures;
pub(in crate::runtime) mod faulty;
mod looking;
mod settings;
mod stopping;
mod wishes;

use super::*;
use crate::ipvs::{Memory, Operation};
use crate::runtime::testing::{SOON, destination, nat, service, table, tcp};
use faulty::Faulty;

const WEB: &str = "192.0.2.10:80";
const OTHER: &str = "192.0.2.11:80";
const FIRST: &str = "198.51.100.11:80";
const SECOND: &str = "198.51.100.12:80";
/// So long that it never comes during a test.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// A writer, its kernel, and all that it has reported.
struct Rig {
    kernel: Faulty,
    writer: Writer,
    reports: mpsc::Receiver<Report>,
    runtime: tokio::runtime::Runtime,
    heard: Vec<Report>,
}

impl Rig {
    fn new() -> Self {
        Self::with(Table::default(), &[], Drift::Repair, NEVER)
    }

    fn with(before: Table, owned: &[&str], drift: Drift, interval: Duration) -> Self {
        let kernel = Faulty::new(Memory::with_table(before.clone()));
        let (sender, reports) = mpsc::channel(64);
        let observed = Observed { table: before, ..Observed::default() };
        let owned = owned.iter().map(|id| tcp(id)).collect();
        let beginning = Beginning { observed, owned, drift, drift_interval: interval };
        let writer =
            Writer::spawn(Box::new(kernel.clone()), Box::new(kernel.clone()), beginning, sender).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { kernel, writer, reports, runtime, heard: Vec::new() }
    }

    fn want(&mut self, id: &str, service: Option<Arc<Service>>) -> Ticket {
        self.writer.want(vec![(tcp(id), service)])
    }

    /// Wants a service, and waits until that is done or tried.
    fn written(&mut self, id: &str, service: Option<Arc<Service>>) -> Vec<OperationError> {
        let ticket = self.want(id, service);
        self.answer(ticket)
    }

    /// What failed in the rounds up to the one that answers this ticket.
    fn answer(&mut self, wanted: Ticket) -> Vec<OperationError> {
        let mut all = Vec::new();
        self.hear("an answer", |report| match report {
            Report::Written { ticket, failed, .. } => {
                all.extend(failed.clone());
                *ticket >= wanted
            }
            Report::Drifted(_) | Report::Surprised(_) | Report::Failed(_) | Report::Recovered => false,
        });
        all
    }

    /// Waits for a report.
    fn hear(&mut self, what: &str, mut is_it: impl FnMut(&Report) -> bool) {
        loop {
            let next = async { tokio::time::timeout(SOON, self.reports.recv()).await };
            let report = self.runtime.block_on(next);
            let report = report.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}; {:?}", self.heard));
            let report = report.unwrap_or_else(|| panic!("ended without {what}; {:?}", self.heard));
            let found = is_it(&report);
            self.heard.push(report);
            if found {
                return;
            }
        }
    }

    /// Waits until nothing is left to do.
    fn settle(&mut self) {
        self.hear("all is settled", |report| matches!(report, Report::Written { settled: true, .. }));
    }

    fn view(&self) -> View {
        let view = self.writer.view();
        self.runtime.block_on(async { tokio::time::timeout(SOON, view).await }).unwrap().unwrap()
    }

    fn by_hand(&self, operation: Operation) {
        assert_eq!(self.kernel.memory.clone().apply(&[operation]), [Ok(())]);
    }

    fn table(&self) -> Table {
        self.kernel.memory.table()
    }

    fn stop(mut self, stop: Stop) -> Ended {
        let last = self.writer.stop(stop);
        let Self { kernel, writer, mut reports, runtime, .. } = self;
        let mut heard = Vec::new();
        // The sender goes with the thread.
        let all = async {
            while let Some(report) = reports.recv().await {
                heard.push(report)
            }
        };
        runtime.block_on(async { tokio::time::timeout(SOON, all).await }).expect("the writer ends");
        writer.join();
        Ended { kernel, heard, last }
    }
}

/// After both threads have ended.
struct Ended {
    kernel: Faulty,
    heard: Vec<Report>,
    last: Ticket,
}

fn web(weight: u32) -> Arc<Service> {
    service("wrr", &[(FIRST, weight), (SECOND, 1)])
}

fn edit(id: &str, at: &str, weight: u32) -> Operation {
    Operation::EditDestination { service: tcp(id), destination: destination(at), record: nat(weight) }
}

fn removal(id: &str) -> Operation {
    Operation::RemoveService { service: tcp(id) }
}
