//! BIRD as a neighbour: learns what stands on an interface and tells the other one by BGP.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::net::Space;
use super::wait::{output, within};

/// For a session to come up and a route to be told, on a machine that is busy.
const SESSION: Duration = Duration::from_secs(60);

/// A running BIRD; killed when dropped.
pub(crate) struct Bird {
    space: Space,
    folder: TempDir,
    child: Child,
}

impl Bird {
    pub(crate) fn start(space: &Space, config: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let file = folder.path().join("bird.conf");
        std::fs::write(&file, config).expect("the folder is ours");
        // Names the line of a mistake; the daemon itself would just be gone.
        drop(output(Command::new("bird").arg("-p").arg("-c").arg(&file)));
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(folder.path().join("socket"));
        command.arg("-P").arg(folder.path().join("pid")).stdin(Stdio::null());
        let child = space.run(|| command.spawn()).expect("bird is installed: tests/lab/install kernel");
        let bird = Self { space: space.clone(), folder, child };
        within(SESSION, "bird listens", || bird.folder.path().join("socket").exists().then_some(()));
        bird
    }

    /// Waits until this protocol's session is up.
    pub(crate) fn wait_for_session(&self, protocol: &str) {
        within(SESSION, "the session is up", || {
            self.ask(&format!("show protocols {protocol}")).contains("Established").then_some(())
        });
    }

    /// What birdc prints.
    pub(crate) fn ask(&self, words: &str) -> String {
        let mut command = Command::new("birdc");
        command.arg("-s").arg(self.folder.path().join("socket")).args(words.split_whitespace());
        self.space.run(|| output(&mut command))
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The director's: tells its upstream what stands on lvs0.
pub(crate) const DIRECTOR: &str = r#"
router id 192.0.2.10;
protocol device { scan time 1; }
protocol direct vips { interface "lvs0"; ipv4; ipv6; }
template bgp upstream {
  connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp upstream4 from upstream {
  local 192.0.2.10 as 65010; neighbor 192.0.2.1 as 65001;
  ipv4 { import none; export where proto = "vips" && net.len = 32; next hop self; };
}
protocol bgp upstream6 from upstream {
  local 2001:db8:1::10 as 65010; neighbor 2001:db8:1::1 as 65001;
  ipv6 { import none; export where proto = "vips" && net.len = 128; next hop self; };
}
"#;

/// The upstream router's: puts what it is told into its kernel's table.
pub(crate) const UPSTREAM: &str = r#"
router id 192.0.2.1;
protocol device { scan time 1; }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
template bgp director {
  connect delay time 1; connect retry time 1; error wait time 1, 2;
}
protocol bgp director4 from director {
  local 192.0.2.1 as 65001; neighbor 192.0.2.10 as 65010;
  ipv4 { import all; export none; };
}
protocol bgp director6 from director {
  local 2001:db8:1::1 as 65001; neighbor 2001:db8:1::10 as 65010;
  ipv6 { import all; export none; };
}
"#;
