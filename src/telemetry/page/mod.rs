//! The status page: `/`, `/status.json`, `/status.txt` and `/events`. Read-only.
//!
//! Knows nothing of what it shows: the runtime hands over a [`Document`] of one moment, at most once a second
//! however many look, and never while nobody does. The page itself is one file without anything from
//! elsewhere; what it shows it reads from `/events`.

mod body;
mod feed;

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use sha2::{Digest, Sha256};

use body::{Events, InTime};
pub use feed::{Broken, Change, Document, Feed, Source};

use super::http::{Handler, Line, Routes};

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");
/// Where they stand in the HTML.
const CSS_HERE: &str = "/* page.css */";
const JS_HERE: &str = "/* page.js */";
/// Before a client that was turned away comes again, in seconds.
const LATER: HeaderValue = HeaderValue::from_static("10");

/// The routes of the status page.
#[derive(Debug)]
pub struct Page<D> {
    feed: Feed<D>,
}

impl<D: Document> Page<D> {
    pub fn new(source: Source<D>) -> Self {
        Self { feed: Feed::new(source) }
    }

    #[must_use]
    pub fn routes(&self, routes: Routes) -> Routes {
        routes
            .with("/", front_page())
            .with("/status.json", self.shown("application/json", Form::Json))
            .with("/status.txt", self.shown("text/plain; charset=utf-8", Form::Text))
            .with("/events", self.events())
    }

    fn shown(&self, content_type: &'static str, form: Form) -> Handler<InTime> {
        let feed = self.feed.clone();
        Arc::new(move |request: Request<()>| {
            let feed = feed.clone();
            Box::pin(async move {
                let line = request.extensions().get::<Line>();
                let text = match form {
                    Form::Json => feed.whole().await,
                    Form::Text => feed.text().await,
                };
                match text {
                    Ok(text) => answer(StatusCode::OK, content_type, InTime::new(text, line)),
                    Err(Broken) => {
                        unavailable(InTime::new(Bytes::from_static(b"no answer, try again\n"), line))
                    }
                }
            })
        })
    }

    fn events(&self) -> Handler<Events> {
        let feed = self.feed.clone();
        Arc::new(move |request: Request<()>| {
            let feed = feed.clone();
            Box::pin(async move {
                const TYPE: &str = "text/event-stream";
                if request.method() == Method::HEAD {
                    return answer(StatusCode::OK, TYPE, Events::none());
                }
                let stream = request.extensions().get::<Line>().and_then(Line::try_stream);
                let Some(stream) = stream else { return unavailable(Events::none()) };
                let mut response = answer(StatusCode::OK, TYPE, feed.watch(stream));
                // A stream that ended is an end of its connection too.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            })
        })
    }
}

#[derive(Clone, Copy)]
enum Form {
    Json,
    Text,
}

fn front_page() -> Handler<Full<Bytes>> {
    let html = Bytes::from(HTML.replacen(CSS_HERE, CSS, 1).replacen(JS_HERE, JS, 1));
    // Base64 and these words are valid in a header.
    let policy = HeaderValue::from_str(&policy()).ok();
    Arc::new(move |_| {
        let (html, policy) = (html.clone(), policy.clone());
        Box::pin(async move {
            // Without its policy it is not shown at all.
            let Some(policy) = policy else { return unavailable(Full::default()) };
            let mut response = answer(StatusCode::OK, "text/html; charset=utf-8", Full::new(html));
            response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
            response
        })
    })
}

/// Nothing but the style and the script of the page itself, and this listener.
fn policy() -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(CSS),
        hash(JS)
    )
}

fn unavailable<B>(body: B) -> Response<B> {
    let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", body);
    response.headers_mut().insert(RETRY_AFTER, LATER);
    response
}

fn answer<B>(status: StatusCode, content_type: &'static str, body: B) -> Response<B> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    // /status.txt is shown within the page where there is no JavaScript.
    let framing = if content_type.starts_with("text/plain") { "SAMEORIGIN" } else { "DENY" };
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, framing),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
