//! ICMP packets, for fuzzing.

use super::*;

pub(crate) fn packet(says: &[u8]) {
    for (raw, v6) in [(false, false), (false, true), (true, false), (true, true)] {
        let echo = Echo { form: Form { raw, v6 }, id: 0x1234, sequence: 0x0102, size: 8 };
        let heard = echo.compare(says);
        assert_eq!(heard, echo.compare(says));
        // Whatever stands before it, a reply is our own request come back.
        if heard == Heard::Reply {
            let data: Vec<u8> = echo.data().collect();
            assert!(says.ends_with(&data));
        }
    }
}
