//! The certificate of a process, its key, and the roots that it trusts, in one directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::keys::{ClientKeys, KeyError, ServerKeys};

/// The roots that a process trusts: those of its servers, and those of its clients without [`CLIENTS`].
pub const ROOTS: &str = "ca.pem";
/// The roots of the clients of a process, if not all roots of its servers are.
pub const CLIENTS: &str = "clients.pem";
/// The certificate, with intermediate ones.
pub const CERTIFICATE: &str = "cert.pem";
/// The key of the certificate.
pub const KEY: &str = "key.pem";

/// A directory with the files [`ROOTS`], [`CERTIFICATE`] and [`KEY`], and perhaps [`CLIENTS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    directory: PathBuf,
}

impl Identity {
    /// The identity in a directory. Nothing is read.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Whether it has a certificate or a key. A client without one is anonymous.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        self.has(CERTIFICATE) || self.has(KEY)
    }

    /// Whether there is such a file. One that cannot be looked at, or a link to one that is missing, counts: a file that
    /// is being replaced must not make its owner anonymous.
    fn has(&self, name: &str) -> bool {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        !self.file(name).symlink_metadata().is_err_and(|error| missing(&error))
    }

    /// What a client trusts, and its certificate if there is one. `name` is the name in servers' certificates, if it
    /// differs from the host in their addresses.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    pub fn client(&self, name: Option<&str>) -> Result<Arc<ClientKeys>, KeyError> {
        let (roots, own) = (self.file(ROOTS), (self.file(CERTIFICATE), self.file(KEY)));
        let own = self.has_certificate().then_some((&*own.0, &*own.1));
        ClientKeys::read(&roots, own, name).map(Arc::new)
    }

    /// The certificate of a server. Unless it lets in anyone, each client must have a certificate from one of the roots of
    /// clients.
    ///
    /// # Errors
    /// If a file is missing or invalid.
    pub fn server(&self, anyone: bool) -> Result<ServerKeys> {
        let roots = self.file(if self.has(CLIENTS) { CLIENTS } else { ROOTS });
        ensure!(
            anyone || roots.exists(),
            "{} has no {ROOTS} with the roots of clients' certificates, so anyone who reaches this address would have \
             full control; add the file, or allow it with --allow-anyone",
            self.directory.display()
        );
        let roots = (!anyone).then_some(&*roots);
        Ok(ServerKeys::read(&self.file(CERTIFICATE), &self.file(KEY), roots)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::certs;

    #[test]
    fn roots_of_clients_are_taken_in_place_of_all_roots() {
        let directory = tempfile::tempdir().unwrap();
        certs::make(directory.path(), &["server=127.0.0.1".to_owned()], 30).unwrap();
        let own = directory.path().join("server");
        let identity = Identity::new(&own);
        fs::rename(own.join(ROOTS), own.join(CLIENTS)).unwrap();
        assert!(identity.server(false).unwrap().mutual);
        assert!(identity.client(None).is_err(), "servers are not trusted by the roots of clients");
        fs::rename(own.join(CLIENTS), own.join(ROOTS)).unwrap();
        assert!(identity.server(false).unwrap().mutual);
        fs::write(own.join(CLIENTS), "no certificate").unwrap();
        assert!(identity.server(false).is_err(), "the other roots do not stand in for bad ones");
    }
}
