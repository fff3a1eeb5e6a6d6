//! The canaries of the self-test: addresses of which one at least answers while the network is there.
//!
//! One task asks all of them again and again, each with a deadline, and hands over what each round has shown;
//! what follows from it is decided by the engine. An address of this host always answers and so says nothing of
//! the network: it is left out while it is one.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use crate::anew::{Breaks, Part, Watch};
use crate::engine::Event;
use crate::engine::model::SelfTest;
use crate::engine::self_test::Canary;
use crate::net::explain;

/// However many checks fail, from the start of one round to the next.
const SHORTEST: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Canaries {
    settings: Option<Settings>,
    asking: Option<Asking>,
    watch: Watch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    canaries: Vec<SocketAddr>,
    interval: Duration,
    timeout: Duration,
}

#[derive(Debug)]
struct Asking {
    /// As many rounds as the loop has not looked at: one.
    rounds: mpsc::Receiver<Canary>,
    now: Arc<Notify>,
    task: AbortHandle,
    began: Instant,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Canaries {
    pub(super) fn new(config: &SelfTest, breaks: &Breaks) -> Self {
        let watch = Watch::over(Part::Canaries, breaks);
        let mut canaries = Self { settings: None, asking: None, watch };
        canaries.configure(config);
        canaries
    }

    /// Goes on with what it does if nothing has changed.
    pub(super) fn configure(&mut self, config: &SelfTest) {
        let SelfTest { canary, canary_interval, canary_timeout, .. } = config;
        let settings = (!canary.is_empty()).then(|| Settings {
            canaries: canary.clone(),
            interval: *canary_interval,
            timeout: *canary_timeout,
        });
        if settings != self.settings {
            self.asking = settings.clone().map(|settings| spawn_asking(settings, Instant::now()));
            self.settings = settings;
        }
    }

    /// The next round. Can be dropped and called again; waits for ever while there is nobody to ask.
    pub(super) async fn round(&mut self) -> Canary {
        let Some(asking) = &mut self.asking else { return std::future::pending().await };
        let began = asking.began;
        match asking.rounds.recv().await {
            Some(round) => round,
            None => self.begin_anew(began),
        }
    }

    /// The task has ended by itself, which a panic does; its hook has printed that. The last round must not
    /// count for ever, and a guard that is broken lets verdicts through: until the next one they count as answering.
    fn begin_anew(&mut self, began: Instant) -> Canary {
        let pause = self.watch.broke(began.into_std(), "they count as answering meanwhile");
        self.asking = self.settings.clone().map(|settings| {
            let first = Instant::now() + settings.interval.max(pause);
            spawn_asking(settings, first)
        });
        Canary::Answers
    }

    /// A failure that is to be tried again: before it counts it should be known whether it is the network's.
    pub(super) fn note_event(&self, event: &Event) {
        if let (Some(asking), Event::Failure { transition, .. }) = (&self.asking, event)
            && transition.retrying
        {
            asking.now.notify_one();
        }
    }
}

fn spawn_asking(settings: Settings, first: Instant) -> Asking {
    let (sender, rounds) = mpsc::channel(1);
    let now = Arc::new(Notify::new());
    let hurry = Arc::clone(&now);
    let task = tokio::spawn(async move {
        let Settings { canaries, interval, timeout } = settings;
        let mut own = Vec::new();
        sleep_until(first).await;
        loop {
            let began = Instant::now();
            let (ours, others): (Vec<_>, Vec<_>) = canaries.iter().partition(|canary| is_own(**canary));
            tell_of_own(&own, &ours);
            own = ours;
            if sender.send(round(&others, timeout).await).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep_until(began + interval) => {}
                () = hurry.notified() => sleep_until(began + SHORTEST.min(interval)).await,
            }
        }
    });
    Asking { rounds, now, task: task.abort_handle(), began: first }
}

/// Is it an address of this host? Then a packet to it would come from the address itself. Nothing is sent.
fn is_own(canary: SocketAddr) -> bool {
    let any = match canary {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let source = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(canary)?;
        socket.local_addr()
    });
    canary.ip().is_loopback() || source.is_ok_and(|source| source.ip() == canary.ip())
}

/// Once for each that becomes one of this host's, and when it is none any more: a virtual address may move.
fn tell_of_own(before: &[SocketAddr], now: &[SocketAddr]) {
    for canary in now.iter().filter(|canary| !before.contains(canary)) {
        warn!("the canary {canary} is an address of this host, which always answers: it is not asked");
    }
    for canary in before.iter().filter(|canary| !now.contains(canary)) {
        info!("the canary {canary} is no address of this host any more: it is asked");
    }
}

/// Asks all at once; the first answer is enough. With nobody to ask nobody is silent.
async fn round(canaries: &[SocketAddr], limit: Duration) -> Canary {
    if canaries.is_empty() {
        return Canary::Answers;
    }
    let mut asked: JoinSet<Result<(), String>> = JoinSet::new();
    for canary in canaries.iter().copied() {
        asked.spawn(async move { answers(canary, limit).await.map_err(|why| format!("{canary}: {why}")) });
    }
    let mut silent = Vec::new();
    while let Some(answer) = asked.join_next().await {
        match answer {
            Ok(Ok(())) => return Canary::Answers,
            Ok(Err(why)) => silent.push(why),
            Err(broken) => silent.push(broken.to_string()),
        }
    }
    silent.sort_unstable();
    Canary::Silent(silent.join(", "))
}

/// A refusal is an answer: somebody must be there to send it.
async fn answers(canary: SocketAddr, limit: Duration) -> Result<(), String> {
    match timeout(limit, TcpStream::connect(canary)).await {
        Ok(Ok(_connected)) => Ok(()),
        Ok(Err(error)) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Ok(()),
            _ => Err(explain(&error)),
        },
        Err(_) => Err(format!("timed out after {limit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn closed() -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn one_answer_is_enough_and_a_refusal_is_one() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // Nobody can be there: not a host's address.
        let nobody: SocketAddr = "255.255.255.255:9".parse().unwrap();
        assert_eq!(round(&[open], SECOND).await, Canary::Answers);
        assert_eq!(round(&[closed()], SECOND).await, Canary::Answers);
        assert_eq!(round(&[nobody, closed()], SECOND).await, Canary::Answers);
        let Canary::Silent(why) = round(&[nobody], SECOND).await else { panic!("nobody answered") };
        assert!(why.starts_with("255.255.255.255:9: "), "{why}");
    }

    #[tokio::test]
    async fn a_canary_has_its_time_and_no_more() {
        // A queue that is full answers nobody.
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        full.listen(0).unwrap();
        let address = full.local_addr().unwrap().as_socket().unwrap();
        let mut waiting = Vec::new();
        while let Ok(Ok(stream)) = timeout(SECOND / 5, TcpStream::connect(address)).await {
            waiting.push(stream);
        }
        let limit = Duration::from_millis(50);
        let silent = Canary::Silent(format!("{address}: timed out after 50ms"));
        assert_eq!(round(&[address], limit).await, silent);
    }

    #[test]
    fn an_address_of_this_host_is_known_as_one() {
        for own in ["127.0.0.1:9", "127.7.7.7:9", "[::1]:9"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        // Reserved for documentation: whatever this host is called, they are somebody else's.
        for other in ["192.0.2.1:9", "[2001:db8::1]:9", "255.255.255.255:9"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_by_itself_is_begun_anew_and_no_faster_than_it_may() {
        let nobody = vec!["255.255.255.255:9".parse().unwrap()];
        for (interval, wanted) in
            [(SECOND / 100, [1, 2, 4, 8, 16, 32, 60, 60]), (5 * SECOND, [5, 5, 5, 8, 16, 32, 60, 60])]
        {
            let asked = SelfTest { canary: nobody.clone(), canary_interval: interval, ..SelfTest::off() };
            let breaks = Breaks::default();
            let mut canaries = Canaries::new(&asked, &breaks);
            let mut pauses = Vec::new();
            for round in 1..=8 {
                canaries.asking.as_ref().unwrap().task.abort();
                let mut found = Vec::new();
                while found.last() != Some(&Canary::Answers) {
                    found.push(canaries.round().await);
                }
                assert!(found.len() <= 2, "at most what was found before: {found:?}");
                let before = Instant::now();
                let next = canaries.round().await;
                assert!(matches!(next, Canary::Silent(_)), "it asks again: {next:?}");
                pauses.push(before.elapsed().as_secs());
                assert!(breaks.counts().any(|counted| counted == (Part::Canaries, round)));
            }
            assert_eq!(pauses, wanted, "every {interval:?}");
        }
    }

    #[tokio::test]
    async fn rounds_follow_the_configuration() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let asked = SelfTest { canary: vec![open], canary_interval: SECOND / 100, ..SelfTest::off() };
        let mut canaries = Canaries::new(&SelfTest::off(), &Breaks::default());
        assert!(timeout(SECOND / 10, canaries.round()).await.is_err(), "nobody to ask");
        canaries.configure(&asked);
        for _ in 0..3 {
            assert_eq!(timeout(5 * SECOND, canaries.round()).await, Ok(Canary::Answers));
        }
        let nobody = SelfTest { canary: vec!["255.255.255.255:9".parse().unwrap()], ..asked };
        canaries.configure(&nobody);
        let found = timeout(5 * SECOND, canaries.round()).await;
        assert!(matches!(found, Ok(Canary::Silent(_))), "nothing of before: {found:?}");
        canaries.configure(&SelfTest::off());
        assert!(timeout(SECOND / 10, canaries.round()).await.is_err(), "nobody to ask any more");
    }
}
