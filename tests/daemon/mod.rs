//! The daemon as its users run it, judged on the kernel's table and on what clients see.
