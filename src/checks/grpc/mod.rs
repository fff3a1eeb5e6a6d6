//! The `grpc` check: one call of grpc.health.v1.Health/Check over HTTP/2.
//!
//! On h2 itself: nothing is spawned, so dropping the run closes its socket.

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;
mod message;
mod status;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{Connection, SendRequest};
use http::{Request, Response};

use super::connection::Wire;
use super::deadline::Deadline;
use super::fault::{Trouble, explain, quoted, uncapitalised};
use super::prepare::{Input, PrepareError, tls_name};
use super::socket::{self, Close, Connected, Nagle};
use super::tls;
use crate::engine::model::{Grpc, Phase, Target};
use message::{Health, REPLY_LIMIT};

/// Bytes of all headers of a reply.
const HEADERS_LIMIT: u32 = 16 * 1024;
/// The least that HTTP/2 lets a peer send at once (RFC 9113 section 6.5.2), and as much as fits.
const WINDOW: u32 = 16 * 1024;

/// What is made once for all runs of a `grpc` check.
#[derive(Debug)]
pub(super) struct Plan {
    request: Bytes,
    service: String,
    /// `:authority` where TLS has a name for the server.
    host: Option<String>,
    tls: Option<(tls::Client, Option<tls::Name>)>,
}

impl Plan {
    pub(super) fn new(grpc: &Grpc, input: &mut Input) -> Result<Self, PrepareError> {
        let tls = match &grpc.tls {
            None => None,
            Some(setting) => Some((input.client(setting)?, tls_name(setting, None)?)),
        };
        Ok(Self {
            request: message::request(&grpc.service).into(),
            service: grpc.service.clone(),
            host: grpc.tls.as_ref().and_then(|tls| tls.server_name.as_deref()).map(authority),
            tls,
        })
    }
}

pub(super) async fn probe(
    target: &Target,
    plan: &Plan,
    deadline: &mut Deadline<'_>,
) -> Result<String, Trouble> {
    let Connected { stream, reset } = socket::connect(target, Close::Reset, Nagle::Off, deadline).await?;
    if let Some(error) = reset {
        return Err(Trouble::io(Phase::Connect, "", &error));
    }
    let mut version = String::new();
    let wire = match &plan.tls {
        None => Wire::Plain(stream),
        Some((client, name)) => {
            let name = name.clone().unwrap_or_else(|| target.address.into());
            let secured = tls::handshake(stream, client, name, deadline).await?;
            // RFC 9113 section 3.2.
            if secured.alpn.as_deref() != Some(b"h2") {
                let reason = "the server did not choose h2 by ALPN, so it has no gRPC here";
                return Err(Trouble::failure(Phase::TlsHandshake, reason));
            }
            version = format!(", {}", secured.version);
            secured.wire
        }
    };
    let request = request(target, plan)?;
    let mut step = Step::Request;
    let limit = deadline.limit();
    match deadline.race(call(wire, request, plan, &mut step)).await {
        None => Err(timed_out(step, limit)),
        Some(Err(trouble)) => Err(trouble),
        Some(Ok(Health::Serving)) => Ok(format!("SERVING{version}")),
        Some(Ok(other)) => {
            let whose = match plan.service.as_str() {
                "" => "the server".to_owned(),
                service => format!("service {}", quoted(service.as_bytes())),
            };
            Err(Trouble::failure(Phase::Status, format!("{whose} is {}, wanted SERVING", other.name())))
        }
    }
}

/// A name as it stands in a URI.
fn authority(name: &str) -> String {
    if name.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{name}]") } else { name.to_owned() }
}

/// How far the call has come.
#[derive(Clone, Copy, Debug)]
enum Step {
    Request,
    Reply,
    Body,
}

fn timed_out(step: Step, limit: Duration) -> Trouble {
    let (phase, what) = match step {
        Step::Request => (Phase::Request, "no answer to the HTTP/2 preface"),
        Step::Reply => (Phase::Reply, "no answer to the call"),
        Step::Body => (Phase::Body, "the answer did not end"),
    };
    Trouble::failure(phase, format!("timed out after {limit:?}; {what}"))
}

fn request(target: &Target, plan: &Plan) -> Result<Request<()>, Trouble> {
    let host = match &plan.host {
        Some(host) => host.clone(),
        None => std::net::SocketAddr::new(target.address, target.port).to_string(),
    };
    let scheme = if plan.tls.is_some() { "https" } else { "http" };
    Request::post(format!("{scheme}://{host}/grpc.health.v1.Health/Check"))
        .version(http::Version::HTTP_2)
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .header("user-agent", concat!("lvsd/", env!("CARGO_PKG_VERSION")))
        .body(())
        .map_err(|error| Trouble::failure(Phase::Internal, format!("make the request: {error}")))
}

async fn call(wire: Wire, request: Request<()>, plan: &Plan, step: &mut Step) -> Result<Health, Trouble> {
    let (mut sender, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(65_535)
        .max_header_list_size(HEADERS_LIMIT)
        .max_send_buffer_size(64 * 1024)
        .handshake::<_, Bytes>(wire)
        .await
        .map_err(|error| broken(Phase::Request, &error))?;
    driven(connection, talk(&mut sender, request, plan, step)).await
}

/// The call, with the connection turned by the same task.
async fn driven(
    connection: Connection<Wire, Bytes>,
    talk: impl Future<Output = Result<Health, Trouble>>,
) -> Result<Health, Trouble> {
    let mut connection = pin!(connection);
    let mut talk = pin!(talk);
    let mut closed = false;
    poll_fn(|cx| {
        if let Poll::Ready(result) = talk.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        if closed {
            return Poll::Pending;
        }
        match connection.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(how) => {
                closed = true;
                // What it left behind for the call is an answer, or the reason why there is none.
                match talk.as_mut().poll(cx) {
                    Poll::Ready(result) => Poll::Ready(result),
                    Poll::Pending => Poll::Ready(Err(match how {
                        Ok(()) => Trouble::failure(Phase::Reply, "connection closed before an answer"),
                        Err(error) => broken(Phase::Reply, &error),
                    })),
                }
            }
        }
    })
    .await
}

async fn talk(
    sender: &mut SendRequest<Bytes>,
    request: Request<()>,
    plan: &Plan,
    step: &mut Step,
) -> Result<Health, Trouble> {
    poll_fn(|cx| sender.poll_ready(cx)).await.map_err(|error| broken(Phase::Request, &error))?;
    let (response, mut body) =
        sender.send_request(request, false).map_err(|error| broken(Phase::Request, &error))?;
    // The frame waits in h2 for as much of the window as it needs.
    body.send_data(plan.request.clone(), true).map_err(|error| broken(Phase::Request, &error))?;
    *step = Step::Reply;
    let response = response.await.map_err(|error| broken(Phase::Reply, &error))?;
    judge_head(&response)?;
    *step = Step::Body;
    let mut body = response.into_body();
    let message = whole(&mut body).await?;
    let trailers = body.trailers().await.map_err(|error| broken(Phase::Body, &error))?;
    match trailers.as_ref().and_then(status::of) {
        Some(Ok(())) => {}
        Some(Err(reason)) => return Err(Trouble::failure(Phase::Status, reason)),
        None => return Err(Trouble::failure(Phase::Status, "the answer has no grpc-status behind it")),
    }
    message::reply(&message).map_err(|reason| Trouble::failure(Phase::Body, reason))
}

fn judge_head(response: &Response<RecvStream>) -> Result<(), Trouble> {
    let headers = response.headers();
    // A proxy's own answer has no gRPC in it; its status says more than that.
    if response.status() != http::StatusCode::OK {
        let status = response.status().as_u16();
        return Err(Trouble::failure(Phase::Status, format!("HTTP status {status}, wanted 200")));
    }
    let kind = headers.get("content-type").map(http::HeaderValue::as_bytes).unwrap_or_default();
    if !is_grpc(kind) {
        let reason = format!("the answer is {}, wanted application/grpc", quoted(kind));
        return Err(Trouble::failure(Phase::Status, reason));
    }
    match status::of(headers) {
        Some(Err(reason)) => Err(Trouble::failure(Phase::Status, reason)),
        Some(Ok(())) | None => Ok(()),
    }
}

/// `application/grpc`, with `+proto` or a parameter behind it; `application/grpc-web` is another protocol.
fn is_grpc(kind: &[u8]) -> bool {
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

async fn whole(body: &mut RecvStream) -> Result<Vec<u8>, Trouble> {
    let mut message = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|error| broken(Phase::Body, &error))?;
        if message.len().saturating_add(piece.len()) > REPLY_LIMIT {
            let reason = format!("the answer is longer than {REPLY_LIMIT} bytes");
            return Err(Trouble::failure(Phase::Body, reason));
        }
        message.extend_from_slice(&piece);
        let _of_a_stream_that_ended = body.flow_control().release_capacity(piece.len());
    }
    Ok(message)
}

fn broken(phase: Phase, error: &h2::Error) -> Trouble {
    if let Some(error) = error.get_io() {
        return match tls::explain(error) {
            Some(reason) => Trouble::failure(phase, reason),
            None if error.raw_os_error().is_none() => {
                Trouble::failure(phase, format!("HTTP/2: {}", explain(error)))
            }
            None => Trouble::io(phase, "", error),
        };
    }
    Trouble::failure(phase, format!("HTTP/2: {}", uncapitalised(&error.to_string())))
}
