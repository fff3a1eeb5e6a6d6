//! The program as it is called: words, exit codes, signals. Daemons run dry: real checks against
//! servers on the loopback, the table in memory.

#[cfg(test)]
mod check;
#[cfg(test)]
mod disable;
#[cfg(test)]
mod dry_run;
#[cfg(test)]
mod events;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod import;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod receivers;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod support;
#[cfg(test)]
mod told;
#[cfg(test)]
mod trial;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod wait;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod why;
