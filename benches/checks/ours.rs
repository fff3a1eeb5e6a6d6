//! Our side: checks as the daemon runs them, a task for each that is not over at once, and its outcome through a channel.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use lvsd::checks::{self, Prepared, Preparer};
use lvsd::engine::model::{
    CheckKind, Http, HttpVersion, Outcome, StatusSet, Target, Tcp, Tls, TlsVersion, Url, Verdict,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::{AT_ONCE, Protocol, server};

const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Side {
    runtime: Runtime,
    target: Arc<Target>,
    prepared: Arc<Prepared>,
}

impl Side {
    pub(crate) fn new(protocol: Protocol, address: SocketAddr, folder: &Path) -> Result<Self> {
        super::ensure_loopback(address)?;
        let kind = Arc::new(match protocol {
            Protocol::Tcp => {
                CheckKind::Tcp(Tcp { send: None, expect: None, dialogue: Vec::new(), tls: None })
            }
            Protocol::Http => CheckKind::Http(http(None)),
            Protocol::Https => CheckKind::Http(http(Some(folder.join(server::AUTHORITY)))),
        });
        let prepared = Preparer::new().prepare(&kind).context("prepare the check")?;
        let target = Arc::new(Target { address: address.ip(), port: address.port(), source: None });
        Ok(Self { runtime: super::runtime()?, target, prepared })
    }

    pub(crate) fn run(&mut self, count: usize) -> Result<()> {
        let (sender, mut outcomes) = mpsc::channel(1024);
        let (target, prepared) = (&self.target, &self.prepared);
        let start = || {
            let (target, prepared, sender) = (Arc::clone(target), Arc::clone(prepared), sender.clone());
            let mut run = Box::pin(async move { checks::run(&target, &prepared, TIMEOUT).await });
            // Nobody to take it: the other side has failed and says so.
            match run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => drop(sender.try_send(outcome)),
                Poll::Pending => drop(tokio::spawn(async move { drop(sender.send(run.await).await) })),
            }
        };
        self.runtime.block_on(async {
            (0..AT_ONCE.min(count)).for_each(|_| start());
            for ended in 1..=count {
                good(&outcomes.recv().await.context("a check without an outcome")?)?;
                if ended + AT_ONCE <= count {
                    start();
                }
            }
            Ok(())
        })
    }
}

fn good(outcome: &Outcome) -> Result<()> {
    match &outcome.verdict {
        Verdict::Success { .. } => Ok(()),
        Verdict::Failure(fault) | Verdict::LocalError(fault) => bail!("a check failed: {fault:?}"),
    }
}

fn http(authority: Option<std::path::PathBuf>) -> Http {
    let url = Url {
        path: "/".to_owned(),
        virtualhost: None,
        status: StatusSet::new([(200, 299)]),
        body: Some(lvsd::engine::model::BodyRule::Contains(server::NEEDLE.as_bytes().to_vec())),
        digest: None,
    };
    Http {
        urls: vec![url],
        method: "GET".to_owned(),
        version: HttpVersion::Http11,
        virtualhost: None,
        headers: Vec::new(),
        request_body: None,
        max_body: 1 << 20,
        tls: authority.map(|authority| Tls {
            verify: true,
            ca: Some(authority),
            server_name: None,
            client: None,
            min_version: TlsVersion::Tls12,
            alpn: Vec::new(),
        }),
        follow_redirects: false,
    }
}
