//! What checks and notifications share of the network: TLS settings, and words for what goes wrong.
//!
//! Opens no connection and knows no protocol above TLS.

pub(crate) mod tls;
mod words;

pub(crate) use words::{explain, uncapitalised};
