//! Datagrams of the kernel's IPVS family, for fuzzing.

use neli::consts::nl::NlmF;

use super::codec::{Attributes, Body, Header, Messages, reply, request};
use super::operation::Operation;
use crate::engine::model::Family;

const HEADER: Header = Header { family: 28, flags: NlmF::REQUEST, sequence: 7 };

/// Reads everything that can be read in every way that it can be read.
pub(crate) fn replies(datagram: &[u8]) {
    let mut messages = 0;
    for message in Messages::new(datagram) {
        messages += 1;
        let Ok(message) = message else { continue };
        match message.body {
            Body::Family { attributes } => read(attributes),
            Body::Ack(Err(errno)) | Body::Done(Err(errno)) => assert!(!errno.desc().is_empty()),
            Body::Ack(Ok(())) | Body::Done(Ok(())) | Body::Overrun | Body::Noop => {}
        }
    }
    assert!(messages <= datagram.len() / 16 + 1, "{messages} messages");
    let again = Messages::new(datagram).count();
    assert_eq!(messages, again);
}

fn read(attributes: Attributes<'_>) {
    assert_eq!(reply::info(attributes), reply::info(attributes));
    let (_info, _timeouts) = (reply::family(attributes), reply::timeouts(attributes));
    let (_daemon, _counters) = (reply::daemon(attributes), reply::service_counters(attributes));
    service(attributes);
    destination(attributes, Family::Ipv4);
    destination(attributes, Family::Ipv6);
}

/// What was read, written as a request and read again, is the same.
fn service(attributes: Attributes<'_>) {
    let Ok(Some((service, found))) = reply::service(attributes) else { return };
    let longest = match service.family() {
        Family::Ipv4 => 32,
        Family::Ipv6 => 128,
    };
    // 255 stands for a mask that no configuration has.
    if found.netmask > longest {
        return;
    }
    let edit = Operation::EditService { service, attributes: found.clone() };
    written(&edit, |again| assert_eq!(reply::service(again), Ok(Some((service, found)))));
}

fn destination(attributes: Attributes<'_>, family: Family) {
    let Ok(Some(found)) = reply::destination(attributes, family) else { return };
    let (destination, record) = (found.id, found.record);
    let service = crate::engine::table::ServiceId::Mark { family, mark: crate::engine::model::Mark::MIN };
    let add = Operation::AddDestination { service, destination, record };
    written(&add, |again| {
        let read = reply::destination(again, family);
        assert_eq!(read.map(|read| read.map(|read| (read.id, read.record))), Ok(Some((destination, record))));
    });
}

fn written(operation: &Operation, check: impl FnOnce(Attributes<'_>)) {
    let mut buffer = Vec::new();
    request::operation(&mut buffer, HEADER, operation);
    let message = Messages::new(&buffer).next();
    let Some(Ok(message)) = message else { return assert!(message.is_none(), "{message:?}") };
    if let Body::Family { attributes } = message.body {
        check(attributes);
    }
}
