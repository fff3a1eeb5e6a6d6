//! A histogram of durations with fixed bounds, as plain values.

use std::time::Duration;

/// For what a network does: 1 ms to 10 s.
pub(super) const LATENCY: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// For what should be next to nothing.
pub(super) const DELAY: &[f64] =
    &[0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Seconds, ascending; what is above the last one is counted behind them.
    bounds: &'static [f64],
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    /// A bound belongs to what it bounds.
    pub fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let at = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        self.sum += seconds;
    }

    /// Seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper bounds with what lies between each and the one before; the last one is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for millis in [0, 500, 501, 1000, 1001, 60_000] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(histogram.buckets(), [(0.5, 2), (1.0, 2), (f64::INFINITY, 2)]);
        assert_eq!((histogram.count(), histogram.sum()), (6, 63.002));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [LATENCY, DELAY] {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
    }
}
