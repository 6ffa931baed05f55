//! When the certificates of this process end.

use std::fmt;

use tributary_access::expiry;
use tributary_metrics::{Page, Source};

/// The certificates that the process shows to others.
#[derive(Debug)]
pub(crate) struct Certificates;

impl Source for Certificates {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let ends = expiry::all().into_iter();
        let ends = ends.map(|(file, end)| ([("file", file.display().to_string())], end as f64));
        page.gauge(
            "tributary_certificate_expiry_timestamp_seconds",
            "When the first certificate in a file ends, in seconds since 1970",
            ends,
        )
    }
}
