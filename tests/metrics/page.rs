//! A page in Prometheus's text format, taken apart.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

pub(crate) struct Page {
    /// By everything in front of the value, as it is printed.
    pub(crate) samples: BTreeMap<String, f64>,
    /// Names of families, from their types.
    pub(crate) families: BTreeSet<String>,
}

impl Page {
    pub(crate) fn new(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            (series.to_owned(), value.parse().expect("a number"))
        });
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let families = types.map(|line| line.split(' ').next().expect("a name").to_owned());
        Self { samples: samples.collect(), families: families.collect() }
    }

    /// `None`: there is no such series.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        self.samples.get(series).copied()
    }

    /// The series of a family with that text in their labels.
    pub(crate) fn with(&self, family: &str, label: &str) -> usize {
        let of = |series: &str| series.split('{').next() == Some(family) && series.contains(label);
        self.samples.keys().filter(|series| of(series)).count()
    }
}

/// The names of metrics that a text speaks of.
pub(crate) fn metrics_named_in(text: &str) -> BTreeSet<String> {
    let name = Regex::new(r"\b(lvsd|process)_[a-z_]*[a-z]\b").expect("a pattern");
    name.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// Those of these that no page has; a histogram goes by several names.
pub(crate) fn unknown(names: &BTreeSet<String>, page: &Page) -> Vec<String> {
    let known = |name: &str| page.families.contains(name);
    let parts = ["_bucket", "_sum", "_count"];
    let part = |name: &str| parts.iter().filter_map(|part| name.strip_suffix(part)).any(known);
    names.iter().filter(|name| !known(name) && !part(name)).cloned().collect()
}
