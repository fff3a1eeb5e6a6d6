//! What is said how often. Scripts that run are in tests/notifications.

use super::*;

#[test]
fn a_missing_program_is_said_once_per_reason() {
    let mut state = State::default();
    let steps = [
        ("/a", "missing", true),
        ("/a", "missing", false),
        ("/b", "missing", true),
        ("/a", "writable", true),
        ("/a", "writable", false),
        ("/a", "missing", true),
    ];
    for (program, why, said) in steps {
        assert_eq!(state.complains_anew(program.into(), why.to_owned()), said, "{program} {why}");
    }
    for n in 0..2 * MAX_COMPLAINTS {
        state.complains_anew(n.to_string().into(), String::new());
    }
    assert_eq!(state.complaints.len(), MAX_COMPLAINTS);
}
