//! What follows the reply to a client that wants to be told what happens: one line for each event, signs of
//! life between them, and a last word.
//!
//! A client costs a bounded queue. One that does not keep up is cut off, and told so: an event that it
//! has missed would never be made up for.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::exit::ExitCode;
use super::happening::Happening;
use super::protocol::Reply;

/// Between two signs of life. A client that hears nothing for [`SILENCE`] takes the daemon for dead.
pub const ALIVE: Duration = Duration::from_secs(5);
pub const SILENCE: Duration = Duration::from_secs(16);
/// Events that wait for one client. More at once happen where hundreds of servers fail together.
const QUEUE: usize = 4096;

/// One line after the reply.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Item {
    /// A [`Happening`] as JSON.
    Event(Box<RawValue>),
    Alive,
    End(End),
}

/// The last word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub reason: String,
    /// What the client exits with.
    pub code: ExitCode,
}

/// The first line's JSON: a status as of event `number`.
#[derive(Serialize)]
struct Opening<'a> {
    snapshot: Picture<'a>,
}

#[derive(Serialize)]
struct Picture<'a> {
    number: u64,
    status: &'a RawValue,
}

/// Makes the reply to a status request the beginning of a stream.
pub fn opening(reply: Reply, number: u64) -> Reply {
    let Some(status) = reply.data.as_deref() else { return reply };
    let opening = serde_json::value::to_raw_value(&Opening { snapshot: Picture { number, status } });
    match opening {
        Ok(data) => Reply { data: Some(data), ..reply },
        Err(error) => Reply::failed(format!("writing the snapshot as JSON: {error}")),
    }
}

/// A line that all clients are sent, with its line break.
type Line = Arc<[u8]>;

enum Word {
    Line(Line),
    TooSlow,
}

/// The supervisor's end of one client's queue.
#[derive(Debug)]
pub struct Feed(mpsc::Sender<Word>);

/// The server's end.
pub(super) struct Following {
    queue: mpsc::Receiver<Word>,
    _place: OwnedSemaphorePermit,
}

pub(super) fn channel(place: OwnedSemaphorePermit) -> (Feed, Following) {
    let (sender, queue) = mpsc::channel(QUEUE);
    (Feed(sender), Following { queue, _place: place })
}

/// All clients that are told. Dropping it ends them.
#[derive(Debug, Default)]
pub struct Feeds(Vec<Feed>);

impl Feeds {
    pub fn extend(&mut self, feed: Option<Feed>) {
        // Where nothing happens, clients that have gone are noticed here.
        self.0.retain(|feed| !feed.0.is_closed());
        self.0.extend(feed);
    }

    /// Returns at once. Clients that have gone, or are too slow, are forgotten.
    pub fn tell(&mut self, happening: &Happening) {
        if self.0.is_empty() {
            return;
        }
        let Ok(mut line) = serde_json::value::to_raw_value(&happening.json())
            .and_then(|event| serde_json::to_vec(&Item::Event(event)))
        else {
            return;
        };
        line.push(b'\n');
        let line: Line = line.into();
        self.0.retain(|feed| feed.tell(&line));
    }
}

impl Feed {
    /// Shall it be told more?
    fn tell(&self, line: &Line) -> bool {
        // The last place is for the last word.
        if self.0.capacity() <= 1 {
            let _ = self.0.try_send(Word::TooSlow);
            return false;
        }
        self.0.try_send(Word::Line(Arc::clone(line))).is_ok()
    }
}

/// Until the client goes, is too slow, or the daemon ends.
pub(super) async fn serve(
    mut stream: UnixStream,
    mut following: Following,
    alive: Duration,
    limit: Duration,
) {
    let (mut reader, mut writer) = stream.split();
    let mut ticks = interval(alive);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut byte = [0];
    let mut write = async |line: &[u8]| matches!(timeout(limit, writer.write_all(line)).await, Ok(Ok(())));
    loop {
        let taken = tokio::select! {
            // A client has nothing more to say: either it has gone, or it is none of ours.
            _ = reader.read(&mut byte) => return,
            word = following.queue.recv() => match word {
                Some(Word::Line(line)) => write(&line).await,
                Some(Word::TooSlow) => {
                    let reason = "this client did not keep up with the events".to_owned();
                    write(&line(&Item::End(End { reason, code: ExitCode::Failed }))).await;
                    return;
                }
                None => {
                    let reason = "the daemon is stopping".to_owned();
                    write(&line(&Item::End(End { reason, code: ExitCode::Unreachable }))).await;
                    return;
                }
            },
            _ = ticks.tick() => write(&line(&Item::Alive)).await,
        };
        if !taken {
            return;
        }
    }
}

fn line(item: &Item) -> Vec<u8> {
    // Plain values serialise.
    let mut line = serde_json::to_vec(item).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::control::happening::{Because, What};
    use crate::engine::Time;

    const LONG: Duration = Duration::from_secs(60);

    fn happening(number: u64) -> Happening {
        Happening {
            number,
            at: SystemTime::UNIX_EPOCH,
            time: Time::ZERO,
            virtual_server: "web".into(),
            real_server: None,
            what: What::Down,
            because: Because::Nothing,
        }
    }

    fn follow(feeds: &mut Feeds) -> Following {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (feed, following) = channel(place);
        feeds.extend(Some(feed));
        following
    }

    async fn read(mut stream: UnixStream) -> Vec<Item> {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.unwrap();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    fn end(items: &[Item]) -> &End {
        match items.last() {
            Some(Item::End(end)) => end,
            other => panic!("no last word: {other:?}"),
        }
    }

    #[tokio::test]
    async fn one_that_does_not_keep_up_is_cut_off_and_told_so() {
        let mut feeds = Feeds::default();
        let following = follow(&mut feeds);
        (0..5000).for_each(|number| feeds.tell(&happening(number)));
        assert!(feeds.0.is_empty(), "it is told nothing more");
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (items, ()) = tokio::join!(read(theirs), serve(ours, following, LONG, LONG));
        let events = items.iter().filter(|item| matches!(item, Item::Event(_))).count();
        assert_eq!(events, QUEUE - 1);
        let reason = "this client did not keep up with the events".to_owned();
        assert_eq!(end(&items), &End { reason, code: ExitCode::Failed });
    }

    #[tokio::test]
    async fn one_that_does_not_read_at_all_costs_its_queue_for_a_bounded_time() {
        let mut feeds = Feeds::default();
        let following = follow(&mut feeds);
        (0..QUEUE as u64 - 2).for_each(|number| feeds.tell(&happening(number)));
        let (ours, _theirs) = UnixStream::pair().unwrap();
        serve(ours, following, LONG, Duration::from_millis(50)).await;
        feeds.tell(&happening(9999));
        assert!(feeds.0.is_empty());
    }

    #[tokio::test]
    async fn signs_of_life_come_between_events_and_a_stop_is_told() {
        let mut feeds = Feeds::default();
        let following = follow(&mut feeds);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let serving = tokio::spawn(serve(ours, following, Duration::from_millis(1), LONG));
        let mut some = [0; 40];
        theirs.read_exact(&mut some).await.unwrap();
        assert!(some.starts_with(b"\"alive\"\n\"alive\"\n"), "{:?}", String::from_utf8_lossy(&some));
        drop(feeds);
        let items = read_rest(theirs).await;
        assert_eq!(
            end(&items),
            &End { reason: "the daemon is stopping".into(), code: ExitCode::Unreachable }
        );
        serving.await.unwrap();
    }

    /// From the next whole line on.
    async fn read_rest(mut stream: UnixStream) -> Vec<Item> {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.unwrap();
        let lines = text.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    #[tokio::test]
    async fn a_client_that_goes_is_noticed_without_an_event() {
        let mut feeds = Feeds::default();
        let following = follow(&mut feeds);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        serve(ours, following, LONG, LONG).await;
        feeds.tell(&happening(1));
        assert!(feeds.0.is_empty());
    }
}
