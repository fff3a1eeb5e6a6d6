//! The end of a run: readiness first, then the virtual addresses, the table, the record, and the last notifications. Each step
//! has its own limit; none keeps the daemon from ending.

use std::time::Duration;

use tracing::{error, info};

use super::clock;
use super::failures;
use super::kernel::{Report, Stop};
use super::recorder::tell_of_record;
use super::supervisor::Supervisor;
use crate::control::protocol::NextStop;
use crate::control::{ExitCode, Peer, Reply};
use crate::engine::model::OnStop;

/// For the kernel's table to be withdrawn. 10,000 destinations take well under a second.
const WITHDRAWAL: Duration = Duration::from_secs(30);
/// For scripts that still run, and for the state file's last write.
const FAREWELL: Duration = Duration::from_secs(5);

impl Supervisor {
    pub(super) async fn stop(mut self) -> ExitCode {
        info!("stopping");
        self.tell_of_trial();
        self.health.aggregator.set_shutting_down();
        self.manager.stopping();
        self.probes.cancel_all();
        // Told to keep, services do not end: scripts that hear of an end would take away what the next run needs.
        if self.next_stop != Some(OnStop::Keep) {
            self.announcer.announce_stop(self.engine.virtual_servers());
        }
        let on_stop = self.on_stop();
        let mut state = self.recorder.state(&self.engine, clock::now());
        let stop = match on_stop {
            OnStop::Keep => Stop::Keep,
            OnStop::Withdraw => Stop::Withdraw(self.recorder.timeouts_before_us()),
        };
        let addresses_gone = self.withdraw_addresses().await;
        let withdrawn = self.withdraw(stop).await;
        if on_stop == OnStop::Withdraw && withdrawn {
            state.owned.clear();
            state.original_timeouts = None;
        }
        if on_stop == OnStop::Withdraw && addresses_gone {
            state.announced.clear();
        }
        state.memory.saved_at = Some(clock::now());
        let news = self.recorder.finish(state, FAREWELL).await;
        tell_of_record(&self.config.daemon.state_file, news);
        // A dump that hangs ends with the process.
        let threads = tokio::task::spawn_blocking(move || self.writer.join());
        let _ = tokio::time::timeout(FAREWELL, threads).await;
        self.announcer.into_outlets().finish(FAREWELL).await;
        info!("stopped");
        ExitCode::Done
    }

    /// What a stop does now.
    pub(super) fn on_stop(&self) -> OnStop {
        self.next_stop.unwrap_or(self.config.daemon.on_stop)
    }

    /// For this run only: the next one stops as its configuration says.
    pub(super) fn set_next_stop(&mut self, what: NextStop, peer: &Peer) -> Reply {
        let (next, text) = match what {
            NextStop::Keep => (Some(OnStop::Keep), "the next stop leaves the table as it is"),
            NextStop::Withdraw => {
                (Some(OnStop::Withdraw), "the next stop takes all services out of the table")
            }
            NextStop::Auto => (None, "the next stop does what on_stop of the configuration says"),
        };
        info!("{text}, by order of {peer}");
        self.next_stop = next;
        Reply::done(text)
    }

    /// Nobody keeps the table right any more, or the addresses. All stays as it is, for a new start to adopt.
    pub(super) async fn abandon(self) -> ExitCode {
        error!(
            "a thread that keeps the kernel's table or the virtual addresses broke off: ending, with both as they are"
        );
        self.health.aggregator.set_shutting_down();
        let state = self.recorder.state(&self.engine, clock::now());
        // That it cannot be written either is the lesser evil.
        let _ = self.recorder.finish(state, FAREWELL).await;
        ExitCode::Failed
    }

    /// Waits until the writer has done its last; was all of it carried out?
    async fn withdraw(&mut self, stop: Stop) -> bool {
        let last = self.writer.stop(stop);
        let reports = &mut self.inputs.reports;
        let written = async {
            let (mut gone, mut failed_otherwise) = (false, false);
            while let Some(report) = reports.recv().await {
                match report {
                    Report::Written { ticket, failed, settled, .. } if ticket >= last => {
                        failures::lines(&failed).iter().for_each(|failure| error!("{failure}"));
                        gone = settled;
                    }
                    Report::Failed(error) => {
                        error!("{error}");
                        failed_otherwise = true;
                    }
                    Report::Written { .. }
                    | Report::Drifted(_)
                    | Report::Surprised(_)
                    | Report::Recovered => {}
                }
            }
            gone && !failed_otherwise
        };
        match tokio::time::timeout(WITHDRAWAL, written).await {
            Ok(all) => all,
            Err(_) => {
                error!("the kernel's table is not withdrawn: netlink has not answered for {WITHDRAWAL:?}");
                false
            }
        }
    }
}
