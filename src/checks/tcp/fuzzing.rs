//! Dialogues of the `tcp` check, for fuzzing.

use super::*;
use crate::checks::fuzzing::{alike, endless, run};
use crate::engine::model::Expect;
use crate::net::fuzzing::{Cut, End};

/// `tcp` is of a configuration, so that it can be prepared.
pub(crate) fn dialogue(tcp: &Tcp, says: &[u8]) {
    let plan = Plan::new(&Tcp { tls: None, ..tcp.clone() }, &mut Input::default());
    assert!(plan.is_ok(), "what loads can be prepared: {plan:?}");
    let Ok(plan) = plan else { return };
    // What a pattern finds in a stream may depend on what follows, and so on how much has come.
    let dialogue = tcp.dialogue.iter().filter_map(|step| step.expect.as_ref());
    let has_pattern = dialogue.chain(&tcp.expect).any(|expect| matches!(expect, Expect::Regex(_)));
    if has_pattern {
        for cut in [Cut::Whole, Cut::Uneven] {
            let _judged =
                run(says, cut, End::Closed, async |wire, deadline| talk(&plan, wire, deadline).await);
        }
    } else {
        let _judged = alike(says, async |wire, deadline| talk(&plan, wire, deadline).await);
        // The bounds count bytes, wherever they were cut.
        let says = endless(says);
        let ends = [Cut::Whole, Cut::Uneven].map(|cut| {
            run(&says, cut, End::Closed, async |wire, deadline| talk(&plan, wire, deadline).await)
        });
        assert_eq!(ends.first(), ends.last());
    }
}

async fn talk(plan: &Plan, wire: Wire, deadline: &mut Deadline<'_>) -> Result<String, Trouble> {
    match &plan.talk {
        Talk::Once { send, expect } => {
            let mut exchange = Exchange::new(wire, send, None);
            match expect {
                Some(wanted) => wanted.find(&mut Vec::new(), &mut exchange, deadline).await?,
                None => send_all(&mut exchange, deadline).await?,
            }
        }
        Talk::Dialogue(steps) => {
            super::dialogue(&mut Exchange::new(wire, &[], None), steps, deadline).await?;
        }
    }
    Ok(String::new())
}
