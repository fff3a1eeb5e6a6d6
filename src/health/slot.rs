//! A place for a dependency that is built after the listener is up.
//!
//! The listener starts first: without it a liveness probe would meet a refused connection and a
//! slow start would look like a dead process. Until the dependency is installed the slot fails:
//! an answer that has not come is not a yes.

use std::fmt;
use std::sync::{Arc, OnceLock};

use thiserror::Error;

use super::checker::{BoxError, CheckFn, Checker};

/// Shared by the checker that asks and the code that will install; clones are the same slot.
#[derive(Clone, Default)]
pub struct Slot {
    check: Arc<OnceLock<CheckFn>>,
}

/// Says nothing about the inside: this text may leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("dependency not wired yet")]
pub struct DependencyNotWired;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this dependency has been wired already")]
pub struct AlreadyInstalled;

impl Slot {
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on `check` answers. The first one to install stays; evaluations that run already
    /// may still see the empty slot.
    pub fn install<F, Fut>(&self, check: F) -> Result<(), AlreadyInstalled>
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.check.set(Arc::new(move || Box::pin(check()))).map_err(|_| AlreadyInstalled)
    }

    /// What is installed, or [`DependencyNotWired`].
    pub async fn check(&self) -> Result<(), BoxError> {
        match self.check.get() {
            Some(check) => check().await,
            None => Err(DependencyNotWired.into()),
        }
    }

    /// A checker that asks this slot.
    pub fn checker(&self, name: &str) -> Checker {
        let slot = self.clone();
        Checker::new(name, move || {
            let slot = slot.clone();
            async move { slot.check().await }
        })
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("installed", &self.check.get().is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fails_closed_until_installed() {
        let slot = Slot::new();
        let error = slot.check().await.unwrap_err();
        assert!(error.is::<DependencyNotWired>());
        assert_eq!(error.to_string(), "dependency not wired yet");
        slot.install(|| async { Ok(()) }).unwrap();
        assert!(slot.check().await.is_ok());
    }

    #[tokio::test]
    async fn an_installed_check_can_still_fail() {
        let slot = Slot::new();
        slot.install(|| async { Err("netlink does not answer".into()) }).unwrap();
        assert_eq!(slot.check().await.unwrap_err().to_string(), "netlink does not answer");
    }

    #[tokio::test]
    async fn only_the_first_of_many_threads_installs() {
        let slot = Slot::new();
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let slot = slot.clone();
                std::thread::spawn(move || {
                    slot.install(move || async move { Err(format!("installed by {n}").into()) }).map(|()| n)
                })
            })
            .collect();
        let winners: Vec<i32> = threads.into_iter().filter_map(|t| t.join().unwrap().ok()).collect();
        assert_eq!(winners.len(), 1);
        let said = slot.check().await.unwrap_err().to_string();
        assert_eq!(said, format!("installed by {}", winners[0]));
    }
}
