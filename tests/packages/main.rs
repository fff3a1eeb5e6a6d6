//! The packages as data: what they hold, and what `packaging/build` made of that.

#[cfg(test)]
mod assets;
#[cfg(test)]
mod built;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod scripts;
