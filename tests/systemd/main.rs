//! The daemon as a service of a whole machine. `./test systemd` boots one and runs these in it.
