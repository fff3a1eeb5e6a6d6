//! Against the running kernel's generic netlink controller, which every Linux has and which
//! everybody may ask: it answers a request for a family with its description, or with ENOENT.

use super::*;

const CONTROLLER: &str = "nlctrl";
const NOBODY: &str = "no-such-family";

/// A transport whose family is the controller itself.
fn transport(options: Options) -> Transport {
    let mut transport = Transport::open(options).unwrap();
    transport.family = Some(GenlId::Ctrl.into());
    transport
}

fn slow() -> Options {
    Options { deadline: Duration::from_secs(60), receive_buffer: None }
}

fn ask_for(buffer: &mut Vec<u8>, header: Header, name: &&str) {
    request::family(buffer, header, name);
}

#[test]
fn every_request_of_a_batch_has_its_own_result() {
    let mut transport = transport(slow());
    for count in [1, 2, BATCH] {
        let names: Vec<&str> = (0..count).map(|n| if n % 3 == 1 { NOBODY } else { CONTROLLER }).collect();
        let results = transport.batch(&names, ask_for);
        let expected: Vec<_> = names
            .iter()
            .map(|name| if *name == NOBODY { Err(Reason::Refused(Errno::ENOENT)) } else { Ok(()) })
            .collect();
        assert_eq!(results, expected);
    }
    assert_eq!(transport.batch(&[], ask_for), []);
}

#[test]
fn an_answer_comes_before_its_acknowledgement() {
    let mut transport = transport(slow());
    let mut deadline = Deadline::start(transport.deadline());
    let mut numbers = Vec::new();
    let result = transport.ask(
        Kind::Single,
        &mut deadline,
        |buffer, header| request::family(buffer, header, CONTROLLER),
        |attributes| {
            numbers.push(reply::family(attributes)?);
            Ok(())
        },
    );
    assert_eq!((result, numbers), (Ok(()), vec![GenlId::Ctrl.into()]));
}

#[test]
fn a_dump_visits_every_entry() {
    let mut transport = transport(slow());
    let mut deadline = Deadline::start(transport.deadline());
    let mut numbers = Vec::new();
    // A dump of families takes no notice of the name.
    let result = transport.ask(
        Kind::Dump,
        &mut deadline,
        |buffer, header| request::family(buffer, header, CONTROLLER),
        |attributes| {
            numbers.push(reply::family(attributes)?);
            Ok(())
        },
    );
    assert_eq!(result, Ok(()));
    assert!(numbers.contains(&GenlId::Ctrl.into()), "{numbers:?}");
}

#[test]
fn an_overrun_leaves_results_unknown_and_a_new_socket() {
    let mut transport = transport(Options { receive_buffer: Some(1), ..slow() });
    let results = transport.batch(&[NOBODY; BATCH], ask_for);
    assert!(results.contains(&Err(Loss::Overrun.into())), "{results:?}");
    assert!(!results.contains(&Ok(())), "{results:?}");
    assert!(transport.socket.is_none());
    assert_eq!(transport.batch(&[CONTROLLER], ask_for), [Ok(())]);
}

/// The kernel takes no notice of a message that is longer than what was sent, nor of any after it.
#[test]
fn no_answer_ends_at_the_deadline() {
    let limit = Duration::from_millis(50);
    let mut transport = transport(Options { deadline: limit, ..slow() });
    let results = transport.batch(&[NOBODY, "", CONTROLLER], |buffer, header, name| {
        request::family(buffer, header, name);
        if name.is_empty() {
            let start = buffer.len() - 28;
            buffer[start..start + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
        }
    });
    let lost = || Err(Reason::Unknown(Loss::Deadline(limit)));
    assert_eq!(results, [Err(Reason::Refused(Errno::ENOENT)), lost(), lost()]);
    assert!(transport.socket.is_none());
    assert_eq!(transport.batch(&[CONTROLLER], ask_for), [Ok(())]);
}

#[test]
fn an_answer_that_is_not_understood_costs_the_socket() {
    let mut transport = transport(slow());
    let mut deadline = Deadline::start(transport.deadline());
    let result = transport.ask(
        Kind::Single,
        &mut deadline,
        |buffer, header| request::family(buffer, header, CONTROLLER),
        |_| Err(Malformed::Missing("sense")),
    );
    assert_eq!(result, Err(Loss::Malformed(Malformed::Missing("sense")).into()));
    assert!(transport.socket.is_none());
    assert_eq!(transport.batch(&[CONTROLLER], ask_for), [Ok(())]);
}

#[test]
fn a_number_that_nobody_has_is_not_current() {
    let mut transport = transport(slow());
    transport.family = Some(0x7fff);
    assert!(!transport.family_is_current());
}
