//! The engine from outside: against a reference model, on scenario files, and rule by rule.

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod driver;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod freeze;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod lines;
#[cfg(test)]
mod model;
#[cfg(test)]
mod names;
#[cfg(test)]
mod news;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod returns;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod topology;
#[cfg(test)]
mod universe;
#[cfg(test)]
mod writing;
