//! One named check of one dependency, and the ways in which it can fail.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub type CheckFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
pub(super) type CheckFn = Arc<dyn Fn() -> CheckFuture + Send + Sync>;

/// `Ok` is healthy; an error, a panic and a missed deadline are all "down".
#[derive(Clone)]
pub struct Checker {
    name: Arc<str>,
    check: CheckFn,
    timeout: Option<Duration>,
}

impl Checker {
    /// `check` is called once per evaluation. Its future must not block the thread: a deadline
    /// can only end what yields.
    pub fn new<F, Fut>(name: &str, check: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self { name: name.into(), check: Arc::new(move || Box::pin(check())), timeout: None }
    }

    /// A deadline of its own instead of the aggregator's.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the check to its end or its deadline, whichever comes first.
    pub(super) async fn run(self, default_timeout: Duration) -> Result<(), CheckFailure> {
        let limit = self.timeout.unwrap_or(default_timeout);
        match tokio::time::timeout(limit, (self.check)()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(CheckFailure::Failed(error)),
            Err(_elapsed) => Err(CheckFailure::TimedOut(limit)),
        }
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checker").field("name", &self.name).field("timeout", &self.timeout).finish()
    }
}

/// Why a dependency counts as down.
#[derive(Debug, Error)]
pub enum CheckFailure {
    #[error("{0}")]
    Failed(#[source] BoxError),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the check itself broke")]
    Panicked,
}
