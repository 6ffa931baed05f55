//! When the certificates that this process shows to others end.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

use crate::pem;

/// A certificate that ends sooner is worth a warning.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// Files with the certificates of this process.
static FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// When the first of the certificates in a file ends, in seconds since 1970.
///
/// # Errors
/// If it cannot be read.
pub fn of(path: &Path) -> Result<u64> {
    let certificates = pem::certificates(path).map_err(anyhow::Error::msg)?;
    let end = |certificate: &CertificateDer<'_>| {
        let (_, parsed) = parse_x509_certificate(certificate)?;
        anyhow::Ok(u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0))
    };
    let ends: Result<Vec<u64>> = certificates.iter().map(end).collect();
    let ends = ends.with_context(|| format!("cannot read {}", path.display()))?;
    ends.into_iter().min().with_context(|| format!("{} has no certificate", path.display()))
}

/// The files with certificates of this process, and when the first certificate in each ends, as the files are now.
#[must_use]
pub fn all() -> Vec<(PathBuf, u64)> {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // One that is being replaced is there the next time.
    files.into_iter().filter_map(|file| of(&file).ok().map(|end| (file, end))).collect()
}

/// The process shows the certificates in this file. Warns if they end soon.
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
    fn the_certificates_of_a_process_are_known_with_their_ends() {
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
        assert_eq!(end("ca.pem"), None, "that is for the authority to know");
        std::fs::remove_file(own.join("cert.pem")).unwrap();
        assert_eq!(end("cert.pem"), None);
    }
}
