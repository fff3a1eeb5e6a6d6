//! Tests on a real IPVS table; they need root and a kernel with ip_vs, and fail without.

#[cfg(test)]
mod ipvs;
