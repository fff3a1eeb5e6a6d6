//! Parts that break off, and what is made of it.

use std::sync::mpsc;

use super::*;

fn count(breaks: &Breaks, part: Part) -> u64 {
    breaks.counts().find_map(|(one, count)| (one == part).then_some(count)).unwrap()
}

#[test]
fn each_part_has_its_own_count_and_name() {
    let breaks = Breaks::default();
    for (n, part) in Part::ALL.into_iter().enumerate() {
        (0..=n).for_each(|_| breaks.note(part, "test"));
    }
    let counts: Vec<(Part, u64)> = breaks.counts().collect();
    assert!(counts.iter().map(|(part, _)| *part).eq(Part::ALL));
    assert!(counts.iter().map(|(_, count)| *count).eq(1..=9));
    assert!(Part::ALL.map(Part::name).is_sorted_by(|a, b| a < b), "none twice");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_begun_anew_until_it_ends_of_itself_and_no_faster_than_it_may() {
    let (breaks, mut begun) = (Breaks::default(), 0);
    let mut watch = Watch::over(Part::Fifo, &breaks);
    let mut pauses = Vec::new();
    loop {
        let before = tokio::time::Instant::now();
        let part = async {
            tokio::task::yield_now().await;
            begun += 1;
            assert!(begun > 9, "broken on purpose, time {begun}");
        };
        if !watch.breaks(part, std::future::pending()).await {
            break;
        }
        pauses.push(before.elapsed().as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!((begun, count(&breaks, Part::Fifo)), (10, 9));
    assert_eq!(breaks.counts().map(|(_, count)| count).sum::<u64>(), 9, "of this part alone");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_daemon_cuts_one_pause_and_no_task_spins_after_it() {
    for ends_first in [true, false] {
        let (breaks, ending) = (Breaks::default(), tokio::sync::Notify::new());
        let mut watch = Watch::over(Part::Mail, &breaks);
        watch.pause = LONGEST_PAUSE;
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let before = tokio::time::Instant::now();
            let part = async {
                if ends_first {
                    ending.notify_one();
                }
                panic!("broken on purpose");
            };
            let end = async {
                if !ends_first {
                    tokio::time::sleep(3 * PAUSE).await;
                    ending.notify_one();
                }
                ending.notified().await;
            };
            assert!(watch.breaks(part, end).await);
            pauses.push(before.elapsed().as_secs());
        }
        assert_eq!(pauses, [if ends_first { 0 } else { 3 }, 1, 1, 1]);
    }
}

#[test]
fn a_thread_is_begun_anew_after_a_panic_and_after_an_error_and_its_owner_need_not_wait() {
    let breaks = Breaks::default();
    let (sender, began) = mpsc::channel();
    let mut watch = Watch::over(Part::Log, &breaks);
    // Else this takes a minute.
    watch.pause = LONGEST_PAUSE;
    let mut ends = vec![Ok(()), Err("an error"), Err("a panic")];
    let thread = std::thread::spawn(move || {
        while watch.breaks_here(|| {
            sender.send(()).unwrap();
            let end = ends.pop().unwrap();
            assert_ne!(end, Err("a panic"));
            end.map_err(str::to_owned)
        }) {}
    });
    let before = Instant::now();
    for _ in 0..3 {
        while began.try_recv().is_err() {
            thread.thread().unpark();
            std::thread::yield_now();
        }
    }
    thread.join().unwrap();
    assert!(before.elapsed() < LONGEST_PAUSE);
    assert_eq!(count(&breaks, Part::Log), 2);
}

#[tokio::test]
async fn what_panics_is_known_by_its_text() {
    assert_eq!(caught(async { 7 }).await, Ok(7));
    let number = 7;
    assert_eq!(caught(async { panic!("number {number}") }).await, Err::<(), _>("number 7".to_owned()));
    assert_eq!(caught(async { std::panic::panic_any(3_u8) }).await, Err::<(), _>("no text".to_owned()));
}
