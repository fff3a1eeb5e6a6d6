//! ip_vs that is absent, goes away and comes back under a running daemon.
//!
//! Takes the module out of the running kernel, and so does its work in a guest only.

use std::process::Command;
use std::time::Duration;

use lvsd::engine::model::{Family, Mark, Scheduler};
use lvsd::engine::table::{ServiceAttributes, ServiceFlags, ServiceId};
use lvsd::ipvs::{Dump, Dumper, Kernel, Loss, Netlink, OpenError, Operation, Options, Reason, load_module};

fn modprobe(arguments: &[&str]) {
    let output = Command::new("modprobe").args(arguments).output().unwrap();
    assert!(output.status.success(), "modprobe {arguments:?}: {output:?}");
}

fn operations() -> [Operation; 2] {
    let service = ServiceId::Mark { family: Family::Ipv4, mark: Mark::new(1).unwrap() };
    let attributes = ServiceAttributes {
        scheduler: Scheduler::new("none").unwrap(),
        flags: ServiceFlags::default(),
        persistence: None,
        netmask: 32,
        persistence_engine: None,
    };
    [Operation::AddService { service, attributes }, Operation::RemoveService { service }]
}

/// Takes the kernel's own means of loading modules away until it is dropped.
struct NoLoader(String);

const LOADER: &str = "/proc/sys/kernel/modprobe";

impl NoLoader {
    fn new() -> Self {
        let before = std::fs::read_to_string(LOADER).unwrap();
        std::fs::write(LOADER, "/nonexistent").unwrap();
        Self(before)
    }
}

impl Drop for NoLoader {
    fn drop(&mut self) {
        let _ = std::fs::write(LOADER, &self.0);
    }
}

#[test]
fn ip_vs_may_come_and_go() {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if !processor.contains("User Mode Linux") {
        eprintln!("NOT RUN: this would unload ip_vs from this machine's own kernel; run it in a guest");
        return;
    }
    // The kernel loads the module by itself when it is asked for the family: here it cannot.
    let _loader = NoLoader::new();
    load_module(Duration::from_secs(60)).unwrap();
    let mut kernel = Netlink::open(Options::default()).unwrap();
    let mut dumper = Dumper::open(Options::default()).unwrap();
    let all = operations();
    assert_eq!(kernel.apply(&all), [Ok(()), Ok(())]);

    // The lab loads these beforehand, and they use it.
    modprobe(&["-r", "ip_vs_lblc", "ip_vs_lblcr"]);
    modprobe(&["-r", "ip_vs"]);
    let error = Netlink::open(Options::default()).unwrap_err();
    assert_eq!(error, OpenError::ModuleMissing);
    assert_eq!(
        error.to_string(),
        "this kernel has no ip_vs: the module is neither built in nor loaded (modprobe ip_vs)"
    );
    assert_eq!(Dumper::open(Options::default()).unwrap_err(), OpenError::ModuleMissing);
    for result in kernel.apply(&all) {
        assert_eq!(result.unwrap_err().reason, Reason::Unknown(Loss::ModuleGone));
    }
    assert_eq!(dumper.dump().unwrap_err().reason, Reason::Unknown(Loss::ModuleGone));
    assert_eq!(kernel.timeouts().unwrap_err().reason, Reason::Unknown(Loss::ModuleGone));

    // Back, with another number of the family: the handles find it by themselves.
    load_module(Duration::from_secs(60)).unwrap();
    assert_eq!(kernel.apply(&all), [Ok(()), Ok(())]);
    assert_eq!(dumper.dump().unwrap().table.services.len(), 0);

    // Away and back between two uses: the first finds out, the next works. A dump repeats itself.
    modprobe(&["-r", "ip_vs"]);
    modprobe(&["ip_vs"]);
    assert!(std::path::Path::new("/proc/net/ip_vs").exists());
    for result in kernel.apply(&all) {
        let error = result.unwrap_err();
        assert!(error.calls_for_dump());
        assert_eq!(error.reason, Reason::Unknown(Loss::ModuleGone));
    }
    assert_eq!(kernel.apply(&all), [Ok(()), Ok(())]);
    assert_eq!(dumper.dump().unwrap().table.services.len(), 0);
}
