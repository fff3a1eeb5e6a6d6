//! Liveness and readiness as HTTP answers. Names what failed, never why: reasons may show the
//! inside and belong in the log.

use std::pin::Pin;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;

use super::aggregator::Aggregator;

/// One route's answer to a request whose body has been dealt with.
pub type Handler =
    Arc<dyn Fn(Request<()>) -> Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>> + Send + Sync>;

impl Aggregator {
    /// 200 `ok` while the process works, 503 when it stops or stands still. Asks no dependency.
    pub fn live_handler(self: &Arc<Self>) -> Handler {
        let this = Arc::clone(self);
        Arc::new(move |_request| {
            let answer = if this.is_shutting_down() {
                text(StatusCode::SERVICE_UNAVAILABLE, "shutting down")
            } else if this.is_alive() {
                text(StatusCode::OK, "ok")
            } else {
                text(StatusCode::SERVICE_UNAVAILABLE, "stalled")
            };
            Box::pin(async move { answer })
        })
    }

    /// 200 `{"status":"ready"}`, 503 with the names of what failed, or 503
    /// `{"status":"shutting_down"}`.
    pub fn ready_handler(self: &Arc<Self>) -> Handler {
        let this = Arc::clone(self);
        Arc::new(move |_request| {
            let this = Arc::clone(&this);
            Box::pin(async move { this.answer_ready().await })
        })
    }

    async fn answer_ready(self: &Arc<Self>) -> Response<Full<Bytes>> {
        let shutting_down = Readiness { status: "shutting_down", failed: &[] };
        if self.is_shutting_down() {
            return json(StatusCode::SERVICE_UNAVAILABLE, &shutting_down);
        }
        let (ready, failed) = self.evaluate().await;
        // Stopping may have begun while the checkers ran.
        if self.is_shutting_down() {
            json(StatusCode::SERVICE_UNAVAILABLE, &shutting_down)
        } else if ready {
            json(StatusCode::OK, &Readiness { status: "ready", failed: &[] })
        } else {
            json(StatusCode::SERVICE_UNAVAILABLE, &Readiness { status: "not_ready", failed: &failed })
        }
    }
}

#[derive(Serialize)]
struct Readiness<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    failed: &'a [String],
}

fn json(status: StatusCode, body: &Readiness<'_>) -> Response<Full<Bytes>> {
    // Two strings and a list of strings: nothing in it can fail to serialise.
    let body = serde_json::to_vec(body).unwrap_or_default();
    answer(status, "application/json", body.into())
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    answer(status, "text/plain; charset=utf-8", Bytes::from_static(body.as_bytes()))
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
