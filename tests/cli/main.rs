//! The program as it is called: words, exit codes, signals. Daemons run dry: real checks against
//! servers on the loopback, the table in memory.

mod check;
mod dry_run;
mod orders;
mod reload;
mod stop;
mod support;
mod usage;
