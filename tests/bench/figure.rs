//! Figures, their bounds, and how they are printed: one line of the table each, and one JSON object each for plots.

use std::fs::File;
use std::io::Write;

/// How long and how often to measure, and what came out so far.
pub(crate) struct Bench {
    row: &'static str,
    /// A smoke test of the bench itself: smaller, once.
    pub(crate) quick: bool,
    json: Option<File>,
    figures: usize,
    absurd: Vec<String>,
}

/// What a figure must be.
pub(crate) enum Bound {
    Most(f64),
    Least(f64),
    /// Told, not judged.
    Told,
}

impl Bench {
    pub(crate) fn new(options: &[&str]) -> Self {
        let json = options.iter().find_map(|option| option.strip_prefix("--json="));
        let json =
            json.map(|path| File::options().create(true).append(true).open(path).expect("a file for JSON"));
        println!("{:<12} {:<58} {:>10} {:>10} {:>8}  bound", "row", "what", "lvsd", "reference", "ratio");
        Self { row: "", quick: options.contains(&"--quick"), json, figures: 0, absurd: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: &'static str) {
        self.row = name;
    }

    /// The second of two, which a quick run takes.
    pub(crate) fn scale<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }

    /// A figure as a ratio of its reference.
    pub(crate) fn ratio(&mut self, what: &str, value: f64, reference: f64, bound: &Bound) {
        self.print(what, value, Some(reference), value / reference, bound);
    }

    /// A figure that is judged as it is.
    pub(crate) fn plain(&mut self, what: &str, value: f64, bound: &Bound) {
        self.print(what, value, None, value, bound);
    }

    /// A figure that is judged as it is, beside that of the reference.
    pub(crate) fn beside(&mut self, what: &str, value: f64, reference: f64, bound: &Bound) {
        self.print(what, value, Some(reference), value, bound);
    }

    fn print(&mut self, what: &str, value: f64, reference: Option<f64>, judged: f64, bound: &Bound) {
        let (words, met) = match *bound {
            Bound::Most(most) => (format!("<= {most}"), judged <= most),
            Bound::Least(least) => (format!(">= {least}"), judged >= least),
            Bound::Told => ("-".to_owned(), true),
        };
        let beside = reference.map_or_else(|| "-".to_owned(), short);
        let mark = if met { "" } else { "  BEYOND" };
        let (row, value_text, judged_text) = (self.row, short(value), short(judged));
        println!("{row:<12} {what:<58} {value_text:>10} {beside:>10} {judged_text:>8}  {words}{mark}");
        if let Some(file) = &mut self.json {
            let line = serde_json::json!({
                "row": row, "what": what, "value": value, "reference": reference, "judged": judged, "bound": words,
                "met": met, "quick": self.quick,
            });
            writeln!(file, "{line}").expect("the JSON file can be written");
        }
        self.figures += 1;
        if !judged.is_finite() || judged < -1.0 {
            self.absurd.push(format!("{row}, {what}: {judged}"));
        }
    }

    /// Fails where a figure cannot be true: then the bench itself is broken.
    pub(crate) fn finish(self) {
        assert!(self.figures > 0, "nothing was measured");
        assert!(self.absurd.is_empty(), "figures that cannot be: {:#?}", self.absurd);
    }
}

/// Three digits that say something.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 1.0 => 2,
        v if v >= 0.01 => 4,
        _ => 6,
    };
    format!("{value:.digits$}")
}
