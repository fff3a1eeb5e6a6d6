//! The table of performance: lvsd's figures on a real kernel, each beside its bound and beside a reference program that
//! was measured in the same boot. `tests/lab/bench` builds and runs it; measures, and asserts no speed.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod figure;
#[cfg(test)]
#[path = "../lab"]
#[expect(dead_code, reason = "the lab serves the kernel tests, too; here only some of it is needed")]
mod lab {
    pub(crate) mod net;
    pub(crate) mod wait;
}
#[cfg(test)]
mod programs;
#[cfg(test)]
mod table;

#[cfg(test)]
use figure::Bench;

#[cfg(test)]
type Row = (&'static str, fn(&mut Bench));

/// In the order of the table; a name on the command line chooses all that contain it.
#[cfg(test)]
const ROWS: &[Row] = &[
    ("start", table::start_and_stop),
    ("alpha", table::alpha),
    ("wide", table::one_wide_service),
    ("mh", table::mh),
    ("reload-one", table::reload_one_change),
    ("reload-none", table::reload_unchanged),
    ("dump", table::dump),
    ("tcp", checks::tcp),
    ("http", checks::http),
    ("memory", checks::memory),
    ("stall", checks::stall),
    ("verdict", failures::verdict),
    ("half", failures::half_dies),
    ("holes", failures::black_holes),
    ("failover", failures::failover),
];

#[cfg(test)]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    let mut bench = Bench::new(&options);
    let chosen: Vec<&Row> = ROWS
        .iter()
        .filter(|(row, _)| names.is_empty() || names.iter().any(|name| row.contains(name)))
        .collect();
    let known: Vec<&str> = ROWS.iter().map(|(row, _)| *row).collect();
    assert!(!chosen.is_empty(), "no such row; there are: {known:?}");
    for (name, run) in chosen {
        bench.row(name);
        run(&mut bench);
    }
    bench.finish();
}
