//! The counters of a dump against a map.

use proptest::prelude::*;

use super::*;

fn id(service: u16, destination: u16) -> (ServiceId, DestinationId) {
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let service = ServiceId::Address { protocol: Protocol::Tcp, address, port: service };
    (service, DestinationId { address, port: destination })
}

proptest! {
    /// A map made from the same entries is the reference.
    #[test]
    fn counters_are_found_as_in_a_map(entries in prop::collection::vec((0u16..6, 0u16..6, any::<u32>()), 0..40)) {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(service, destination, active)| {
                (id(service, destination), Counters { active, ..Counters::default() })
            })
            .collect();
        let map: BTreeMap<_, _> = entries.iter().copied().collect();
        let counters: CountersByDestination = entries.into_iter().collect();
        prop_assert_eq!((counters.len(), counters.is_empty()), (map.len(), map.is_empty()));
        for service in 0..7 {
            for destination in 0..7 {
                let id = id(service, destination);
                prop_assert_eq!(counters.get(&id), map.get(&id));
            }
            let (service, _) = id(service, 0);
            let of_it: Vec<_> = map.iter().filter(|((s, _), _)| *s == service).map(|(_, c)| c).collect();
            prop_assert_eq!(counters.of_service(&service).collect::<Vec<_>>(), of_it);
        }
    }
}
