//! From a family of the catalogue and its samples to text. The format itself is the library's business.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeLabel,
    EncodeLabelSet, GaugeValueEncoder, LabelSetEncoder, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::catalogue::{Kind, Metric};
use super::histogram::Histogram;

/// What a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus's own, version 0.0.4: what `promtool check metrics` and older servers read.
    Text,
    OpenMetrics,
}

impl Format {
    pub(super) const ALL: [Self; 2] = [Self::Text, Self::OpenMetrics];

    /// By the request's `Accept`. OpenMetrics only for those who name it; what they would like better is
    /// of no account, for both say the same.
    pub(super) fn of_accept(accept: Option<&str>) -> Self {
        let named = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if named { Self::OpenMetrics } else { Self::Text }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Text => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// All families of one collector.
    pub(super) fn encode(self, collector: impl Collector) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(collector));
        let mut page = String::new();
        match self {
            Self::Text => prometheus_text::encode(&mut page, &registry)?,
            Self::OpenMetrics => text::encode(&mut page, &registry)?,
        }
        Ok(page)
    }
}

/// A sample's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Number {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<bool> for Number {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl EncodeGaugeValue for Number {
    fn encode(&self, encoder: &mut GaugeValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeGaugeValue::encode(value, encoder),
            Self::Real(value) => EncodeGaugeValue::encode(value, encoder),
        }
    }
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => EncodeCounterValue::encode(value, encoder),
            Self::Real(value) => EncodeCounterValue::encode(value, encoder),
        }
    }
}

/// A family's labels with the values of one sample, in the catalogue's order.
#[derive(Debug)]
struct Labels<'a>(&'static [&'static str], &'a [&'a str]);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        debug_assert_eq!(self.0.len(), self.1.len(), "{:?}", self.0);
        self.0
            .iter()
            .zip(self.1)
            .try_for_each(|label| EncodeLabel::encode(&(*label.0, *label.1), encoder.encode_label()))
    }
}

/// Writes one family after the other.
pub(super) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    /// Counters and gauges: label values in the catalogue's order, and the number.
    pub(super) fn numbers<'l, const N: usize, V: Into<Number>>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([&'l str; N], V)>,
    ) -> fmt::Result {
        self.family(metric, |encoder| {
            for (values, number) in samples {
                let (labels, number) = (Labels(metric.labels, &values), number.into());
                let mut sample = encoder.encode_family(&labels)?;
                match metric.kind {
                    Kind::Counter => sample.encode_counter::<NoLabelSet, _, u64>(&number, None)?,
                    Kind::Gauge | Kind::Histogram => sample.encode_gauge(&number)?,
                }
            }
            Ok(())
        })
    }

    /// A family without labels; nothing for what is not known.
    pub(super) fn number(&mut self, metric: &Metric, value: Option<impl Into<Number>>) -> fmt::Result {
        self.numbers(metric, value.map(|value| ([], value)))
    }

    pub(super) fn histograms<'l, const N: usize>(
        &mut self,
        metric: &Metric,
        samples: impl IntoIterator<Item = ([&'l str; N], &'l Histogram)>,
    ) -> fmt::Result {
        self.family(metric, |encoder| {
            for (values, histogram) in samples {
                let labels = Labels(metric.labels, &values);
                let (sum, count, buckets) = (histogram.sum(), histogram.count(), histogram.buckets());
                encoder.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
            Ok(())
        })
    }

    fn family(
        &mut self,
        metric: &Metric,
        samples: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let (name, unit) = split(metric.name);
        let kind = match metric.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        samples(&mut self.0.encode_descriptor(name, metric.help, unit.as_ref(), kind)?)
    }
}

/// The library adds unit and `_total` itself.
fn split(name: &'static str) -> (&'static str, Option<Unit>) {
    let name = name.strip_suffix("_total").unwrap_or(name);
    if let Some(rest) = name.strip_suffix("_seconds") {
        (rest, Some(Unit::Seconds))
    } else if let Some(rest) = name.strip_suffix("_bytes") {
        (rest, Some(Unit::Bytes))
    } else {
        (name, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_names_openmetrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Format::of_accept(Some(prometheus)), Format::OpenMetrics);
        for other in [None, Some("*/*"), Some("text/plain"), Some("")] {
            assert_eq!(Format::of_accept(other), Format::Text);
        }
    }

    #[test]
    fn unit_and_suffix_are_the_librarys() {
        let names = ["a_seconds", "a_bytes_total", "a_total", "a_seconds_total", "a"].map(|name| {
            let (name, unit) = split(name);
            (name, unit.map(|unit| unit.as_str().to_owned()))
        });
        let (seconds, bytes) = (Some("seconds".to_owned()), Some("bytes".to_owned()));
        assert_eq!(names, [("a", seconds.clone()), ("a", bytes), ("a", None), ("a", seconds), ("a", None)]);
    }
}
