//! The metrics of a process: of its own sources, and of others that are on its page.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::merged::{Merged, families};
use crate::page::{self, Format, Label, Source};
use crate::process::Process;
use crate::remote;

/// The sources of a process's metrics. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Option<Arc<Sources>>);

#[derive(Debug, Default)]
struct Sources {
    own: Mutex<Vec<Arc<dyn Source>>>,
    guests: Mutex<BTreeMap<u64, (Label, Kind)>>,
    /// Number of guests so far.
    next: AtomicU64,
}

/// Whose metrics a guest's are.
#[derive(Clone, Debug)]
enum Kind {
    /// Another process, whose server has this Unix socket.
    Process(PathBuf),
    /// A part of this process, which others like it may be in.
    Part(Arc<Sources>),
}

/// Another process, or a part of this one, whose metrics are on the page until this is dropped.
#[derive(Debug)]
pub struct Guest {
    host: Weak<Sources>,
    number: u64,
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(sources) = self.host.upgrade() {
            lock(&sources.guests).remove(&self.number);
        }
    }
}

/// Maps and lists stay whole in a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// For a process whose metrics nobody reads: it keeps no source.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// With the metrics of the process as such.
    #[must_use]
    pub fn on() -> Self {
        let metrics = Self(Some(Arc::default()));
        metrics.add(Process);
        metrics
    }

    /// Whether anybody reads them.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a source. No two sources write the same family.
    pub fn add(&self, source: impl Source) {
        if let Some(sources) = &self.0 {
            lock(&sources.own).push(Arc::new(source));
        }
    }

    /// Adds the metrics of another process, which serves them on a Unix socket. They get the label
    /// `process`. While it does not answer, they are left out. `None` if nobody reads metrics.
    #[must_use]
    pub fn add_process(&self, name: impl Into<String>, socket: PathBuf) -> Option<Guest> {
        let sources = self.0.as_ref()?;
        Some(sources.admit(("process", name.into()), Kind::Process(socket)))
    }

    /// Adds a part of this process that others like it may be in: its sources write the same families, with
    /// this label. Returns a place for its sources.
    #[must_use]
    pub fn add_part(&self, label: &'static str, value: impl Into<String>) -> (Self, Option<Guest>) {
        let Some(sources) = &self.0 else { return (Self::off(), None) };
        let part = Arc::<Sources>::default();
        let guest = sources.admit((label, value.into()), Kind::Part(Arc::clone(&part)));
        (Self(Some(part)), Some(guest))
    }

    /// All metrics as they are now.
    pub(crate) fn page(&self, format: Format) -> String {
        let Some(sources) = &self.0 else { return String::new() };
        let text = sources.write(format);
        let guests: Vec<_> = lock(&sources.guests).values().cloned().collect();
        if guests.is_empty() {
            return text;
        }
        let mut merged = Merged::default();
        merged.add(families(&text), None);
        for (label, kind) in &guests {
            match kind {
                Kind::Part(part) => merged.add(families(&part.write(format)), Some(label)),
                Kind::Process(socket) => match remote::fetch(socket, format) {
                    Ok(page) => merged.add(families(&page), Some(label)),
                    Err(error) => tracing::debug!(%error, ?label, "no metrics of a process"),
                },
            }
        }
        let mut all = merged.to_string();
        if format == Format::OpenMetrics {
            all.push_str("# EOF\n");
        }
        all
    }
}

impl Sources {
    fn admit(self: &Arc<Self>, label: Label, kind: Kind) -> Guest {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.guests).insert(number, (label, kind));
        Guest { host: Arc::downgrade(self), number }
    }

    /// The metrics of its own sources.
    fn write(&self, format: Format) -> String {
        // Sources may block while they write: the lock must not be held.
        let sources = lock(&self.own).clone();
        page::of(sources, format)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;
    use crate::Page;

    #[derive(Debug)]
    struct Fruit;

    impl Source for Fruit {
        fn write(&self, page: &mut Page<'_>) -> fmt::Result {
            let label = |kind: &str| [("kind", kind.to_owned())];
            page.counter("fruit_eaten_total", "Fruit eaten", [(label("a\"b\\c\nd"), 3)])?;
            page.counter("fruit_sent_bytes_total", "Fruit sent", [([], 7)])?;
            page.gauge("fruit_ripe", "Fruit that is ripe", [(label("fig"), 0.5)])?;
            page.gauge("fruit_absent", "No sample", [([], 1.0); 0])?;
            let buckets = vec![(Some(0.001), 2), (Some(0.002), 1), (None, 1)];
            page.histogram("fruit_age_seconds", "Age", [([], (4.5, buckets))])
        }
    }

    #[test]
    fn families_have_their_conventional_names_and_escaped_labels() {
        let metrics = Metrics(Some(Arc::default()));
        metrics.add(Fruit);
        let page = metrics.page(Format::OpenMetrics);
        assert_eq!(
            page,
            "# HELP fruit_eaten Fruit eaten\n# TYPE fruit_eaten counter\n\
             fruit_eaten_total{kind=\"a\\\"b\\\\c\\nd\"} 3\n\
             # HELP fruit_sent_bytes Fruit sent\n# TYPE fruit_sent_bytes counter\n\
             # UNIT fruit_sent_bytes bytes\nfruit_sent_bytes_total 7\n\
             # HELP fruit_ripe Fruit that is ripe\n# TYPE fruit_ripe gauge\nfruit_ripe{kind=\"fig\"} 0.5\n\
             # HELP fruit_age_seconds Age\n# TYPE fruit_age_seconds histogram\n\
             # UNIT fruit_age_seconds seconds\nfruit_age_seconds_sum 4.5\nfruit_age_seconds_count 4\n\
             fruit_age_seconds_bucket{le=\"0.001\"} 2\nfruit_age_seconds_bucket{le=\"0.002\"} 3\n\
             fruit_age_seconds_bucket{le=\"+Inf\"} 4\n# EOF\n"
        );
        let older = metrics.page(Format::Text);
        assert!(older.contains("# TYPE fruit_eaten_total counter\nfruit_eaten_total{"), "{older}");
        assert!(!older.contains("EOF"), "{older}");
    }

    #[test]
    fn parts_that_are_alike_are_told_apart_by_a_label() {
        let metrics = Metrics(Some(Arc::default()));
        let parts = ["1", "2"].map(|group| metrics.add_part("group", group));
        parts.iter().for_each(|(part, _)| part.add(Fruit));
        let page = metrics.page(Format::OpenMetrics);
        assert_eq!(page.matches("# TYPE fruit_ripe gauge\n").count(), 1, "{page}");
        for group in ["1", "2"] {
            let sample = format!("\nfruit_ripe{{group=\"{group}\",kind=\"fig\"}} 0.5\n");
            assert!(page.contains(&sample), "{page}");
        }
        drop(parts);
        assert_eq!(metrics.page(Format::OpenMetrics), "# EOF\n");
    }

    #[test]
    fn a_process_without_readers_keeps_no_source() {
        let metrics = Metrics::off();
        metrics.add(Fruit);
        assert_eq!((metrics.is_on(), metrics.page(Format::Text)), (false, String::new()));
    }
}
