//! One POST: connection, request, and what the reply means. Connections are used again while there is more to tell.

#[cfg(feature = "fuzzing")]
pub(in crate::notify) mod fuzzing;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::engine::model::{HeaderText, Webhook, WebhookUrl};
use crate::notify::secret::Reader;
use crate::notify::wire::{self, Security, Wire};

/// Bytes of a reply's body that are read so that its connection can be used again.
const MAX_BODY: usize = 64 * 1024;

/// What a server's reply means for the event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Taken,
    Again {
        why: String,
        /// What the server asked for.
        after: Option<Duration>,
    },
    Refused(String),
}

/// What is kept from one request to the next.
#[derive(Debug, Default)]
pub(super) struct Client {
    security: Security,
    secrets: Reader,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    url: WebhookUrl,
    sender: SendRequest<Full<Bytes>>,
    /// hyper's half of the connection; ends with this.
    _driver: JoinSet<()>,
}

impl Client {
    pub(super) async fn post(&mut self, webhook: &Webhook, body: &[u8]) -> Answer {
        match timeout(webhook.timeout, self.attempt(webhook, body)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => {
                self.hang_up();
                Answer::Again { why, after: None }
            }
            Err(_) => {
                self.hang_up();
                self.security.forget();
                Answer::Again { why: format!("timed out after {:?}", webhook.timeout), after: None }
            }
        }
    }

    pub(super) fn hang_up(&mut self) {
        self.open = None;
    }

    async fn attempt(&mut self, webhook: &Webhook, body: &[u8]) -> Result<Answer, String> {
        let request = self.request(webhook, body).await?;
        let used = self.open.take().filter(|open| open.url == webhook.url && !open.sender.is_closed());
        if let Some(open) = used {
            // A server may close what it has kept open for a while: that is no failure.
            if let Ok(answer) = self.exchange(open, request.clone()).await {
                return Ok(answer);
            }
        }
        let open = self.connect(webhook).await?;
        self.exchange(open, request).await
    }

    async fn request(&mut self, webhook: &Webhook, body: &[u8]) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&webhook.url.path.0)
            .header(header::HOST, &webhook.url.authority)
            .header(header::USER_AGENT, concat!("lvsd/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json");
        for (name, text) in &webhook.headers {
            let text = match text {
                HeaderText::Written(text) => text.0.clone(),
                HeaderText::File { path, prefix } => format!("{prefix}{}", self.secrets.read(path).await?),
            };
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| format!("the header {name} cannot have what its file holds"))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::copy_from_slice(body))).map_err(|error| format!("request: {error}"))
    }

    async fn connect(&mut self, webhook: &Webhook) -> Result<Open, String> {
        let server = &webhook.url.server;
        let stream = wire::connect(server, webhook.timeout).await?;
        let wire = match &webhook.url.tls {
            None => Wire::plain(stream, usize::MAX),
            Some(tls) => Wire::encrypted(self.security.secure(stream, tls, &server.host).await?, usize::MAX),
        };
        let (sender, driver) = driven(wire).await?;
        Ok(Open { url: webhook.url.clone(), sender, _driver: driver })
    }

    async fn exchange(&mut self, mut open: Open, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        open.sender.ready().await.map_err(|error| describe(&error))?;
        let reply = open.sender.send_request(request).await.map_err(|error| describe(&error))?;
        let answer = judge(reply.status(), reply.headers(), SystemTime::now());
        // A body that is too long or breaks off costs the connection, nothing else.
        if Limited::new(reply.into_body(), MAX_BODY).collect().await.is_ok() {
            self.open = Some(open);
        }
        Ok(answer)
    }
}

async fn driven(wire: Wire) -> Result<(SendRequest<Full<Bytes>>, JoinSet<()>), String> {
    let (sender, connection) =
        http1::handshake(TokioIo::new(wire)).await.map_err(|error| format!("connection: {error}"))?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Why it ended, the request's own error says.
        let _ = connection.await;
    });
    Ok((sender, driver))
}

fn judge(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Answer {
    let why = format!("the server said {status}");
    match status {
        status if status.is_success() => Answer::Taken,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Answer::Again { why, after: retry_after(headers, now) }
        }
        status if status.is_server_error() => Answer::Again { why, after: retry_after(headers, now) },
        status if status.is_redirection() => {
            Answer::Refused(format!("{why}, and redirects are not followed"))
        }
        _ => Answer::Refused(why),
    }
}

/// RFC 9110 section 10.2.3: seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

/// hyper's errors with what is behind them.
fn describe(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn what_a_reply_means() {
        let now = UNIX_EPOCH + Duration::from_secs(1_445_412_400);
        let seconds = |n| Some(Duration::from_secs(n));
        let again = |status: &str, after| Answer::Again { why: format!("the server said {status}"), after };
        let refused = |why: &str| Answer::Refused(format!("the server said {why}"));
        let cases = [
            (200, None, Answer::Taken),
            (204, None, Answer::Taken),
            (408, None, again("408 Request Timeout", None)),
            (429, Some("7"), again("429 Too Many Requests", seconds(7))),
            (500, Some(" 7 "), again("500 Internal Server Error", seconds(7))),
            (503, Some("Wed, 21 Oct 2015 07:28:00 GMT"), again("503 Service Unavailable", seconds(80))),
            (503, Some("Wed, 21 Oct 2015 07:00:00 GMT"), again("503 Service Unavailable", seconds(0))),
            (503, Some("-1"), again("503 Service Unavailable", None)),
            (503, Some("soon"), again("503 Service Unavailable", None)),
            (302, Some("7"), refused("302 Found, and redirects are not followed")),
            (401, None, refused("401 Unauthorized")),
            (404, Some("7"), refused("404 Not Found")),
        ];
        for (status, after, wanted) in cases {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(header::RETRY_AFTER, after.parse().unwrap());
            }
            assert_eq!(judge(StatusCode::from_u16(status).unwrap(), &headers, now), wanted, "{status}");
        }
    }
}
