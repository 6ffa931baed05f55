//! A page of metrics, and the sources that write it.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

/// Writes metrics of a part of this process.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// Writes the metrics as they are now. It may block, but not for long.
    ///
    /// # Errors
    /// Those of the page.
    fn write(&self, page: &mut Page<'_>) -> fmt::Result;
}

/// The labels of a sample: names and values.
pub(crate) type Labels<const N: usize> = [(&'static str, String); N];

/// A page of metrics. Each method writes one family with all of its samples, and nothing if there are none.
///
/// Names are those that Prometheus shows: counters end in `_total`, and a unit comes last before that.
#[derive(Debug)]
pub struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// A counter.
    ///
    /// # Errors
    /// Those of the page.
    pub fn counter<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<N>, u64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, samples, |mut family, value| {
            family.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    /// A counter of seconds.
    ///
    /// # Errors
    /// Those of the page.
    pub fn counter_of_seconds<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<N>, f64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, samples, |mut family, value| {
            family.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    /// A gauge.
    ///
    /// # Errors
    /// Those of the page.
    pub fn gauge<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<N>, f64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, samples, |mut family, value| {
            family.encode_gauge(&value)
        })
    }

    /// A histogram: of each sample the sum, and its buckets with their upper bounds; the last bucket has
    /// none.
    ///
    /// # Errors
    /// Those of the page.
    pub fn histogram<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<N>, (f64, Vec<(Option<f64>, u64)>))>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Histogram, samples, |mut family, (sum, buckets)| {
            let count = buckets.iter().map(|(_, count)| count).sum();
            let bounded =
                buckets.iter().map(|&(bound, count)| (bound.unwrap_or(f64::INFINITY), count));
            let buckets: Vec<_> = bounded.collect();
            family.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    }

    fn family<const N: usize, V>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        samples: impl IntoIterator<Item = (Labels<N>, V)>,
        mut write: impl FnMut(prometheus_client::encoding::MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let name = match kind {
            MetricType::Counter => {
                let base = name.strip_suffix("_total");
                debug_assert!(base.is_some(), "{name}: names of counters end in _total");
                base.unwrap_or(name)
            }
            _ => name,
        };
        let (name, unit) = match name.rsplit_once('_') {
            Some((base, "seconds")) => (base, Some(Unit::Seconds)),
            Some((base, "bytes")) => (base, Some(Unit::Bytes)),
            _ => (name, None),
        };
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in samples {
            write(family.encode_family(&labels)?, value)?;
        }
        Ok(())
    }
}

/// How a page is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's older text format.
    Text,
}

impl Format {
    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A label that all samples of a guest have: its name and value.
pub(crate) type Label = (&'static str, String);

/// The page that sources write.
pub(crate) fn of(sources: Vec<Arc<dyn Source>>, format: Format) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(All(sources)));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match format {
        Format::OpenMetrics => text::encode(&mut text, &registry),
        Format::Text => prometheus_text::encode(&mut text, &registry),
    };
    text
}

/// All sources, as the encoder wants them.
#[derive(Debug)]
struct All(Vec<Arc<dyn Source>>);

impl Collector for All {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.0.iter().try_for_each(|source| source.write(&mut page))
    }
}
