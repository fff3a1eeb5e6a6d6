//! The table that a start opens, the kernel's or one in memory, and what it finds there. May wait, for a module to be
//! loaded as well: not for the supervisor's thread.

use std::time::Duration;

use crate::engine::model::Timeouts;
use crate::ipvs::{self, Dump, Kernel, Observed, OpenError, Options};

/// For modprobe to load ip_vs.
const MODPROBE: Duration = Duration::from_secs(10);

pub(super) struct Opened {
    pub(super) kernel: Box<dyn Kernel>,
    pub(super) dump: Box<dyn Dump>,
    pub(super) observed: Observed,
    pub(super) timeouts: Timeouts,
}

pub(super) fn open_netlink() -> Result<Opened, OpenError> {
    let options = Options::default();
    let mut kernel = match ipvs::Netlink::open(options) {
        Err(OpenError::ModuleMissing) => {
            // Its failure shows in the second try.
            if let Err(problem) = ipvs::load_module(MODPROBE) {
                tracing::debug!("{problem}");
            }
            ipvs::Netlink::open(options)?
        }
        opened => opened?,
    };
    let mut dump = ipvs::Dumper::open(options)?;
    let observed = dump.dump()?;
    let timeouts = kernel.timeouts()?;
    Ok(Opened { kernel: Box::new(kernel), dump: Box::new(dump), observed, timeouts })
}

pub(super) fn open_memory() -> Result<Opened, OpenError> {
    let memory = ipvs::Memory::default();
    let (mut kernel, mut dump) = (memory.clone(), memory);
    let observed = dump.dump()?;
    let timeouts = kernel.timeouts()?;
    Ok(Opened { kernel: Box::new(kernel), dump: Box::new(dump), observed, timeouts })
}
