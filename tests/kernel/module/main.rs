//! ip_vs unloaded under lvsd: a program of its own, so that no other kernel test runs meanwhile.

#[cfg(test)]
mod unload;
