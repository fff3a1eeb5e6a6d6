//! The packages as data: what they hold, without building them.

#[cfg(test)]
mod assets;
#[cfg(test)]
mod lists;
