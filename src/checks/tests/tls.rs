//! The checks through TLS.
