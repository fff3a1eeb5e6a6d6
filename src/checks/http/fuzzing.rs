//! Replies to the `http` check, for fuzzing.

use std::sync::LazyLock;

use super::*;
use crate::checks::fuzzing::{alike, endless, run, target};
use crate::engine::model::{BodyRule, Digest, HttpVersion, Pattern};
use crate::net::fuzzing::{Cut, End};

/// Every way of reading a reply: its status alone, each demand on its body, HEAD, redirects.
static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
    let url = |body, digest| Url {
        path: "/a/b?c".to_owned(),
        virtualhost: None,
        status: StatusSet::new([(200, 299)]),
        body,
        digest,
    };
    let pattern = |text: &str| Pattern::new_compiled(text.to_owned());
    let http = |method: &str, url, follow_redirects| Http {
        urls: vec![url],
        method: method.to_owned(),
        version: HttpVersion::Http11,
        virtualhost: Some("www.example.org".to_owned()),
        headers: Vec::new(),
        request_body: None,
        max_body: 300,
        tls: None,
        follow_redirects,
    };
    let plans = [
        http("GET", url(None, None), true),
        http("HEAD", url(Some(BodyRule::Contains(b"ok".to_vec())), None), true),
        http("GET", url(Some(BodyRule::Contains(b"ok, all".to_vec())), None), false),
        http("GET", url(Some(BodyRule::Regex(pattern("o+k"))), Some(Digest::Md5([0; 16]))), false),
        http("POST", url(Some(BodyRule::NotRegex(pattern("^error"))), None), false),
        http("GET", url(Some(BodyRule::Contains(b"ok".to_vec())), Some(Digest::Sha256([0; 32]))), false),
    ];
    let made = plans.iter().filter_map(|http| Plan::new(http, &mut Input::default()).ok());
    made.collect()
});

pub(crate) fn reply(says: &[u8]) {
    assert_eq!(PLANS.len(), 6);
    for plan in PLANS.iter() {
        let _judged = alike(says, async |wire, deadline| ask(plan, wire, deadline).await);
    }
    // A sixth of the work goes to what has no end.
    let which = usize::from(says.last().copied().unwrap_or_default());
    if let Some(plan) = PLANS.get(which % PLANS.len()) {
        let _judged = run(&endless(says), Cut::Whole, End::Closed, async |wire, deadline| {
            ask(plan, wire, deadline).await
        });
    }
}

async fn ask(plan: &Plan, wire: Wire, deadline: &mut Deadline<'_>) -> Result<String, Trouble> {
    let Some(url) = plan.urls.first() else { return Ok(String::new()) };
    let step = plan.first_step(&target(), url);
    let lines = |step: &Step<'_>| step.request.iter().filter(|byte| **byte == b'\n').count();
    match hear(plan, url, &step, &mut Exchange::new(wire, &step.request, None), deadline).await? {
        Found::Passed { status } => Ok(status.to_string()),
        Found::Redirect { status, location } => {
            let next = plan.redirected(&step, status, &location)?;
            let text = next.request.iter().all(|byte| matches!(byte, b'\r' | b'\n' | b' '..=b'~'));
            assert!(text && lines(&next) <= lines(&step), "the server wrote into our next request");
            Ok(format!("{status} {} {}", next.host, next.path))
        }
    }
}
