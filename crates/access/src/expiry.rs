//! When the certificates that this process uses end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::parse_x509_certificate;

/// A certificate that ends sooner is worth a warning.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// Files with certificates that the process has read.
static FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// When the first of the certificates in a file ends, in seconds since 1970.
///
/// # Errors
/// If it cannot be read.
pub fn of(path: &Path) -> Result<u64> {
    let ends = || -> Result<u64> {
        let mut first = u64::MAX;
        for certificate in CertificateDer::pem_file_iter(path)? {
            let certificate = certificate?;
            let (_, parsed) = parse_x509_certificate(&certificate)?;
            let end = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
            first = first.min(end);
        }
        Ok(first)
    };
    ends().with_context(|| format!("cannot read {}", path.display()))
}

/// The files with certificates that the process has read, and when the first certificate in each ends, as the files are
/// now.
#[must_use]
pub fn all() -> Vec<(PathBuf, u64)> {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // One that is being replaced is there the next time.
    files.into_iter().filter_map(|file| of(&file).ok().map(|end| (file, end))).collect()
}

/// The process has read certificates from this file. Warns of those that end soon.
pub(crate) fn note(path: &Path) {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let Ok(end) = of(path) else { return };
    let left = Duration::from_secs(end).saturating_sub(now);
    match left {
        Duration::ZERO => tracing::warn!(
            "{} has expired: other processes refuse it; replace it, which needs no restart",
            path.display()
        ),
        left if left < SOON => tracing::warn!(
            "{} expires in {} hours: replace it, which needs no restart",
            path.display(),
            left.as_secs() / 3600
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identity, certs};

    #[test]
    fn certificates_that_a_process_has_read_are_known_with_their_ends() {
        let directory = tempfile::tempdir().unwrap();
        certs::make(directory.path(), &["short".to_owned()], 2).unwrap();
        let own = directory.path().join("short");
        Identity::new(&own).client(None).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let end = |name: &str| {
            let all = all();
            let found = all.iter().find(|(file, _)| *file == own.join(name));
            found.map(|(_, end)| end.saturating_sub(now) / 3600)
        };
        assert!(end("cert.pem").is_some_and(|hours| (47..=48).contains(&hours)));
        assert!(
            end("ca.pem").is_some_and(|hours| hours > 24 * 3000),
            "the root lasts for ten years"
        );
        std::fs::remove_file(own.join("cert.pem")).unwrap();
        assert_eq!(end("cert.pem"), None);
    }
}
