//! The `http` check, with TLS also https: asks for its URLs one after the other.
//!
//! A child for each concern: `request` writes, `reply` (with `head` and `chunked`) parses
//! without I/O, `body` judges a body, `redirect` finds the next place, `answer` brings reply
//! and body together. This file owns the order of things on the wire.

mod answer;
mod body;
mod chunked;
#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;
mod head;
mod redirect;
mod reply;
mod request;

use std::borrow::Cow;

use super::connection::{Exchange, Wire};
use super::deadline::Deadline;
use super::fault::{Trouble, quoted};
use super::prepare::{Input, PrepareError, tls_name};
use super::socket::{self, Close, Connected, Nagle};
use super::tls;
use crate::engine::model::{Http, Phase, StatusSet, Target, Tls, Url, shown_url};
use answer::{Answer, Found, Redirects};
use reply::Asked;
use request::{Carry, Scheme, Template};

/// A request of up to so many bytes goes out in one segment, which nothing holds back.
const ONE_SEGMENT: usize = 512;

/// What is made once for all runs of an `http` check.
#[derive(Debug)]
pub(super) struct Plan {
    template: Template,
    urls: Vec<UrlPlan>,
    scheme: Scheme,
    tls: Option<(Tls, tls::Client)>,
    follow_redirects: bool,
}

#[derive(Debug)]
struct UrlPlan {
    path: String,
    /// The Host header, and the whole request; `None` if they depend on the target.
    known: Option<(String, Vec<u8>)>,
    name: Option<tls::Name>,
    status: StatusSet,
    body: Option<body::Wanted>,
}

impl Plan {
    pub(super) fn new(http: &Http, input: &mut Input) -> Result<Self, PrepareError> {
        let template = Template::new(http);
        let tls = match &http.tls {
            None => None,
            Some(setting) => Some((setting.clone(), input.client(setting)?)),
        };
        let urls =
            http.urls.iter().map(|url| UrlPlan::new(url, http, &template)).collect::<Result<_, _>>()?;
        let scheme = if tls.is_some() { Scheme::Https } else { Scheme::Http };
        Ok(Self { template, urls, scheme, tls, follow_redirects: http.follow_redirects })
    }
}

impl UrlPlan {
    fn new(url: &Url, http: &Http, template: &Template) -> Result<Self, PrepareError> {
        let path = redirect::encoded(url.path.as_bytes());
        let virtual_host = url.virtualhost.as_ref().or(http.virtualhost.as_ref());
        let host = virtual_host.map(|name| request::host_field(name)).or_else(|| template.host.clone());
        let known = host.map(|host| {
            let request = template.render(&template.method, &path, &host, Carry::Body);
            (host, request)
        });
        let name = match (&http.tls, virtual_host) {
            (Some(setting), host) => tls_name(setting, host.map(|host| request::without_port(host)))?,
            (None, _) => None,
        };
        let body = body::Wanted::new(url.body.as_ref(), url.digest.as_ref(), http.max_body)?;
        Ok(Self { path, known, name, status: url.status.clone(), body })
    }
}

/// One request, as the configuration or a redirect has it.
struct Step<'p> {
    method: &'p str,
    path: Cow<'p, str>,
    host: Cow<'p, str>,
    request: Cow<'p, [u8]>,
    name: Option<Cow<'p, tls::Name>>,
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    let mut detail = String::new();
    for url in &plan.urls {
        let status = get(target, plan, url, deadline).await?;
        detail = format!("HTTP {status}");
    }
    Ok(detail)
}

/// One URL, with the redirects on the way.
async fn get(
    target: &Target,
    plan: &Plan,
    url: &UrlPlan,
    deadline: &mut Deadline<'_>,
) -> Result<u16, Trouble> {
    let mut step = plan.first_step(target, url);
    let mut redirects = 0;
    loop {
        let result = match exchange(target, plan, url, &step, deadline).await {
            Ok(Found::Passed { status }) => return Ok(status),
            Ok(Found::Redirect { .. }) if redirects == redirect::MOST => {
                Err(Trouble::failure(Phase::Status, format!("redirected more than {redirects} times")))
            }
            Ok(Found::Redirect { status, location }) => plan.redirected(&step, status, &location),
            Err(trouble) => Err(trouble),
        };
        step = match result {
            Ok(step) => step,
            Err(trouble) if plan.urls.len() > 1 || redirects > 0 => {
                let path = shown_url(&step.path);
                return Err(trouble.with(&format!(" at {}", quoted(path.as_bytes()))));
            }
            Err(trouble) => return Err(trouble),
        };
        redirects += 1;
    }
}

impl Plan {
    fn first_step<'p>(&'p self, target: &Target, url: &'p UrlPlan) -> Step<'p> {
        let (host, request) = match &url.known {
            Some((host, request)) => (Cow::Borrowed(host.as_str()), Cow::Borrowed(request.as_slice())),
            None => {
                let host = request::host_of(target, self.scheme);
                let request = self.template.render(&self.template.method, &url.path, &host, Carry::Body);
                (Cow::Owned(host), Cow::Owned(request))
            }
        };
        let path = Cow::Borrowed(url.path.as_str());
        Step {
            method: &self.template.method,
            path,
            host,
            request,
            name: url.name.as_ref().map(Cow::Borrowed),
        }
    }

    /// The request that a redirect asks for, to the same server.
    fn redirected<'p>(&'p self, step: &Step<'p>, status: u16, location: &[u8]) -> Result<Step<'p>, Trouble> {
        let place = redirect::resolve(location, self.scheme, &step.path)
            .map_err(|reason| Trouble::failure(Phase::Status, reason))?;
        // RFC 9110 section 15.4: after 303 a GET, and by custom a POST becomes one too.
        let becomes_get = match status {
            303 => step.method != "HEAD",
            301 | 302 => step.method == "POST",
            _ => false,
        };
        let (method, carry) = if becomes_get { ("GET", Carry::Nothing) } else { (step.method, Carry::Body) };
        let host = place.host.unwrap_or_else(|| step.host.clone().into_owned());
        let name = match &self.tls {
            Some((setting, _)) if host != step.host => {
                let name = tls_name(setting, Some(request::without_port(&host)))
                    .map_err(|error| Trouble::failure(Phase::TlsHandshake, error.to_string()))?;
                name.map(Cow::Owned)
            }
            Some(_) | None => step.name.clone(),
        };
        let request = self.template.render(method, &place.path, &host, carry);
        Ok(Step {
            method,
            path: Cow::Owned(place.path),
            host: Cow::Owned(host),
            request: Cow::Owned(request),
            name,
        })
    }
}

/// One connection, one request, one reply.
async fn exchange(
    target: &Target,
    plan: &Plan,
    url: &UrlPlan,
    step: &Step<'_>,
    deadline: &mut Deadline<'_>,
) -> Result<Found, Trouble> {
    let at_once = plan.tls.is_none() && step.request.len() <= ONE_SEGMENT;
    let nagle = if at_once { Nagle::On } else { Nagle::Off };
    let Connected { stream, reset } = socket::connect(target, Close::Reset, nagle, deadline).await?;
    let (wire, broken) = match &plan.tls {
        None => (Wire::Plain(stream), reset),
        Some((_, client)) => {
            if let Some(error) = reset {
                return Err(Trouble::io(Phase::TlsHandshake, "", &error));
            }
            let name = step.name.as_deref().cloned().unwrap_or_else(|| target.address.into());
            let secured = tls::handshake(stream, client, name, deadline).await?;
            if secured.alpn.as_deref() == Some(b"h2") {
                let reason = "the server chose h2 by ALPN, and the check speaks HTTP/1";
                return Err(Trouble::failure(Phase::TlsHandshake, reason));
            }
            (secured.wire, None)
        }
    };
    hear(plan, url, step, &mut Exchange::new(wire, &step.request, broken), deadline).await
}

/// Sends the request and reads as much of the reply as the verdict takes.
async fn hear(
    plan: &Plan,
    url: &UrlPlan,
    step: &Step<'_>,
    exchange: &mut Exchange<'_>,
    deadline: &mut Deadline<'_>,
) -> Result<Found, Trouble> {
    let asked = if step.method == "HEAD" { Asked::Head } else { Asked::Other };
    let redirects = if plan.follow_redirects { Redirects::Follow } else { Redirects::Judge };
    let mut answer = Answer::new(asked, &url.status, url.body.as_ref(), redirects);
    loop {
        match exchange.receive(deadline, |bytes| answer.take(bytes)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Err(trouble)) => return Err(trouble),
            Err(end) => return answer.end(end, exchange.phase(), deadline),
        }
    }
}

#[cfg(test)]
mod tests;
