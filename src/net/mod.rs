//! What checks and notifications share of the network: TLS settings, words for what goes wrong, and
//! stamps.
//!
//! Opens no connection and knows no protocol above TLS.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod stamp;
pub(crate) mod tls;
mod words;

pub(crate) use stamp::{date, rfc3339, utc};
pub(crate) use words::{explain, uncapitalised};
