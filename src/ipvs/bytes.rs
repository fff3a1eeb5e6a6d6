//! The bytes that [`super::Netlink`] sends and [`super::Dumper`] reads, without a socket, for those who
//! measure them. Pure; sends nothing.

use neli::consts::nl::NlmF;

use super::codec::{Body, Header, Malformed, Messages, reply, request};
use super::operation::Operation;
use crate::engine::model::Family;
use crate::engine::table::{Counters, Destination, DestinationId};

/// Appends one request for each operation, to the family of this number, numbered from 1.
pub fn append_requests(buffer: &mut Vec<u8>, family: u16, operations: &[Operation]) {
    for (operation, sequence) in operations.iter().zip(1..) {
        let header = Header { family, flags: NlmF::REQUEST, sequence };
        request::operation(buffer, header, operation);
    }
}

/// One destination as a dump shows it.
pub type Shown = (DestinationId, Destination, Counters);

/// The destinations in one datagram of a dump, of a service of this family.
pub fn destinations(datagram: &[u8], family: Family) -> Result<Vec<Shown>, Malformed> {
    let mut shown = Vec::new();
    for message in Messages::new(datagram) {
        if let Body::Family { attributes } = message?.body {
            let entry = reply::destination(attributes, family)?;
            shown.extend(entry.map(|entry| (entry.id, entry.record, entry.counters)));
        }
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::model::Forwarding;
    use crate::engine::table::ServiceId;

    /// A request to add a destination holds it as a dump shows it.
    #[test]
    fn what_is_asked_for_reads_as_it_was() {
        let service = ServiceId::Address {
            protocol: crate::engine::model::Protocol::Tcp,
            address: [192, 0, 2, 1].into(),
            port: 80,
        };
        let record =
            Destination { forwarding: Forwarding::Nat, weight: 7, upper_threshold: 9, lower_threshold: 3 };
        let ids = [1, 2].map(|n| DestinationId { address: [10, 0, 0, n].into(), port: 8080 });
        let operations = ids.map(|destination| Operation::AddDestination { service, destination, record });
        let mut buffer = Vec::new();
        append_requests(&mut buffer, 28, &operations);
        let wanted = ids.map(|id| (id, record, Counters::default()));
        assert_eq!(destinations(&buffer, Family::Ipv4).unwrap(), wanted);
        assert_eq!(destinations(buffer.get(..30).unwrap(), Family::Ipv4), Err(Malformed::Message));
    }
}
