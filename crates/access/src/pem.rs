//! Reads certificates and keys in PEM form.

use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tributary_base::FileLimit;

/// Certificates or a key: a complete bundle of public roots has 200 KB.
const PEM: FileLimit = FileLimit::new("PEM file", 4 << 20);

fn pem(path: &Path) -> Result<Vec<u8>, String> {
    PEM.read(path).map_err(|error| at(path, error))
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem(path)?).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(at(path, "there is no certificate in PEM form in it")),
        Err(error) => Err(at(path, error)),
    }
}

pub(crate) fn private(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let none = |_| at(path, "there is no private key in PEM form in it");
    PrivateKeyDer::from_pem_slice(&pem(path)?).map_err(none)
}

pub(crate) fn at(path: &Path, what: impl std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}
