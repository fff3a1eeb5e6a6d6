//! What servers that are told of events say, for fuzzing.

pub(crate) use super::mail::fuzzing::replies as mail;
pub(crate) use super::webhook::fuzzing::reply as webhook;
